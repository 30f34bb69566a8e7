"""`make bench-peers`: this product and its peers on the same rows and writes, one after another, in one table.

    two sessions ─► MariaDB (rig) ─► publisher ─► Kafka ─► ticdc-dump run ─► Parquet, `_segments`       ours
     500 UPDATEs/s        │
                          ├─► Debezium in Kafka Connect, standalone ─► Kafka ─► a consumer               incremental snapshot
                          └─► mydumper ─► files                                                          no live stream

`big.py` is the table, `writes.py` the sessions, `measure.py` what is done to whatever is measured (`System`, system.py), `arrivals.py`
what latency and dump time are made of, `meter.py` the CPU, `report.py` the table and the page deploy/PERFORMANCE.md. Each run of a
system has a new rig with the same rows in it, so that nothing of another is left, and nothing else runs beside it.

A latency is from the moment before the UPDATE to the moment at which a reader has the row: the `_segments` file that makes it visible,
or the consumer's poll that returned it. A dump is over when its last row is there. Both are worked out afterwards, from what readers
had and when: while a measurement runs, nothing but the systems works, and what watches them.
"""
