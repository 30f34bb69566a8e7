"""TiDB's tables over time: which there were at every commit-ts, from a snapshot and the finished DDL jobs after it. Pure.

    ddl       TiDB's actions and what each does; a job and what it changed
    history   the one that decides: jobs in commit order, lookups by ts
    tables    keeps what history decided, by id, name and row key;  timeline  values over ts;  version  one table's version
    unfollowed  DDLs of a source that cannot say what its tables are after one
    job_holes  which job changes rows that no feed shows
    system    which schemas belong to TiDB and TiCDC

It must not know how a row or a TableInfo is decoded (rowcodec/), nor what TiCDC lets through (ticdc/).
"""
