"""Comparing the source with a sink while both change. Read `table_check` first.

    table_check  one table in one sink: two looks, positions, what is moving;  runner  a worker's verifications
    process      these in a process of their own, as the worker sees it;  child  that process;  link  what they say to each other
    lateness     whether deliveries are late beside them;  starvation  whether they get anything done
    context      what a comparison works with
    resume       what a comparison has done, for the next worker
    chosen       which ranges of a table are compared
    by_keys      a sink's rows with the source's keys, for a sample or a slice
    source       the source's rows by ranges and keys;  port/readable.py, above this package, is how a sink's rows are read
    digest       rows as digests in files, by bucket;  compare  two sides of a bucket
    tally        the result, and what is not judged
    moving       the keys that the log changed between two positions;  keeping_up  whether it is followed fast enough
    look         rows value by value

Writes nothing to the source or to a sink. What differs is repaired by a dump of its keys.
"""
