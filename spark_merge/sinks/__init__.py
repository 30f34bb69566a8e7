"""Outputs: a folder for each sink. `registry` is the one list, by URI scheme; port/kinds.py is what it lists.

    hidden       files/ JSON lines or Parquet on a disk or S3     storage/ csv and canal-json in TiCDC's layout
                 delta/, iceberg/ lakes                           spool/ what the control service streams to subscribers
    committing   kafka/ the changefeed's own messages             mysql/ MySQL, MariaDB, TiDB          http/ a receiver by POST
                 sqlite/ tables in one file, the worked example of README.md
    versioned    clickhouse/ ClickHouse                           opensearch/ OpenSearch, Elasticsearch
    console/     one line for each segment                        memory/ the twins, the smallest sink of each kind

    kit          WHAT A SINK IS BUILT OF: options, server, fence, position, what is written, and reading back
    folder       an output folder;  folders  a folder's URI to a sink of files
    lake         a sink over tables of a lake: plan, accept, DDLs; delta and iceberg give it their tables
    formats      rows of all times in files and messages: each format's writer, and its inverse

README.md lists every step of a new sink. A sink's folder imports its own driver only, and no other sink. port/contract.py defines
a sink; spark_merge/testing/sink_port.py is the suite that each must pass.
"""
