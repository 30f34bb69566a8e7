"""A recording plays the part of a cluster: feed, source, clock and operator by a seed (tests/recordings has some).

    replay      the whole data flow over it;  report  its settings and its outcome;  status  what it is doing
    dump_report  the report of the dump, for people;  life   what became of one key, in words
    recording, tables, history, recorded_line what the folder has, and the rows of any moment
    kv, kv_rows, binlog, binlog_rows, net_rows   the same for key-values and for TiDB-Binlog
    feed, source, played, recorded_dump, recorded_time   the stand-ins for the ports;  operator, crashes  what happens to them
    progress_file                             a sidecar without etcd
    busy                                      makes the recording of the demo

judge/ compares the output with the truth. Of the product only the command line imports this.
"""
