"""The algorithm and nothing else: no I/O, no clock, no library. Commands out, events in.

    sequence    lanes to one commit-ts order, released in segments
    marks       which watermark rows are ours        window   when (low_ts, high_ts] closes
    dumps       those of a changefeed: which run, which wait
    dump        the states, as a table               dump_start how one begins      dump_run which chunk, which mark, when
    dump_reader the state of one reader              plan what is read next

Its nouns are in shared/model. It must not know where changes come from, how a file is written or what TiCDC's settings are.
"""
