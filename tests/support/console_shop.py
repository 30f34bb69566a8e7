"""A shop's changefeed as a console shows it: a dump under way, three sinks, an hour of measurements, operations, a verification, and files
of dumps that are over. `mark` changes each text, so that the same pages show what would be markup."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import sin
from pathlib import Path
from random import Random
from typing import Any

from sidecar.control.status import LaneStatus, SidecarStatus
from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope
from sidecar.pace.controller import SinkState
from sidecar.ports import SlowReads, TableEstimate
from sidecar.report.chunks import DumpedChunk
from sidecar.shared.log import storage
from sidecar.shared.log.certificate_parts import SampleLine, SinkSample
from sidecar.shared.log.dump_files import CERTIFICATES, REPORTS
from sidecar.shared.log.storage import open_folder
from sidecar.shared.log.verification import (
    CheckState,
    RepairReport,
    RequestedTable,
    RowDifference,
    RowsToDelete,
    TableReport,
    Unjudged,
    VerifyReport,
    VerifyRequest,
)
from sidecar.shared.model.messages import Asker, Brackets, Pace
from sidecar.shared.model.nouns import CommitTs, Lane, OperationId, Seq, TableName, ts_at
from sidecar.shared.model.progress import DumpState, Progress, Span, TableProgress
from sidecar.shared.model.sink_delivery import SinkTables
from tests.support.console import ServedConsole, Shown, console_of
from tests.unit.control.serving import Filter, Owner, Schemas, schema

DUMP, DONE, VERIFIED = map(OperationId, ("3f9c1a7e52b04d68", "a81d0c6b9e3f4725", "c40e7d1f2a9b8356"))
ROWS = {
    "customers": 182_340, "orders": 1_204_511, "order_items": 3_917_206, "products": 12_450, "stock": 37_350, "payments": 1_188_902,
    "reviews": 96_114,
}  # fmt: skip
SINKS = ("mysql://replica.shop:3306/", "kafka://events.shop:9092/shop", "s3://lake/shop?format=iceberg")
DDL = "ALTER TABLE `shop`.`orders` ADD COLUMN `gift_note` VARCHAR(200)"
HOUR_MS, SAMPLE_MS = 3_600_000, 2_000
ANNA, NIGHTLY = Asker("token 1f0c22ab", "10.2.0.14:51822"), Asker("certificate nightly-jobs", "10.2.0.9:40112")


def same(text: str) -> str:
    return text


def table(name: str) -> TableName:
    return TableName("shop", name)


@dataclass(slots=True)
class ShopSchemas(Schemas):
    mark: Callable[[str], str] = same

    def estimates(self, tables: Sequence[TableName]) -> Sequence[TableEstimate]:
        return [
            TableEstimate(one, ROWS.get(one.table, 500), ROWS.get(one.table, 500) * 94, self.mark("clustered primary key (id)"))
            for one in tables
        ]


@dataclass(slots=True)
class ShopVerifications:
    """`VerificationPort` with one that is over."""

    mark: Callable[[str], str] = same
    asked_ms: int = 0

    def start(self, request: VerifyRequest, asker: Asker) -> None:
        raise AssertionError("no page changes a verification")

    def stop(self, operation_id: str, asker: Asker) -> None:
        raise AssertionError("no page changes a verification")

    def allow(self, operation_id: str, delete_at_most: int | None, asker: Asker) -> None:
        raise AssertionError("no page changes a verification")

    def last_id(self) -> str | None:
        return VERIFIED

    def find(self, operation_id: str) -> tuple[VerifyRequest, VerifyReport | None, RepairReport | None] | None:
        if operation_id != VERIFIED:
            return None
        mark = self.mark
        names = [mark(name) for name in ROWS]
        tables = [
            TableReport(mark(SINKS[0]), "shop", name, CheckState.EQUAL, rows=rows, rows_total=rows, equal=rows)
            for name, rows in zip(names, ROWS.values(), strict=True)
        ]
        tables[1].state, tables[1].different, tables[1].missing = CheckState.DIFFERENT, 3, 1
        tables[1].duplicate, tables[2].expected = 7, 1900
        tables[2].unjudged = [Unjudged(mark(SINKS[0]), "shop", names[2], ("extra",), mark("deletes are hidden"))]
        tables[6].state, tables[6].why = CheckState.SKIPPED, mark("DDLs change it again and again")
        request = VerifyRequest(
            VERIFIED, (mark(SINKS[0]),), tuple(RequestedTable("shop", name) for name in names), 0.25,
            {mark(SINKS[1]): mark("it keeps no rows")}, self.asked_ms, repair=True,
        )  # fmt: skip
        report = VerifyReport(VERIFIED, CheckState.DIFFERENT, self.asked_ms + 1000, self.asked_ms + 95_000, tables)
        deletes = (RowsToDelete(mark(SINKS[0]), "shop", names[1], 5000, 1000),)
        return request, report, RepairReport(keys=4, error=mark("the dump was stopped"), waiting_for=mark("an answer"), deletes=deletes)

    def look(self, operation_id: str) -> None:
        """No page asks briefly."""

    def running(self) -> None:
        """It is over."""

    def differences(self, operation_id: str) -> Iterator[tuple[TableReport, RowDifference]]:
        return iter(())


@dataclass(slots=True)
class Shop:
    """`now_ms`: of which everything is. `tables`: more of them, empty ones, so many."""

    mark: Callable[[str], str] = same
    now_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    tables: int = 0
    lanes: int = 6
    operations: int = 12
    last_error: str = ""

    def ago(self, seconds: float) -> CommitTs:
        return ts_at(int(self.now_ms - seconds * 1000))

    @property
    def names(self) -> list[TableName]:
        return [table(self.mark(name)) for name in ROWS] + [table(f"{self.mark('part')}_{number:05}") for number in range(self.tables)]

    def progress(self) -> Progress:
        """Four tables are complete, two are under way, and the others wait."""
        shares = [1.0, 0.62, 0.31, 1.0, 1.0, 0.0, 1.0] + [0.0] * self.tables
        tables = []
        for number, (name, share) in enumerate(zip(self.names, shares, strict=True)):
            rows = int(list(ROWS.values())[number] * share) if number < len(ROWS) else 0
            spans = () if share == 1 else (Span(("41017",), None),) if share else (Span(),)
            complete = self.ago(300 - 20 * number) if share == 1 else None
            tables.append(TableProgress(name, spans, -(-rows // 10_000), rows, rows * 94, complete))
        return Progress(DUMP, DumpState.RUNNING, Brackets.WATERMARK, 10_000, 3, 1, Seq(5100), tuple(tables), pace=Pace(), number=4)

    def status(self, status: SidecarStatus) -> SidecarStatus:
        mark, sinks = self.mark, list[SinkState]()
        for number, name in enumerate(SINKS):
            live_s = (0.41, 0.12, 3.9)[number]
            sinks.append(
                SinkState(mark(name), live_s, 5.0 if number == 2 else 0.5, live_s / 2, (75_000, 240_000, 120_000)[number], number == 0,
                          lag_s=live_s / 3, limit_s=(0.9, 0.5, 6.0)[number], median_s=live_s / 4,
                          error=mark("no space left on the device") if number == 2 and self.last_error else "")
            )  # fmt: skip
        complete = {name: self.ago(250) for name in self.names[:1] + self.names[3:5]}
        known = {sink.sink: SinkTables(sink.sink, sink.sink, Seq(3), self.ago(9000), Seq(5), self.ago(1), complete) for sink in sinks}
        behind_s = {f"kafka/shop-cdc/{number}": number % 7 / 10 for number in range(self.lanes)}
        lanes = [LaneStatus(Lane(mark(name)), self.ago(0.6 + lag_s), lag_s) for name, lag_s in behind_s.items()]
        is_running = status.progress is not None and status.progress.state is DumpState.RUNNING
        return replace(
            status, owner=mark("shop-sidecar-0:1184"), sinks=tuple(sinks), carried=tuple(self.names), sink_tables=known, lanes=tuple(lanes),
            resolved_ts=self.ago(0.6), delivered_ts=self.ago(1.1), resolved_lag_s=0.6, delivery_lag_s=0.4, changes=8_214_903, repeats=12,
            segments=5127, ddls=2, last_ddl_ts=self.ago(1900), last_ddl=mark(DDL), open_windows=3 if is_running else 0, readers=2,
            rows_per_s=18_420.0 if is_running else 0.0, bytes_per_s=1_731_480.0 if is_running else 0.0, eta_s=254.0 if is_running else None,
            estimates={table(mark(name)): rows for name, rows in ROWS.items()}, last_error=self.last_error and mark(self.last_error),
            waiting_for="held back by delivery: 0.4 s, bound 0.5 s, " + mark(SINKS[0]) if is_running else "",
            skipped_rows=2 if self.last_error else 0,
        )  # fmt: skip

    def samples(self) -> list[SampleLine]:
        random, samples = Random(1), []
        for at_ms in range(self.now_ms - HOUR_MS, self.now_ms, SAMPLE_MS):
            runs, noise = at_ms > self.now_ms - 600_000, random.random()
            sinks = tuple(
                SinkSample(self.mark(name), usual_s / 4, usual_s * (0.7 + 0.5 * noise), bound_s, bound_s)
                for name, usual_s, bound_s in zip(SINKS, (0.35, 0.1, 3.4), (0.5, 0.5, 5.0), strict=True)
            )
            rows_per_s, changes_per_s = (16_000 + 5000 * noise) * runs, 2100 + 700 * sin(at_ms / 280_000) + 300 * noise
            delivery_lag_s = 0.3 + 0.2 * noise + 0.2 * runs
            running = (DUMP,) if runs else ()
            samples.append(SampleLine(at_ms, 3, running, rows_per_s, changes_per_s, 0.5 + 0.2 * noise, delivery_lag_s, 3 * runs, "", sinks))
        return samples

    def chunks(self) -> list[DumpedChunk]:
        random, result = Random(2), []
        for number in range(24):
            low_ms = int(self.now_ms - 40_000 + number * 1500 + random.random() * 300)
            high_ms = int(low_ms + 2600 + 1600 * random.random())
            name, dropped = table(self.mark(("orders", "order_items")[number % 2])), (None, 0, 14, 3)[number % 4]
            result.append(DumpedChunk(DUMP, name, ts_at(low_ms), ts_at(high_ms), 10_000, Seq(number), dropped))
        return result

    def history(self) -> list[HistoryEntry]:
        """Oldest first."""
        mark, entries = self.mark, list[HistoryEntry]()
        names = tuple(map(str, self.names[:3]))
        scope, whole = OperationScope(names, len(ROWS), sinks=(mark(SINKS[0]),)), OperationScope(names, len(ROWS))
        done = {"rows": 6_638_873, "bytes": 624_054_062, "chunks": 671, "running_s": 612.0}
        for number in range(self.operations, 2, -1):
            began_ms = self.now_ms - number * 6 * HOUR_MS
            kind = OperationKind.VERIFICATION if number % 3 == 0 else OperationKind.DUMP
            state = DumpState.FAILED if number % 5 == 4 else DumpState.FINISHED
            result = "all rows are equal" if kind is OperationKind.VERIFICATION else ""
            result = mark("source: Lost connection to TiDB during query") if state is DumpState.FAILED else result
            entry = HistoryEntry(
                OperationId(sha256(str(number).encode()).hexdigest()[:16]),
                kind,
                scope,
                NIGHTLY,
                began_ms,
                state,
                began_ms + 612_000,
                result,
            )
            entries.append(replace(entry, **done))  # type: ignore[arg-type]  # its fields, by name
        requested = Asker(mark(ANNA.name), ANNA.address, mark("after the migration"))
        hour_ago = self.now_ms - HOUR_MS
        verified = HistoryEntry(VERIFIED, OperationKind.VERIFICATION, whole, requested, hour_ago - HOUR_MS, DumpState.FINISHED, hour_ago)
        dumped = HistoryEntry(DONE, OperationKind.DUMP, whole, requested, hour_ago, DumpState.FINISHED, hour_ago + 612_000)
        for name, ms in (("pause", 60_000), ("resume", 240_000)):
            dumped = dumped.commanded(mark(name), requested, hour_ago + ms)
        entries += [replace(verified, result=mark("4 rows differ"), rows=6_638_873, running_s=95.0)]
        entries += [replace(dumped, **done)]  # type: ignore[arg-type]  # the same
        under_way_ms = self.now_ms - 600_000
        return [*entries, HistoryEntry(DUMP, OperationKind.DUMP, whole, requested, under_way_ms, running_since_ms=under_way_ms)]

    def write_files(self, folder: Path) -> None:
        """The report and the certificate of the dump that is over, as far as the console looks at them."""
        log = open_folder(str(folder))
        storage.write_atomically(log, REPORTS.name(DONE), f"<!doctype html><title>{DONE}</title><h1>Report of {DONE}</h1>".encode())
        storage.write_atomically(log, CERTIFICATES.name(DONE), b'{"format": 1}')

    def served(self) -> dict[str, object]:
        """Fields of Served."""
        schemas = {name: schema(name) for name in [*self.names, table("log_lines")]}
        slow = SlowReads({self.names[5]: self.mark("TiDB sorts the whole table for each chunk: run ANALYZE TABLE")})
        verifications = ShopVerifications(self.mark, self.now_ms - 2 * HOUR_MS)
        return {
            "schemas": ShopSchemas(schemas, mark=self.mark),
            "feed_scope": Filter(left=frozenset([table("log_lines")])),
            "slow_reads": lambda _: slow,
            "verifications": lambda: verifications,
            "sinks": {self.mark(name): "" for name in SINKS},
        }

    def owner(self) -> Owner:
        """Not begun. Its history has the operations."""
        owner = Owner(self.progress())
        owner.changes = self.status
        owner.history.record(*self.history())
        return owner

    def console(self, owner: Owner, folder: Path, **given: Any) -> ServedConsole:
        self.write_files(folder)
        return console_of(owner, folder, served=self.served(), shown=Shown(self.samples(), self.chunks()), **given)
