"""`make hostile`: `python -m tests.tools.hostile [AREA …]`, all without a name. Ends with 1 where there is a fault."""

from __future__ import annotations

import logging
import sys

from stamina import instrumentation

import sidecar.cli.environment  # noqa: F401  # first: before gRPC is loaded
from sidecar.shared.process.descriptors import raise_limit
from tests.tools.hostile.areas import AREAS
from tests.tools.hostile.attempts import carried_out, table


def main(names: list[str]) -> int:
    raise_limit()  # this process is the attacker, too
    instrumentation.set_on_retry_hooks([])
    logging.disable(logging.CRITICAL)  # what gRPC says of each message that is none
    chosen = [area for area in AREAS if not names or area.name in names]
    if not chosen:
        print(f"no area is called so: {', '.join(area.name for area in AREAS)}")  # noqa: T201  # a command's answer
        return 2
    rows = [carried_out(area, whole=True) for area in chosen]
    faults = [fault for one in rows for fault in one.faults]
    print("\n".join([table(rows), "", *faults]))  # noqa: T201  # a command's answer
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
