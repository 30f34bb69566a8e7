"""Codec fuzzing: recorded messages, damaged; each is read as a slow reader reads it, or refused by an error of ours.

    seeds                                  messages of real clusters (tests/recordings, tests/data/real-cluster)
    damage                                 what is done to them: to bytes, to texts of JSON, to parsed JSON
    slow_*                                 the slow readers: json.loads and a loop, no Arrow, no typed parse
    json_protocols, key_values, ddl_jobs,
    binlogs                                a batch of one target: damaged, read twice, compared
    worker                                 the worker's changes of logged rows, compared
    verdict                                outcomes and faults
    campaign                               batches in processes that are watched: what hangs or dies is a fault with its batch
    __main__                               `make fuzz`

Every message is made of (target, seed, batch) and nothing else, so a fault's batch made again shows it again. A fault is: accepted with
another value than the slow reader's or where that refuses, an error that is none of shared/errors.py, no end within BATCH_S, a process
that dies. To refuse what the slow reader takes is none: it is counted.
"""
