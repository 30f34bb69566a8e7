"""What an attacker and an unlucky operator try, counted: `make hostile`, on loopback, bounded in time and memory.

    area       a place to attack: it opens what is attacked, and lists its attempts           control, push, …  (one file each)
    attempt    one bad input, flood or mistake, and how long it may take                      attempts.Attempt
    outcome    what became of it                                                              attempts.Outcome
    table      a line an area: inputs tried, hangs, accepted in silence, leaks, errors that are not ours

An outcome is one of

    refused    by an error of ours that names what is wrong, or by the protocol's own code for it
    harmless   taken, and it does what it says; or it is gone and nothing else has noticed
    hang       no end within its time, or something else had none meanwhile
    accepted   taken in silence, though it must not be
    leak       a secret in a text; descriptors, threads or memory that do not come back
    foreign    a trace, an UNKNOWN, an exit code 1: an error that is none of ours

of which the last four are faults: `make hostile` names each with its seed and ends with 1. An area that tried fewer than it says it
does (`at_least`, the counts of the first time) has a fault too.

To add an area: a module with an `Area` whose `opened` is a context manager that yields its attempts, and a line in `areas.AREAS`.
An attempt raises what the attack raised, and `attempts.outcome_of` knows what that is; or it returns an Outcome. `refuses` and
`serves` make the common ones.

`make test` tries a share of each area (test_hostile.py); what is marked `whole` is for `make hostile` alone.
"""
