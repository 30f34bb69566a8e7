"""TiKV's change feed: `puller` is the port, `router` finds the stores, `stream` reads one, `regions` and `pd` say where keys are, `locks`,
`lock_watch` and `kv` resolve locks of dead clients, `gc` keeps old versions, `channel` is the edge to gRPC, `queue` what waits. `make` and
`checks` are for the term and the preflight.
"""
