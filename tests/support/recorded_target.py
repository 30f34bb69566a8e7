"""Recorded streams into a target that keeps tables: brought there by workers that die, and held against the source's truth.

@pytest.mark.parametrize("case", cases(Case("demo", "kv", "snapshot", 0)), ids=str)
made, log = case.record(recorded_logs)                recorded_logs: the fixture; the log that the sidecar makes of this schedule
assert deliver(log.folder, uri, seed=case.seed, deaths=5) > 0
assert not differences(made, read)                    read(schema): the table's rows as canonical text, in the schema's columns
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

from sidecar.replay.judge.rows import Key, Row, equal_rows
from sidecar.shared.log import storage
from sidecar.shared.log.layout import is_manifest, read_manifest
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, Seq, TableName, TableSchema
from sidecar.shared.model.progress import progress_from_json
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.merge.cut import BatchLimits
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Here
from spark_merge.testing.story import Died, Mortal, WorkerLife
from tests.lanes import LANE
from tests.support.logged import copied
from tests.support.replaying import Run, Stage, live, stage

Texts = tuple[str | None, ...]
Read = Callable[[TableSchema], Sequence[Texts]]


_FEEDS = {
    **dict.fromkeys(["demo", "shop", "shop-new", "restart", "large"], ("kv", "open-protocol", "canal-json")),
    **dict.fromkeys(["rowformats", "tz", "filter"], ("kv",)),
    "binlog": ("binlog",),
}
"""Of the recordings without schema changes those feeds that tell every change."""


@dataclass(frozen=True)
class RecordedLog:
    """What the sidecar wrote of one schedule. Several tests read the same folder: nobody writes there."""

    folder: Path
    log: FolderLog
    manifests: Sequence[Manifest]


@dataclass(frozen=True)
class RecordedLogs:
    """Each schedule is played and judged by the slow rule once, for all processes that share `folder`."""

    folder: Path

    def of(self, made: Stage, run: Run) -> RecordedLog:
        """Two processes may make the same log at the same time: one of them is first, and both read that one."""
        folder = self.folder / "-".join(map(str, (made.recording.name, made.feed.name, *astuple(run))))
        if not folder.is_dir():
            verdict, _, log = live(made, run)
            assert verdict.ok or (made.feed.history is not None and made.feed.name not in ("kv", "binlog")), verdict
            with TemporaryDirectory(dir=self.folder) as being_made:
                copied(log, open_folder(f"{being_made}/log"))
                try:
                    Path(being_made, "log").rename(folder)
                except OSError:
                    if not folder.is_dir():
                        raise
        there = open_folder(str(folder))
        texts = storage.read_files(there, sorted(filter(is_manifest, storage.list_names(there, deep=False))))
        return RecordedLog(folder, FolderLog(there), [read_manifest(there, name, text) for name, text in sorted(texts.items())])


class Case(NamedTuple):
    """A schedule of a recording."""

    name: str
    feed: str
    brackets: str
    seed: int

    def __str__(self) -> str:
        return "-".join(map(str, self))

    @property
    def run(self) -> Run:
        """Amid schema changes, in every other schedule, a dump that begins at any of them."""
        if "ddl" in self.name:
            return Run(self.brackets, self.seed, chunk_rows=(1000, 20)[self.seed % 2], after_part=self.seed % 10 / 11)
        return Run(self.brackets, self.seed, chunk_rows=50 if self.name == "demo" else 1000)

    def record(self, logs: RecordedLogs) -> tuple[Stage, RecordedLog]:
        made = stage(self.name, self.feed)
        return made, logs.of(made, self.run)


def cases(*of_each_run: Case) -> list[Case]:
    """For each sink: in `make matrix` every recording, with both kinds of brackets and five seeds, which take the feeds in turn; and the
    brackets that were recorded. Else these."""
    if not LANE.whole:
        return list(of_each_run)
    results = [
        Case(name, feeds[(seed + place) % len(feeds)], brackets, seed)
        for (name, feeds), (place, brackets), seed in itertools.product(_FEEDS.items(), enumerate(["watermark", "snapshot"]), range(5))
    ]
    return results + [Case(name, feed, "recorded", seed) for seed, (name, feeds) in enumerate(_FEEDS.items()) for feed in feeds[1:2]]


def deliver(folder: Path, uri: str, *, seed: int, deaths: int, after: Callable[[Seq], object] = lambda _: None) -> int:
    """To the end of the log, by workers of which the first ones die between any two steps; how many died. `after` is called when a batch
    is accepted, with its last segment."""
    rng, log, died = Random(seed), open_folder(str(folder)), 0
    while True:
        life = WorkerLife(rng.randrange(1, 60 if died else 8) if died < deaths else -1)
        sink = open_sink(uri, log_id="recorded")
        try:
            limits = BatchLimits(segments_max=rng.choice([1, 5, 200]))
            delivery = Delivery(Mortal(sink, life), JobSettings(log, limits=limits), Here(before=life.step))
            while batch := delivery.deliver():
                after(batch.segments[-1].seq)
            return died
        except Died:
            died += 1
        finally:
            sink.close()


def differences(made: Stage, read: Read) -> list[str]:
    """Of the target's tables at the end from the truth's, without marks."""
    truth, results = made.truth.truth(made.recording.end_ts), []
    for name in made.tables:
        if name == MARK_TABLE:
            continue
        schema = made.recording.schemas[name]
        expected = sorted(map(repr, _compared(schema, list(zip(*(column.to_pylist() for column in truth[name].columns), strict=True)))))
        there = sorted(map(repr, _compared(schema, read(schema))))
        results += [f"{name}: {len(there)} rows, {len(expected)} expected; {set(there) ^ set(expected)}"] if there != expected else []
    return results


def _compared(schema: TableSchema, rows: Sequence[tuple[str | None, ...]]) -> list[tuple[object, ...]]:
    """A json is what it is when it is parsed."""
    parsed = [column.kind == "json" for column in schema.columns]
    return [
        tuple(
            json.loads(text, parse_float=_number) if is_json and text is not None else text
            for is_json, text in zip(parsed, row, strict=True)
        )
        for row in rows
    ]


def _number(text: str) -> float:
    """TiDB's 100000000000000000000 is MySQL's 1e20."""
    number = float(text)
    return int(number) if number.is_integer() else number


def counted(rows: Sequence[Texts], schema: TableSchema) -> Mapping[Texts, Texts]:
    places = [schema.column_names().index(name) for name in schema.key]
    return {tuple(row[place] for place in places): row for row in rows}


@dataclass
class Judge:
    """Holds the target against the source's tables at the end of a segment. What a table's dump has not brought yet may be missing; no row
    may be there that the source had not, or had otherwise. `judged`: is this table, at this moment?"""

    made: Stage
    read: Read
    log: RecordedLog
    judged: Callable[[TableName, CommitTs], bool] = lambda *_: True
    whole: int = 0
    """Tables that were equal, over all looks."""
    ddls: set[CommitTs] = field(default_factory=set)
    """After which it was looked at."""

    def look(self, seq: Seq) -> None:
        manifest, complete = self.log.manifests[seq], self.complete(seq)
        self.ddls |= {ddl.commit_ts for ddl in manifest.ddls}
        for name in self._tables(manifest):
            self.check(name, manifest.upto_ts, whole=complete.get(name, manifest.upto_ts + 1) <= manifest.upto_ts)

    def end(self) -> None:
        """Every table is whole."""
        last = self.log.manifests[-1]
        for name in self._tables(last):
            self.check(name, last.upto_ts, whole=True)

    def complete(self, seq: Seq) -> Mapping[TableName, CommitTs]:
        """Since when each table has what its dump brought, up to the segment."""
        reported = next((one.progress for one in reversed(self.log.manifests[: seq + 1]) if one.progress), None)
        tables = progress_from_json(reported).tables if reported else ()
        return {one.table: one.complete_at for one in tables if one.complete_at is not None}

    def check(self, name: TableName, ts: CommitTs, *, whole: bool) -> None:
        if not self.judged(name, ts):
            return
        schema = self.made.history.schema(name, ts)
        assert schema is not None
        expected: Mapping[Key, Row] = self.made.history.rows(name, ts)
        result = cast("Mapping[Key, Row]", counted(self.read(schema), schema))
        wrong = [key for key, row in result.items() if key not in expected or not equal_rows(schema, row, expected[key])]
        assert not wrong, f"{name} at {ts}: {[(key, result[key], expected.get(key)) for key in wrong[:3]]}"
        if whole:
            assert not expected.keys() - result.keys(), f"{name} at {ts}: rows are missing"
            self.whole += 1

    def _tables(self, manifest: Manifest) -> list[TableName]:
        """With a key, at the end of the segment."""
        names = self.log.log.read_schemas(manifest.next_schemas or manifest.schemas)
        return [name for name in names if self.made.history.schema(name, manifest.upto_ts) is not None]
