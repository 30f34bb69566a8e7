"""Rows of one table, from canonical text to what a sink writes. Arrow in, bytes or Arrow out; no files, no session.

    block        deliveries or a chunk's survivors  →  Block: one table's rows as text columns
    json_lines   Block  →  JSON lines;  csv_lines  →  csv as TiCDC's storage sink writes it
    typed        Block  →  a table of typed columns (Parquet);  untyped  the inverse, for who reads an output back
    json_columns, csv_texts   the inverses of json_lines and csv_lines
    messages     CHANGES  →  messages of a changefeed's protocol, as TiCDC writes them:
                 open_protocol (open_columns), canal_json (canal_types, canal_texts, canal_ddl)
    text_hashes  texts as numbers, to be sought by
    split        updates that are two rows in TiCDC's output;  together, runs  rows of several tables, as they were committed
    go_json, go_quote, easy_json   texts as the Go libraries of TiCDC write them;  local_time  the zone of TiCDC's server

An image is a row's columns at one moment, in canonical text (sidecar.core.model.Kind).
"""
