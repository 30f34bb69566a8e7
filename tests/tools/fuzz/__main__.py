"""`make fuzz`: `python -m tests.tools.fuzz --messages 1000000 --seed 0 [--only TARGET …]`. Ends with 1 where there is a fault."""

from __future__ import annotations

import argparse
import sys

from tests.tools.fuzz.campaign import BATCH_SIZE, TARGETS, Batch, Result, campaign, carried_out, table
from tests.tools.fuzz.verdict import Counts


def main() -> int:
    requested = argparse.ArgumentParser(prog="python -m tests.tools.fuzz", description=__doc__)
    requested.add_argument("--messages", type=int, default=1_000_000, help="of each target (1000000)")
    requested.add_argument("--seed", type=int, default=0)
    requested.add_argument("--only", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    requested.add_argument("--processes", type=int, default=2)
    requested.add_argument("--batch", type=int, help="this batch alone, in this process: what a fault names")
    requested.add_argument("--size", type=int, default=BATCH_SIZE, help="messages of that batch")
    given = requested.parse_args()
    if given.batch is not None:
        rows = {name: Result() for name in given.only}
        for name, one in rows.items():
            result = carried_out(Batch(name, given.seed, given.batch, given.size))
            if isinstance(result, Counts):
                one.counts = result
            else:
                one.faults.append(result)
    else:
        rows = {}
        for name in given.only:
            rows[name] = campaign(name, messages=given.messages, seed=given.seed, processes=given.processes)
            print(table({name: rows[name]}).splitlines()[-1], flush=True)  # noqa: T201  # a command's answer
    faults = [fault for one in rows.values() for fault in one.faults]
    print("\n".join(["", table(rows), "", *faults]))  # noqa: T201  # a command's answer
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
