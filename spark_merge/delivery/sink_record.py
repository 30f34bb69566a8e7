"""The file of one sink's tables (sidecar/shared/log/sink_tables.py), as its worker keeps it over the segments that the sink accepts.

    begin ─► the first batch ─► passed ─► the next batch ─► passed ─► …        a later worker: resume, then the same

- The file is written where a batch changes what it says, where a batch has a DDL, and at least every LAG_MAX segments. The worker reports
  a batch as accepted only after that. So the segments that the file lacks are in the log still, or change nothing.
- A sink that has segments and no file was fed by an earlier version, or under another name. A file of the same name for another output is
  none. What such a sink has is not known: it begins with the next segment, and no table of it is complete.
- A file that is ahead of its sink is right: the sink was restored, and receives those segments again.
- A hole (sidecar/shared/model/hole.py) ends by a dump, or by a word that lies beside the log: that is looked for where there is a hole, at
  each batch.
- It names the column rules (spark_merge/masks) with which the sink's rows were written. A sink with other ones stops: nobody can say which
  row is of which rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from sidecar.shared.errors import LogBroken, OwnershipLost, SinkError
from sidecar.shared.log.filled import Words
from sidecar.shared.log.identity import known_id
from sidecar.shared.log.layout import of_segment
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.manifests import decoded, manifest_files
from sidecar.shared.log.sink_tables import read_sink_tables, write_sink_tables
from sidecar.shared.log.skips import read_skips, skipped_rows
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.hole import Hole, HoleCause
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkTables
from spark_merge.delivery.complete import filled, followed, ids_of, received, with_holes
from spark_merge.delivery.rereads import Rereads, lacking
from spark_merge.log.follow import check_has
from spark_merge.log.read import LoggedSchemas
from spark_merge.port.contract import Accepted, Owner

LAG_MAX = 500
"""Segments that a later worker reads again at most, beside a batch: a second, on S3 a few."""


class SinkId(NamedTuple):
    """`name`: unique among the sinks. `output`: its URI without secrets, so that a name that moves to another output is noticed."""

    name: str
    output: str


class SinkRecord:
    """For one opening of a sink. `before`: the last generation of its files when that began. `rules`: the identity of its column rules.
    `tables`: as the file says, with all segments that were passed; None before the first batch of a sink that has none. `written_seq`: up
    to which the file says it. All raise what the log's storage raises, and SinkError for a file that cannot be read."""

    def __init__(self, log: Folder, sink: SinkId, rereads: Rereads | None = None, *, before: int = -1, rules: str = "") -> None:
        self._log, self._sink, self._log_id, self._rules = log, sink, known_id(log), rules
        self._rereads, self._next_generation, self._words = rereads or {}, before + 1, Words(log)
        self._schemas = partial(LoggedSchemas, log)
        self._skips: Mapping[Seq, list[Hole]] | None = None
        self.tables: SinkTables | None = None
        self.written_seq: Seq | None = None

    def resume(self, accepted: Accepted, owner: Owner) -> None:
        """The sink has segments. Raises SinkError where its rows are of other column rules."""
        there = self._named()
        self._check_rules(there or SinkTables(*self._sink, Seq(0), None, Seq(0), None))
        tables = there if there is not None and there.output == self._sink.output else None
        if tables is None or not self._is_of_this_log(tables):
            next_seq = Seq(accepted.seq + 1)
            unknown = SinkTables(*self._sink, next_seq, began_ts=None, seq=accepted.seq, upto_ts=accepted.upto_ts)
            self._write(replace(unknown, generation=self._next_generation), owner)
        else:
            self.tables, self.written_seq = tables, tables.seq
            self.passed(self._still_there(range(tables.seq + 1, accepted.seq + 1)), owner)
            self._note_lacking(accepted, owner)

    def begin(self, first: Manifest, owner: Owner) -> None:
        """Segment `first` is the first one that the sink receives."""
        tables = SinkTables(*self._sink, first.seq, began_ts=first.after_ts, seq=Seq(first.seq - 1), upto_ts=first.after_ts)
        self._write(replace(tables, generation=self._next_generation), owner)

    def passed(self, segments: Sequence[Manifest], owner: Owner) -> None:
        """The sink has accepted these. Raises OwnershipLost where a later worker has the sink."""
        tables, due = self.tables, False
        assert tables is not None, "begin or resume comes first"
        for segment in segments:
            if segment.seq > tables.seq:
                before, skipped = tables, self._skipped(segment)
                tables = with_holes(tables, skipped, ids_of(self._schemas(segment.schemas)) if skipped else {}, segment.seq)
                tables = followed(tables, received(segment, self._sink.name), self._schemas)
                tables = _without(tables, lacking(self._rereads, above_ts=before.upto_ts, upto_ts=segment.upto_ts))
                due |= segment.next_schemas is not None or (before.complete, before.holes) != (tables.complete, tables.holes)
        if tables.holes:
            before, tables = tables, filled(tables, self._words.read())
            due |= before is not tables
        if due or tables.seq - (self.written_seq or 0) >= LAG_MAX:
            self._check_owner(owner)
            self._write(tables, owner)
        self.tables = tables

    def _skipped(self, segment: Manifest) -> list[Hole]:
        """Of rows that an operator skips, as known when the sink was opened: it is opened again to skip more."""
        if self._skips is None:
            self._skips = skip_holes(self._log)
        return [replace(hole, since_ts=hole.since_ts or segment.after_ts) for hole in self._skips.get(segment.seq, ())]

    def _note_lacking(self, accepted: Accepted, owner: Owner) -> None:
        """Before a DDL is carried out whose values come later: a worker may die behind it, and the dump end before the next one looks."""
        assert self.tables is not None
        tables = _without(self.tables, lacking(self._rereads, above_ts=accepted.upto_ts))
        if tables.complete != self.tables.complete:
            self._check_owner(owner)
            self._write(tables, owner)

    def _write(self, tables: SinkTables, owner: Owner) -> None:
        self.tables = replace(tables, epoch=owner.epoch, incarnation=owner.incarnation, rules=self._rules)
        write_sink_tables(self._log, self.tables, log_id=self._log_id)
        self.written_seq = tables.seq

    def check_begun(self) -> None:
        """The sink has nothing but rows of a batch that it has begun: `begin` wrote the file before. Raises SinkError as `resume`."""
        if (tables := self._named()) is not None:
            self._check_rules(tables)

    def _named(self) -> SinkTables | None:
        """Of the sink's name, whatever output it had."""
        return read_sink_tables(self._log, [self._sink.name]).get(self._sink.name)

    def _check_rules(self, tables: SinkTables) -> None:
        """One that was fed before it had a file has rows of no rules."""
        if tables.rules != self._rules:
            raise SinkError(
                f"sink {self._sink.name} has rows of other column rules, or of another salt: they keep what they have",
                hint="put back leave-out=, hash=, constant= and the salt-file's content; or empty the target or take a new one, give the"
                " sink another name=, and dump again",
            )

    def _check_owner(self, owner: Owner) -> None:
        """A worker that was frozen after it had accepted a batch has a successor, whose file counts: it ends."""
        rest, generation = self._named(), 0 if self.tables is None else self.tables.generation
        if rest is not None and (rest.generation, rest.epoch, rest.incarnation) > (generation, *owner):
            raise OwnershipLost(
                f"sink {self._sink.name} is of worker {rest.incarnation} of epoch {rest.epoch}, and this is worker {owner.incarnation} of"
                f" epoch {owner.epoch}",
                hint="nothing: the later worker continues",
            )

    def _is_of_this_log(self, tables: SinkTables) -> bool:
        """Not where the log was restored from a backup that is older than the file."""
        try:
            if tables.seq >= tables.began_seq:
                check_has(self._log, Accepted(tables.seq, tables.upto_ts))
        except SinkError:
            return False
        return True

    def _still_there(self, seqs: range) -> list[Manifest]:
        """Retention may remove them meanwhile: those were reported, and so the file has what they change."""
        there = ((seq, data) for seq, data in manifest_files(self._log, seqs) if data is not None)
        return [of_segment(decoded(self._log, seq, data)) for seq, data in there]


def skip_holes(log: Folder) -> dict[Seq, list[Hole]]:
    """Of the rows that an operator skips, by segment. Where a decision cannot be read nobody knows whose row it is, nor since when: it is
    each table's, and `since_ts` is 0."""
    holes = defaultdict[Seq, list[Hole]](list)
    try:
        for one in read_skips(log):
            text = f"segment {one.seq}, ordinal {one.ordinal}, skipped by {one.by}"
            hole = Hole(HoleCause.SKIPPED, one.commit_ts, (one.table,), vanished=one.op == "delete", text=text)
            holes[one.seq].append(hole)
    except LogBroken as error:
        unread = Hole(HoleCause.SKIPPED, CommitTs(0), None, vanished=True, text=error.message)
        return {seq: [unread] for seq in skipped_rows(log)}
    return holes


def _without(tables: SinkTables, names: Collection[TableName]) -> SinkTables:
    """Until a dump has brought them, these lack values."""
    holes = {table: replace(hole, complete=None) if table in names else hole for table, hole in tables.holes.items()}
    return replace(tables, complete={table: at for table, at in tables.complete.items() if table not in names}, holes=holes)
