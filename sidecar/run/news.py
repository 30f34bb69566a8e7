"""What the log tells a person of a sidecar, a line a piece of news: made of values that others keep anyway, here and nowhere else.

    started, cannot_begin, standby, attached, term_ended, worker_died, stopped     what the process itself does
    News.heard                                                                     what a status says that the one before it did not

- Nothing is told for each segment: how the stream goes is one line a minute (`resolved`), and so is a dump's progress.
- Times of the stream are UTC; `seconds` are by the sidecar's clock and count from when this owner saw it begin: what former owners did
  is left out of a rate and told beside it.
- A line holds no secret: an URI is told without its account and without its parameters, but for the format.

It must not know how lines are written (`logs` does), and decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Literal

from sidecar.config import Config, DumpSection
from sidecar.control.status import SidecarStatus, above_bound
from sidecar.core.messages import Pace
from sidecar.core.model import CommitTs, Seq, TableName, utc
from sidecar.core.progress import OVER, DumpState, Progress
from sidecar.errors import TicdcDumpError, parted
from sidecar.log import storage
from sidecar.log.delivered import DeliveryReport
from sidecar.pace.sinks import SinkDelivery
from sidecar.process.kept_secrets import without_secrets
from sidecar.process.secret_files import MEND, unprotected
from sidecar.run.completing import completing_dump, named
from sidecar.run.merge_process import Death
from sidecar.ticdc.changefeed import Changefeed, ChangefeedName

MINUTE_S = 60.0
TABLES_TOLD_MAX = 20
"""That are done within one status; more of them are told as one line. A dump may have ten thousand small ones."""
DDL_CHARS_MAX = 120
SAMPLES_MAX = 7200
"""An hour of statuses: a sink that is further behind is told as an hour behind, at the least."""

Level = Literal["info", "warning"]


@dataclass(frozen=True, slots=True)
class NewsLine:
    """`values` are texts and numbers. What is not worth telling is not in it."""

    event: str
    values: Mapping[str, object]
    level: Level = "info"


# ---- the process ---------------------------------------------------------------------------------------------------------


def started(config: Config, *, version: str) -> NewsLine:
    section = config.changefeed
    values = {"version": version, "changefeed": str(ChangefeedName(section.cluster, section.namespace, section.id))}
    return NewsLine("started", values | _given(control=config.control.listen, metrics=config.metrics.listen))


def open_secrets(config: Config) -> list[NewsLine]:
    return [
        NewsLine("a secret's file is open to others", {"setting": setting, "file": path, "mode": mode, "hint": MEND}, "warning")
        for setting, path, mode in unprotected(config)
    ]


def cannot_begin(error: TicdcDumpError) -> NewsLine:
    """What the process is made of is not reachable yet."""
    return NewsLine("cannot begin yet", _error(error), "warning")


def standby(owner: str | None) -> NewsLine:
    """`owner`: the control address of the one that has the lease."""
    return NewsLine("standby", {"owner": owner or "not known yet"})


def attached(config: Config, changefeed: Changefeed, place: Mapping[str, str], status: SidecarStatus, *, waited_s: float) -> NewsLine:
    """This process is the owner and reads the feed. `place`: where the changes come from; `waited_s`: as a standby."""
    values = {
        "changefeed": str(changefeed.name),
        "epoch": status.epoch,
        "feed": config.feed,
        **place,
        "log": str(storage.log_folder(config.log.uri)),
        "segments": status.segments,
        "resolved": utc(status.resolved_ts),
        "sinks": ", ".join(without_secrets(uri, but=("format", "name")) for uri in config.sinks),
        "merge_worker": "managed" if config.spark.managed else "external",
    }
    return NewsLine("attached", values | _given(standby_s=round(waited_s)))


def term_ended(error: TicdcDumpError, *, goes_on: bool) -> NewsLine:
    """`goes_on`: as a standby, or with another term."""
    then = "the process ends" if not goes_on else "tried again" if error.retryable else "a standby"
    return NewsLine("the term ended", _error(error) | {"then": then}, "warning")


def _error(error: TicdcDumpError) -> dict[str, object]:
    return {"error": type(error).__name__, "text": error.message, "hint": error.hint}


def worker_died(death: Death) -> NewsLine:
    if death.unborn:
        text, hint = parted(death.unborn)
        return NewsLine("merge worker cannot start", {"again_in_s": round(death.again_in_s), "text": text, "hint": hint}, "warning")
    values = {"exit_code": death.exit_code, "lived_s": round(death.lived_s), "again_in_s": round(death.again_in_s)}
    return NewsLine("merge worker died", values, "warning")


def stopped() -> NewsLine:
    return NewsLine("stopped as told", {})


# ---- a term --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Seen:
    """Since when this owner has watched something, and what there was of it then."""

    since_s: float
    rows: int


@dataclass(slots=True)
class _DumpSeen:
    """`free_s`: when it last began, went on or was done with a table: the next one is read from then on, as far as the log shows.
    `rows_before`: when this owner began to watch. `tables`: those that have rows and are not done."""

    dump_id: str
    free_s: float
    rows_before: int = 0
    running_s: float = 0.0
    tables: dict[TableName, _Seen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Minute:
    """What the last line about the stream was told of."""

    status: SidecarStatus
    accepted: Seq | None
    at_s: float


class News:
    """Of one term. `heard` is told every status, in order. `place`: where the changes come from; `waited_s`: as a standby."""

    def __init__(self, config: Config, changefeed: Changefeed, place: Mapping[str, str], *, waited_s: float = 0.0) -> None:
        self._attached = partial(attached, config, changefeed, place, waited_s=waited_s)
        self._defaults = config.dump
        self._before: SidecarStatus | None = None
        self._at_s = self._worker_since_s = 0.0
        self._minute: _Minute | None = None
        self._began_s, self._began_ts, self._delivers = 0.0, CommitTs(0), False
        self._spark = ""
        self._stands: dict[str, str] = {}
        self._skipped = self._guessed = 0
        self._above: set[tuple[str, str]] = set()
        self._judged: set[str] = set()
        self._dump: _DumpSeen | None = None
        self._segments: deque[tuple[int, float]] = deque(maxlen=SAMPLES_MAX)

    def heard(self, status: SidecarStatus, report: DeliveryReport | None, at_s: float) -> list[NewsLine]:
        """`report`: the merge worker's last; one of a worker that does not run is not looked at."""
        before = self._before
        report = report if status.merge_worker in ("running", "external") else None
        if before is None:
            self._began_s = self._at_s = at_s
            self._began_ts = status.delivered_ts or CommitTs(0)
        lines = [] if before else [self._attached(status)]
        lines += [
            *self._worker(before, status, report, at_s),
            *self._lacking(status),
            *self._first_delivery(status, at_s),
            *_ddls(before, status),
            *_rewrites(before, status),
            *self._above_bounds(status),
        ]
        if status.progress is not None:
            lines += self._of_dump(before, status.progress, at_s)
        lines += _outage(before, status)
        lines += self._minutely(status, report, at_s)
        self._before, self._at_s = status, at_s
        return lines

    # ---- the stream ----------------------------------------------------------------------------------------------------

    def _worker(self, before: SidecarStatus | None, now: SidecarStatus, report: DeliveryReport | None, at_s: float) -> Iterator[NewsLine]:
        """Its death is told by who minds it, with its exit code."""
        if now.merge_worker != (before.merge_worker if before else ""):
            if now.merge_worker == "starting":
                self._worker_since_s = at_s
                yield NewsLine("merge worker started", {})
            elif now.merge_worker == "running":
                yield NewsLine("merge worker ready", {"seconds": round(at_s - (self._worker_since_s or at_s), 1)})
        if report is not None and report.spark != self._spark:
            self._spark = report.spark
            if self._spark == "ready":
                yield NewsLine("Spark ready", {"seconds": round(at_s - (self._worker_since_s or at_s), 1)})
        if report is not None and report.skipped > self._skipped:
            self._skipped = report.skipped
            yield NewsLine("rows skipped", {"rows": report.skipped, "hint": "ticdc-dump skip --config FILE --list tells which"}, "warning")
        for sink in report.sinks if report is not None else ():
            if sink.error != self._stands.get(sink.sink, ""):
                self._stands[sink.sink] = sink.error
                yield _sink_stands(sink) if sink.error else NewsLine("sink goes on", {"sink": sink.sink})

    def _lacking(self, now: SidecarStatus) -> Iterator[NewsLine]:
        """Once for each sink, when it is known which tables it has whole."""
        judged = [sink for sink in now.sinks if sink.sink in now.sink_tables and sink.sink not in self._judged]
        self._judged |= {sink.sink for sink in judged}
        for sink in judged:
            if tables := now.incomplete(sink.sink):
                values = {"sink": sink.sink, "tables": f"{len(tables)}/{len(now.carried)}", "not_complete": named(tables)}
                hint = completing_dump(now.changefeed, sink.sink, tables)
                yield NewsLine("sink lacks rows", values | _given(began_segment=sink.began) | {"hint": hint}, "warning")

    def _above_bounds(self, now: SidecarStatus) -> Iterator[NewsLine]:
        """Once for each dump and sink."""
        if now.progress is None or now.progress.state is not DumpState.RUNNING:
            return
        for sink in now.sinks:
            at = (now.progress.dump_id, sink.sink)
            if at not in self._above and (text := above_bound(sink)):
                self._above.add(at)
                hint = "raise the bound, or keep it with `dumpset --strict-bound` and a slower dump"
                yield NewsLine("live delivery above its bound", {"sink": sink.sink, "text": text, "hint": hint}, "warning")

    def _first_delivery(self, status: SidecarStatus, at_s: float) -> Iterator[NewsLine]:
        if not self._delivers and (status.delivered_ts or 0) > self._began_ts:
            self._delivers = True
            yield NewsLine("first delivery", {"delivered": utc(status.delivered_ts), "seconds": round(at_s - self._began_s, 1)})

    def _minutely(self, status: SidecarStatus, report: DeliveryReport | None, at_s: float) -> Iterator[NewsLine]:
        if not self._segments or self._segments[-1][0] != status.segments:
            self._segments.append((status.segments, at_s))
        accepted = report.seq if report else None
        last = self._minute
        if last is not None and at_s - last.at_s < MINUTE_S:
            return
        self._minute = _Minute(status, accepted, at_s)
        if last is None:
            return
        if report is not None and report.guessed != self._guessed:
            self._guessed = report.guessed
            yield NewsLine("ambiguous timestamps", {"values": report.guessed, "hint": "taken as kafka.ambiguous says"}, "warning")
        values: dict[str, object] = {
            "at": utc(status.resolved_ts),
            "lag_s": round(status.resolved_lag_s, 1),
            "segments": status.segments - last.status.segments,
            "rows": status.changes - last.status.changes,
            "delivered": utc(status.delivered_ts),
            "delivery_lag_s": round(status.delivery_lag_s, 1),
        }
        if accepted is not None and last.accepted is not None:
            values["delivered_segments"] = accepted - last.accepted
        if report is not None and len(report.sinks) > 1:
            values["sinks"] = ", ".join(f"{sink.sink} {self._lag_s(sink.accepted, at_s):.1f} s behind" for sink in report.sinks)
        yield NewsLine("resolved", values | _progress(status) | _given(waiting_for=status.waiting_for))

    def _lag_s(self, accepted: Seq | None, at_s: float) -> float:
        """The age of a sink's oldest segment that it has not accepted."""
        waits = (accepted if accepted is not None else -1) + 1
        return next((at_s - logged_s for segments, logged_s in self._segments if segments > waits), 0.0)

    # ---- the dump ------------------------------------------------------------------------------------------------------

    def _of_dump(self, status_before: SidecarStatus | None, now: Progress, at_s: float) -> Iterator[NewsLine]:
        before = status_before.progress if status_before else None
        if self._dump is None or self._dump.dump_id != now.dump_id:
            self._dump, before = _DumpSeen(now.dump_id, self._at_s, running_s=at_s - self._at_s), None
            if status_before is None:
                self._dump.rows_before = _rows(now)
                self._dump.tables = {table.table: _Seen(at_s, table.rows) for table in now.tables if table.chunks}
                if now.state is DumpState.FAILED:  # maybe by this very start: the log is another one
                    yield self._state(self._dump, now)
                elif now.state not in OVER:  # else it was told by whoever owned it then
                    yield _taken_over(now)
                return
            yield NewsLine("dump begun", _outline(now) | _given(**asdict(now.pace)))
        seen = self._dump
        if before is not None and before.state is DumpState.RUNNING:
            seen.running_s += at_s - self._at_s
        if before is now:
            return
        yield from self._tables_done(seen, before, now, at_s)
        if before is not None and (before.pace, before.chunk_rows) != (now.pace, now.chunk_rows):
            yield NewsLine("dump set", {"dump": now.dump_id, "chunk_rows": now.chunk_rows, **_in_force(now.pace, self._defaults)})
        if now.state is not (before.state if before else DumpState.RUNNING):
            yield self._state(seen, now)
            seen.free_s = at_s

    def _tables_done(self, seen: _DumpSeen, before: Progress | None, now: Progress, at_s: float) -> Iterator[NewsLine]:
        done_before = {table.table for table in before.tables if table.complete_at is not None} if before else set()
        done = []
        for table in now.tables:
            if table.table in done_before:
                continue
            if table.chunks or table.complete_at is not None:
                watched = seen.tables.setdefault(table.table, _Seen(seen.free_s, 0))
                if table.complete_at is not None:
                    done.append((table, seen.tables.pop(table.table, watched)))
        for table, watched in done[:TABLES_TOLD_MAX]:
            yield NewsLine("table done", {"table": str(table.table), **_figures(table.rows, watched.rows, at_s - watched.since_s)})
        if rest := done[TABLES_TOLD_MAX:]:
            yield NewsLine("tables done", {"tables": len(rest), "rows": sum(table.rows for table, _ in rest)})
        if done:
            seen.free_s = at_s

    def _state(self, seen: _DumpSeen, now: Progress) -> NewsLine:
        event = "dump resumed" if now.state is DumpState.RUNNING else f"dump {now.state}"
        values = {"dump": now.dump_id, "tables": _tables(now), **_figures(_rows(now), seen.rows_before, seen.running_s)}
        if now.state in OVER:
            values["bytes"] = sum(table.bytes for table in now.tables)
        reason, hint = parted(now.reason or "")
        return NewsLine(event, values | _given(reason=reason, hint=hint), "warning" if now.state is DumpState.FAILED else "info")


def _outage(before: SidecarStatus | None, now: SidecarStatus) -> Iterator[NewsLine]:
    """What the dump waits for; who reads a line has no part in it."""
    away_s = before.source_away_s if before else 0.0
    if now.source_away_s and not away_s:
        yield NewsLine("source away", {"seconds": round(now.source_away_s), "text": now.last_error}, "warning")
    elif away_s and not now.source_away_s and now.progress is not None and now.progress.state is DumpState.RUNNING:
        yield NewsLine("source is back", {"seconds": round(away_s)})


def _sink_stands(sink: SinkDelivery) -> NewsLine:
    text, hint = parted(sink.error)
    return NewsLine("sink stands", {"sink": sink.sink, "text": text, "hint": hint}, "warning")


def _ddls(before: SidecarStatus | None, now: SidecarStatus) -> Iterator[NewsLine]:
    """A status knows the newest: those before it within half a second are counted."""
    passed = now.ddls - (before.ddls if before else 0)
    if passed > 0:
        query = " ".join(now.last_ddl.split())
        shown = query if len(query) <= DDL_CHARS_MAX else f"{query[:DDL_CHARS_MAX]} …"
        yield NewsLine("DDL passed", {"at": utc(now.last_ddl_ts), "query": shown} | _given(more_before_it=passed - 1))


def _rewrites(before: SidecarStatus | None, now: SidecarStatus) -> Iterator[NewsLine]:
    if now.rewrites > (before.rewrites if before else 0):
        named = ", ".join(map(str, now.rewritten[:TABLES_TOLD_MAX]))
        hint = "nothing if dump.reread_rewritten is set and a dump has the table; else dump it again"
        yield NewsLine("rows beside a DDL may be wrong", {"tables": named, "why": "TiCDC's own, deploy/KV.md", "hint": hint}, "warning")


def _outline(dump: Progress) -> dict[str, object]:
    values = {"dump": dump.dump_id, "tables": _tables(dump), "brackets": str(dump.brackets), "chunk_rows": dump.chunk_rows}
    return values | _given(sinks=", ".join(dump.sinks))


def _taken_over(dump: Progress) -> NewsLine:
    return NewsLine("dump taken over", _outline(dump) | {"state": str(dump.state), "rows": _rows(dump)})


def _progress(status: SidecarStatus) -> dict[str, object]:
    """Of a dump that is not over."""
    dump = status.progress
    if dump is None or dump.state in OVER:
        return {}
    values = {"dump": str(dump.state), "dump_tables": _tables(dump), "dump_rows": _rows(dump), "dump_rows_per_s": round(status.rows_per_s)}
    return values | _given(eta_s=round(status.eta_s or 0))


def _figures(rows: int, of_former: int, seconds: float) -> dict[str, object]:
    """`of_former`: of the rows, those that had come before this owner watched; a table that was begun anew has none."""
    of_former = of_former if of_former <= rows else 0
    values: dict[str, object] = {"rows": rows, "seconds": round(seconds, 1)}
    return values | _given(rows_of_former_owners=of_former, rows_per_s=round((rows - of_former) / seconds) if seconds > 0 else 0)


def _tables(dump: Progress) -> str:
    return f"{sum(table.complete_at is not None for table in dump.tables)}/{len(dump.tables)}"


def _rows(dump: Progress) -> int:
    return sum(table.rows for table in dump.tables)


def _in_force(pace: Pace, defaults: DumpSection) -> dict[str, object]:
    """What holds where the operator gave nothing, too. A bound of 0 is made of what delivery takes without a dump."""
    return asdict(pace) | {
        "readers": pace.readers or defaults.readers,
        "rows_per_s": pace.rows_per_s or "unbounded",
        "bytes_per_s": pace.bytes_per_s or "unbounded",
        "delivery_bound_s": pace.delivery_bound_s or defaults.delivery_bound_s or "automatic",
    }


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value}
