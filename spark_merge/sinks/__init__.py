"""Outputs: a folder for each sink. `registry` is the one list, by URI scheme; port/kinds.py is what it lists.

    hidden       files/ JSON lines or Parquet on a disk or S3     storage/ csv and canal-json in TiCDC's layout
                 delta/, iceberg/ lakes                           spool/ what the control service streams to subscribers
    committing   kafka/ the changefeed's own messages             mysql/ MySQL, MariaDB, TiDB          http/ a receiver by POST
                 sqlite/ tables in one file, the worked example of README.md
    versioned    clickhouse/ ClickHouse                           opensearch/ OpenSearch, Elasticsearch
    console/     one line for each segment                        memory/ the twins, the smallest sink of each kind

    position     one position keeper over a port of read and compare-and-swap;  fence  what every position checks
    chain        that position as commits, for sinks of files;  records  a durable record that is a file of JSON
    written      a batch whose rows are there while its DDLs are pending;  keyed  a SQL table, read back by its key
    folder       an output folder;  errors  what a storage's errors mean
    options      a sink's options, declared once;  server  a server to connect to;  durations, passwords  values in a URI
    grouped      texts in groups that a request holds;  held  rows that wait for a lake's file
    folders      a folder's URI to a sink of files;  folder_uri  the folder of a URI
    table_ddl    what tables of `mode=merge` cannot follow;  row_versions  rows of outputs that keep rows of all times
    formats      rows of all times in files and messages: each format's writer, and its inverse

README.md lists every step of a new sink. A sink's folder imports its own driver only, and no other sink. port/contract.py defines
a sink; spark_merge/testing/sink_port.py is the suite that each must pass.
"""
