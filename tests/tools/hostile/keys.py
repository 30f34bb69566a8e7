"""What etcd has under our keys and under TiCDC's that is none of what belongs there, of area 5: written by a hand, by another version, by
a restore that came half way. Its readers are the product's own; etcd is a dictionary."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

from sidecar.adapters.etcd.changefeed import read_changefeed_info, read_checkpoint_ts, read_life
from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.history import EtcdHistory, read_history
from sidecar.adapters.etcd.keys import KeyEntry
from sidecar.adapters.etcd.owner import EtcdOwner, owner
from sidecar.adapters.etcd.progress import EtcdProgress, load_progress
from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope
from sidecar.shared.config import EtcdSection
from sidecar.shared.model.messages import NOT_RECORDED
from sidecar.shared.model.nouns import OperationId
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed
from tests.tools.hostile.attempts import Attempt, Fault, Outcome, refuses

ROOT = "/ticdc-dump/default/default/cf/1"
NAME = ChangefeedName("default", "default", "cf")

NO_JSON: dict[str, bytes] = {
    "nothing": b"",
    "no text": bytes(range(256)),
    "half an object": b'{"tables": 1, "generation": "x',
    "null": b"null",
    "a list": b"[]",
    "a number": b"1e400",
    "10,000 brackets": b"[" * 10_000,
    "100,000 objects": b'{"a":' * 100_000,
    "another object": b'{"x": 1}',
}
HEAD = {"tables": 0, "parts": 0, "generation": "g"}


class Etcd:
    """As much of EtcdClient as readers ask."""

    section = EtcdSection(endpoints=("127.0.0.1:1",))

    def __init__(self, values: dict[str, bytes]) -> None:
        self._values = values

    def get(self, key: str, *, revision: int = 0) -> KeyEntry | None:  # EtcdClient's
        return KeyEntry(key, self._values[key], 1, 1, 0) if key in self._values else None

    def members(self) -> tuple[str, ...]:
        return self.section.endpoints

    def get_prefix(self, prefix: str, *, keys_only: bool = False) -> list[KeyEntry]:  # EtcdClient's
        return [KeyEntry(key, value, 1, 1, 0) for key, value in self._values.items() if key.startswith(prefix)]


def attempts() -> Iterator[Attempt]:
    for name, values in _progress():
        yield refuses(f"etcd: progress is {name}", partial(load_progress, _client(values), ROOT))
        yield Attempt(f"etcd: the owner finds progress that is {name}", partial(_passed_over, values))
    for name, data in _entries():
        yield Attempt(f"etcd: an entry of the history is {name}", partial(_left_out, data))
    for name, data in NO_JSON.items():
        yield refuses(f"etcd: the owner's key is {name}", partial(owner, _client({f"{ROOT}/owner": data}), ROOT))
        for what, read in _READERS.items():
            yield refuses(f"etcd: the changefeed's {what} is {name}", partial(read, data))
    for status in (b'{"checkpoint-ts": 0}', b'{"checkpoint-ts": -5}', b'{"checkpoint-ts": "1"}', b'{"checkpoint-ts": 1e30}'):
        yield refuses(f"etcd: the changefeed's status is {status.decode()}", partial(_status, status))


def _progress() -> Iterator[tuple[str, dict[str, bytes]]]:
    head = f"{ROOT}/progress"
    for name, data in NO_JSON.items():
        yield name, {head: data}
    heads: dict[str, dict[str, object]] = {
        "without its parts": {"parts": 3, "tables": 3},
        "of a billion parts": {"parts": 1_000_000_000},
        "of -1 parts": {"parts": -1, "tables": 1},
        "of inf parts": {"parts": float("inf")},
        "of more tables than there are": {"tables": 7},
        "of a generation that is a path": {"generation": "../../x", "parts": 1},
        "without the dump's fields": {},
    }
    for name, fields in heads.items():
        yield name, {head: json.dumps(HEAD | fields).encode()}
    parts = {"no zlib": b"x", "no JSON": zlib.compress(b"["), "deep": zlib.compress(b"[" * 100_000), "of a number": zlib.compress(b"1")}
    for name, part in parts.items():
        yield f"of a part that is {name}", {head: json.dumps(HEAD | {"parts": 1, "tables": 1}).encode(), f"{head}/g/00000": part}


def _entries() -> Iterator[tuple[str, bytes]]:
    yield from NO_JSON.items()
    good = HistoryEntry(OperationId("1" * 16), OperationKind.DUMP, OperationScope(), NOT_RECORDED, 0).to_json()
    changed: dict[str, object] = {"kind": "backup", "state": "bored", "rows": 1e400, "commands": [{}], "scope": 7, "asked_by": None}
    for field, value in changed.items():
        yield f"with {field} {value}", json.dumps(good | {field: value}).encode()


def _left_out(data: bytes) -> Outcome:
    """The others are listed, and the owner continues."""
    key, reports = f"{ROOT}/history/{'1' * 16}/entry", list[str]()
    client = _client({key: data})
    entries = [
        *read_history(client, ROOT, reports.append),
        EtcdHistory(client, ROOT, cast("EtcdOwner", None), reports.append).find(OperationId("1" * 16)),
    ]
    if entries != [None] or len(reports) != 2:
        raise Fault(Outcome.ACCEPTED, f"{entries}, and reported: {reports}")
    return Outcome.HARMLESS


def _client(values: dict[str, bytes]) -> EtcdClient:
    return cast("EtcdClient", Etcd(values))


def _passed_over(values: dict[str, bytes]) -> Outcome:
    """The log is the truth: its owner knows what is there, and writes it again."""
    reports: list[str] = []
    results = EtcdProgress(_client(values), ROOT, cast("EtcdOwner", None), reports.append).load()
    if results or len(reports) != 1:
        raise Fault(Outcome.ACCEPTED, f"{results}, and reported: {reports}")
    return Outcome.HARMLESS


def _info(data: bytes) -> object:
    return changefeed(NAME, read_changefeed_info(_client({f"/tidb/cdc/default/default/changefeed/info/{NAME.id}": data}), NAME))


def _status(data: bytes) -> object:
    return read_checkpoint_ts(_client({f"/tidb/cdc/default/default/changefeed/status/{NAME.id}": data}), NAME)


def _life(data: bytes) -> object:
    keys = {what: f"/tidb/cdc/default/default/changefeed/{what}/{NAME.id}" for what in ("info", "status")}
    return read_life(_client({keys["info"]: b"{}", keys["status"]: data}), NAME)


_READERS: dict[str, Callable[[bytes], object]] = {"definition": _info, "status": _status, "status, in its life,": _life}
