"""`ticdc-dump check`: what would make a dump wrong or stuck, one finding a line, each with the setting to change.

    preflight    the list, in order; what a check is stands in sidecar/process/checks.py
    here         this machine: secrets, ports, storage, sinks, Spark
    changefeed   etcd and the definition;  source  TiDB, tables, rights, the watermark row
    zone         whether TIMESTAMPs of Kafka are in the zone that the settings say

What a way of the changes needs is in its folder of feeds/ (`checks.py`).

It reads, and writes only what it removes again.
"""
