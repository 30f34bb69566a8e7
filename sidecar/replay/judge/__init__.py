"""The judge: does an output converge to the truth (P1), and does no row ever go back (P2)?

    verify         a whole output against snapshots;  table_replay  one table's rows, step by step
    rows           rows by key, when two are equal, what a DDL makes of them

It must not know whether the output and the truth come from a recording or from a live database.
"""
