"""One table's rows as the output makes them, step by step, held against the truth (see `verify`).

A consumer keeps its rows by key and carries out the DDLs that come with the stream; so does this: what a DDL does to rows is the
recording's own `RowStep`, which the truth was checked with. What was shown of a key outlives the DDL, unless the DDL put other
rows in the table's place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from sidecar.replay.judge.rows import Key, Row, equal_rows, rows_by_key, seen_by_sql
from sidecar.shared.errors import SinkError
from sidecar.shared.model.canonical import equal_text
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema

SAMPLES_MAX = 10
"""Keys shown for each kind of finding: enough to see a pattern."""

VALUE_CHARS_MAX = 60
"""How much of a value is shown."""

OutputRow = Mapping[str, Any]
"""One output row: seq, ordinal, commit_ts (text), schema, table, op (insert | update | delete), key, before and after
({column: text or None}, or None), origin (log | dump), dump_id."""


@dataclass(frozen=True, slots=True)
class RowFinding:
    """One key that is wrong at position `at_ts`, and how."""

    key: Key
    at_ts: CommitTs
    what: str


@dataclass(slots=True)
class Findings:
    """`count` of all, `samples` of the first keys."""

    count: int = 0
    samples: list[RowFinding] = field(default_factory=list)

    def add(self, key: Key, at_ts: CommitTs, what: str) -> None:
        self.count += 1
        if len(self.samples) < SAMPLES_MAX and all(sample.key != key for sample in self.samples):
            self.samples.append(RowFinding(key, at_ts, what))


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """`rows`: at the end. `from_log`, `from_dump`: output rows read. `equal`: no row differs and something was compared;
    else `reason` says what could not be compared, if that is why. `explained`: rows that are missing, or came back, since the feed has a
    deletion of them that never happened."""

    table: TableName
    rows: int
    from_log: int
    from_dump: int
    equal: bool
    snapshots_compared: int
    missing: Findings
    extra: Findings
    different: Findings
    went_back: Findings
    reason: str | None = None
    explained: Findings = field(default_factory=Findings)


class LastVersion(NamedTuple):
    """The last version of a key that the output has shown; `row` None is a deletion."""

    commit_ts: CommitTs
    seq: int
    origin: str
    row: Row | None

    def __str__(self) -> str:
        what = "a deletion" if self.row is None else "a row"
        return f"{what} from the {self.origin} (seq {self.seq}, commit_ts {self.commit_ts})"


class TableReplay:
    """One table's rows as the output makes them, compared with each truth that is due."""

    def __init__(
        self,
        schema: TableSchema,
        truths: Mapping[CommitTs, Callable[[TableName], pa.Table]],
        complete_at: CommitTs | None,
        upto_ts: CommitTs,
        false_deletes: Collection[tuple[Key, CommitTs]] = (),
    ) -> None:
        """`truths`: the rows of a table, by the name that it has then, at each snapshot. `false_deletes`: deletions in the feed that
        never happened."""
        self.schema = schema
        self._columns = schema.column_names()
        self._truths = truths
        self._complete_at = complete_at
        self._upto_ts = upto_ts
        due = (tso for tso in sorted(truths) if complete_at is not None and complete_at <= tso <= upto_ts)
        self._due = deque(due)
        self._versions: dict[Key, LastVersion] = {}
        self._last_log_ts = self._newest_ts = CommitTs(0)
        self._from = {"log": 0, "dump": 0}
        self._compared = 0
        self._false_deletes = false_deletes
        self._explained = Findings()
        self._missing, self._extra, self._different, self._went_back = Findings(), Findings(), Findings(), Findings()

    def rows(self) -> dict[Key, Row]:
        return {key: version.row for key, version in self._versions.items() if version.row is not None}

    def reach(self, ts: CommitTs) -> None:
        """No row below `ts` comes any more: compare with the snapshots before it."""
        while self._due and self._due[0] < ts:
            self._compare(self._due.popleft())

    def change(self, schema: TableSchema, rows: Mapping[Key, Row], ts: CommitTs) -> None:
        """A DDL at `ts` left these rows."""
        before = self._versions
        alive = {key for key, version in before.items() if version.row is not None}
        kept = {} if alive != rows.keys() else {key: version for key, version in before.items() if version.row is None}
        made = {key: before.get(key, LastVersion(ts, -1, "ddl", None))._replace(row=row) for key, row in rows.items()}
        self._versions = kept | made
        self.schema, self._columns = schema, schema.column_names()

    def take(self, row: OutputRow) -> None:
        try:
            key: Key = tuple(row["key"][name] for name in self.schema.key)
            after = row["after"]
            image = None if after is None else tuple(after[name] for name in self._columns)
            version = LastVersion(CommitTs(int(row["commit_ts"])), int(row["seq"]), row["origin"], image)
            self._from[version.origin] += 1
        except (KeyError, TypeError, ValueError) as error:
            raise SinkError(
                f"output row (seq {row.get('seq')}, ordinal {row.get('ordinal')}) does not fit {self.schema.name}: {error!r}",
                hint="give the output of this recording, written by this version",
            ) from error
        self.reach(version.commit_ts)
        shown = self._versions.get(key)
        if shown is not None and (why := self._older(version, shown)):
            findings = self._explained if self._falsely_deleted(key, shown) else self._went_back
            findings.add(key, version.commit_ts, f"{version} {why}: after {shown}")
        elif version.commit_ts < self._newest_ts:
            self._went_back.add(key, version.commit_ts, f"{version} comes after commit_ts {self._newest_ts} of another key")
        self._newest_ts = max(self._newest_ts, version.commit_ts)
        if version.origin == "log":
            self._last_log_ts = max(self._last_log_ts, version.commit_ts)
        self._versions[key] = version

    def _older(self, version: LastVersion, shown: LastVersion) -> str | None:
        """Why `version` must not come after `shown`; None if it may."""
        if version.commit_ts < shown.commit_ts:
            return "has an older commit_ts"
        if version.origin == "log":
            put_then_deleted = version.commit_ts == shown.commit_ts and version.row is None and shown.row is not None
            return "comes after a put of its own commit_ts" if put_then_deleted else None
        if version.row is None:
            return "deletes a row that the output shows" if shown.row is not None else None
        if shown.row is None:
            return "revives a deleted key"
        return None if equal_rows(self.schema, version.row, shown.row) else f"is stale: {_differences(self.schema, version.row, shown.row)}"

    def _falsely_deleted(self, key: Key, shown: LastVersion) -> bool:
        return shown.row is None and (key, shown.commit_ts) in self._false_deletes

    def _compare(self, tso: CommitTs) -> None:
        rows = self._truths[tso](self.schema.name)
        schema = seen_by_sql(self.schema, rows)
        truth, shown_rows = rows_by_key(schema, rows), self._seen(schema)
        self._compared += 1
        for key, row in truth.items():
            shown = self._versions.get(key)
            if shown is None or shown.row is None:
                findings = self._explained if shown is not None and self._falsely_deleted(key, shown) else self._missing
                findings.add(key, tso, f"the output has {shown or 'never shown it'}; source: {_shortened(row)}")
            elif not equal_rows(schema, shown_rows[key], row):
                differences = _differences(schema, shown_rows[key], row)
                self._different.add(key, tso, f"{shown}, output against source: {differences}")
        for key, seen in shown_rows.items():
            if key not in truth:
                self._extra.add(key, tso, f"{self._versions[key]}: {_shortened(seen)}")

    def _seen(self, schema: TableSchema) -> dict[Key, Row]:
        if schema is self.schema:
            return self.rows()
        places = [self._columns.index(column) for column in schema.column_names()]
        return {key: tuple(row[place] for place in places) for key, row in self.rows().items()}

    def verdict(self) -> TableVerdict:
        """Compare what is still due, and the end."""
        while self._due:
            self._compare(self._due.popleft())
        reason = self._why_not_comparable()
        if reason is None and self._last_log_ts <= max(self._truths):
            self._compare(max(self._truths))
        if reason is None and self._compared == 0:
            reason = "no recorded snapshot lies between its completion and the output's end"
        findings_by_kind = (self._missing, self._extra, self._different, self._went_back)
        return TableVerdict(
            self.schema.name,
            sum(version.row is not None for version in self._versions.values()),
            self._from["log"],
            self._from["dump"],
            reason is None and not any(findings.count for findings in findings_by_kind),
            self._compared,
            *findings_by_kind,
            reason,
            self._explained,
        )

    def _why_not_comparable(self) -> str | None:
        if self._complete_at is None:
            return "it was never reported complete"
        if self._complete_at > self._upto_ts:
            return f"it was reported complete at {self._complete_at}, and the output ends at {self._upto_ts}"
        if max(self._truths) > self._upto_ts:
            return f"the output ends at {self._upto_ts}, before the last recorded snapshot at {max(self._truths)}"
        return None


def _differences(schema: TableSchema, a: Row, b: Row) -> str:
    pairs = zip(schema.columns, a, b, strict=True)
    return ", ".join(f"{c.name} {_value(x)} ≠ {_value(y)}" for c, x, y in pairs if not equal_text(c.kind, x, y))


def _shortened(row: Row) -> str:
    text = ", ".join(map(_value, row))
    return text if len(text) <= 2 * VALUE_CHARS_MAX else text[: 2 * VALUE_CHARS_MAX] + "…"


def _value(text: str | None) -> str:
    shown = "NULL" if text is None else repr(text)
    return shown if len(shown) <= VALUE_CHARS_MAX else shown[:VALUE_CHARS_MAX] + "…"
