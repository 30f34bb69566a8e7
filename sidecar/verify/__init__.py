"""The judge: does an output converge to the truth (P1), and does no row ever go back (P2)?

    verify         a whole output against snapshots;  table_replay  one table's rows, step by step
    rows           rows by key, when two are equal, what a DDL makes of them

It must not know where the output or the truth comes from: a recording or a live database are the same to it.
"""
