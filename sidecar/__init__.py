"""The sidecar: it reads changes from a feed and rows from TiDB, writes the durable log, and serves those who operate it.

    pipeline.py   THE DATA PLANE: read it first. ports.py: what it needs from outside; __main__.py starts cli/
    shared/       what this process and the merge worker are both built from. It knows neither
    core/         the algorithm: order, marks, windows, dump. Pure         pace/      how fast a dump can go. Pure
    feeds/        where changes come from, a folder for each way           adapters/  TiDB, etcd, and the ports' twins in memory
    run/          the process: terms, status, metrics, merge worker        control/   what operators ask: the service and its client
    cli/          the commands                                             console/   the web console: pages of one sidecar, and its buttons
    preflight/    what would make a dump wrong or stuck                    setup/     the settings and the SQL that `init` writes
    replay/       a recording as the cluster, and the judge of an output   report/    pictures and the report of a dump. Pure
    history/      the last dumps and verifications. Pure                   binlog/    the registry of TiDB-Binlog
    pump/         a pump of TiDB-Binlog, a process of its own              watch/     what changes rows without a change in the feed

Imports point downwards only; `_BELOW` in tests/test_tidy.py is the list. Importing this package does nothing.
"""

__version__ = "0.5.0"
