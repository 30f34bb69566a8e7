"""What a receiver keeps for us: one line of JSON, whose output it is, by which owner, and up to where.

    after the body of state A comes state B        the receiver swaps A for B in the transaction that has the body's lines

So it needs to understand nothing of it: a worker that is frozen, repeats, or is of another log has another A. Content depends on the place
alone: the rows of a segment, as the sink of one name receives it, have one order. A place is a number of segments, and of rows of the
next one.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Seq
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.kit.position import as_text, from_fields, to_fields

VERSION = 1


class StreamPlace(NamedTuple):
    """All before segment `seq` is sent, and so many rows of it."""

    seq: int
    rows: int


class BegunSegment(msgspec.Struct, frozen=True):
    """A segment of which the receiver has `rows`, and not its end. `sink`: `Head.received_as`; None in states of 0.4 and before."""

    seq: Seq
    manifest: str
    rows: int
    sink: str | None = None


class ReceiverState(msgspec.Struct, frozen=True):
    """`by`: drawn by who opened: two who open at once can tell whose it is. `seq`, `upto_ts` (decimal), `manifest`: as of `Accepted`."""

    log: str
    epoch: int
    incarnation: int
    by: str
    seq: Seq | None = None
    upto_ts: str | None = None
    manifest: str = ""
    begun: BegunSegment | None = None
    version: int = VERSION

    @property
    def text(self) -> str:
        """ASCII, as headers are."""
        return json.dumps(msgspec.to_builtins(self), separators=(",", ":"))

    @property
    def owner(self) -> Owner:
        return Owner(self.epoch, self.incarnation)

    @property
    def accepted(self) -> Accepted | None:
        return from_fields(self.seq, self.upto_ts, self.manifest)

    @property
    def place(self) -> StreamPlace:
        if self.begun is not None:
            return StreamPlace(self.begun.seq, self.begun.rows)
        return StreamPlace(-1 if self.seq is None else self.seq + 1, 0)

    def standing(self, accepted: Accepted | None, begun: BegunSegment | None) -> ReceiverState:
        return msgspec.structs.replace(self if accepted is None else self.ended(accepted), begun=begun)

    def within(self, begun: BegunSegment) -> ReceiverState:
        return msgspec.structs.replace(self, begun=begun)

    def ended(self, accepted: Accepted) -> ReceiverState:
        seq, upto_ts, manifest = to_fields(accepted)
        return msgspec.structs.replace(self, seq=seq, upto_ts=as_text(upto_ts), manifest=manifest, begun=None)


def state_of(text: str, *, where: object) -> ReceiverState:
    """Raises SinkError."""
    try:
        state = msgspec.json.decode(text, type=ReceiverState)
    except ValueError as error:
        raise SinkError(
            f"{where} answers GET with something else than a state of ours: {error}",
            hint="name the URL of a receiver: it answers GET with the last Ticdc-Dump-State, letter by letter (deploy/HTTP-SINK.md)",
        ) from error
    if state.version != VERSION:
        raise SinkError(f"{where} has a state of version {state.version}, this is {VERSION}", hint="run the ticdc-dump that wrote it")
    return state
