"""Logged rows to the change frame: bytes to canonical text, a column at a time. `rows` is the entry, by protocol;
`tables` reads rows of many tables at once.

    open_protocol, canal_json, simple   JSON to columns, by shared/columns;  row_types  a parser of JSON for columns of any name
    debezium, debezium_texts, debezium_avro   what our own Kafka sink writes as Debezium;  avro  what it writes as TiCDC's avro
    csv        rows of the storage sink, whose columns are the schema file's
    kv_rows    raw key-values, rows of one table version together, by shared/columns; the slow twin is shared/rowcodec/kv_row.py
    binlog_rows, binlog, binlog_walk   TiDB-Binlog, kernels of shared/columns/kv_columns.py; slow twin: shared/rowcodec/binlog_row.py

Arrow in, Arrow out; no session, no file.
"""
