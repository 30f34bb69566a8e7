"""The merge worker with a defect in one sink: `python -m tests.tools.rig.odd_worker merge --config FILE`.

Each second batch of a `sqlite:` sink ends with an error that is none of the product's. All else is the product's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from sidecar.cli.main import main
from spark_merge.port.contract import Batch, Outcome
from spark_merge.sinks.sqlite.sink import SqliteSink


def break_sqlite() -> None:
    """From here on in this process."""
    whole, numbers = SqliteSink.accept, count(1)

    def accept(sink: SqliteSink, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        if next(numbers) % 2 == 0:
            raise ZeroDivisionError("a defect that a test has put there")
        whole(sink, batch, outcomes)

    setattr(SqliteSink, "accept", accept)  # noqa: B010  # a method of the product, replaced in the process that exists for that


if __name__ == "__main__":
    break_sqlite()
    main()
