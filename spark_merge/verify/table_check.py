"""One table in one sink, compared with the source while both change.

    the sink's position ─► digests of its rows ─► digests of the source's ranges, each as of where the log ends then ─► buckets
        ─► keys that the log changed meanwhile are moving ─► a second look at these and at each difference, at later positions

- The source's statistics of its rows are a first guess, and may be wrong by any factor. So a range stops at a bound of rows, and is read
  again in ranges that are counted; and buckets are compared in parts once all rows are counted.
- Of a small sample or a slice, and in a sink that finds keys, the sink's rows are those with the keys of the source's ranges (by_keys).
- The two sides are read at different moments, and the log has every change between: `moving.Moving` follows it from the sink's position,
  which is read first, to beyond the last moment at which the source was read.
- Without snapshots (a server that is no TiDB) a range is read in the present: it is as of some moment up to `context.AHEAD_MS` from then.
- Missing rows are judged once the sink is complete for the table (sink_tables), by looks at positions from then on; before that they are
  counted and never repaired. All else is judged as ever: a row that the sink has is one that TiDB had.
- A DDL that changes the table meanwhile, at the source or in the log: once the sink has it, the table is compared again from the beginning,
  TRIES_MAX times.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, product
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import LogBroken, SinkError, SourceChanged, SourceError
from sidecar.shared.log.verification import CheckState, RequestedTable, Slice, TableReport, Unjudged
from sidecar.shared.model.nouns import CommitTs, Seq, TableSchema
from sidecar.shared.mysql.key_ranges import KeySpan
from spark_merge.port.readable import ReadPart, RowForm, newest_of
from spark_merge.verify.by_keys import lookups
from spark_merge.verify.chosen import PART_ROWS, chosen_ranges, counted_ranges, ranges_of_slice, reads_by_keys, rows_max
from spark_merge.verify.compare import BucketDifference, BucketWork, total
from spark_merge.verify.context import CheckContext
from spark_merge.verify.digest import DigestWork
from spark_merge.verify.keeping_up import KeepingUp
from spark_merge.verify.look import LookedRows, RowsOfKeys, by_key, difference, key_of, keys_read_twice, source_rows
from spark_merge.verify.moving import Moving
from spark_merge.verify.positions import LOOK_WAIT_S, Altered, Positions, ReadableSink
from spark_merge.verify.resume import CheckProgress, forget, load, note_look, save, schema_text
from spark_merge.verify.source import TimedPart, key_table
from spark_merge.verify.tally import LACKS, Tally

R = TypeVar("R")

NO_TS = CommitTs(0)

SINK_PART_ROWS = 1_000_000
"""Of a sink, about, in a part: some of them read all for each part."""

BUCKET_ROWS = 250_000
"""Of both sides, about, in a bucket: some 30 MB in a task."""
BUCKET_ROWS_MAX = 2 * BUCKET_ROWS
"""Where there are more rows than the statistics said, a bucket is compared in parts."""

LOOKS_MAX, LOOK_WAIT_MAX_S = 12, 10.0
"""Second looks at a table's keys, and the waits between them, which double."""

LOOKED_KEYS_MAX = 100_000
"""Of a table, that differ: beyond, the result of the first look stays."""
MOVED_KEYS_MAX = 1_000_000
"""Of a table, that changed between the two sides' reads: beyond, the table counts as compared in part. Some 100 MB."""

SAVE_EVERY_S = 60.0
"""What a comparison has done: with it are the keys that are moving, which may be millions."""

KEYS_AT_ONCE, KEYS_OF_READING = 5_000, 200_000
"""Of a second look: of a sink that finds keys, and of one that is read whole for them, which is read as seldom as memory allows."""
TRIES_MAX = 3


@dataclass
class TableCheck:
    """`name`: the sink's. `path`: of the files below the folder, for this table and sink alone. `sample`: the part of the source's ranges
    that is read. `slice`: the rows that are compared, if the sink finds keys; else, and if the table has no more rows, it is compared
    whole. `unjudged`: of this table in this sink. `seed`: of the sample."""

    context: CheckContext
    name: str
    sink: ReadableSink
    table: RequestedTable
    path: str
    sample: float = 1.0
    slice: Slice | None = None
    unjudged: Sequence[Unjudged] = ()
    seed: str = ""
    report: TableReport = field(init=False)
    tally: Tally = field(default_factory=Tally)
    _by: str = field(default_factory=partial(secrets.token_hex, 4))
    """In the names of digests: a process of an earlier worker's may still write some."""
    _rereads: bool = False
    _by_keys: bool = False
    _form: RowForm | None = None
    _shown: TableSchema | None = None
    _keeping_up: KeepingUp = field(default_factory=KeepingUp)
    _upto_ts: CommitTs = NO_TS
    _table_rows: int = 0
    _saves: bool = False
    _saved_s: float = 0.0
    _durable: set[str] = field(default_factory=set)
    _positions: Positions = field(init=False)

    def __post_init__(self) -> None:
        self.report = self._blank()
        self._positions = Positions(self.context, self.name, self.sink, self.table.name, self._waits_for)

    def _blank(self) -> TableReport:
        partial = bool(self.table.where) or self.sample < 1
        return TableReport(self.name, *self.table.name, partial=partial, unjudged=list(self.unjudged))

    def run(self) -> TableReport:
        """Raises what reading the source, the log and the sink raises."""
        began_s = time.monotonic()
        for left in reversed(range(TRIES_MAX)):
            self.report, self.tally, self._keeping_up = self._blank(), Tally(self.unjudged), KeepingUp()
            self.report.state = CheckState.RUNNING
            try:
                self._compare(resumes=left == TRIES_MAX - 1)
                break
            except (Altered, SinkError, SourceError) as error:  # a table that does not fit its schema is one that a DDL is changing
                gone = isinstance(error, Altered) and bool(error.args)
                if not left:
                    if not isinstance(error, Altered | SourceChanged):
                        raise
                    self.report.state, self.report.why = CheckState.SKIPPED, str(error) if gone else "DDLs change the table again and again"
                    return self.report
                self.context.wait(LOOK_WAIT_S)
                if isinstance(error, SinkError):  # it has carried out a DDL, and has not accepted the segment of the DDL
                    self._positions.await_next(self.sink.look())
                if isinstance(error, Altered | SourceChanged):  # before its position the sink has the schema that does not fit
                    self._upto_ts = self.context.present_ts()
                    self._positions.await_sink(self._upto_ts)
        self.report.seconds = time.monotonic() - began_s
        self.tally.conclude(self.report, self._keeping_up.narrowed)
        return self.report

    # ---- the first look ----------------------------------------------------------------------------------------------

    def _compare(self, *, resumes: bool) -> None:
        context = self.context
        schema, moving, progress = (self._resumed() if resumes else None) or self._begun()
        self._by_keys = progress.by_keys
        ranges = [KeySpan(*one) for one in progress.ranges]
        parts = [*context.source.ranges(schema, ranges, form=self._form, where=self.table.where)]
        while (start := progress.done) < len(parts) and not self._keeping_up.narrowed:
            at_ts = moving.follow() if context.source.has_snapshots() else None
            wave = [part.at(at_ts) for part in parts[start : start + context.runner.cores]]
            files, large = self._digested(schema, f"source-{start}", wave, progress, rows_max=rows_max(progress.rows))
            for number in large:
                spans = counted_ranges(context.source, schema, KeySpan(*progress.ranges[start + number]))
                if len(spans) == 1:
                    files += self._digested(schema, f"source-{start}-{number}", [wave[number]], progress)[0]
                else:
                    parts += self._add(schema, progress, spans)
            progress.high_ts = max(progress.high_ts, context.present_ts() if at_ts is None else at_ts)
            if progress.by_keys:
                lookup_files = lookups(self.sink, schema, context.folder, files)
                progress.sink_files += self._digested(schema, f"sink-{start}", lookup_files, progress)[0]
                self.report.parts_done = 1 + 2 * (start + len(wave))
            progress.source_files += files
            progress.done += len(wave)
            began_s = time.monotonic()
            self._follow(moving)
            self._keeping_up.followed(time.monotonic() - began_s, done=progress.done, ranges=len(parts))
            self._save(progress, moving)
        self._note_lacking()  # before the log is followed: so the chunks that have made it complete are moving
        self._positions.await_log(moving, CommitTs(progress.high_ts), follow=self._follow)
        self.report.low_tso, self.report.high_tso = str(progress.low_ts), str(moving.upto_ts)
        files_of = tuple(progress.source_files), tuple(progress.sink_files)
        pieces = progress.digested // (progress.buckets * BUCKET_ROWS_MAX) + 1
        places = product(range(progress.buckets), range(pieces))
        buckets = [BucketWork(context.folder, *files_of, bucket, (piece, pieces)) for bucket, piece in places]
        self._conclude(schema, self._run(buckets), moving)

    def _add(self, schema: TableSchema, progress: CheckProgress, more: Sequence[KeySpan]) -> Sequence[TimedPart]:
        """More ranges to read."""
        progress.ranges += [(*one,) for one in more]
        self._saves |= len(progress.ranges) > self.context.runner.cores
        self.report.parts += len(more) * (2 if progress.by_keys else 1)
        return self.context.source.ranges(schema, more, form=self._form, where=self.table.where)

    def _begun(self) -> tuple[TableSchema, Moving, CheckProgress]:
        """With the digests of the sink's rows."""
        context = self.context
        forget(context.folder, self.path)  # its digests would be replaced one by one
        self._durable, self._saved_s = set(), 0.0
        accepted = self._positions.accepted()
        context.needs(accepted.seq)
        schema = self._positions.schema_after(accepted)
        rows = context.source.rows(schema)
        by_keys = reads_by_keys(self.sink, rows, part=self.slice, sample=self.sample)
        none = key_table(schema, []) if by_keys else None
        reading = self.sink.reading(schema, parts=max(1, context.runner.cores, rows // SINK_PART_ROWS), keys=none)
        self._form, self._shown, low_ts = reading.form, reading.schema, CommitTs(accepted.upto_ts or 0)
        self.report.after_seq, self.report.table_id = accepted.seq, schema.table_id
        moving = Moving(context.log, schema, after=accepted.seq, low_ts=low_ts)
        ranges = self._chosen(schema, rows, by_keys=by_keys)
        self._table_rows, self.report.rows_total = rows, int(rows * self.sample)
        buckets = max(1, min(2 * min(rows, len(ranges) * PART_ROWS) // BUCKET_ROWS, 4096))
        self.report.parts = len(reading.parts) + len(ranges) * (2 if by_keys else 1)
        self._saves = len(ranges) > context.runner.cores
        of = schema_text(schema), accepted.seq, low_ts, rows, by_keys, buckets
        progress = CheckProgress(*of, [(*one,) for one in ranges], self.report)
        progress.sink_files, _ = self._digested(schema, "sink", reading.parts, progress, between=partial(self._followed, moving))
        progress.high_ts = moving.follow()
        self._save(progress, moving)
        return schema, moving, progress

    def _resumed(self) -> tuple[TableSchema, Moving, CheckProgress] | None:
        """Where another worker has ended. None: from the beginning."""
        saved = load(self.context.folder, self.path)
        if saved is None:
            return None
        progress, keys = saved
        accepted = self._positions.accepted()
        schema = self._positions.schema_after(accepted)
        moving = Moving(self.context.log, schema, after=Seq(progress.seq), low_ts=CommitTs(progress.low_ts), keys=keys)
        moving.upto_ts = CommitTs(progress.upto_ts)
        self.context.needs(Seq(progress.seq))
        try:
            moving.follow()
        except (LogBroken, SinkError):  # the log has its segments no more
            return None
        if accepted.seq < progress.accepted or moving.altered or schema_text(schema) != progress.schema:
            return None
        self.report, self._table_rows, self._saves = progress.report, progress.rows, True
        reading = self.sink.reading(schema, parts=1, keys=key_table(schema, []))
        self._form, self._shown = reading.form, reading.schema
        return schema, moving, progress

    def _save(self, progress: CheckProgress, moving: Moving) -> None:
        """Not of a table that is read at once. Between two times the log keeps what is to be followed again."""
        last, now_s = progress.done == len(progress.ranges), time.monotonic()
        if self._saves and (last or not progress.done or now_s - self._saved_s >= SAVE_EVERY_S):
            files = {*progress.sink_files, *progress.source_files}
            save(self.context.folder, self.path, progress, moving, fresh=files - self._durable)
            self._durable, self._saved_s = files, now_s
            assert moving.seq is not None
            self.context.needs(moving.seq)

    def _conclude(self, schema: TableSchema, differences: Sequence[BucketDifference], moving: Moving) -> None:
        self.report.rows = total([one.source for one in differences]).rows
        self.report.partial |= bool(self._keeping_up.narrowed)
        pending, unlooked_moved = dict[str, int](), 0
        for kind in ("missing", "different", "duplicate") if self.report.partial else ("missing", "extra", "different", "duplicate"):
            keys = pa.concat_arrays([getattr(one, kind) for one in differences] or [pa.array([], pa.string())])
            moved = pc.is_in(keys, value_set=moving.keys)
            self._rereads |= kind == "duplicate" and bool(len(keys))
            stuck, changed = keys.filter(pc.invert(moved)), keys.filter(moved)
            if not self.tally.judges(kind):
                self.tally.expect(kind, len(stuck))
                if kind != "missing" or not self.tally.lacks:
                    continue
                stuck = stuck[:0]  # one that moved is there by now, or is missing: only the latter makes the table incomplete
            looked = LOOKED_KEYS_MAX - sum(pending.values())
            room = MOVED_KEYS_MAX - (len(pending) - sum(pending.values()))
            pending |= dict.fromkeys(stuck[:looked].to_pylist(), 1) | dict.fromkeys(changed[:room].to_pylist(), 0)
            self.tally.count_unlooked(self.report, kind, stuck[looked:])
            unlooked_moved += max(len(changed) - room, 0)
        self._upto_ts = moving.upto_ts
        self._look_again(schema, pending)
        self.report.moving += unlooked_moved
        self._keeping_up.left(unlooked_moved)

    def _note_lacking(self) -> None:
        """Whether missing rows are judged."""
        if not self._positions.has_all_rows():
            self.tally.lacks = LACKS
            self.report.unjudged = [*self.report.unjudged, Unjudged(self.name, *self.table.name, ("missing",), LACKS)]

    # ---- the second look ---------------------------------------------------------------------------------------------

    def _look_again(self, schema: TableSchema, pending: dict[str, int]) -> None:
        """`pending`: how often each key has differed so far."""
        wait_s = LOOK_WAIT_S
        for number in range(LOOKS_MAX):
            self._begin_look(number + 2, pending)
            if not pending:
                return
            self._positions.await_sink(self._upto_ts)
            keys, finds = list(pending), self.sink.finds_keys and not self._reads_all
            step = KEYS_AT_ONCE if finds else KEYS_OF_READING
            for start in range(0, len(keys), step):
                self._look(schema, pending, keys[start : start + step])
            if pending:
                self.context.wait(wait_s)
                wait_s = min(2 * wait_s, LOOK_WAIT_MAX_S)
        self._begin_look(0, pending)

    def _begin_look(self, number: int, pending: Collection[str]) -> None:
        """At the keys that are pending; 0, or without any: there is none."""
        report, looks = self.report, bool(number and pending)
        report.moving, report.pending = len(pending), len(pending) if looks else 0
        report.look, report.look_ms = (number, self.context.now_ms()) if looks else (0, 0)
        if self._saves:
            note_look(self.context.folder, self.path, report)
        self.context.progress(report)

    def _look(self, schema: TableSchema, pending: dict[str, int], keys: Sequence[str]) -> None:
        accepted = self._positions.accepted()
        key_rows = key_table(schema, [key_of(key) for key in keys])
        wanted = None if self._reads_all else key_rows
        moving = Moving(self.context.log, schema, after=accepted.seq, low_ts=CommitTs(accepted.upto_ts or 0))
        reading = self.sink.reading(schema, parts=max(1, self.context.runner.cores), keys=wanted)
        rows = self._run([RowsOfKeys(part, schema.key, tuple(keys)) for part in reading.parts])
        shown = reading.schema or schema
        theirs = newest_of([read for part in rows for read in part], shown)
        at_ts = moving.follow() if self.context.source.has_snapshots() else None
        part = self.context.source.by_keys(schema, key_rows, form=reading.form, where=self.table.where)
        ours = source_rows(shown, part.at(at_ts))
        self._positions.await_log(moving, self.context.present_ts() if at_ts is None else at_ts, follow=self._follow)
        looked = LookedRows(ours, by_key(shown, [theirs]), keys_read_twice(schema, theirs), set(moving.keys.to_pylist()))
        self._judge(shown, pending, keys, looked)

    @property
    def _reads_all(self) -> bool:
        return self._rereads and not self._by_keys  # a sink may find one row of a key, and have another

    def _waits_for(self, what: str) -> None:
        """Reported while it lasts; its end is reported with the next progress."""
        self.report.waiting_for = what
        if what:
            self.context.progress(self.report)

    def _judge(self, schema: TableSchema, pending: dict[str, int], keys: Sequence[str], looked: LookedRows) -> None:
        for key in keys:
            differing = difference(schema, key, looked.ours.get(key), looked.theirs.get(key), twice=key in looked.twice)
            if differing is None or (self.report.partial and key not in looked.ours):
                del pending[key]
            elif key not in looked.moved:
                pending[key] += 1
                if pending[key] >= 2:
                    del pending[key]
                    self.tally.count(self.report, differing)

    def _follow(self, moving: Moving) -> CommitTs:
        upto_ts = moving.follow()
        if moving.seq is not None and not self._saves:
            self.context.needs(moving.seq)
        return upto_ts

    # ---- work --------------------------------------------------------------------------------------------------------

    def _chosen(self, schema: TableSchema, rows: int, *, by_keys: bool) -> Sequence[KeySpan]:
        if self.slice is None or not by_keys:
            return chosen_ranges(self.context.source, schema, rows, sample=self.sample, seed=self.seed)
        walked = ranges_of_slice(self.context.source, schema, self.slice)
        self.report.partial, self.report.lower, self.report.upper = True, walked[0].after, walked[-1].upper
        return walked

    def _followed(self, moving: Moving) -> None:
        """Before anything is saved: another worker would begin again, and needs no segment that was passed."""
        moving.follow()
        if moving.seq is not None:
            self.context.needs(moving.seq)

    def _digested(
        self,
        schema: TableSchema,
        name: str,
        parts: Iterable[ReadPart],
        progress: CheckProgress,
        *,
        rows_max: int | None = None,
        between: Callable[[], object] = lambda: None,
    ) -> tuple[list[str], list[int]]:
        """The files, and which parts have more than `rows_max` rows. As many parts at once as there are cores; `between` follows each
        time."""
        context, files, large, done = self.context, list[str](), list[int](), 0
        left = iter(parts)
        while wave := list(islice(left, context.runner.cores)):
            path = f"{self.path}/{name}-{self._by}"
            made = partial(DigestWork, schema=self._shown or schema, buckets=progress.buckets, rows_max=rows_max)
            works = [made(context.folder, f"{path}-{done + n}", part=part) for n, part in enumerate(wave)]
            of_works = self._run(works)
            large += [done + n for n, of_work in enumerate(of_works) if of_work is None]
            written = [one for of_work in of_works for one in of_work or ()]
            files += [file for file, _ in written]
            rows = sum(rows for _, rows in written)
            progress.digested += rows
            self._table_rows = max(self._table_rows, progress.digested)
            self.report.rows += rows if name.startswith("source") else 0
            self.report.rows_total = max(self.report.rows_total, self.report.rows)
            done += len(wave)
            self.report.parts_done += len(wave)
            context.progress(self.report)
            between()
        return files, large

    def _run(self, works: Sequence[Callable[[], R]]) -> list[R]:
        """Small tables in this process: a Spark job takes longer."""
        began_s = time.monotonic()
        outcomes = self.context.runner.run(works, rows=self._table_rows) if works else []
        self.context.gate(time.monotonic() - began_s)
        return outcomes
