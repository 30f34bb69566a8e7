"""What a sidecar is doing, as one value that its threads may share; and the rule that answers "why is it slow".

The pipeline's thread makes a new `SidecarStatus` after each step and puts it into one attribute; a thread that reads the
attribute has a whole and consistent picture, without a lock. Nothing in here is ever changed.

`waiting_for` names each part that fails before the part that waits: what waits may do so because of it. Of the parts that wait it names
the first going down the stream: a part that is behind because an earlier one is must not be blamed. The causes of the stream come before
those of the dump, for a dump yields to the stream (P3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sidecar.pace.controller import SinkState
from sidecar.shared.errors import parted
from sidecar.shared.model.nouns import CommitTs, Lane, Seq, TableName
from sidecar.shared.model.progress import OVER, DumpState, Progress, blocking, leading
from sidecar.shared.model.sink_delivery import SinkTables, TableFiles
from sidecar.shared.ticdc.changefeed import ChangefeedName

if TYPE_CHECKING:
    from sidecar.shared.log.filled import FilledWord  # with the log's storage, which a command that shows a status does not load

LANE_STILL_MAX_S = 10.0
"""TiCDC resolves at least once a second; a lane that rests ten times as long is stuck, whatever the others do."""
TICDC_LAG_MAX_S = 10.0
"""Above what TiCDC is behind in a healthy cluster (one to a few seconds)."""
SEQUENCE_LAG_MAX_S = 15.0
"""From what TiCDC resolved to what the log holds: an idle stream writes a segment every ten seconds (`pipeline.EMPTY_SEGMENT_EVERY_S`),
and one slow write to a remote log passes unnamed."""
DELIVERY_LAG_MAX_S = 5.0
"""Above a batch that took long; beside a slow sink above the bound of its live delivery (`sidecar.pace.controller`)."""
PAUSED = "paused: dumpresume continues"
SOURCE_STILL_MAX_S = 5.0
"""A chunk is sized to be read in about a second."""
_ALSO = "; also "


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """`resolved_ts` None: the lane has not joined, and holds the stream. `lag_s`: behind the foremost lane."""

    lane: Lane
    resolved_ts: CommitTs | None
    lag_s: float


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """Of work beside the stream (sidecar/run/auxiliary.py). `error`: what it ended with last; empty while it has not, or where it has
    worked for long since. `failures`: how often it ended so in this term. `again_s`: until it begins again; 0 while it works."""

    name: str
    error: str = ""
    failures: int = 0
    again_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RetentionHold:
    """`first`: the segment that it keeps, and those behind it. For `seconds`."""

    by: str
    first: Seq
    seconds: float


@dataclass(frozen=True, slots=True)
class SidecarStatus:
    """Lags in seconds from the wall clock: `resolved_lag_s` to `resolved_ts`, the log's position; `delivery_lag_s` to `delivered_ts`, up to
    which every sink has accepted all, or to where a sink was before it could not be opened. Rates are the dump's over the last seconds.
    `eta_s` None: unknown. `estimates`: rows of each table by the source's statistics, without those that have none. `changes`, `repeats`
    and `spilled_rows` count since this owner began, `dropped_rows`: of chunks, since the merge worker began, because their key was touched
    in the window. `ddls`: passed since this owner began, `last_ddl_ts` and `last_ddl` the newest of them; `rewrites`: those beside which
    rows may be wrong, `rewritten` the tables of the newest of these. `waiting_for`: as the function of that name has it, of the dump
    `progress`; `stream_waiting_for`: of the stream alone.
    `segments` is the log's length. `owner`: host:pid. `merge_worker`: running, starting, stopped or external. Texts are empty for
    nothing. `readers`, `strict_bound`: in force, `sinks`: those that the merge worker reports. `merged_rows`: of all sinks since the merge
    worker began, by place: its own process or Spark. `skipped_rows`: of the log, skipped by an operator (sidecar/shared/log/skips.py).
    `ambiguous_timestamps`: that stood for two moments, since the merge worker began. `source_away_s`: for how long a dump that runs has
    not been answered, and `last_error` says why; 0: it is. `carried`: the tables at the
    log's position, by name; `sink_tables`: what each sink has of them, by the sinks' names; `files`: of
    tables that the worker has committed to lakes, by the same names; `filled_words`: somebody's that
    holes there are filled, as of when one was last gone. `read_on`: where a
    dump's rows are read, sidecar or spark. `holds`: what keeps segments that every sink has accepted. `verification_waits_for`: what a
    verification that gets next to nothing done waits for."""

    changefeed: ChangefeedName
    epoch: int
    owner: str
    dumps: tuple[Progress, ...] = ()
    resolved_ts: CommitTs | None = None
    delivered_ts: CommitTs | None = None
    open_windows: int = 0
    resolved_lag_s: float = 0.0
    delivery_lag_s: float = 0.0
    lanes: tuple[LaneStatus, ...] = ()
    waiting_for: str = ""
    stream_waiting_for: str = ""
    rows_per_s: float = 0.0
    bytes_per_s: float = 0.0
    eta_s: float | None = None
    changes: int = 0
    repeats: int = 0
    segments: int = 0
    spilled_rows: int = 0
    dropped_rows: int = 0
    ddls: int = 0
    last_ddl_ts: CommitTs | None = None
    last_ddl: str = ""
    rewrites: int = 0
    rewritten: tuple[TableName, ...] = ()
    merge_worker: str = ""
    last_error: str = ""
    estimates: Mapping[TableName, int] = field(default_factory=dict)
    readers: int = 0
    strict_bound: bool = False
    sinks: tuple[SinkState, ...] = ()
    merged_rows: Mapping[str, int] = field(default_factory=dict)
    skipped_rows: int = 0
    ambiguous_timestamps: int = 0
    source_away_s: float = 0.0
    carried: Sequence[TableName] = ()
    sink_tables: Mapping[str, SinkTables] = field(default_factory=dict)
    files: Mapping[str, Sequence[TableFiles]] = field(default_factory=dict)
    filled_words: Sequence[FilledWord] = ()
    services: Sequence[ServiceStatus] = ()
    holds: Sequence[RetentionHold] = ()
    read_on: str = ""
    verification_waits_for: str = ""

    @property
    def progress(self) -> Progress | None:
        """Of the dump that is shown where one is requested; None if there is none."""
        return leading(self.dumps)

    def dump_waiting_for(self, dump: Progress | None) -> str:
        """What one dump waits for, or the stream: what holds the dump that runs holds no other one."""
        if dump is None or dump.state is DumpState.RUNNING:
            return self.waiting_for
        if self.stream_waiting_for:
            return self.stream_waiting_for
        if dump.state is DumpState.QUEUED:
            before = ", ".join(other.dump_id for other in blocking(dump, self.dumps)) or "others, as no more may run at once"
            return f"queued: it begins after {before}"
        return PAUSED if dump.state is DumpState.PAUSED else ""

    def is_idle(self) -> bool:
        """Whether no dump is there that is not over."""
        return all(dump.state in OVER for dump in self.dumps)

    def dump(self, dump_id: str) -> Progress | None:
        """By its id; empty: the one that is shown where one is requested. None: it is not there."""
        return next((one for one in self.dumps if one.dump_id == dump_id), None) if dump_id else self.progress

    def incomplete(self, sink: str) -> list[TableName]:
        """Tables that the sink of this name lacks rows of, as far as is known; none of a sink that has received nothing yet."""
        known = self.sink_tables.get(sink)
        return [] if known is None else known.incomplete(self.carried)


@dataclass(frozen=True, slots=True)
class Measured:
    """What decides what is waited for; the zeros are those of a stream without a dump that is up to date.

    `unjoined`: lanes without a first resolved mark. `stillest`: the lane that has not moved for longest, for `still_s`, and what the
    feed knows of why, if anything.
    `ticdc_lag_s`: from the wall clock to the least resolved ts of all lanes; `sequence_lag_s`: from there to the log's
    position; `delivery_lag_s`: how long the oldest segment that is not delivered has waited. `batch_s` and `batch_sink_s`: the last batch
    of the slowest sink, and how much of it its accept took. `stopped`: sinks that do not continue, by their names, and why.
    `source_still_s`: since the request to the source that it has not finished; `source_doing`: what that is.
    `source_away_s`: for how long it has been away, `source_said`: the error.
    `windows_full`: no window may open before one closes in the log. `throttled`: the pace that the operator set holds.
    `delivery_limit_s`: the greatest of all sinks'. `held_by`: the sink that has no room for more of the dump. `spark_starting`: there is no
    Spark yet that would merge it.
    """

    dump: DumpState | None = None
    unjoined: tuple[Lane, ...] = ()
    stillest: Lane | None = None
    still_s: float = 0.0
    still_because: str = ""
    ticdc_lag_s: float = 0.0
    sequence_lag_s: float = 0.0
    delivery_lag_s: float = 0.0
    merge_worker: str = "running"
    batch_s: float = 0.0
    batch_sink_s: float = 0.0
    stopped: Mapping[str, str] = field(default_factory=dict)
    source_still_s: float = 0.0
    source_doing: str = "a SELECT"
    source_away_s: float = 0.0
    source_said: str = ""
    windows_full: bool = False
    throttled: bool = False
    delivery_limit_s: float = 0.0
    held_by: SinkState | None = None
    spark_starting: bool = False


def stream_waiting_for(measured: Measured) -> str:
    """What holds the stream up, in the same words; empty: nothing."""
    return _ALSO.join(filter(None, (_delivery_fails(measured), _log_waits(measured)))) or _delivery_waits(measured)


def waiting_for(measured: Measured) -> str:
    """What holds the stream, or else the dump, up: `cause: a few words`; empty: nothing. The causes are lane, TiCDC,
    sequencing, Spark, sink, paused, source, throttled and held back by delivery. Beside a part that fails, the log may wait for another
    cause: both are named."""
    fails = (_delivery_fails(measured), _source_fails(measured), _log_waits(measured))
    return _ALSO.join(filter(None, fails)) or _delivery_waits(measured) or _dump_waits(measured)


def _delivery_fails(m: Measured) -> str:
    """Each sink's error is the last worker's: one that does not run has not tried again."""
    if m.merge_worker == "stopped":
        return f"Spark: the merge worker is stopped, delivery is {m.delivery_lag_s:.0f} s behind" if _is_late(m) else ""
    if m.merge_worker not in ("running", "external") or not m.stopped:
        return ""
    sink, error = next(iter(m.stopped.items()))
    which = f"{sink} and {len(m.stopped) - 1} more have" if len(m.stopped) > 1 else f"{sink} has"
    return f"sink: {which} stopped: {parted(error)[0]}"


def _source_fails(m: Measured) -> str:
    if m.dump is not DumpState.RUNNING or not m.source_away_s:
        return ""
    return f"source: away for {m.source_away_s:.0f} s and queried again and again: {m.source_said}"


def _log_waits(m: Measured) -> str:
    if m.unjoined:
        others = f" and {len(m.unjoined) - 1} more" if len(m.unjoined) > 1 else ""
        return f"lane: {m.unjoined[0]}{others} without a resolved mark yet"
    if m.stillest is not None and m.still_s > LANE_STILL_MAX_S:
        because = f" ({m.still_because})" if m.still_because else ""
        return f"lane: {m.stillest} has not moved for {m.still_s:.0f} s{because}"
    if m.ticdc_lag_s > TICDC_LAG_MAX_S:
        return f"TiCDC: what it resolved is {m.ticdc_lag_s:.0f} s old"
    if m.sequence_lag_s > SEQUENCE_LAG_MAX_S:
        return f"sequencing: the log is {m.sequence_lag_s:.0f} s behind what TiCDC resolved"
    return ""


def _is_late(m: Measured) -> bool:
    return m.delivery_lag_s > max(DELIVERY_LAG_MAX_S, m.delivery_limit_s)


def _delivery_waits(m: Measured) -> str:
    if not _is_late(m):
        return ""
    if m.merge_worker not in ("running", "external"):
        return f"Spark: the merge worker is {m.merge_worker}, delivery is {m.delivery_lag_s:.0f} s behind"
    if m.batch_sink_s > m.batch_s / 2:
        return f"sink: {m.batch_sink_s:.1f} s of the last batch's {m.batch_s:.1f} s, delivery is {m.delivery_lag_s:.0f} s behind"
    return f"Spark: delivery is {m.delivery_lag_s:.0f} s behind"


def _dump_waits(m: Measured) -> str:
    if m.dump is DumpState.PAUSED:
        return PAUSED
    if m.dump is not DumpState.RUNNING:
        return ""
    if m.source_still_s > SOURCE_STILL_MAX_S:
        return f"source: {m.source_doing} has been running for {m.source_still_s:.0f} s"
    if m.windows_full:
        return "TiCDC: open windows wait for their marks to come back"
    if m.throttled:
        return "throttled: by the pace that dumpstart or dumpset set"
    if m.held_by is None:
        return ""
    if m.spark_starting:
        return "Spark: it has not started yet, and the dump waits for it"
    return held_back(m.held_by)


def held_back(sink: SinkState) -> str:
    """What a sink that holds a dump says: how long live changes take, of what they may, and why that is more than the bound."""
    return f"held back by delivery: {sink.live_s:.1f} s, {above_bound(sink) or f'bound {sink.bound_s:.1f} s'}, {sink.sink}"


def above_bound(sink: SinkState) -> str:
    """Why live delivery exceeds its bound at this sink; empty where it does not."""
    texts = list[str]()
    if sink.overloaded:
        texts.append(f"takes {sink.without_s:.1f} s without a dump: the merge worker or the sink is saturated")
    if sink.limit_s > sink.bound_s:
        because = f"each batch with dump rows takes {sink.fixed_s:.2f} s here, however few they are"
        texts.append(f"takes up to {sink.limit_s:.1f} s while a dump runs: {because}")
    return f"live delivery {'; it '.join(texts)}; bound {sink.bound_s:.1f} s" if texts else ""
