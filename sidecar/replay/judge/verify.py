"""Does the output converge to the truth (P1), and does no row ever go back (P2)?

The output of each table is replayed in its order into the table's rows. At every truth snapshot from the table's
`complete_at` on, and at the end, those rows must be exactly the truth's. On the way, for every key:

- commit_ts never falls, in the whole table, and at one commit_ts no put is followed by a delete;
- a dump row is the row as of its commit_ts: where the output has shown the key before, it must be the version
  shown last. One that differs from it, or that revives a deleted key, is an older version after a newer one.

A snapshot is compared before the first row with a greater commit_ts, a DDL is carried out before the first row of the whole output
with one. `replay` is the whole of it on any rows; `verify`
reads them from a folder of JSON lines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from sidecar.replay.judge.rows import Key, RowStep
from sidecar.replay.judge.table_replay import Findings, OutputRow, TableReplay, TableVerdict
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName, TableSchema
from spark_merge.sinks.files.reader import read_rows, read_segments

FalseDeletes = Mapping[TableName, Collection[tuple[Key, CommitTs]]]
"""Deletions that a feed has and that never happened: what is missing by them is counted, and is no difference."""
NO_FALSE_DELETES: FalseDeletes = MappingProxyType({})


class Truth(Protocol):
    """What the output is held against: sidecar.replay.recording.Recording."""

    @property
    def schemas(self) -> Mapping[TableName, TableSchema]: ...
    @property
    def truth_ts(self) -> tuple[CommitTs, ...]: ...
    def truth(self, tso: CommitTs) -> Mapping[TableName, pa.Table]: ...


@dataclass(frozen=True, slots=True)
class VerifyVerdict:
    """`not_replicated`: requested tables that have no handle key. `unexpected_rows`: tables in the output that must not be there,
    with their first row's place."""

    tables: tuple[TableVerdict, ...]
    not_replicated: tuple[TableName, ...]
    unexpected_rows: dict[str, str]

    @property
    def ok(self) -> bool:
        return bool(self.tables) and all(table.equal for table in self.tables) and not self.unexpected_rows

    def to_json(self) -> dict[str, Any]:
        """JSON values only; ts as decimal strings."""
        return {
            "ok": self.ok,
            "tables": [_table_to_json(table) for table in self.tables],
            "not_replicated": [str(table) for table in self.not_replicated],
            "unexpected": dict(self.unexpected_rows),
        }


def _table_to_json(verdict: TableVerdict) -> dict[str, Any]:
    table = asdict(verdict) | {"table": str(verdict.table)}
    for kind in ("missing", "extra", "different", "went_back", "explained"):
        for sample in table[kind]["samples"]:
            sample["at_ts"] = str(sample["at_ts"])
    return table


def verify(
    output: Folder,
    truth: Truth,
    *,
    complete_at: Mapping[TableName, CommitTs],
    tables: Collection[TableName],
    steps: Sequence[RowStep] = (),
    false_deletes: FalseDeletes = NO_FALSE_DELETES,
) -> VerifyVerdict:
    """Check the JSON lines in `output`. Raises SinkError for rows that cannot be read."""
    segments = read_segments(output)
    rows = (row for segment in segments for file in segment.files for row in read_rows(output, file))
    upto_ts = segments[-1].upto_ts if segments else CommitTs(0)
    return replay(rows, truth, upto_ts=upto_ts, complete_at=complete_at, tables=tables, steps=steps, false_deletes=false_deletes)


def replay(
    rows: Iterable[OutputRow],
    truth: Truth,
    *,
    upto_ts: CommitTs,
    complete_at: Mapping[TableName, CommitTs],
    tables: Collection[TableName],
    steps: Sequence[RowStep] = (),
    false_deletes: FalseDeletes = NO_FALSE_DELETES,
) -> VerifyVerdict:
    """Check `rows`, each table's in output order, of an output that reaches `upto_ts`.

    `tables` were dumped, by their names at the truth's start; `complete_at` is what was reported of them, by the names they had
    when the dump ended.
    Other tables of the truth may be in the output and are not looked at; the watermark table, tables without a key and unknown ones
    must not be. `steps`: the schema changes. A table that one drops is judged no more; one that it makes is judged from there on.
    `false_deletes`: of the tables at the truth's start.
    """
    judge = _Judge(truth, upto_ts, complete_at, steps, tables, false_deletes)
    for row in rows:
        judge.take(row)
    return judge.verdict()


class _Judge:
    """The tables by their present names, while the rows are read."""

    def __init__(
        self,
        truth: Truth,
        upto_ts: CommitTs,
        complete_at: Mapping[TableName, CommitTs],
        steps: Sequence[RowStep],
        tables: Collection[TableName],
        false_deletes: FalseDeletes,
    ) -> None:
        self._false_deletes = false_deletes
        self._schemas, self._tables, self._upto_ts, self._complete_at = truth.schemas, tables, upto_ts, complete_at
        self._truths = {tso: truth.truth(tso).__getitem__ for tso in truth.truth_ts}
        self._steps = deque(step for step in steps if step.ts <= upto_ts)
        later = [schema for step in self._steps for schema in step.schemas.values()]
        self._replicated = {schema.name for schema in (*truth.schemas.values(), *later) if schema.key and schema.name != MARK_TABLE}
        self._checks = {
            name: self._check(truth.schemas[name], self._complete_ts(name))
            for name in tables
            if name in truth.schemas and name in self._replicated
        }
        self._unexpected_rows: dict[str, str] = {}

    def take(self, row: OutputRow) -> None:
        while self._steps and self._steps[0].ts < int(row["commit_ts"]):
            self._pass(self._steps.popleft())
        name = TableName(row["schema"], row["table"])
        if (check := self._checks.get(name)) is not None:
            check.take(row)
        elif name not in self._replicated:
            self._unexpected_rows.setdefault(str(name), f"seq {row['seq']}, commit_ts {row['commit_ts']}, {row['origin']}")

    def verdict(self) -> VerifyVerdict:
        while self._steps:
            self._pass(self._steps.popleft())
        unknown = [_unknown(name) for name in self._tables if name not in self._schemas]
        return VerifyVerdict(
            tables=tuple(sorted([*(check.verdict() for check in self._checks.values()), *unknown], key=lambda verdict: verdict.table)),
            not_replicated=tuple(sorted(name for name in self._tables if name in self._schemas and name not in self._replicated)),
            unexpected_rows=self._unexpected_rows,
        )

    def _check(self, schema: TableSchema, complete_at: CommitTs | None) -> TableReplay:
        return TableReplay(schema, self._truths, complete_at, self._upto_ts, self._false_deletes.get(schema.name, ()))

    def _pass(self, step: RowStep) -> None:
        old = {name: self._checks.pop(name) for name in step.names if name in self._checks}
        for check in old.values():
            check.reach(step.ts)
        for name, rows in step.apply({name: check.rows() for name, check in old.items()}).items():
            schema = step.schemas[name]
            before = next((before for before, after in step.names.items() if after == name), None)
            if before is not None and schema.key:
                self._checks[name] = old[before]
                old[before].change(schema, rows, step.ts)
            elif schema.key:  # born empty: the feed has all of it
                self._checks[name] = self._check(schema, max(self._complete_ts(name) or step.ts, step.ts))

    def _complete_ts(self, name: TableName) -> CommitTs | None:
        """When the table was complete, by any of the names that it will have: a dump that is over reports the one of its time."""
        names = [name]
        for step in self._steps:
            names += [after] if (after := step.names.get(names[-1])) is not None else []
        return next((self._complete_at[name] for name in reversed(names) if name in self._complete_at), None)


def _unknown(table: TableName) -> TableVerdict:
    nothing = Findings()
    return TableVerdict(table, 0, 0, 0, False, 0, nothing, nothing, nothing, nothing, reason="the source has no such table")
