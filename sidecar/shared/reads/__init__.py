"""A table's rows and its definition as TiDB has them: by SQL, or from TiKV's snapshots. The sidecar's readers and Spark's tasks use it.

tables      the tables as TiCDC decodes them, and the keys by which they are read
definition  what tables were made of                          indexes     a table's indexes, and its handle key
snapshot    TiDB's time, and tables at a TSO                  ddl_jobs    TiDB's DDL jobs, by information_schema
read        one chunk's SELECT                                reader      chunk after chunk, and their files
sql_reads   chunks by SQL                                     tikv_reads  chunks from TiKV: where the table's keys are, and their rows
row         one row by its key
remote_wire what readers that are tasks of Spark say
"""
