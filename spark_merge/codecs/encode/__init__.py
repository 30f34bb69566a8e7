"""Rows of one table, from canonical text to what a sink writes. Arrow in, bytes or Arrow out; no files, no session. The formats of
files are in spark_merge/sinks/formats, each beside its inverse.

    block        deliveries or a chunk's survivors  →  Block: one table's rows as text columns
    typed        Block  →  a table of typed columns (Parquet);  untyped  the inverse, for who reads an output back
    messages     CHANGES  →  messages of a changefeed's protocol, as TiCDC writes them:
                 open_protocol (open_columns), canal_json (canal_types, canal_texts, canal_ddl)
    debezium     the same as Debezium writes them: debezium_fields (a column's type), debezium_values, debezium_dates (texts to values),
                 debezium_rows (changes to values), debezium_json, debezium_schema, debezium_ddl (their JSON)
    avro         as TiCDC's avro: avro_schema (a table's schemas), avro_columns (columns to Avro), decimal_bytes;  debezium_avro  Debezium's
                 rows as Confluent's AvroConverter: connect_avro (Connect's schemas in Avro)
    defaults     the text of a column's default
    handle_key   a message with the columns of the handle key alone
    text_hashes  texts as numbers, to be sought by
    lazy_polars  polars, when it is used first
    split        updates that are two rows in TiCDC's output;  join  its inverse: one change of a key at a commit_ts
    by_table, runs   rows of several tables, as they were committed
    go_json, go_quote, easy_json   texts as the Go libraries of TiCDC write them;  local_time  the zone of TiCDC's server

An image is a row's columns at one moment, in canonical text (sidecar.shared.model.nouns.Kind).
"""
