"""What each page shows: sections of HTML by id, made of the answers of the control service.

A section that changes while a page is open is sent again (live.py). Numbers are those of the status message (numbers.py). Lists are cut
into pages here (paging.py). While the service has no answer, the last one is shown, with its age.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from sidecar.adapters.clock import wall_ms
from sidecar.console.access import ConsoleAccess, Visitor
from sidecar.console.checking import SettingsChecks
from sidecar.console.commands import OFFERED
from sidecar.console.kept import KeptAnswers
from sidecar.console.numbers import Numbers
from sidecar.console.paging import part
from sidecar.console.pictures import RANGES, chunks_picture, last_chunks, range_of, stream_charts
from sidecar.console.row_lookup import RowLookups
from sidecar.console.settings import grouped_settings
from sidecar.console.starting import NUMBERS, form_of, start_request
from sidecar.console.words import dump_names, with_buttons
from sidecar.control.answers import new_operation_id
from sidecar.control.fields import given_id
from sidecar.control.hole_texts import hole_lines, holes_reported
from sidecar.control.local_call import CallRejected, LocalCall
from sidecar.control.service import ControlService
from sidecar.control.wire import (
    BRACKETS_NAMES,
    CHECK_NAMES,
    KIND_NAMES,
    REPAIR_NAMES,
    STATE_NAMES,
    is_looked_for,
    rows_in_words,
    scope_text,
    share_done,
    table_state,
    table_turn,
)
from sidecar.core.marks import DUMP_ID_LENGTH
from sidecar.report.chunks import DumpedChunk
from sidecar.report.figures import asker_text, clock_time
from sidecar.report.templates import templates
from sidecar.shared.config import Config
from sidecar.shared.errors import RefusedRequest, TicdcDumpError
from sidecar.shared.log.certificate_parts import SampleLine
from sidecar.shared.log.dump_files import CERTIFICATES, REPORTS, DumpFiles
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.hole import in_short
from sidecar.shared.model.nouns import CommitTs, TableName, physical_ms
from sidecar.shared.ticdc.table_rules import exact_rule
from ticdc_dump.v1 import control_pb2 as pb

Params = Sequence[tuple[str, str]]

FRESH_S = 0.5
"""An answer of the service that is no older is used again."""
FILES_FRESH_S = 10.0
CHARTS_EVERY_MS = 10_000
LISTED = 50
RATE_OVER_MS = 60_000
WITH_STATUS = frozenset({"stream", "dump", "history"})
"""Pages that are shown as they were last, in an outage."""
SEVERITIES = ("failed", "warning", "skipped", "ok")
"""Of what checks find: what is to be done comes first."""


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """What the console shows. `samples`, `chunks`, `ddls`: what the status' timeline is made of. `owner_console`: where the owner's pages
    are, empty where that is not known. `against_takeover`: what keeps a standby from taking over."""

    service: ControlService
    config: Config
    config_path: Path
    log: Folder
    product: str
    samples: Callable[[], Sequence[SampleLine]]
    chunks: Callable[[], Sequence[DumpedChunk]]
    owner_console: Callable[[], str]
    ddls: Callable[[], Sequence[tuple[CommitTs, str, int]]]
    against_takeover: Callable[[], Sequence[str]] = lambda: ()


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """`sections`: HTML by id. `status`: of the HTTP answer."""

    title: str
    sections: Mapping[str, str]
    status: int = 200


class ConsoleViews:
    """Any thread."""

    def __init__(self, parts: ConsoleParts, access: ConsoleAccess) -> None:
        self.parts, self.access = parts, access
        self.checks, self.lookups = SettingsChecks(parts.config_path), RowLookups(parts.config_path)
        self.changefeed = pb.Changefeed(namespace=parts.config.changefeed.namespace, id=parts.config.changefeed.id)
        self._kept = KeptAnswers()
        self._templates = templates("sidecar.console")
        self._templates.filters.update(tso_time=_tso_time, scope=scope_text, buttons=with_buttons, written=repr, plain=in_short)
        self._templates.globals.update(
            states=STATE_NAMES, kinds=KIND_NAMES, check_states=CHECK_NAMES, repair_states=REPAIR_NAMES, brackets=BRACKETS_NAMES
        )
        self.pages: Mapping[str, Callable[[Params, Visitor], ConsolePage]] = {
            "stream": self._stream,
            "dump": self._dump,
            "start": self._start,
            "reading": self._reading,
            "history": self._history,
            "verification": self._verification,
            "rows": self._rows_form,
            "checks": self._checks,
            "settings": self._settings,
        }

    def page(self, name: str, params: Params, visitor: Visitor) -> ConsolePage:
        """What cannot be answered becomes the page's one section. Raises KeyError for a page that there is not."""
        made = self.pages[name]
        try:
            page = made(params, visitor)
        except CallRejected as rejected:
            return self.start_refused(params, visitor, rejected) if name == "start" else self._rejected(name, rejected)
        if name not in WITH_STATUS:
            return page
        outage = self._kept.outage
        html = "" if outage is None else self.render("outage.html", why=outage.why, at_ms=outage.at_ms, now_ms=wall_ms())
        return replace(page, sections={"outage": html, **page.sections}, status=page.status if outage is None else 503)

    def render(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(**values)

    def call(self, method: str, request: Any, visitor: Visitor = Visitor("", "")) -> Any:  # noqa: B008  # it is frozen
        """Raises CallRejected."""
        return getattr(self.parts.service, method)(request, LocalCall(visitor.name, visitor.address))

    def forget(self) -> None:
        """After a command, so that the next page shows what it did."""
        self._kept.forget()

    def tables(self) -> dict[str, TableName]:
        """Of the changefeed, as far as sinks have reported them, by exact rules. Raises CallRejected."""
        status = self._status("")
        names = {TableName(table.schema, table.table): None for sink in status.sinks for table in sink.tables}
        names |= {TableName(table.schema, table.table): None for table in status.tables}
        return {exact_rule(name): name for name in sorted(names)}

    # ---- pages ------------------------------------------------------------------------------------------------------

    def _stream(self, params: Params, _: Visitor) -> ConsolePage:
        status = self._status("")
        late = sorted(range(len(status.lanes)), key=lambda at: (bool(status.lanes[at].resolved_tso), -status.lanes[at].lag_s))
        values = {
            "status": status,
            "n": Numbers(status),
            "ddls": [*reversed(self.parts.ddls())],
            "lanes": part(late, params, name="lanes", size=LISTED),
            "holes": hole_lines(holes_reported(status.sinks)),
            "sinks": [(at, sink, sum(bool(one.complete_since_tso) for one in sink.tables)) for at, sink in enumerate(status.sinks)],
        }
        charts = {"charts": self._charts(range_of(dict(params).get("range", "")))}
        now, *others = (self.render(f"stream_{name}.html", **values) for name in ("now", "sinks", "ddls", "lanes"))
        return ConsolePage("Stream", {"now": now, "sinks": others[0], **charts, "ddls": others[1], "lanes": others[2]})

    def _dump(self, params: Params, visitor: Visitor) -> ConsolePage:
        given = dict(params)
        status = self._status(given.get("id", ""))
        state = STATE_NAMES[status.state]
        places = [at for at, table in enumerate(status.tables) if _is_wanted(table, given.get("q", ""), given.get("state", ""))]
        places.sort(key=lambda at: table_turn(status.tables[at]))
        operations = {one.id: one for one in self._operations()}
        values = {
            "share": share_done(status.tables),
            "names": dump_names(status, operations),
            "operation": operations.get(status.dump_id),
            "operations": operations,
            "sinks": [at for at, sink in enumerate(status.sinks) if not status.dump_sinks or sink.sink in status.dump_sinks],
            "status": status,
            "n": Numbers(status),
            "state": state,
            "visitor": visitor,
            "access": self.access,
            "offered": OFFERED.get(state, ()),
            "numbers": NUMBERS,
            "new_dump_id": new_dump_id(visitor, status.dump_id),
            "tables": part(places, params),
            "rates": _rates(chunk for chunk in self.parts.chunks() if chunk.dump_id == status.dump_id),
            "q": given.get("q", ""),
            "wanted": given.get("state", ""),
            "certified": status.dump_id in self._files(CERTIFICATES),
            "reported": status.dump_id in self._files(REPORTS),
            "rule": exact_rule,
            "name": TableName,
        }
        now, buttons, tables = (self.render(f"dump_{name}.html", **values) for name in ("now", "commands", "tables"))
        sections = {"now": now, "commands": buttons, "interleaving": self._interleaving(status.dump_id), "tables": tables}
        return ConsolePage("Dump", sections)

    def start_refused(self, params: Params, visitor: Visitor, error: TicdcDumpError | CallRejected) -> ConsolePage:
        """The form as it was filled in, below what is wrong with it. Where there is nobody to start a dump, what says so alone."""
        if isinstance(error, CallRejected) and error.may_come_back:
            return self._rejected("start", error)
        try:
            page = self._start([(name, value) for name, value in params if name != "preview"], visitor)
        except CallRejected as rejected:
            return self._rejected("start", rejected)
        refused = self.render("rejected.html", details=error.details if isinstance(error, CallRejected) else str(error), standby=False)
        return ConsolePage(page.title, {"refused": refused, **page.sections}, 409 if isinstance(error, CallRejected) else 400)

    def _start(self, params: Params, visitor: Visitor) -> ConsolePage:
        known, given, form = self.tables(), dict(params), form_of(params)
        q = given.get("q", "").lower()
        rules = [rule for rule, name in known.items() if q in str(name).lower() and rule not in form.tables]
        values = {
            "form": form,
            "known": known,
            "tables": part(rules, params),
            "numbers": NUMBERS,
            "q": given.get("q", ""),
            "access": self.access,
        }
        values |= {"sinks": [sink.sink for sink in self._status("").sinks], "visitor": visitor, "access": self.access}
        sections = {"form": self.render("start_form.html", **values)}
        if "preview" in given:
            request = start_request(form, self.changefeed, new_operation_id(), known)
            preview = self.call("Preview", request, visitor)
            dumped = [at for at, table in enumerate(preview.tables) if not table.refused]
            slow = [at for at in dumped if preview.tables[at].slow]
            values |= {"preview": preview, "n": Numbers(preview), "dump_id": request.dump_id, "slow": slow, "rows": _rows(preview)}
            values |= {"dumped": part(dumped, params, name="read"), "refused": [one for one in preview.tables if one.refused]}
            values["names"] = dump_names(self._status(""), {one.id: one for one in self._operations()})
            sections = {"preview": self.render("start_preview.html", **values), **sections}
        return ConsolePage("New dump", sections)

    def _reading(self, params: Params, visitor: Visitor) -> ConsolePage:
        """How one table is read. It asks TiDB, and has no button."""
        given, known = dict(params), self.tables()
        rule, dump_id = given.get("table", ""), given_id(given["id"], "id") if given.get("id") else ""
        if rule not in known:
            raise RefusedRequest(f"the changefeed has no table {rule} now", hint="open it from the page of a dump")
        request = pb.StartRequest(changefeed=self.changefeed, dump_id=new_operation_id(), table_rules=[rule])
        preview = self.call("Preview", request, visitor)
        values = {"preview": preview, "n": Numbers(preview), "dump_id": dump_id}
        return ConsolePage(f"How {known[rule]} is read", {"reading": self.render("reading.html", **values)})

    def _history(self, params: Params, _: Visitor) -> ConsolePage:
        given = dict(params)
        operations = self._operations()
        q, kind = given.get("q", "").lower(), given.get("kind", "")
        wanted = [one for one in operations if kind in ("", KIND_NAMES[one.kind]) and q in _searched(one)]
        values = {"operations": part(wanted, params, size=LISTED), "q": given.get("q", ""), "kind": kind}
        values |= {"certified": self._files(CERTIFICATES), "reported": self._files(REPORTS)}
        return ConsolePage("History", {"operations": self.render("history.html", **values)})

    def _verification(self, params: Params, _: Visitor) -> ConsolePage:
        verification = self.call("VerifyQuery", pb.VerificationRequest(changefeed=self.changefeed, id=dict(params).get("id", "")))
        order = sorted(range(len(verification.tables)), key=lambda at: (CHECK_NAMES[verification.tables[at].state] == "equal", at))
        values = {"verification": verification, "n": Numbers(verification), "tables": part(order, params), "is_looked_for": is_looked_for}
        return ConsolePage("Verification", {"verification": self.render("verification.html", **values)})

    def _checks(self, _: Params, visitor: Visitor) -> ConsolePage:
        report = self.checks.last.report if self.checks.last else None
        findings = [(check.name, finding) for check in (report.checks if report else ()) for finding in check.findings]
        findings.sort(key=lambda one: SEVERITIES.index(one[1].status) if one[1].status in SEVERITIES else len(SEVERITIES))
        values = {"checks": self.checks, "findings": findings, "visitor": visitor, "access": self.access}
        return ConsolePage("Checks", {"result": self.render("checks.html", **values)})

    def rows(self, form: Params, visitor: Visitor) -> ConsolePage:
        """Of a table, maybe of one key. Raises RefusedRequest while somebody else looks, and where the settings show no rows."""
        if not self.access.shows_rows:
            raise RefusedRequest("this console shows no rows", hint="set console.show_rows, or use ticdc-dump tail")
        table, key = dict(form).get("table", "").strip(), dict(form).get("key", "")
        lookup = self.lookups.look(table, key) if table else None
        return self._rows_page(visitor, table=table, key=key, lookup=lookup)

    def _rows_form(self, _: Params, visitor: Visitor) -> ConsolePage:
        return self._rows_page(visitor, table="", key="", lookup=None)

    def _rows_page(self, visitor: Visitor, **values: Any) -> ConsolePage:
        return ConsolePage("Rows", {"rows": self.render("rows.html", visitor=visitor, access=self.access, **values)})

    def _settings(self, _: Params, __: Visitor) -> ConsolePage:
        values = {"groups": grouped_settings(self.parts.config), "path": self.parts.config_path}
        return ConsolePage("Settings", {"settings": self.render("settings.html", **values)})

    # ---- what they have in common --------------------------------------------------------------------------------------

    def _rejected(self, name: str, rejected: CallRejected) -> ConsolePage:
        """A standby points to the owner."""
        is_standby = rejected.owner is not None
        values = {"details": rejected.details, "standby": is_standby, "owner": rejected.owner}
        against = self.parts.against_takeover() if is_standby else ()
        html = self.render("rejected.html", **values, against=against, console=self.parts.owner_console() if is_standby else "")
        title = "Standby" if is_standby else name.capitalize()
        return ConsolePage(title, {"rejected": html}, rejected.http_status)

    def _status(self, dump_id: str) -> pb.DumpStatus:
        request = pb.DumpRequest(changefeed=self.changefeed, dump_id=dump_id)
        return self._kept.asked(("status", dump_id), FRESH_S, lambda: self.call("Query", request))  # type: ignore[no-any-return]

    def _operations(self) -> Sequence[pb.Operation]:
        """Newest first."""
        request = pb.ListRequest(namespace=self.changefeed.namespace, changefeed_id=self.changefeed.id)
        return self._kept.asked("history", FRESH_S, lambda: self.call("List", request)).operations  # type: ignore[no-any-return]

    def _files(self, of: DumpFiles) -> frozenset[str]:
        """The dumps that have one. A storage that does not answer is tried again: the page lacks links meanwhile."""
        return self._kept.fresh(of, FILES_FRESH_S, lambda: _ids(of, self.parts.log))  # type: ignore[no-any-return]

    def _charts(self, chosen: str) -> str:
        samples = self.parts.samples()
        place = samples[-1].at_ms // CHARTS_EVERY_MS if samples else 0

        def made() -> str:
            drawn = stream_charts(samples, chosen) if samples else []
            return self.render("charts.html", drawn=drawn, ranges=RANGES, chosen=chosen)

        return self._kept.fresh(("charts", chosen, place, len(samples) > 1), FILES_FRESH_S, made)  # type: ignore[no-any-return]

    def _interleaving(self, dump_id: str) -> str:
        chunks = last_chunks([one for one in self.parts.chunks() if one.dump_id == dump_id])
        drawn = chunks_picture(chunks, self.parts.samples()) if chunks else ""
        return self.render("interleaving.html", drawn=drawn, count=len(chunks))


def new_dump_id(visitor: Visitor, dump_id: str) -> str:
    """Of a restart: the same each time that a page is made, so that a button that is pressed twice starts one dump."""
    return sha256(f"{visitor.form_key} {dump_id}".encode()).hexdigest()[:DUMP_ID_LENGTH]


def _is_wanted(table: pb.TableStatus, q: str, state: str) -> bool:
    return q.lower() in f"{table.schema}.{table.table}".lower() and state in ("", table_state(table))


def _rates(chunks: Iterable[DumpedChunk]) -> dict[TableName, float]:
    """Rows/s of each table over its chunks of the last minute in which it has any."""
    of = defaultdict[TableName, list[DumpedChunk]](list)
    for chunk in chunks:
        of[chunk.table].append(chunk)
    rates = {}
    for table, those in of.items():
        last_ms = max(physical_ms(one.high_ts) for one in those)
        near = [one for one in those if physical_ms(one.high_ts) > last_ms - RATE_OVER_MS]
        first_ms = min(physical_ms(one.low_ts) for one in near)
        rates[table] = sum(one.rows for one in near) * 1000 / max(last_ms - first_ms, 1)
    return rates


def _rows(preview: pb.DumpPreview) -> str:
    return rows_in_words(table.rows if table.HasField("rows") else None for table in preview.tables if not table.refused)


def _searched(one: pb.Operation) -> str:
    return f"{one.id} {one.result} {asker_text(one.asked_by)} {' '.join(one.scope.tables)} {STATE_NAMES[one.state]}".lower()


def _tso_time(tso: int) -> str:
    return f"{clock_time(physical_ms(tso))} UTC" if tso else "-"


def _ids(of: DumpFiles, log: Folder) -> frozenset[str]:
    """None while the storage does not answer: a page without these links is better than no page."""
    try:
        return frozenset(of.ids(log))
    except TicdcDumpError:
        return frozenset()
