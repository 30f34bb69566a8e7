"""Protocols of TiCDC, message bytes to envelopes. Rows stay bytes: only commit_ts, table and delete or put are read here.

    contract        what a codec is            registry   a changefeed's settings to its codec, or why it cannot carry a dump
    open_protocol, canal_json                  kv         raw key-values as a protocol of our own
    compression, refusals                      what several need

Pure: the standard library, msgspec and cramjam; no I/O, no clock, no log. It must not know the changefeed's filter (ticdc/) nor how
a row's values are decoded (spark_merge/decode).
"""
