"""The reports of a term's dumps, written when a dump is over: beside its certificate, or where it gets none.

A report is for people: what keeps one from being made, other than the log's storage, is a line in the log and stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from sidecar.history.entry import HistoryEntry
from sidecar.report.build import ReportFacts, report_html
from sidecar.report.chunks import Chunks
from sidecar.report.drawing import TimedEvent
from sidecar.run.collecting import CollectedDump
from sidecar.run.log_event import LogEvent
from sidecar.run.logs import say
from sidecar.run.samples import Samples
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.certificate_parts import Line
from sidecar.shared.log.dump_files import CERTIFICATES, REPORTS
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """What a certificate says of the sidecar. `cluster`: TiCDC's --cluster-id; `cluster_id`: PD's, empty where it is not known."""

    changefeed: str
    log: str
    cluster: str
    cluster_id: str
    product: str


class DumpReports:
    """`facts`: called once, when they are needed. `samples`: of the owner, for the reports. `chunks` receives those of the dumps that are
    collected. `events`: that happened until now, beside those of the history and of the samples."""

    def __init__(
        self,
        log: Folder,
        facts: Callable[[], CertificateFacts],
        samples: Samples,
        chunks: Chunks,
        log_line: Callable[[LogEvent], object] = say,
        events: Callable[[], Sequence[TimedEvent]] = lambda: (),
    ) -> None:
        self._log, self._samples, self._log_line, self._events = log, samples, log_line, events
        self.facts, self.chunks = cache(facts), chunks
        self._written: dict[str, HistoryEntry] = {}

    def collect(self, dump: CollectedDump) -> None:
        dump.sample(self._samples)
        self.chunks.add(dump.dump_id, dump.new_lines())

    def write(self, entry: HistoryEntry, lines: Iterable[Line], accepted: Mapping[str, Seq | None], *, certified: bool) -> None:
        """Once for what the history says of the dump. `accepted`: by sink, the last segment. Raises as the log's storage."""
        if self._written.get(entry.id) == entry:
            return
        ours = self.facts()
        facts = ReportFacts(
            changefeed=ours.changefeed,
            product=ours.product,
            more=[("Cluster", ours.cluster), ("Cluster id of PD", ours.cluster_id or "not known")],
            accepted={sink: "nothing" if seq is None else f"all up to segment {seq:,}" for sink, seq in accepted.items()},
            events=self._events(),
            certificate=f"Certificate: {CERTIFICATES.name(entry.id)} beside the log." if certified else "This dump has no certificate.",
        )
        try:
            html = report_html(lines, entry, facts)
        except TicdcDumpError:
            raise
        except Exception as error:  # noqa: BLE001  # a defect of a report keeps no certificate from being written
            self._log_line(LogEvent("no report", {"dump": entry.id, "reason": f"a defect: {error!r}"}, "warning"))
        else:
            storage.write_atomically(self._log, REPORTS.name(entry.id), html.encode())
        self._written[entry.id] = entry
