"""The Kafka sink: the merged stream in the changefeed's own protocol, for consumers of TiCDC's topics.

uri ─► output (what is written where, picklable) ─► sink (plans, accepts) ─► writer (a task)
                                                    │                        │
                                                    position ◄────────────── holder ─► claims (which task is written: pure)
                                                    │                        └───────► write_modes (in a transaction, or acknowledged)
                                                    │ └► acknowledged_position (the same without transactions)
                                                    └─► position_records (control and slots, in a topic of ours: pure)

client, producer   the edge to librdkafka             topics, partitions   the output's topics, and TiCDC's partition of a row
debezium_topics    topics of DDLs and resolved marks beside those of rows
large_rows         rows that are larger than a message are in files
rows               rows to messages                   ending               what ends a segment: DDLs, then a resolved mark everywhere
reading            messages to rows, read back (spark_merge/port/readable.py)
schema_registry    ids and schemas of Avro            registry_messages    rows in Avro, read back

- With transactions a task is one transaction with its slot: a repeat adds nothing. An earlier task is fenced, or finds the later owner in
  control and stops.
- Without transactions rows come at least once: nothing is lost, each attempt is in order, and only a batch that is done again comes twice.
- Rows of one transaction of a table are encoded together, so that a split update's delete precedes its inserts.
- The state of a dump comes with the resolved mark that ends a segment, and depends on the segment's manifest alone.
"""
