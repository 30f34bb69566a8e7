"""The records of the position topic: write, read, what is rejected, and what follows from them. Pure.

- What they are, and their place in the topic: position.py.
- A control record of an earlier term does not count after one of a later term: without transactions a previous owner may write one.
- A record under CLAIM_KEY says nothing to a reader. With transactions a task writes an empty one, to find out whether it is fenced.
  Releases up to 0.4 wrote others without transactions.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import msgspec

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.model.nouns import Seq, TableName
from spark_merge.port.contract import Accepted, Outcome, Owner, Rows

VERSION = 1
STATE_KEY, CLAIM_KEY = b"state", b"claim"

OUTCOME_BYTES_MAX = 256 << 10
"""A slot must fit into a message. Only reports use the counts, and only where a batch is done again."""


@dataclass(frozen=True, slots=True)
class TopicBatch:
    """A batch whose rows consumers may have seen. `slots_from`: for each transactional id, the offset from which its slots are; their
    number and `few_rows` are the parameters of the batch's cut (`cut.stages`). `sink`: `Head.received_as`. `manifest`: of the last segment.
    They are None and empty in records of 0.4 and before, which compared `log`, a digest of all manifests."""

    first: Seq
    last: Seq
    log: str
    slots_from: tuple[int, ...]
    few_rows: int
    sink: str | None = None
    manifest: str = ""


class SinkTerm(NamedTuple):
    """An owner's time, from one opening to the next. `token`: unique among owners that open at once without transactions; else empty."""

    owner: Owner
    token: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """`partitions`: for each topic that has been written, how many are used, permanently: a row stays in its partition. `token`: of its
    term. `opening`: the record begins a term, which continues the state before it, whatever the record itself says."""

    log_id: str
    protocol: str
    owner: Owner
    accepted: Accepted | None = None
    begun: TopicBatch | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    version: int = VERSION
    token: str = ""
    opening: bool = False

    @property
    def term(self) -> SinkTerm:
        return SinkTerm(self.owner, self.token)

    @property
    def key(self) -> bytes:
        """Of its record. Terms that are not fenced have one each, so that compaction keeps the records of each."""
        return b" ".join(filter(None, (STATE_KEY, self.token.encode())))

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def of(cls, data: bytes, *, where: str) -> Control:
        """Raises SinkError."""
        with _ours(where):
            control = msgspec.json.decode(data, type=cls)
        if control.version != VERSION:
            raise SinkError(f"{where} is of version {control.version}, this is {VERSION}", hint="run the ticdc-dump that wrote it")
        return control


_Counts: TypeAlias = tuple[Seq, str, str, int, int, int]
"""Segment, schema, table, and its `Rows`."""


@dataclass(frozen=True, slots=True)
class Slot:
    """`batch`: the last segment of the task's batch."""

    batch: Seq
    outcome: Outcome

    def to_bytes(self) -> bytes:
        counts: list[_Counts] = [(seq, *table, *rows) for (seq, table), rows in self.outcome.counts.items()]
        data = self._encoded(counts)
        return data if len(data) <= OUTCOME_BYTES_MAX else self._encoded([])

    def _encoded(self, counts: list[_Counts]) -> bytes:
        return zlib.compress(msgspec.json.encode([self.batch, self.outcome.task, counts]), 1)

    @classmethod
    def of(cls, data: bytes, *, where: str) -> Slot:
        """Raises SinkError."""
        with _ours(where):
            batch, task, counts = msgspec.json.decode(zlib.decompress(data), type=tuple[Seq, str, list[_Counts]])
        by_table = {(seq, TableName(schema, table)): Rows(*rows) for seq, schema, table, *rows in counts}
        return cls(batch, Outcome(task, by_table))


@dataclass(frozen=True, slots=True)
class PositionRead:
    """`slots` of one partition, if they were read too. `upto`: the offset behind the last record of that partition."""

    control: Control | None
    slots: tuple[Slot, ...] = ()
    upto: int = 0


@contextmanager
def _ours(where: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, zlib.error) as error:
        raise SinkError(
            f"{where} holds something else than this sink's position: {error}",
            hint="name another position-topic=, or run the ticdc-dump that wrote it",
        ) from error


def slots_of(records: Iterable[tuple[bytes | None, bytes | None]], *, where: str) -> tuple[Slot, ...]:
    """`records`: keys and values of a partition of slots. Raises SinkError."""
    return tuple(Slot.of(value, where=where) for key, value in records if key != CLAIM_KEY and value)


def current_control(records: Iterable[tuple[int, Control]]) -> tuple[int, Control] | None:
    """The state after these records, with the offset of the one that holds it."""
    current: tuple[int, Control] | None = None
    for offset, control in records:
        if current is None or (control.term >= current[1].term and not control.opening):
            current = offset, control
        elif control.term > current[1].term:
            current = current[0], replace(current[1], owner=control.owner, token=control.token, log_id=control.log_id)
    return current


def check_term(control: Control | None, term: SinkTerm, output: object) -> Control:
    """Raises OwnershipLost."""
    if control is None or control.term != term:
        owner = "nobody" if control is None else control.owner
        raise OwnershipLost(f"{output} has owner {owner}, this is {term.owner}", hint="nothing: the later owner continues")
    return control
