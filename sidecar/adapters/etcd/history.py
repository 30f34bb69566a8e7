"""`OperationHistory` in etcd, beside the dump's progress.

    {root}/history/{id}/entry    JSON of HistoryEntry

- The order is that in which etcd created the keys, whatever the owners' clocks were. A key that is written again keeps its place.
- The owner adds an entry and removes others (`surplus`) in one transaction. It reads once which keys there are, and knows them from then
  on: nobody else can write.
- Every transaction passes the owner's fence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from threading import Lock

from sidecar.adapters.etcd.keys import Delete, KeyEntry, Keys, Put
from sidecar.adapters.etcd.owner import EtcdOwner
from sidecar.history.entry import HistoryEntry, entry_from_json, surplus
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.model.nouns import OPERATION_ID, OperationId
from sidecar.shared.model.progress import DumpState

HISTORY_OPERATIONS_MAX = 12
"""Of a transaction: the entries of a dump that ends and of one that starts, and removals; those that are left come with the next."""

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)

Notice = Callable[[str], object]


def read_history(client: Keys, root: str, notice: Notice) -> list[HistoryEntry]:
    """Newest first. For everybody: reading needs no ownership. `notice` receives each key that is not an entry, which is omitted."""
    entries = sorted(client.get_prefix(f"{root}/history/"), key=_place, reverse=True)
    return [entry for one in entries if (entry := _decoded(one, notice)) is not None]


class EtcdHistory:
    """`OperationHistory` of the changefeed at `root`, written by `owner`'s process."""

    def __init__(self, client: Keys, root: str, owner: EtcdOwner, notice: Notice = lambda _: None) -> None:
        self.client = client
        self.root = root
        self.owner = owner
        self._notice = notice
        self._lock = Lock()
        self._states: dict[OperationId, DumpState] | None = None

    def find(self, operation_id: OperationId) -> HistoryEntry | None:
        entry = self.client.get(_key(self.root, operation_id))
        return None if entry is None else _decoded(entry, self._notice)

    def entries(self) -> Sequence[HistoryEntry]:
        return read_history(self.client, self.root, self._notice)

    def record(self, *entries: HistoryEntry) -> None:
        """As `OperationHistory.record`; HISTORY_OPERATIONS_MAX entries at most."""
        try:
            self.owner.fenced(self.writes(entries))
        except TicdcDumpError:
            with self._lock:
                self._states = None  # whether it was carried out is not known
            raise

    def writes(self, entries: Sequence[HistoryEntry]) -> list[Put | Delete]:
        """What a transaction of the owner's has to carry out so that `entries` are in the history; nothing for none."""
        if not entries:
            return []
        with self._lock:
            states = self._states = self._listed() if self._states is None else self._states
            for entry in entries:
                states.pop(entry.id, None)  # the order is that of the last records
                states[entry.id] = entry.state
            gone = surplus(states, but={entry.id for entry in entries})[: HISTORY_OPERATIONS_MAX - len(entries)]
            for operation_id in gone:
                del states[operation_id]
        puts = [Put(_key(self.root, entry.id), json.dumps(entry.to_json(), ensure_ascii=False).encode()) for entry in entries]
        return [*puts, *(Delete(_key(self.root, operation_id)) for operation_id in gone)]

    def _listed(self) -> dict[OperationId, DumpState]:
        """What was recorded longest ago first. An entry that cannot be read counts as over. A key of none is nobody's, and stays."""
        states = {}
        for one in sorted(self.client.get_prefix(f"{self.root}/history/"), key=attrgetter("modified", "key")):
            if match := re.fullmatch(f"({OPERATION_ID})/entry", one.key.removeprefix(f"{self.root}/history/")):
                entry = _decoded(one, self._notice)
                states[OperationId(match[1])] = DumpState.FAILED if entry is None else entry.state
        return states


def _key(root: str, operation_id: OperationId) -> str:
    """Ends so that no key begins with another one: a `Delete` is by prefix."""
    return f"{root}/history/{operation_id}/entry"


def _place(entry: KeyEntry) -> tuple[int, str]:
    return entry.created, entry.key


def _decoded(entry: KeyEntry, notice: Notice) -> HistoryEntry | None:
    try:
        return entry_from_json(json.loads(entry.value))
    except _UNREADABLE as error:
        notice(f"etcd key {entry.key} is not an entry of the history: {error!r}: it is not listed; delete it (etcdctl del {entry.key})")
        return None
