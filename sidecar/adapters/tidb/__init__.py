"""TiDB over SQL, by sessions of sidecar/shared/mysql.

source      marks and SELECTs, by threads of its own          read_queue, read   which reader takes a chunk; one chunk's SELECT
reader, sql_reads   chunk after chunk, and their files        remote_reads, remote_wire   readers that are tasks of Spark
schema      the tables as TiCDC decodes them                  indexes       a table's indexes, and its handle key
definition  what tables were made of                          infos         every TableInfo at one TSO
follow      the tables as DDLs change them                    snapshot      TiDB's time, and tables at a TSO
ddl_jobs    TiDB's DDL jobs, by information_schema            ddl_history   finished DDLs with their commit-ts
job_metas   DDL jobs as JSON, by id                           ranges        whether a SELECT would read more than its chunk
"""
