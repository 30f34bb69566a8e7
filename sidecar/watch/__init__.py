"""Watchers of holes: what changes rows in TiDB without a change in the feed (sidecar/shared/model/hole.py), each at one place.

    contract     what a watcher is
    jobs         TiDB's DDL jobs                          imports   jobs of IMPORT INTO
    restores     BR's registry, and restores to a point in time
    leases       imports and restores under way, in PD's etcd
    gaps         what the changefeed skipped              definition   what its filter omitted before
    unwatched    which causes are not watched, for `check`

They read only, and decide nothing about the stream. Who runs them: sidecar/run/hole_watch.py.
"""
