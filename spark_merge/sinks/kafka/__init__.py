"""The Kafka sink: the merged stream in the changefeed's own protocol, for consumers of TiCDC's topics.

uri ─► output (what is written where, picklable) ─► sink (plans, accepts) ─► writer (a task)
                                                    │                        │
                                                    control                  holder ─► claims (which task is written: pure)
                                                    │                        └───────► write_modes (in a transaction, or acknowledged)
                                                    └─► position, position_records: control and slots, in a topic of ours
"""
