"""`ProgressStore` in etcd: the log's projection, which operators and the next owner read.

    {root}/progress                       head: JSON of each dump's Progress without its tables, how many it has, and how many parts there
                                          are of which generation
    {root}/progress/{generation}/{part}   JSON of PART_TABLES tables each, zlib: those of the first dump, then those of the next one;
                                          fewer where their predicates and keys are long (PART_SCOPE_BYTES_MAX)

- A save writes the head and only the parts that changed, in one transaction: what it costs PD grows with what a window
  closed, not with the number of tables. (10,000 tables at once are 2 MB, more than etcd takes.)
- What does not fit into one transaction is written aside as a new generation, in several, and counts from the head on that
  names it. So a load, which is one read of one revision, never sees half of a save.
- The entries of the history that are due with a save are in the head's transaction.
- Every transaction passes the owner's fence and compares the head as it was last seen: a request that etcd carries out late,
  after it was given up and sent again, changes nothing.
- An etcd that is away for a moment is tried again, for less than the lease; then CoordinationLost.
- In 0.4.0 and before, the head is the Progress of the only dump.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any
from uuid import uuid4

import stamina

from sidecar.adapters.etcd.client import OPERATIONS_MAX, TRANSACTION_BYTES_MAX
from sidecar.adapters.etcd.history import HISTORY_OPERATIONS_MAX, EtcdHistory
from sidecar.adapters.etcd.keys import Compare, Delete, KeyEntry, Keys, Put
from sidecar.adapters.etcd.owner import EtcdOwner
from sidecar.history.entry import HistoryEntry
from sidecar.shared.errors import CoordinationError, CoordinationLost, NoProgress
from sidecar.shared.model.progress import Progress, TableProgress, keys_bytes, progress_from_json, tables_to_json

PART_TABLES = 8
"""A closed window touches a few tables: smaller parts are more keys, larger ones more bytes for each change."""

PART_SCOPE_BYTES_MAX = 256 << 10
"""What predicates and keys of a part's tables may take, before compression. One table may have more."""

RETRY_LEASES = 0.5
"""A save is tried again for so much of a lease: long enough for an election in etcd, and over before the lease is."""

RETRY_WAIT_S = 0.05, 0.5

Parts = dict[int, bytes]

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, zlib.error)


def load_progress(client: Keys, root: str) -> tuple[Progress, ...]:
    """What was saved last, nothing if nothing was. For everybody: reading needs no ownership. Raises CoordinationError if what is
    there is no progress."""
    stored = _read(client, f"{root}/progress")
    return (stored.dumps or ()) if stored else ()


@dataclass(frozen=True, slots=True)
class _Stored:
    """The head as last seen. `modified` 0: there is none. `dumps` None: its parts were not read."""

    modified: int
    generation: str
    dumps: tuple[Progress, ...] | None


class EtcdProgress:
    """`ProgressStore` of the changefeed at `root`. `save` is for `owner`'s process; one thread saves. `notice` receives what is there and
    is no progress."""

    def __init__(self, client: Keys, root: str, owner: EtcdOwner, notice: Callable[[str], object] = lambda _: None) -> None:
        self.client = client
        self._notice = notice
        self.owner = owner
        self.history = EtcdHistory(client, root, owner, notice)
        self._head = f"{root}/progress"
        self._stored: _Stored | None = None

    def load(self) -> tuple[Progress, ...]:
        """As `load_progress`; but what is no progress is noticed and skipped, for the log has what it should say, and the next save
        replaces it."""
        try:
            self._stored = _read(self.client, self._head)
        except NoProgress as error:
            self._stored = None
            self._notice(f"{error.message}: it is written again from the log")
        return (self._stored.dumps or ()) if self._stored else ()

    def save(self, dumps: Sequence[Progress], entries: Sequence[HistoryEntry] = ()) -> None:
        """Durable when it returns, with `entries`. Raises OwnershipLost if another one owns the changefeed, and CoordinationLost if etcd
        stays away; then the save may have been carried out or not, and may be repeated."""
        first_s, most_s = RETRY_WAIT_S
        limit_s = self.owner.lease_s * RETRY_LEASES
        beside: Sequence[Put | Delete] | None = None
        retries = stamina.retry_context(CoordinationLost, attempts=None, timeout=limit_s, wait_initial=first_s, wait_max=most_s)
        for attempt in retries:
            with attempt:
                beside = self.history.writes(entries) if beside is None else beside
                self._save(tuple(dumps), beside)

    def _save(self, dumps: tuple[Progress, ...], beside: Sequence[Put | Delete]) -> None:
        stored = self._stored or self._look()
        changed = _changed(stored.dumps, dumps)
        if changed is None or len(batches := list(_batches(changed))) > 1:
            self._rewrite(dumps, stored, beside)
        else:
            self._write(dumps, stored, stored.generation, [*self._puts(stored.generation, batches[0] if batches else {}), *beside])

    def _rewrite(self, dumps: tuple[Progress, ...], stored: _Stored, beside: Sequence[Put | Delete]) -> None:
        """A new generation under a name of its own, so that nothing of an earlier attempt can come late into it. The remains of those
        attempts are removed first, the previous generation together with the head."""
        generation = uuid4().hex[:12]
        generations = {
            entry.key.removeprefix(f"{self._head}/").partition("/")[0] for entry in self.client.get_prefix(f"{self._head}/", keys_only=True)
        }
        left = sorted(generations - {stored.generation})
        for start in range(0, len(left), OPERATIONS_MAX):
            self._transact(stored, [Delete(f"{self._head}/{name}/") for name in left[start : start + OPERATIONS_MAX]])
        for batch in _batches(_parts(_tables(dumps))):
            self._transact(stored, self._puts(generation, batch))
        previous = [Delete(f"{self._head}/{stored.generation}/")] if stored.modified else []
        self._write(dumps, stored, generation, [*previous, *beside])

    def _write(self, dumps: tuple[Progress, ...], stored: _Stored, generation: str, writes: Sequence[Put | Delete]) -> None:
        """The head, and with it what makes it true."""
        parts = len(_cuts(_tables(dumps)))
        heads = [dataclasses.replace(one, tables=()).to_json() | {"tables": len(one.tables)} for one in dumps]
        head = json.dumps({"dumps": heads, "parts": parts, "generation": generation}, ensure_ascii=False).encode()
        modified = self._transact(stored, [Put(self._head, head), *writes])
        self._stored = _Stored(modified, generation, dumps)

    def _transact(self, stored: _Stored, writes: Sequence[Put | Delete]) -> int:
        """etcd's revision after it. A head that is another than the one seen last, also by an attempt of ours whose reply was
        lost, is looked at again, and all of it written."""
        done = self.owner.fenced(writes, compares=[Compare(self._head, "modified", stored.modified)])
        if done.succeeded:
            return done.revision
        self._stored = None
        raise CoordinationLost(f"etcd key {self._head} was written meanwhile", hint="it is read and written again")

    def _look(self) -> _Stored:
        """The head alone: enough to replace all of it, also when what is there cannot be read."""
        entry = self.client.get(self._head)
        if entry is None:
            return _Stored(0, "", None)
        try:
            return _Stored(entry.modified, str(json.loads(entry.value)["generation"]), None)
        except _UNREADABLE:
            return _Stored(entry.modified, "unreadable", None)

    def _puts(self, generation: str, parts: Parts) -> list[Put]:
        return [Put(_part_key(self._head, generation, part), data) for part, data in parts.items()]


def _read(client: Keys, head_key: str) -> _Stored | None:
    entries = {entry.key: entry for entry in client.get_prefix(head_key)}
    head = entries.get(head_key)
    if head is None:
        return None
    try:
        return _decoded(head, entries)
    except _UNREADABLE as error:
        raise NoProgress(
            f"etcd key {head_key} is not a dump's progress: {error!r}",
            hint=f"delete it (etcdctl del --prefix {head_key}): it only repeats what the log holds, and is written again from there",
        ) from error


def _decoded(head: KeyEntry, entries: dict[str, KeyEntry]) -> _Stored:
    head_json: dict[str, Any] = json.loads(head.value)
    generation = str(head_json["generation"])
    parts = [entries[_part_key(head.key, generation, part)].value for part in range(int(head_json["parts"]))]
    tables = list(chain.from_iterable(json.loads(zlib.decompress(part)) for part in parts))
    heads = head_json.get("dumps", [head_json])
    if len(tables) != sum(one["tables"] for one in heads):
        raise ValueError(f"{len(tables)} tables instead of {[one['tables'] for one in heads]}")
    rest = iter(tables)
    dumps = [progress_from_json(one | {"tables": list(islice(rest, one["tables"]))}) for one in heads]
    return _Stored(head.modified, generation, tuple(dumps))


def _part_key(head_key: str, generation: str, part: int) -> str:
    return f"{head_key}/{generation}/{part:05d}"


Tables = tuple[TableProgress, ...]


def _tables(dumps: Iterable[Progress]) -> Tables:
    return tuple(chain.from_iterable(one.tables for one in dumps))


def _changed(before: tuple[Progress, ...] | None, after: tuple[Progress, ...]) -> Parts | None:
    """The parts that differ; None if there is nothing to compare with, or the parts have other tables."""
    if before is None or _cuts(_tables(before)) != _cuts(_tables(after)):
        return None
    return _parts(_tables(after), unlike=_tables(before))


def _parts(tables: Tables, *, unlike: Tables = ()) -> Parts:
    """By number; without those that are in `unlike` as they are."""
    parts = {}
    for part, cut in enumerate(_cuts(tables)):
        some = tables[cut]
        if some != unlike[cut]:
            parts[part] = _encoded(some)
    return parts


def _cuts(tables: Tables) -> list[slice]:
    """The tables of each part."""
    cuts: list[slice] = []
    start = size = 0
    for place, table in enumerate(tables):
        more = len(table.where or "") + (keys_bytes(table.keys) if table.keys else 0)
        if place - start >= PART_TABLES or (place > start and size + more > PART_SCOPE_BYTES_MAX):
            cuts.append(slice(start, place))
            start, size = place, 0
        size += more
    return [*cuts, slice(start, len(tables))] if tables else []


def _encoded(tables: Tables) -> bytes:
    data = zlib.compress(json.dumps(tables_to_json(tables), ensure_ascii=False, separators=(",", ":")).encode())
    if len(data) > TRANSACTION_BYTES_MAX:
        raise CoordinationError(
            f"the progress of tables {tables[0].table} to {tables[-1].table} takes {len(data)} bytes,"
            f" and etcd {TRANSACTION_BYTES_MAX} at most",
            hint="dump with fewer keys or a shorter predicate at a time",
        )
    return data


def _batches(parts: Parts) -> Iterator[Parts]:
    """Cut so that each fits into a transaction beside the head, a delete and what the history writes."""
    batch: Parts = {}
    size = 0
    for part, data in parts.items():
        if batch and (len(batch) >= OPERATIONS_MAX - 2 - HISTORY_OPERATIONS_MAX or size + len(data) > TRANSACTION_BYTES_MAX):
            yield batch
            batch, size = {}, 0
        batch[part] = data
        size += len(data)
    if batch:
        yield batch
