"""The output's position: commits one after another, each created exclusively. Whoever makes the next one has read all before it.

    open     what the last commit accepted has appeared (publish.py), and the next commit says who the owner is: a former one, who counts on
             that number for itself, can commit no more
    accept   the next commit says under which names what was staged appears; then it does

Every now and then a head says what the commits come to, and commits well before it are removed. A former owner may then make again a
number that was removed: so whoever makes one, or asks whether its own is the last, looks whether there is a later head; and there is, or
the number would still be there.

Before that commit nothing of a batch is seen, and after it all of it comes under these names, whoever dies: so a batch may be done again in
any cut, date and number are fixed once, and a file has one content for ever.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.contract import Accepted, Owner
from spark_merge.sinks.fence import taken
from spark_merge.sinks.files.layout import storage_errors
from spark_merge.sinks.storage.layout import COMMITS, HEAD_OF_VERSION_1, HEADS, Place, commit_path, head_path
from spark_merge.sinks.storage.names import Change, Last, Named, Names, Version

FORMAT_VERSION = 1
HEAD_EVERY = 50
"""Commits between two heads: what an opening owner reads at most, but for a former one's last word. As many stay before a head."""

_LOOK_FIRST = 4
"""Commits that are asked for at once at first: mostly the head is one of the last."""

_RESTORE = "restore it, or deliver to a new folder, and dump again"


@dataclass(frozen=True, slots=True)
class Commit:
    """`by`: drawn by the process that made it, so that two who open at once can tell whose it is. `accepted`: the last segment that is
    accepted from here on. `named`: what appears; nothing where `owner` opened."""

    number: int
    owner: Owner
    by: str
    accepted: Accepted | None
    named: Named


@dataclass(frozen=True, slots=True)
class Position:
    """The last commit, and what the names are after it."""

    last: Commit
    names: Names


class Commits:
    """For one owner at a time."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._by = secrets.token_hex(8)

    def find(self) -> Position | None:
        """Nothing is written. What is read while another writes a head, and removes what is before it, is read again."""
        while True:
            heads = self._numbers(HEADS)
            found = self._from(head_path(max(heads)) if heads else HEAD_OF_VERSION_1)
            if self._numbers(HEADS) == heads:
                break
        with storage_errors(self._folder):
            if found is None and (heads or storage.exists(self._folder, HEAD_OF_VERSION_1)):
                raise SinkError(f"{self._folder}/{COMMITS} has no commit of its head's number", hint=_RESTORE)
        return found

    def _from(self, head_name: str) -> Position | None:
        """The last commit from a head on; where that is not there, from the first one on."""
        with storage_errors(self._folder):
            head = storage.read_files(self._folder, [head_name]).get(head_name)
        number, names = (0, Names()) if head is None else _head_of(head, f"{self._folder}/{head_name}")
        last, at, step = None, number, _LOOK_FIRST
        while True:
            paths = [commit_path(one) for one in range(at, at + step)]
            with storage_errors(self._folder):
                found = storage.read_files(self._folder, paths)
            for path in takewhile(found.__contains__, paths):
                last = _commit_of(found[path], f"{self._folder}/{path}")
                names = names if head is not None and last.number == number else names.after(last.named.change)
            if len(found) < len(paths):
                break
            at, step = at + step, min(2 * step, HEAD_EVERY)
        return None if last is None else Position(last, names)

    def opened(self, before: Position | None, epoch: int | None) -> Position | None:
        """Become the owner after `before`; None: another one was quicker. Raises OwnershipLost if a later epoch has opened it."""
        last = None if before is None else before.last
        owner = Owner.after(last.owner if last else None, epoch, of=self._folder)
        names = Names() if before is None else before.names
        opening = Commit(
            last.number + 1 if last else 0, owner, self._by, last.accepted if last else None, Named(Change(names.begin_ts, names.date))
        )
        if not self._create(opening):
            return None
        found = Position(opening, names)
        self.write_head(found)
        return found

    def accept(self, before: Position, accepted: Accepted, named: Named) -> Position:
        """Raises OwnershipLost for a former owner."""
        commit = Commit(before.last.number + 1, before.last.owner, self._by, accepted, named)
        if not self._create(commit):
            raise taken(self._folder)
        return Position(commit, before.names.after(named.change))

    def check_last(self, number: int) -> None:
        """Raises OwnershipLost where there are later ones."""
        with storage_errors(self._folder):
            later = storage.exists(self._folder, commit_path(number + 1))
        if later or self._has_head_after(number):
            raise taken(self._folder)

    def write_head(self, position: Position) -> None:
        head = {"version": FORMAT_VERSION, "number": position.last.number, "names": _change_to_plain(_whole(position.names))}
        with storage_errors(self._folder):
            storage.create_exclusively(self._folder, head_path(position.last.number), _json(head))
        gone = [head_path(number) for number in self._numbers(HEADS) if number < position.last.number]
        gone += [commit_path(number) for number in self._numbers(COMMITS) if number < position.last.number - HEAD_EVERY]
        with storage_errors(self._folder):
            storage.remove(self._folder, gone)

    def _create(self, commit: Commit) -> bool:
        with storage_errors(self._folder):
            created = storage.create_exclusively(self._folder, commit_path(commit.number), _commit_to_json(commit))
        return created and not self._has_head_after(commit.number)

    def _has_head_after(self, number: int) -> bool:
        return any(head > number for head in self._numbers(HEADS))

    def _numbers(self, place: str) -> list[int]:
        with storage_errors(self._folder):
            names = storage.list_names(replace(self._folder, root=self._folder.path(place)), deep=False)
        return sorted(int(name) for name in names if name.isdecimal())


# ---- as JSON -------------------------------------------------------------------------------------------------------------


def _commit_to_json(commit: Commit) -> bytes:
    accepted = commit.accepted
    return _json(
        {
            "version": FORMAT_VERSION,
            "number": commit.number,
            "owner": list(commit.owner),
            "by": commit.by,
            "accepted": None if accepted is None else [accepted.seq, str(accepted.upto_ts), accepted.manifest],
            "change": _change_to_plain(commit.named.change),
            "before": commit.named.before,
            "files": commit.named.files,
            "after": commit.named.after,
        }
    )


def _commit_of(data: bytes, name: str) -> Commit:
    with _reading(data, name) as found:
        epoch, incarnation = found["owner"]
        accepted = None
        if found["accepted"] is not None:
            seq, upto_ts, manifest = found["accepted"]
            accepted = Accepted(Seq(int(seq)), CommitTs(int(upto_ts)), str(manifest))
        files = tuple((str(staged), str(final)) for staged, final in found["files"])
        named = Named(_change_of(found["change"]), found["before"], files, found["after"])
        return Commit(int(found["number"]), Owner(int(epoch), int(incarnation)), str(found["by"]), accepted, named)


def _head_of(data: bytes, name: str) -> tuple[int, Names]:
    with _reading(data, name) as found:
        return int(found["number"]), Names().after(_change_of(found["names"]))


def _whole(names: Names) -> Change:
    return Change(names.begin_ts, names.date, dict(names.versions), names.lasts)


def _change_to_plain(change: Change) -> dict[str, Any]:
    versions = [[*name, None if one is None else [str(one.version), one.checksum]] for name, one in change.versions.items()]
    lasts = [[*place.table, place.partition, str(last.version), last.date, last.number] for place, last in change.lasts.items()]
    return {"begin_ts": str(change.begin_ts), "date": change.date, "versions": versions, "lasts": lasts}


def _change_of(found: Any) -> Change:
    versions = {TableName(schema, table): None if one is None else Version(int(one[0]), one[1]) for schema, table, one in found["versions"]}
    lasts = {
        Place(TableName(schema, table), int(partition)): Last(int(version), date, int(number))
        for schema, table, partition, version, date, number in found["lasts"]
    }
    return Change(int(found["begin_ts"]), found["date"], versions, lasts)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@contextmanager
def _reading(data: bytes, name: str) -> Iterator[Any]:
    try:
        found = json.loads(data)
        if found["version"] != FORMAT_VERSION:
            raise SinkError(
                f"{name} has format version {found['version']}, this ticdc-dump knows {FORMAT_VERSION}",
                hint="run the version that wrote it, or deliver to a new folder",
            )
        yield found
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise SinkError(f"{name} is not readable: {error!r}", hint=_RESTORE) from error
