"""`ticdc-dump check`: what would make a dump wrong or stuck, one line for each finding, with the setting to change.

    preflight    the list, in order; sidecar/shared/process/checks.py defines a check
    machine      this machine: secrets, ports, storage, sinks, Java;  executors  what Spark's tasks reach
    changefeed   etcd and the definition;  source  TiDB, tables, rights, the watermark row;  ranges  how each table would be read
    holes        which causes of holes are not watched
    zone         whether TIMESTAMPs of Kafka are in the zone that the settings name

The checks of a feed are in its folder of feeds/ (`checks.py`).

It reads, and writes only what it removes again.
"""
