"""The sidecar: it reads changes from a feed and rows from TiDB, writes the durable log, and serves those who operate it.

    pipeline.py   THE DATA PLANE: read it first. ports.py: what it needs from outside. errors.py, config.py;
                  config_errors.py: what is wrong with a file of settings; __main__.py starts cli/
    core/         the algorithm: order, marks, windows, dump. Pure         pace/      how fast a dump can go. Pure
    codecs/       protocols: message bytes to envelopes. Pure              rowcodec/  TiDB's bytes of rows and keys. Pure
    schema/       TiDB's tables over time. Pure                            partition/ in which partition a row is
    ticdc/        what TiCDC decides: filters, topics, definition. Pure    binlog/    the registry of TiDB-Binlog
    feeds/        where changes come from, a folder for each way           log/       the hand-off to the merge worker, and storage
    tikv/         PD and TiKV, as a client calls them
    adapters/     TiDB, TiKV, etcd, and the ports' twins in memory         control/   what operators ask: the service and its client
    run/          the process: terms, status, metrics, merge worker        cli/       the commands
    console/      the web console: pages of one sidecar, and its buttons
    preflight/    what would make a dump wrong or stuck                    setup/     the settings and the SQL that `init` writes
    replay/       a recording as the cluster, and the judge of an output   pump/      a pump of TiDB-Binlog, a process of its own
    process/      threads, servers, TLS: nothing of data                   resultset/ a SELECT's rows in Arrow columns
    mysql/        every session over MySQL's protocol: set-up by role, errors, retries
    sql/          SQL text: its tokens, and what stands in quotes. Pure
    history/      the last dumps and verifications. Pure                  report/        pictures and the report of a dump. Pure

Imports point downwards only; `_BELOW` in tests/test_tidy.py is the list. Importing this package does nothing.
"""

__version__ = "0.5.0"
