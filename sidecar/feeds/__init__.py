"""Where changes come from: a folder for each way, each a `Feed` (or a `Puller` under kv/) of sidecar.ports.

    kafka/    TiCDC's topics, one lane for each partition
    push/     senders that connect to us (proto/ticdc_dump/v1/feed.proto): TiCDC's own messages, or key-values
    storage/  the files of TiCDC's storage sink
    encoded/  what kafka/, storage/ and the messages of push/ have in common
    tikv/     TiKV's own change feed, as key-values
    kv/       key-values as lanes of messages, with schemas by DDL jobs; over a puller of push/ or tikv/
    binlog/   the pumps of TiDB-Binlog, one lane for each pump
    around               a feed over another one
    contract, registry   what each `make.py` gives to a term, and the list of ways
    checks               findings of the preflight that a way's own `checks.py` needs

They must not know segments (push/ uses the log's inbox), a dump or a sink, nor who runs them.
"""
