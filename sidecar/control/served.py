"""What the control service of one sidecar is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import grpc

from sidecar.control.dump_scope import FeedScope
from sidecar.control.judging import Targets
from sidecar.control.requests import QueuedRequests
from sidecar.control.status import SidecarStatus
from sidecar.control.subscribe import Spool
from sidecar.control.verification_messages import VerificationPort
from sidecar.history.entry import HistoryEntry
from sidecar.ports import Bracketing, Caller, SchemaSource, SlowReads
from sidecar.shared.config import DumpSection
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import TableName
from ticdc_dump.v1 import control_pb2 as pb


@dataclass(frozen=True, slots=True)
class Served:
    """What the service is made of. `status` None: this process does not serve the changefeed; then `hindered` is what keeps it from
    that, or, of a standby, `owner_address` who does, if that is known, and `against_takeover` what keeps it from taking over.
    `asker`: who makes a call. `history`: newest first. `sinks`: of those that are configured, by
    name, why its rows cannot be read back; empty where they can. `targets`: as of judging.
    `verifications`: of this term, None without one.
    `bracketing`: of a dump that a caller starts. `slow_reads`: takes tables with their predicates, empty for none. `spool`: what
    subscribers read, if there is such a sink.
    `timeline`: of this owner, with the samples that are later than so many ms."""

    status: Callable[[], SidecarStatus | None]
    owner_address: Callable[[], str | None]
    requests: QueuedRequests
    schemas: SchemaSource
    feed_scope: FeedScope
    defaults: DumpSection
    asker: Callable[[grpc.ServicerContext], Asker]
    history: Callable[[], Sequence[HistoryEntry]] = lambda: ()
    case_sensitive: bool = False
    sinks: Mapping[str, str] = field(default_factory=dict)
    targets: Targets = field(default_factory=dict)
    hindered: Callable[[], str] = lambda: ""
    against_takeover: Callable[[], Sequence[str]] = lambda: ()
    bracketing: Callable[[Caller], Bracketing] = lambda _: Bracketing()
    slow_reads: Callable[[Mapping[TableName, str]], SlowReads] = lambda _: SlowReads({})
    verifications: Callable[[], VerificationPort | None] = lambda: None
    spool: Spool | None = None
    timeline: Callable[[int], pb.Timeline] = lambda _: pb.Timeline()

    def verification_waits_for(self) -> str:
        status = self.status()
        return "" if status is None else status.verification_waits_for
