"""Does the output converge to the truth (P1), and does no row ever go back (P2)?

The output of each table is replayed in its order into the table's rows. At every truth snapshot from the table's
`complete_at` on, and at the end, those rows must be exactly the truth's. On the way, for every key:

- commit_ts never falls, in the whole table, and at one commit_ts no put is followed by a delete;
- a dump row is the row as of its commit_ts (design 8): where the output has shown the key before, it must be the version
  shown last. One that differs from it, or that revives a deleted key, is an older version after a newer one.

A snapshot is compared before the first row with a greater commit_ts. `replay` is the whole of it on any rows; `verify`
reads them from a folder of JSON lines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from sidecar.core.canonical import equal_text
from sidecar.core.model import MARK_TABLE, CommitTs, TableName, TableSchema
from sidecar.errors import SinkError
from sidecar.replay.recording import Key, Row, equal_rows, rows_by_key
from sidecar.storage import Folder
from spark_merge.sinks.reader import read_rows, read_segments

SAMPLES_MAX = 10
"""Keys shown for each kind of finding: enough to see a pattern."""

VALUE_CHARS_MAX = 60
"""How much of a value is shown."""

OutputRow = Mapping[str, Any]
"""One output row: seq, ordinal, commit_ts (text), schema, table, op (insert | update | delete), key, before and after
({column: text or None}, or None), origin (log | dump), dump_id."""


class Truth(Protocol):
    """What the output is held against: sidecar.replay.recording.Recording."""

    @property
    def schemas(self) -> Mapping[TableName, TableSchema]: ...
    @property
    def truth_ts(self) -> tuple[CommitTs, ...]: ...
    def truth(self, tso: CommitTs) -> Mapping[TableName, pa.Table]: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """One key that is wrong at position `at_ts`, and how."""

    key: Key
    at_ts: CommitTs
    what: str


@dataclass(slots=True)
class Findings:
    """`count` of all, `samples` of the first keys."""

    count: int = 0
    samples: list[Finding] = field(default_factory=list)

    def add(self, key: Key, at_ts: CommitTs, what: str) -> None:
        self.count += 1
        if len(self.samples) < SAMPLES_MAX and all(sample.key != key for sample in self.samples):
            self.samples.append(Finding(key, at_ts, what))


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """`rows`: at the end. `from_log`, `from_dump`: output rows read. `equal`: nothing was found and something was compared;
    else `reason` says what could not be compared, if that is why."""

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


@dataclass(frozen=True, slots=True)
class Verdict:
    """`not_replicated`: tables asked for that have no handle key. `unexpected`: tables in the output that must not be there,
    with their first row's place."""

    tables: tuple[TableVerdict, ...]
    not_replicated: tuple[TableName, ...]
    unexpected: dict[str, str]

    @property
    def ok(self) -> bool:
        return bool(self.tables) and all(table.equal for table in self.tables) and not self.unexpected

    def to_json(self) -> dict[str, Any]:
        """JSON values only; ts as decimal strings."""
        return {
            "ok": self.ok,
            "tables": [_table_to_json(table) for table in self.tables],
            "not_replicated": [str(table) for table in self.not_replicated],
            "unexpected": dict(self.unexpected),
        }


def _table_to_json(verdict: TableVerdict) -> dict[str, Any]:
    found = asdict(verdict) | {"table": str(verdict.table)}
    for kind in ("missing", "extra", "different", "went_back"):
        for sample in found[kind]["samples"]:
            sample["at_ts"] = str(sample["at_ts"])
    return found


def verify(output: Folder, truth: Truth, *, complete_at: Mapping[TableName, CommitTs], tables: Collection[TableName]) -> Verdict:
    """Check the JSON lines in `output`. Raises SinkError for rows that cannot be read."""
    segments = read_segments(output)
    rows = (row for segment in segments for file in segment.files for row in read_rows(output, file))
    upto_ts = segments[-1].upto_ts if segments else CommitTs(0)
    return replay(rows, truth, upto_ts=upto_ts, complete_at=complete_at, tables=tables)


def replay(
    rows: Iterable[OutputRow],
    truth: Truth,
    *,
    upto_ts: CommitTs,
    complete_at: Mapping[TableName, CommitTs],
    tables: Collection[TableName],
) -> Verdict:
    """Check `rows`, each table's in output order, of an output that reaches `upto_ts`.

    `tables` were dumped; `complete_at` is what was reported of them. Other tables of the truth may be in the output and are
    not looked at; the watermark table, tables without a key and unknown ones must not be.
    """
    schemas = truth.schemas
    replicated = {name for name, schema in schemas.items() if schema.key and name != MARK_TABLE}
    truths = {tso: truth.truth(tso) for tso in truth.truth_ts}
    checks = {
        name: _Replay(schemas[name], {tso: found[name] for tso, found in truths.items()}, complete_at.get(name), upto_ts)
        for name in tables
        if name in replicated
    }
    unexpected: dict[str, str] = {}
    for row in rows:
        name = TableName(row["schema"], row["table"])
        if (check := checks.get(name)) is not None:
            check.take(row)
        elif name not in replicated:
            unexpected.setdefault(str(name), f"seq {row['seq']}, commit_ts {row['commit_ts']}, {row['origin']}")
    unknown = [_unknown(name) for name in tables if name not in schemas]
    return Verdict(
        tables=tuple(sorted([*(check.verdict() for check in checks.values()), *unknown], key=lambda verdict: verdict.table)),
        not_replicated=tuple(sorted(name for name in tables if name in schemas and name not in replicated)),
        unexpected=unexpected,
    )


def _unknown(table: TableName) -> TableVerdict:
    nothing = Findings()
    return TableVerdict(table, 0, 0, 0, False, 0, nothing, nothing, nothing, nothing, reason="the truth has no such table")


# ---- one table ------------------------------------------------------------------------------------------------------


class _Version(NamedTuple):
    """The last version of a key that the output has shown; `row` None is a deletion."""

    commit_ts: CommitTs
    seq: int
    origin: str
    row: Row | None

    def __str__(self) -> str:
        what = "a deletion" if self.row is None else "a row"
        return f"{what} from the {self.origin} (seq {self.seq}, commit_ts {self.commit_ts})"


class _Replay:
    """One table's rows as the output makes them, compared with each truth that is due."""

    def __init__(self, schema: TableSchema, truths: Mapping[CommitTs, pa.Table], complete_at: CommitTs | None, upto_ts: CommitTs) -> None:
        self._schema = schema
        self._columns = schema.column_names()
        self._truths = truths
        self._complete_at = complete_at
        self._upto_ts = upto_ts
        due = (tso for tso in sorted(truths) if complete_at is not None and complete_at <= tso <= upto_ts)
        self._due = deque(due)
        self._versions: dict[Key, _Version] = {}
        self._last_log_ts = self._newest_ts = CommitTs(0)
        self._from = {"log": 0, "dump": 0}
        self._compared = 0
        self._missing, self._extra, self._different, self._went_back = Findings(), Findings(), Findings(), Findings()

    def take(self, row: OutputRow) -> None:
        try:
            key: Key = tuple(row["key"][name] for name in self._schema.key)
            after = row["after"]
            image = None if after is None else tuple(after[name] for name in self._columns)
            version = _Version(CommitTs(int(row["commit_ts"])), int(row["seq"]), row["origin"], image)
            self._from[version.origin] += 1
        except (KeyError, TypeError, ValueError) as error:
            raise SinkError(
                f"output row (seq {row.get('seq')}, ordinal {row.get('ordinal')}) does not fit {self._schema.name}: {error!r}",
                hint="give the output of this recording, written by this version",
            ) from error
        while self._due and self._due[0] < version.commit_ts:
            self._compare(self._due.popleft())
        shown = self._versions.get(key)
        if shown is not None and (why := self._older(version, shown)):
            self._went_back.add(key, version.commit_ts, f"{version} {why}: after {shown}")
        elif version.commit_ts < self._newest_ts:
            self._went_back.add(key, version.commit_ts, f"{version} stands behind commit_ts {self._newest_ts} of another key")
        self._newest_ts = max(self._newest_ts, version.commit_ts)
        if version.origin == "log":
            self._last_log_ts = max(self._last_log_ts, version.commit_ts)
        self._versions[key] = version

    def _older(self, version: _Version, shown: _Version) -> str | None:
        """Why `version` must not come after `shown`; None if it may."""
        if version.commit_ts < shown.commit_ts:
            return "has an older commit_ts"
        if version.origin == "log":
            put_then_deleted = version.commit_ts == shown.commit_ts and version.row is None and shown.row is not None
            return "stands behind a put of its own commit_ts" if put_then_deleted else None
        if version.row is None:
            return "deletes, which no dump does"
        if shown.row is None:
            return "revives a deleted key"
        return None if equal_rows(self._schema, version.row, shown.row) else f"is stale: {self._differences(version.row, shown.row)}"

    def _compare(self, tso: CommitTs) -> None:
        truth = rows_by_key(self._schema, self._truths[tso])
        self._compared += 1
        for key, row in truth.items():
            shown = self._versions.get(key)
            if shown is None or shown.row is None:
                self._missing.add(key, tso, f"the output has {shown or 'never shown it'}; truth: {_shortened(row)}")
            elif not equal_rows(self._schema, shown.row, row):
                self._different.add(key, tso, f"{shown}, output against truth: {self._differences(shown.row, row)}")
        for key, shown in self._versions.items():
            if shown.row is not None and key not in truth:
                self._extra.add(key, tso, f"{shown}: {_shortened(shown.row)}")

    def verdict(self) -> TableVerdict:
        """Compare what is still due, and the end."""
        while self._due:
            self._compare(self._due.popleft())
        reason = self._why_not_comparable()
        if reason is None and self._last_log_ts <= max(self._truths):
            self._compare(max(self._truths))
        if reason is None and self._compared == 0:
            reason = "no truth snapshot lies between its completion and the output's end"
        found = (self._missing, self._extra, self._different, self._went_back)
        return TableVerdict(
            self._schema.name,
            sum(version.row is not None for version in self._versions.values()),
            self._from["log"],
            self._from["dump"],
            reason is None and not any(findings.count for findings in found),
            self._compared,
            *found,
            reason,
        )

    def _why_not_comparable(self) -> str | None:
        if self._complete_at is None:
            return "it was never reported complete"
        if self._complete_at > self._upto_ts:
            return f"it was reported complete at {self._complete_at}, and the output ends at {self._upto_ts}"
        if max(self._truths) > self._upto_ts:
            return f"the output ends at {self._upto_ts}, before the last truth at {max(self._truths)}"
        return None

    def _differences(self, a: Row, b: Row) -> str:
        pairs = zip(self._schema.columns, a, b, strict=True)
        return ", ".join(f"{c.name} {_value(x)} ≠ {_value(y)}" for c, x, y in pairs if not equal_text(c.kind, x, y))


def _shortened(row: Row) -> str:
    text = ", ".join(map(_value, row))
    return text if len(text) <= 2 * VALUE_CHARS_MAX else text[: 2 * VALUE_CHARS_MAX] + "…"


def _value(text: str | None) -> str:
    shown = "NULL" if text is None else repr(text)
    return shown if len(shown) <= VALUE_CHARS_MAX else shown[:VALUE_CHARS_MAX] + "…"
