"""Where changes come from: a folder a way, each a `Feed` (or a `Puller` under kv/) of sidecar.ports.

    kafka/   TiCDC's topics, a lane a partition
    kv/      raw key-values as lanes of messages, with schemas by DDL jobs; over a puller of
    push/    senders that connect to us (proto/ticdc_dump/v1/feed.proto)
    tikv/    TiKV's own change feed
    contract, registry   what each `make.py` brings to a term, and which there are
    checks               what the preflight's common checks find, for those in each `checks.py`

They must not know the log, a dump or a sink, nor who runs them.
"""
