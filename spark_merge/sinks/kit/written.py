"""A batch whose rows the target has, while the DDLs of its end may not be carried out: so it is with each sink that carries out DDLs.

    all tasks are done → "written" is durable → the DDLs → the position accepts the batch

After a death in between, the next owner gets the same batch again (`Standing.begun`). The tables may have the shape after the DDLs already,
or be gone. So nothing is compared, made or written there: the tasks count, and the DDLs are carried out, or the rest of them.

The target keeps "written" in a place and format of the sink's: with the batch that is begun (MySQL), beside the position (ClickHouse,
OpenSearch), or in the transaction of the rows (SQLite, which carries out the DDLs in the transaction that accepts them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from spark_merge.port.contract import Batch, Counts, Head, Outcome, Portion, Task, Writer, counted
from spark_merge.sinks.kit.position import PositionKeeper


def planned(heads: Sequence[Head], stages: Sequence[tuple[Task, ...]], *, written: bool, writer: Callable[[], Writer]) -> Batch:
    """`writer` makes the tables ready, unless the batch is `written`."""
    return Batch(tuple(heads), tuple(stages), count_rows if written else writer())


def end_with_ddls(
    position: PositionKeeper[Any, Any], heads: Sequence[Head], *, note: Callable[[], None], carry_out: Callable[[], None]
) -> None:
    """The order carries weight. `note`: put "written" on record, unless it is. What follows is the acceptance. Raises OwnershipLost, and as
    both."""
    position.check_next(heads[0].seq)
    position.check()
    note()
    carry_out()


def count_rows(task: Task, portions: Iterator[Portion]) -> Outcome:
    """A writer that counts alone what its task is."""
    counts: Counts = {}
    for portion in portions:
        for _ in counted(portion, counts):
            continue
    return Outcome(task.id, counts)
