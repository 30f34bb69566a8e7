"""TiKV's change feed: `puller` is the port, `router` finds the stores, `stream` reads one, `lock_watch` sees to locks of dead clients, `gc`
keeps old versions, `queue` is what waits. `make` and `checks` are for the term and the preflight. The calls are sidecar/shared/tikv's.
"""
