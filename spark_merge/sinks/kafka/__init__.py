"""The Kafka sink: the merged stream in the changefeed's own protocol, for consumers of TiCDC's topics.

uri ─► output (what is written where, picklable) ─► sink (plans, accepts) ─► writer (a task)
                                                    │                        │
                                                    position ◄────────────── holder ─► claims (which task is written: pure)
                                                    │                        └───────► write_modes (in a transaction, or acknowledged)
                                                    └─► position_records (control and slots, in a topic of ours: pure)

client, producer   the edge to librdkafka             topics, partitions   the output's topics, and TiCDC's partition of a row
rows               rows to messages                   ending               what ends a segment: DDLs, then a resolved mark everywhere
reading            messages to rows, read back (spark_merge/port/readable.py)

- Rows of one transaction of a table are encoded together, so that a split update's delete precedes its inserts.
"""
