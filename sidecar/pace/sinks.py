"""What the merge worker tells of each sink: how far it is, and what its batches cost. The sensor of a dump's pace (P3)."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.core.model import FIRST_SEQ, Seq

BATCHES_KEPT = 64
"""Of a sink, told in each report: more than it accepts between two reads of the report."""


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch of one sink, accepted. `last`: its last segment. `log_rows` and `dump_rows`: those written, and rows of chunks that were
    dropped count as dump rows (they cost the same). `seconds` from its planning to its end, of them `accept_s` for `Sink.accept`.
    `accepted_ms`: the worker's wall clock then."""

    last: Seq
    segments: int
    log_rows: int
    dump_rows: int
    seconds: float
    accept_s: float
    accepted_ms: int


@dataclass(frozen=True, slots=True)
class SinkDelivery:
    """`sink`: its URI without secrets. `accepted`: its last segment, None before the first. `batches`: the last BATCHES_KEPT of this
    worker, oldest first. `error`: why it does not go on, empty while it does. `began`: the first segment that it received, where the log
    had no earlier ones any more when it began; 0: it received the log from its beginning, or no report says more."""

    sink: str
    accepted: Seq | None
    batches: tuple[BatchDone, ...] = ()
    error: str = ""
    began: Seq = FIRST_SEQ


@dataclass(frozen=True, slots=True)
class ReportTimes:
    """When a report was told: `written_ms` by the worker's wall clock, `read_s` by the sidecar's clock. `starting`: there is no Spark
    yet, the worker merges no window itself, and the live changes after one would wait. `epoch`: the owner's that the worker serves, 0: any
    owner's. `accepted`: the last segment that every sink has accepted, None where a worker that runs does not know it yet."""

    written_ms: int
    read_s: float
    starting: bool = False
    epoch: int = 0
    accepted: Seq | None = None


@dataclass(frozen=True, slots=True)
class SubscriberState:
    """Of a sink that is read by subscribers: `next_seq` is the first segment that it has not acknowledged, `segments` how many it has
    not, `heard_s` since it was heard of."""

    name: str
    next_seq: Seq
    segments: int
    heard_s: float
