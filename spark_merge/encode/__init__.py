"""Rows of one table, from canonical text to what a sink writes. Arrow in, bytes or Arrow out; no files, no session.

    block        deliveries or a chunk's survivors  →  Block: one table's rows as text columns
    json_lines   Block  →  JSON lines
    typed        Block  →  a table of typed columns (Parquet)
    messages     CHANGES  →  messages of a changefeed's protocol, as TiCDC writes them (open_protocol, canal_json)

An image is a row's columns at one moment; what it is made of is canonical text (sidecar.core.model.Kind).
"""
