"""The reports of a term's dumps, written when a dump is over: beside its certificate, or where it gets none.

A report is for people: what keeps one from being made, other than the log's storage, is a line in the log and stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sidecar.core.model import Seq
from sidecar.errors import TicdcDumpError
from sidecar.history.entry import HistoryEntry
from sidecar.log import storage
from sidecar.log.certificate_parts import Line
from sidecar.log.dump_files import CERTIFICATES, REPORTS
from sidecar.log.errors import storage_errors
from sidecar.log.storage import Folder
from sidecar.report.build import ReportFacts, report_html
from sidecar.run.news_line import NewsLine


class DumpReports:
    """`more`: facts of the sidecar with their names, for the head."""

    def __init__(
        self, log: Folder, changefeed: str, product: str, more: Iterable[tuple[str, str]], log_line: Callable[[NewsLine], object]
    ) -> None:
        self._log, self._changefeed, self._product, self._more, self._log_line = log, changefeed, product, tuple(more), log_line
        self._written: dict[str, str] = {}

    def write(self, entry: HistoryEntry, lines: Iterable[Line], accepted: Mapping[str, Seq | None], *, certified: bool) -> None:
        """Once for each state of the dump. `accepted`: by sink, the last segment. Raises as the log's storage."""
        if self._written.get(entry.id) == entry.state:
            return
        facts = ReportFacts(
            changefeed=self._changefeed,
            product=self._product,
            more=self._more,
            accepted={sink: "nothing" if seq is None else f"all up to segment {seq:,}" for sink, seq in accepted.items()},
            certificate=f"Certificate: {CERTIFICATES.name(entry.id)} beside the log." if certified else "This dump has no certificate.",
        )
        try:
            html = report_html(lines, entry, facts)
        except TicdcDumpError:
            raise
        except Exception as error:  # noqa: BLE001  # a defect of a report keeps no certificate from being written
            self._log_line(NewsLine("no report", {"dump": entry.id, "reason": f"a defect: {error!r}"}, "warning"))
        else:
            with storage_errors(self._log):
                storage.write_atomically(self._log, REPORTS.name(entry.id), html.encode())
        self._written[entry.id] = entry.state
