"""TiDB's bytes: keys, rows, values, JSON, TableInfos and DDL jobs, to canonical text and to the nouns of schema/. Pure.

    kv_key, kv_row, kv_datum, kv_json, kv_time, kv_cast, kv_checksum, kv_error   one key-value to text: slow, exact, and the oracle
    kv_table, kv_table_fields, kv_layout, table_info, ddl_job, ddl_names, definition, type_cast   TiDB's descriptions to what decoding needs
    key_values, frontier, kv_matcher                                  what a puller delivers, how far it is, prewrite and commit joined
    binlog_event, binlog_fold, binlog_row, binlog_table               the same for row events of TiDB-Binlog

It must not know lanes, feeds or the log. The fast decoders, columns at a time, are in spark_merge/codecs/decode.
"""
