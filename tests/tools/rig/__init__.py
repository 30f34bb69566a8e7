"""The live rig: a changefeed of a real cluster, stood in for by a real MariaDB, a real Kafka and a real etcd.

    workload ─► MariaDB ─► binlog ─► publisher (a process) ─► Kafka      what TiCDC would publish, byte for byte alike
                   ▲                      │
    heartbeat event (every 200 ms)        └─► etcd                       the changefeed's info and status, as TiCDC writes them

The publisher gives every transaction a commit_ts made of the binlog alone (`tso.py`), so that a repeat has the same one.
`rig.py` starts it all and holds the controls; `workload.py` writes; `truth.py` reads the tables and judges an output.

What it is not: there is no TiKV, no TSO of PD and no region; there is one commit order, the binlog's, and no two transactions
share a commit_ts; there are no snapshot reads at a ts and no `@@tidb_*` variables; no partitioned tables and no vector columns,
and JSON stands as it was written; views, sequences, large-message options and compression are not made; a DDL is MariaDB's
text, and is sent when the binlog has it. What depends on those is tested on the recordings of a real cluster.
"""
