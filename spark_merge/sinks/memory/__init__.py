"""The twins in memory, one for each kind of sink (port/contract.py): the smallest that keeps the rules. Read them before you write a sink.

    hidden       tasks write aside, `accept` shows       committing   each task's transaction shows, and holds its slot
    versioned    the greatest (commit_ts, rank) of a key wins, in whatever order tasks come
    twin         what all kinds share
    target       what survives a worker: one dict for each name, shared by all sinks and tasks of this process
    rows         portions as plain rows;  positions  the twin of a position store;  reading  its rows, read back

For tests and simulations: nothing outlives the process, so no Spark task can reach it.
"""
