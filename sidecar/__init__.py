"""The sidecar: from TiCDC's feed and TiDB's rows to a durable log, and everything that operates it.

    pipeline.py   THE DATA PLANE, read straight down; ports.py what it needs from outside; errors.py; config.py
    core/         the algorithm: order, marks, windows, dump. Pure         schema/    TiDB's tables in time. Pure
    codecs/       protocols, bytes to envelopes. Pure                      rowcodec/  TiDB's bytes of rows and keys. Pure
    ticdc/        what TiCDC decides: filters, topics, definition. Pure    log/       the hand-off to Spark, and storage
    feeds/        where changes come from, a folder a way                  adapters/  TiDB, etcd, and the ports' twins in memory
    control/      what operators ask, as a service and as its client       run/       the process: terms, status, metrics, worker
    preflight/    what would make a dump wrong or stuck                    cli/       the commands
    process/      threads, servers, TLS, checks: nothing of data
    replay/       a recording as the cluster                               verify/    judges an output by the truth

Arrows point downwards only; `_BELOW` in tests/test_tidy.py is the list. Importing this package does nothing.
"""

__version__ = "0.4.0"
