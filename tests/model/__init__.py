"""Recovery as a model: all states that two owners, two workers, a log and its sinks can come to within bounds, not some of them.

    state         what there is, as values
    rules         the rules on which recovery hangs, each with the function of the product that keeps it
    owner_steps   an owner's calls of the log's storage
    sink_steps    a worker's calls for one sink
    faults        freezes, deaths, leases that run out, restores
    explore       all states, breadth first; the invariants
    mistakes      a rule is replaced: an exploration must show it
    gaps          what the product does not keep yet
    measures      how large the explorations are

Each step names the function of the product that it abstracts. It does not have what a row is, DDLs and masks; how a position is stored
(tests/contract/test_positions.py); how bytes become durable. The simulation (tests/simulation) runs the product itself, on schedules that a
seed draws.
"""
