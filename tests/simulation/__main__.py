"""Live through one seed again and tell what happened: `make sim SEED=42`."""

import sys

from tests.simulation.world import run

if __name__ == "__main__":
    seed = int(sys.argv[1])
    result = run(seed)
    print(f"seed {seed}: {result}")  # noqa: T201  # this is a command
