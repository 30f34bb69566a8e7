"""TiDB over SQL, by sessions of shared/mysql; rows and definitions are read by shared/reads.

source      marks and SELECTs, by threads of its own          read_queue    which reader takes a chunk
schema      the tables as TiCDC decodes them, for a caller    remote_reads  readers that are tasks of Spark
infos       every TableInfo at one TSO                        follow        the tables as DDLs change them
ddl_history finished DDLs with their commit-ts                job_metas     DDL jobs as JSON, by id
ranges      whether a SELECT would read more than its chunk   selected      tables without what a changefeed omits
seen_jobs   finished DDL jobs that no watcher has seen yet    imports       what TiDB's own tables say of imports and restores
"""
