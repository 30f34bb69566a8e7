"""Messages of the feed that an operator parks, because the stream cannot pass them: one file a message, beside the segments.

    unreadable.json        the message at which the stream stopped last, and why: for an operator to look at
    parked/{digest}.json   the same, with the operator's decision: which tables it may have changed

- A message is known by its lane, its position and its bytes: of another one at its place the decision says nothing.
- The file of a decision is created exclusively, and nothing removes it. It is the message's only copy once the feed has forgotten it.
- Nobody can know what the message would have changed, or that it was a change at all: the tables that the operator names have a hole
  from there on (model/hole.py), and rows may have gone.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Lane, Message, TableName

FOLDER, STOPPED_AT = "parked", "unreadable.json"
HOW_TO_PASS = "if it cannot be mended: ticdc-dump park --config FILE shows the message, and lets the stream pass it"


@dataclass(frozen=True, slots=True)
class StoppedAt:
    """`error`: what the stream stopped with, `at_ms` by the wall clock."""

    lane: Lane
    position: int
    key: bytes | None
    value: bytes | None
    error: str
    at_ms: int

    @property
    def message(self) -> Message:
        return Message(self.lane, self.position, self.key, self.value)


@dataclass(frozen=True, slots=True)
class Parked:
    """`tables`: those that the message may have changed; None: each. `by`: user@host. `parked_ms` by the wall clock."""

    stopped: StoppedAt
    tables: tuple[TableName, ...] | None
    by: str
    parked_ms: int

    def to_json(self) -> dict[str, Any]:
        """JSON values only; the position as a decimal string, bytes in base64."""
        said = None if self.tables is None else [list(table) for table in self.tables]
        return stopped_to_json(self.stopped) | {"tables": said, "by": self.by, "parked_ms": self.parked_ms}


class _StoppedAt(msgspec.Struct):
    lane: Lane
    position: int
    key: bytes | None
    value: bytes | None
    error: str
    at_ms: int


class _Parked(_StoppedAt):
    tables: tuple[tuple[str, str], ...] | None
    by: str
    parked_ms: int


T = TypeVar("T", bound=_StoppedAt)


def digest(message: Message) -> str:
    """Of what a message is known by, whatever was before it in its lane."""
    hashed = hashlib.sha256(msgspec.json.encode((message.lane, message.position)))
    for part in (message.key, message.value):
        hashed.update(b"-" if part is None else len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()[:32]


def write_stopped(log: Folder, stopped: StoppedAt) -> None:
    """In the place of the one before. Raises as the log's storage."""
    storage.write_atomically(log, STOPPED_AT, msgspec.json.encode(stopped_to_json(stopped)))


def read_stopped(log: Folder) -> StoppedAt | None:
    """None where the stream has not stopped at a message. Raises LogBroken."""
    data = storage.read_if_there(log, STOPPED_AT)
    return None if data is None else _stopped(_decoded(log, STOPPED_AT, data, _StoppedAt))


def park(log: Folder, parked: Parked) -> bool:
    """Durable when it returns. False where the message has been parked before: then nothing is changed."""
    data = msgspec.json.format(msgspec.json.encode(parked.to_json()), indent=1)
    return storage.create_exclusively(log, f"{FOLDER}/{digest(parked.stopped.message)}.json", data)


def read_parked(log: Folder) -> list[Parked]:
    """Oldest first. Raises LogBroken."""
    names = [f"{FOLDER}/{name}" for name in storage.list_names(log, under=FOLDER, deep=False) if name.endswith(".json")]
    files = storage.read_files(log, names) if names else {}
    parked = [_parked(_decoded(log, name, files[name], _Parked)) for name in names if name in files]
    return sorted(parked, key=lambda one: one.parked_ms)


def _parked(file: _Parked) -> Parked:
    tables = None if file.tables is None else tuple(TableName(*table) for table in file.tables)
    return Parked(_stopped(file), tables, file.by, file.parked_ms)


def _stopped(file: _StoppedAt) -> StoppedAt:
    return StoppedAt(file.lane, file.position, file.key, file.value, file.error, file.at_ms)


def stopped_to_json(stopped: StoppedAt) -> dict[str, Any]:
    """JSON values only; the position as a decimal string, bytes in base64."""
    key, value = (None if part is None else base64.b64encode(part).decode() for part in (stopped.key, stopped.value))
    where: dict[str, Any] = {"lane": stopped.lane, "position": str(stopped.position)}
    return where | {"key": key, "value": value, "error": stopped.error, "at_ms": stopped.at_ms}


def _decoded(log: Folder, name: str, data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind, strict=False)
    except ValueError as error:
        hint = "restore it from a backup: it decides which message the stream passes"
        raise LogBroken(f"segment log {log}: {name} is not readable: {error}", hint=hint) from error
