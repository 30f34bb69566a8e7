"""Which tests a change concerns. `make test CHOSEN=1`, which `.ci/run` calls, runs those; `make test` runs everything.

    source.py    what a file defines, and which names each definition uses
    graph.py     which symbols a symbol reaches, over all files: the rules for what is loaded by name, by scheme, or by a process
    change.py    what differs from a commit
    passed.py    the commit at which everything passed, and how long that counts (tests/everything_passed.toml)
    choose.py    THE RULE: what is chosen, what takes turns, what is skipped
    selected.py  what of it pytest collects and runs
    audit.py     what tests execute that the graph does not lead to: how the rules of graph.py are tested

A test is chosen if it reaches a symbol that has changed since everything passed. Where the chooser is in doubt, it runs the test.
"""
