"""The lines of a sidecar's log for people, one for each event: made here and nowhere else, from values that others keep anyway.

    started, cannot_begin, standby, attached, term_ended, worker_died, stopping, stopped     what the process itself does
    StatusEvents.received                                                          what a status says that the one before it did not

- No line is logged for each segment. The stream's progress is one line a minute (`resolved`), and so is a dump's.
- Times of the stream are UTC. `seconds` are by the sidecar's clock and count from when this owner saw it begin. What previous owners did
  is not in a rate: it is logged beside it.
- A line holds no secret: an URI is logged without its account and without its parameters, but for the format.

It must not know how lines are written (`logs` does), and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sidecar.control.status import SidecarStatus, above_bound
from sidecar.run.completing import completing_dump, named
from sidecar.run.dump_events import TABLES_REPORTED_MAX, DumpEvents, rows_in, tables_done
from sidecar.run.hole_events import HoleEvents
from sidecar.run.log_event import LogEvent, given
from sidecar.run.merge_process import Death
from sidecar.shared.config import Config
from sidecar.shared.errors import TicdcDumpError, parted
from sidecar.shared.log import storage
from sidecar.shared.log.delivery_report import SPARK_READY, SPARK_STARTING, DeliveryReport
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, utc
from sidecar.shared.model.progress import OVER, DumpState
from sidecar.shared.model.sink_delivery import SinkDelivery, SinkTables
from sidecar.shared.process.kept_secrets import without_secrets
from sidecar.shared.process.secret_files import MEND, unprotected
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName

MINUTE_S = 60.0
STOP_MAX_S = 40
"""As deploy/UPGRADE.md has it: the worker's batch, Spark's files, and what waits for a server."""
DDL_CHARS_MAX = 120

# ---- the process ---------------------------------------------------------------------------------------------------------


def started(config: Config, *, version: str) -> LogEvent:
    section = config.changefeed
    values = {"version": version, "changefeed": str(ChangefeedName(section.cluster, section.namespace, section.id))}
    return LogEvent("started", values | given(control=config.control.listen, metrics=config.metrics.listen))


def open_secrets(config: Config) -> list[LogEvent]:
    return [
        LogEvent("a secret's file is open to others", {"setting": setting, "file": path, "mode": mode, "hint": MEND}, "warning")
        for setting, path, mode in unprotected(config)
    ]


def cannot_begin(error: TicdcDumpError) -> LogEvent:
    """What the process is made of is not reachable yet."""
    return LogEvent("cannot begin yet", _error(error), "warning")


def standby(owner: str | None) -> LogEvent:
    """`owner`: the control address of the one that has the lease."""
    return LogEvent("standby", {"owner": owner or "not known yet"})


def attached(config: Config, changefeed: Changefeed, place: Mapping[str, str], status: SidecarStatus, *, waited_s: float) -> LogEvent:
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
    return LogEvent("attached", values | given(standby_s=round(waited_s)))


def term_ended(error: TicdcDumpError, *, goes_on: bool) -> LogEvent:
    """`goes_on`: as a standby, or with another term."""
    then = "the process ends" if not goes_on else "tried again" if error.retryable else "a standby"
    return LogEvent("the term ended", _error(error) | {"then": then}, "warning")


def _error(error: TicdcDumpError) -> dict[str, object]:
    return {"error": type(error).__name__, "text": error.message, "hint": error.hint}


def worker_died(death: Death) -> LogEvent:
    if death.unborn:
        text, hint = parted(death.unborn)
        return LogEvent("merge worker cannot start", {"again_in_s": round(death.again_in_s), "text": text, "hint": hint}, "warning")
    values = {"exit_code": death.exit_code, "lived_s": round(death.lived_s), "again_in_s": round(death.again_in_s)}
    return LogEvent("merge worker died", values, "warning")


def stopping() -> LogEvent:
    return LogEvent("stopping", {"up_to_s": STOP_MAX_S, "hint": "the merge worker may finish its batch; a second signal changes nothing"})


def stopped() -> LogEvent:
    return LogEvent("stopped on request", {})


# ---- a term --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Minute:
    """What the last line about the stream was made of."""

    status: SidecarStatus
    accepted: Seq | None
    at_s: float


class StatusEvents:
    """Of one term. `received` gets every status, in order. `place`: where the changes come from; `waited_s`: as a standby."""

    def __init__(self, config: Config, changefeed: Changefeed, place: Mapping[str, str], *, waited_s: float = 0.0) -> None:
        self._attached = partial(attached, config, changefeed, place, waited_s=waited_s)
        self._dumps, self._holes = DumpEvents(config.dump), HoleEvents()
        self._before: SidecarStatus | None = None
        self._at_s = self._worker_since_s = self._spark_since_s = 0.0
        self._minute: _Minute | None = None
        self._began_s, self._began_ts, self._delivers = 0.0, CommitTs(0), False
        self._spark = 0, ""
        self._stuck: dict[str, str] = {}
        self._skipped = self._guessed = 0
        self._above: set[tuple[str, str]] = set()
        self._judged: dict[str, tuple[SinkTables, Sequence[TableName]]] = {}
        self._lacks: dict[str, frozenset[TableName]] = {}

    def received(self, status: SidecarStatus, report: DeliveryReport | None, at_s: float) -> list[LogEvent]:
        """`report`: the merge worker's last; one of a worker that does not run is not looked at."""
        before = self._before
        report = report if status.merge_worker in ("running", "external") else None
        if before is None:
            self._began_s = self._at_s = at_s
            self._began_ts = status.delivered_ts or CommitTs(0)
        lines = [] if before else [self._attached(status)]
        lines += [
            *self._worker(before, status, report, at_s),
            *self._holes.lines(status),
            *self._lacking(status),
            *self._first_delivery(status, at_s),
            *_ddls(before, status),
            *_rewrites(before, status),
            *self._above_bounds(status),
        ]
        lines += self._dumps.received(before, status, at_s)
        lines += _outage(before, status)
        lines += self._minutely(status, report, at_s)
        self._before, self._at_s = status, at_s
        return lines

    # ---- the stream ----------------------------------------------------------------------------------------------------

    def _worker(self, before: SidecarStatus | None, now: SidecarStatus, report: DeliveryReport | None, at_s: float) -> Iterator[LogEvent]:
        """`MergeProcess` logs its death, with its exit code."""
        if now.merge_worker != (before.merge_worker if before else ""):
            if now.merge_worker == "starting":
                self._worker_since_s = at_s
                yield LogEvent("merge worker started", {})
            elif now.merge_worker == "running":
                yield LogEvent("merge worker ready", {"seconds": round(at_s - (self._worker_since_s or at_s), 1)})
        if report is not None and (spark := (report.pid, report.spark)) != self._spark:
            before_it, self._spark = self._spark, spark
            if report.spark == SPARK_STARTING:
                self._spark_since_s = at_s
            elif report.spark == SPARK_READY:
                yield LogEvent("Spark ready", {"seconds": round(at_s - (self._spark_since_s or at_s), 1)})
            elif before_it == (report.pid, SPARK_READY):
                yield LogEvent("Spark ended: it was idle", {})
        if report is not None and report.skipped > self._skipped:
            self._skipped = report.skipped
            yield LogEvent("rows skipped", {"rows": report.skipped, "hint": "ticdc-dump skip --config FILE --list shows them"}, "warning")
        for sink in report.sinks if report is not None else ():
            if sink.error != self._stuck.get(sink.sink, ""):
                self._stuck[sink.sink] = sink.error
                yield _sink_stuck(sink) if sink.error else LogEvent("sink resumed", {"sink": sink.sink})

    def _lacking(self, now: SidecarStatus) -> Iterator[LogEvent]:
        """When a sink lacks a table that it did not lack before; at first when it is known which tables it has whole. Of one with a hole,
        its own line says it."""
        for sink in now.sinks:
            known_tables, judged = now.sink_tables.get(sink.sink), self._judged.get(sink.sink)
            if known_tables is None or (judged and judged[0] is known_tables and judged[1] is now.carried):
                continue  # there may be tens of thousands
            self._judged[sink.sink] = (known_tables, now.carried)
            tables = [table for table in now.incomplete(sink.sink) if table not in known_tables.holes]
            known, self._lacks[sink.sink] = self._lacks.get(sink.sink, frozenset()), frozenset(tables)
            if not known.issuperset(tables):
                values = {"sink": sink.sink, "tables": f"{len(tables)}/{len(now.carried)}", "not_complete": named(tables)}
                lacking = {one.sink: now.incomplete(one.sink) for one in now.sinks if one.sink in now.sink_tables}
                every = sorted({table for each in lacking.values() for table in each})
                hint = completing_dump(now.changefeed, [one for one, each in lacking.items() if each], every)
                yield LogEvent("sink lacks rows", values | given(began_segment=sink.began) | {"hint": hint}, "warning")

    def _above_bounds(self, now: SidecarStatus) -> Iterator[LogEvent]:
        """Once for each dump and sink."""
        if now.progress is None or now.progress.state is not DumpState.RUNNING:
            return
        for sink in now.sinks:
            at = (now.progress.dump_id, sink.sink)
            if at not in self._above and (text := above_bound(sink)):
                self._above.add(at)
                hint = "raise the bound, or keep it with `dumpset --strict-bound` and a slower dump"
                if sink.overloaded:
                    hint = "give the merge worker more cores or memory, or fewer sinks: see deploy/SIZING.md"
                yield LogEvent("live delivery above its bound", {"sink": sink.sink, "text": text, "hint": hint}, "warning")

    def _first_delivery(self, status: SidecarStatus, at_s: float) -> Iterator[LogEvent]:
        if not self._delivers and (status.delivered_ts or 0) > self._began_ts:
            self._delivers = True
            yield LogEvent("first delivery", {"delivered": utc(status.delivered_ts), "seconds": round(at_s - self._began_s, 1)})

    def _minutely(self, status: SidecarStatus, report: DeliveryReport | None, at_s: float) -> Iterator[LogEvent]:
        accepted = report.seq if report else None
        last = self._minute
        if last is not None and at_s - last.at_s < MINUTE_S:
            return
        self._minute = _Minute(status, accepted, at_s)
        if last is None:
            return
        if report is not None and report.guessed != self._guessed:
            self._guessed = report.guessed
            yield LogEvent("ambiguous timestamps", {"values": report.guessed, "hint": "taken as kafka.ambiguous says"}, "warning")
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
        if len(status.sinks) > 1:
            values["sinks"] = ", ".join(f"{sink.sink} {sink.lag_s:.1f} s behind" for sink in status.sinks)
        yield LogEvent("resolved", values | _progress(status) | given(waiting_for=status.waiting_for))


def _outage(before: SidecarStatus | None, now: SidecarStatus) -> Iterator[LogEvent]:
    """What the dump waits for; who reads a line has no part in it."""
    away_s = before.source_away_s if before else 0.0
    if now.source_away_s and not away_s:
        yield LogEvent("source away", {"seconds": round(now.source_away_s), "text": now.last_error}, "warning")
    elif away_s and not now.source_away_s and now.progress is not None and now.progress.state is DumpState.RUNNING:
        yield LogEvent("source is back", {"seconds": round(away_s)})


def _sink_stuck(sink: SinkDelivery) -> LogEvent:
    text, hint = parted(sink.error)
    return LogEvent("sink stopped", {"sink": sink.sink, "text": text, "hint": hint}, "warning")


def _ddls(before: SidecarStatus | None, now: SidecarStatus) -> Iterator[LogEvent]:
    """A status knows the newest: those before it within half a second are counted."""
    passed = now.ddls - (before.ddls if before else 0)
    if passed > 0:
        query = " ".join(now.last_ddl.split())
        shown = query if len(query) <= DDL_CHARS_MAX else f"{query[:DDL_CHARS_MAX]} …"
        yield LogEvent("DDL passed", {"at": utc(now.last_ddl_ts), "query": shown} | given(more_before_it=passed - 1))


def _rewrites(before: SidecarStatus | None, now: SidecarStatus) -> Iterator[LogEvent]:
    if now.rewrites > (before.rewrites if before else 0):
        named = ", ".join(map(str, now.rewritten[:TABLES_REPORTED_MAX]))
        hint = "nothing if dump.reread_rewritten is set and a dump has the table; else dump it again"
        yield LogEvent("rows beside a DDL may be wrong", {"tables": named, "why": "TiCDC's own, deploy/KV.md", "hint": hint}, "warning")


def _progress(status: SidecarStatus) -> dict[str, object]:
    """Of a dump that is not over."""
    dump = status.progress
    if dump is None or dump.state in OVER:
        return {}
    values = {
        "dump": str(dump.state),
        "dump_tables": tables_done(dump),
        "dump_rows": rows_in(dump),
        "dump_rows_per_s": round(status.rows_per_s),
    }
    return values | given(eta_s=round(status.eta_s or 0))
