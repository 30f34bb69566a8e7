"""A recording plays the part of a cluster: feed, source, clock and operator by a seed (tests/recordings holds some).

    replay      the whole line over it;  report  what was asked and answered;  status  what it is doing
    recording, tables, history, kv, kv_rows   what the folder holds, and the rows of any moment
    feed, source, played, recorded_dump       the ports' stand-ins;  operator, crashes  what happens to them
    progress_file                             a sidecar without etcd

verify/ judges the output. Nothing of the product imports this but the command line.
"""
