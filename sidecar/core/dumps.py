"""A changefeed's dumps: those that run, wait or are paused, and what is left of those that are over.

- A dump begins when no dump before it that is not over has one of its tables, and fewer than RUNNING_MAX run. Until then it is queued. So
  dumps that run at one time have no table in common, and a key is in one chunk at most of all that is open.
- They share what the sinks leave (`Ground`), and take turns in asking for it. A window that does not fit holds back those of all others
  until it does. So each dump continues, however large its windows are beside those of the others.
- A request without a dump id is for the one dump that is not over, or else for the last one (`progress.intended_without_id`). Where several
  of them can take it, it is rejected.
- When a dump begins, those that have finished or were stopped are forgotten, except the last one. A dump that failed can be resumed: it is
  kept until a dump of all its tables starts, and FAILED_MAX of them at most.
- A finished dump for a DDL is kept, too, until each of its sinks has passed that DDL: its record gives them leave to
  (spark_merge/delivery/rereads.py). So are LEAVES_MAX of them at most; a sink that comes later stops, and names the command again.
- A dump of keys that has finished keeps how many there were, and not the keys. So it cannot be started again.
- A table that appears is dumped by the first dump that grows.
- A dump whose sinks have other names than before the last start, or are removed, fails: nobody would receive its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sidecar.core.dump import NEXT, POSSIBLE, ChangeOfOne, Dump
from sidecar.core.dump_start import Demand, DumpLimits, DumpRoom, Ground, check_keys_fit, demand_of, once_more, possible, started
from sidecar.shared.errors import DumpsWait, RefusedRequest
from sidecar.shared.model.chunk import ClosedWindow
from sidecar.shared.model.messages import Brackets, Command, Request, RestartDump, SegmentBuilt, SourceEvent, StartDump
from sidecar.shared.model.nouns import CommitTs, Mark, Seq, TableName
from sidecar.shared.model.progress import OVER, DumpState, Progress, blocking, intended_without_id, leading
from sidecar.shared.model.schema_step import SchemaFate, TableStep

RUNNING_MAX = 4
"""A dump does not begin while so many run: each has its own readers, and all share what the sinks leave."""
WAITING_MAX = 16
"""Dumps that are not over: each is in every manifest."""
FAILED_MAX = 3
LEAVES_MAX = 16


class Dumps:
    """In the order in which they were started or, after a failure, resumed."""

    def __init__(
        self,
        *,
        changefeed_id: str,
        epoch: int,
        limits: DumpLimits,
        recovered: Sequence[Progress] = (),
        after_ts: CommitTs,
        next_seq: Seq,
    ) -> None:
        """`recovered`: those that the log and the store know. `after_ts`, `next_seq`: where the log ends."""
        self._ground = Ground(changefeed_id, epoch, limits, after_ts, next_seq)
        ground = self._ground
        ground.dumps = max((one.number + 1 for one in recovered), default=0)
        ground.revision = max((one.revision for one in recovered), default=0)
        ordered = sorted(recovered, key=lambda progress: progress.number)
        there = [possible(one, limits) for one in ordered]
        self._dumps = [Dump(replace(one, epoch=epoch, revision=ground.next_revision()), ground) for one in there]
        self._accepted: Mapping[str, Seq | None] = {}
        self._turn = self._closing = 0
        self._begin_queued()

    @property
    def records(self) -> tuple[Progress, ...]:
        """Of each dump that is not forgotten, in the order in which they were started."""
        return tuple(dump.progress for dump in self._dumps)

    @property
    def progress(self) -> Progress | None:
        """Of the dump that is shown first; None if there never was one."""
        return leading(self.records)

    # ---- what the pipeline asks ------------------------------------------------------------------------------------

    def request(self, request: Request) -> None:
        """Carry out an operator's request. Raises RefusedRequest, naming the state, and changes nothing."""
        if isinstance(request, StartDump):
            self._start(request)
            return
        dump = self._intended(request)
        if isinstance(request, RestartDump):
            self._start(once_more(dump.progress, request, self._ground.limits), instead_of=dump)
            return
        dump.request(request)
        self._dumps.sort(key=lambda one: one.progress.number)
        self._begin_queued()

    def bracketed(self, request: StartDump) -> StartDump:
        """One of the sidecar's own, with snapshots where marks do not come any more."""
        return replace(request, brackets=Brackets.SNAPSHOT) if self._ground.limits.no_marks else request

    def intended(self, request: Request) -> Progress | None:
        """The dump that the request is for. Raises RefusedRequest where it may be for several, or for none."""
        return None if isinstance(request, StartDump) else self._intended(request).progress

    def handle(self, event: SourceEvent) -> list[Command]:
        """Take what the source finished. Raises MarkRowTaken when another writer has the watermark row."""
        handle = [command for dump in self._dumps for command in dump.handle(event)]
        self._begin_queued()
        return handle

    def next(self, *, throttled: Collection[str] = ()) -> list[Command]:
        """What can begin now; nothing of the dumps with the ids `throttled`."""
        in_turn = self._from(self._turn)
        self._turn += 1
        return [command for dump in in_turn if dump.progress.dump_id not in throttled for command in dump.next()]

    def allow(self, room: DumpRoom, accepted: Mapping[str, Seq | None] = MappingProxyType({})) -> None:
        """What the sinks leave to all of them from now on. `accepted`: the last segment of each sink that reports, by name."""
        self._ground.room, self._accepted = room, accepted

    def demand(self) -> Demand:
        """What they take, and whether they would take more."""
        return demand_of(self._ground)

    def segment(self, built: SegmentBuilt, marks: list[Mark]) -> tuple[ClosedWindow, ...]:
        """The windows that close in this segment, oldest first; `marks` are the watermark rows in it, in order."""
        closed = [window for dump in self._from(self._closing) for window in dump.segment(built, marks)]
        self._closing += bool(closed)
        self._ground.after_ts, self._ground.next_seq = built.upto_ts, Seq(built.seq + 1)
        self._begin_queued()
        return tuple(sorted(closed, key=lambda window: window.high_ts))

    def changed(self, steps: Iterable[TableStep]) -> None:
        """A DDL is the last thing in the segment just built; `steps` are the tables that it changed."""
        results = tuple(steps)
        known = tuple(step for step in results if step.fate is not SchemaFate.BORN)
        taken = False
        for dump in self._dumps:
            progress = dump.progress
            dump.changed(known if taken and progress.state not in OVER else results)
            taken = taken or (progress.grows and progress.state not in OVER)
        self._begin_queued()

    def closes_by(self, upto_ts: CommitTs) -> bool:
        """Whether a segment up to `upto_ts`, even an empty one, would close a window without a further mark: as in `segment`, the first
        dump in turn that has one decides."""
        result = (dump.closes_by(upto_ts) for dump in self._from(self._closing))
        return next((closes for closes in result if closes is not None), False)

    def oldest_open_seq(self) -> Seq | None:
        seqs = [seq for run in self._ground.runs if (seq := run.windows.oldest_first_seq()) is not None]
        return min(seqs, default=None)

    def open_windows(self) -> int:
        return self._ground.open_windows()

    def full(self) -> bool:
        """Whether what waits for its marks has reached the bounds of what is read and not in the log."""
        return bool(self._ground.runs) and self._ground.full() and not self.demand().held

    def _from(self, turn: int) -> list[Dump]:
        """All of them; another one is first in each turn, for what there is may be enough for one only."""
        first = turn % len(self._dumps) if self._dumps else 0
        return [*self._dumps[first:], *self._dumps[:first]]

    # ---- which dump ------------------------------------------------------------------------------------------------

    def _intended(self, request: ChangeOfOne | RestartDump) -> Dump:
        if request.dump_id:
            dumps = [dump for dump in self._dumps if dump.progress.dump_id == request.dump_id]
            if not dumps:
                raise RefusedRequest(f"there is no dump {request.dump_id}, or it is forgotten", hint="see dumpquery for the others")
            return dumps[0]
        intended = intended_without_id(self.records)
        there = [dump for dump in self._dumps if dump.progress in intended]
        dumps = [dump for dump in there if isinstance(request, RestartDump) or dump.progress.state in NEXT[type(request)]]
        if not dumps:
            raise self._refusal(request)
        if len(dumps) > 1:
            ids = ", ".join(f"{dump.progress.dump_id} ({dump.progress.state})" for dump in dumps)
            raise RefusedRequest(f"there are several dumps that this may be for: {ids}", hint="name one of them with --id")
        return dumps[0]

    def _refusal(self, request: ChangeOfOne | RestartDump) -> RefusedRequest:
        if isinstance(request, RestartDump):
            return RefusedRequest("there is no dump to restart", hint="use dumpstart")
        last = self.progress.state if self.progress is not None else None
        return RefusedRequest(f"the dump is {last}" if last is not None else "no dump has been started", hint=POSSIBLE[last])

    # ---- beginning -------------------------------------------------------------------------------------------------

    def _start(self, request: StartDump, *, instead_of: Dump | None = None) -> None:
        others = [dump for dump in self._dumps if dump is not instead_of]
        if sum(dump.progress.state not in OVER for dump in others) >= WAITING_MAX:
            raise DumpsWait(f"{WAITING_MAX} dumps run or wait already", hint="wait, or end one with dumpstop")
        check_keys_fit(request, [dump.progress for dump in others])
        progress = started(request, among=self.records, ground=self._ground)
        if instead_of is not None:
            self._forget([instead_of])
        partly = {*(table for table, _ in request.keys), *request.narrowed}
        self._forget_over(whole={table for table in request.tables if table not in partly})
        begins = _may_begin(progress, self.records)
        self._dumps.append(Dump(replace(progress, state=DumpState.RUNNING) if begins else progress, self._ground))

    def _begin_queued(self) -> None:
        begun = False
        for dump in self._dumps:
            if dump.progress.state is DumpState.QUEUED and _may_begin(dump.progress, self.records):
                dump.begin()
                begun = True
        if begun:
            self._forget_over()

    def _forget_over(self, *, whole: Collection[TableName] = ()) -> None:
        """`whole`: the tables of a dump that starts of which it has all rows."""
        over = [dump for dump in self._dumps if dump.progress.state in OVER]
        failed = [dump for dump in over if dump.progress.state is DumpState.FAILED and not dump.tables <= set(whole)]
        ended = sorted((dump for dump in over if dump.progress.state is not DumpState.FAILED), key=lambda dump: dump.progress.revision)
        kept = [*failed[-FAILED_MAX:], *ended[-1:], *[dump for dump in ended if self._is_awaited(dump.progress)][-LEAVES_MAX:]]
        self._forget([dump for dump in over if dump not in kept])

    def _is_awaited(self, dump: Progress) -> bool:
        """Whether a sink may not have passed the DDL for which the dump is. That was in the log before the dump began."""
        if dump.for_ddl is None or dump.state is not DumpState.FINISHED or not dump.tables:
            return False
        passed = max(table.since_seq for table in dump.tables) - 1
        accepted = (self._accepted.get(sink) for sink in dump.sinks if sink in (self._ground.limits.sinks or dump.sinks))
        return any(seq is None or seq < passed for seq in accepted)

    def _forget(self, dumps: Collection[Dump]) -> None:
        for dump in dumps:
            dump.end()
        self._dumps = [dump for dump in self._dumps if dump not in dumps]


def _may_begin(queued: Progress, dumps: Sequence[Progress]) -> bool:
    running = sum(dump.state is DumpState.RUNNING for dump in dumps)
    return running < RUNNING_MAX and not blocking(queued, dumps)


def check_there(request: Request, dump: Progress | None, tables: Collection[TableName]) -> None:
    """Raises RefusedRequest for a table that the feed does not have at this point (`tables`), whatever it has by now. `dump`: the one that
    is requested again."""
    named: Iterable[TableName] = ()
    if isinstance(request, StartDump):
        named = request.tables
    elif isinstance(request, RestartDump) and dump is not None:
        named = (table.table for table in dump.tables)
    if gone := sorted(str(table) for table in named if table not in tables):
        raise RefusedRequest(
            f"{', '.join(gone)} is not there at the feed's present position: a DDL has renamed, dropped or not yet created it",
            hint="ask again with dumpstart and the tables' present names; one just created needs a moment until it is in the feed",
        )
