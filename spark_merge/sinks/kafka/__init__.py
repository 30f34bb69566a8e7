"""The Kafka sink: the merged stream in the changefeed's own protocol, for consumers of TiCDC's topics.

uri ─► output (what is written where, picklable) ─► sink (plans, accepts) ─► writer (a task is a transaction)
                                                    position (ours: control, slots)   holder (a transactional id in this process)
"""
