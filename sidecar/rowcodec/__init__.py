"""TiDB's bytes: keys, rows, values, JSON, TableInfos and DDL jobs, to canonical text and to schema/'s nouns. Pure.

    kv_key, kv_row, kv_datum, kv_json, kv_time, kv_cast, kv_checksum   one key-value to text: slow, exact, and the oracle
    kv_table, kv_table_fields, kv_layout, table_info, ddl_job          TiDB's descriptions to what decoding needs
    key_values, frontier, kv_matcher                                   what a puller delivers, how far it is, prewrite and commit joined

It must not know lanes, feeds or the log. The fast decoder, columns at a time, is spark_merge/decode/kv.py.
"""
