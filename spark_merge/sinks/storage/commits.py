"""The position of an output in TiCDC's storage layout (`PositionStore`): commits one after another, each created exclusively, after its
maker has read the last.

    opening      identity.py says whose output it is → what the last commit accepted has appeared (publish.py) → the next commit names
                 the owner → a head
    accepting    the next commit says under which names what was staged appears → it does

Every now and then a head says what the commits come to, and commits well before it are removed. A previous owner that was frozen may create
a number again that was removed: so who has created a commit, or asks whether its own is the last, looks for a later head; and there is one,
or the number would still be there.

Before that commit nothing of a batch is seen, and after it all of it comes under these names, whoever dies: so a batch may be done again in
any cut, date and number are fixed once, and a file has one content for ever.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.errors import OwnershipLost, SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.errors import storage_errors
from spark_merge.sinks.fence import check_exclusive, taken
from spark_merge.sinks.position import Missed, OutputState, Stored
from spark_merge.sinks.storage.identity import StorageIdentity, claim_identity, read_identity
from spark_merge.sinks.storage.layout import COMMITS, HEAD_OF_VERSION_1, HEADS, PROBE, StoragePlace, commit_path, head_path
from spark_merge.sinks.storage.names import Last, Named, NamesChange, StorageNames, StoredVersion
from spark_merge.sinks.storage.options import StorageOptions
from spark_merge.sinks.storage.publish import publish

FORMAT_VERSION = 1
HEAD_EVERY = 50
"""Commits between two heads: what an opening owner reads at most, but for a former one's last word. As many stay before a head."""

_LOOK_FIRST = 4
"""Commits that are asked for at once at first: mostly the head is one of the last."""

NO_OWNER = Owner(0, 0)
"""Of a folder that has an identity and no commit: its first opening died."""

_RESTORE = "restore it, or deliver to a new folder, and dump again"


@dataclass(frozen=True, slots=True)
class StorageCommit:
    """`by`: drawn by the process that made it, so that two who open at once can tell whose it is. `accepted`: the last segment that is
    accepted from here on. `named`: what appears; nothing where `owner` opened."""

    number: int
    owner: Owner
    by: str
    accepted: Accepted | None
    named: Named


class StorageVersion(NamedTuple):
    """What the next swap is compared with; `last` None where no commit is."""

    identity: StorageIdentity
    last: StorageCommit | None


class StoragePositions:
    """`PositionStore` in `folder`. The detail is what the names are after all commits, the payload what appears."""

    def __init__(self, folder: Folder, options: StorageOptions) -> None:
        self._folder, self._options = folder, options
        self._by = secrets.token_hex(8)
        self.place = str(folder)

    def read(self) -> Stored[StorageNames] | None:
        identity = read_identity(self._folder, self._options)
        if identity is None:
            return None
        last, names = self._find()
        version = StorageVersion(identity, last)
        if last is None:
            return Stored(OutputState(identity.log_id, NO_OWNER), version)
        return Stored(OutputState(identity.log_id, last.owner, last.accepted, None if names == StorageNames() else names), version)

    def compare_and_swap(
        self, before: Stored[StorageNames] | None, after: OutputState[StorageNames], payload: Named | None = None
    ) -> Stored[StorageNames] | Missed:
        if before is None or after.owner != before.state.owner:
            return self._opened(before, after)
        version, named = _version(before), payload or _nothing(after.detail)
        commit = StorageCommit(_number_after(version), after.owner, self._by, after.accepted, named)
        if not self._create(commit):
            return Missed.CONFLICT
        self._publish(commit)
        if commit.number % HEAD_EVERY == 0:
            self._write_head(commit.number, after.detail)
        return Stored(after, version._replace(last=commit))

    def _opened(self, before: Stored[StorageNames] | None, after: OutputState[StorageNames]) -> Stored[StorageNames] | Missed:
        check_exclusive(self._folder, PROBE)
        known = None if before is None else _version(before)
        identity = claim_identity(self._folder, known and known.identity, StorageIdentity(after.log_id, self._options))
        if identity is None:
            return Missed.CONFLICT
        version = StorageVersion(identity, known and known.last)
        try:
            if version.last is not None:
                self._publish(version.last)
        except OwnershipLost:
            return Missed.CONFLICT
        commit = StorageCommit(_number_after(version), after.owner, self._by, after.accepted, _nothing(after.detail))
        if not self._create(commit):
            return Missed.CONFLICT
        self._write_head(commit.number, after.detail)
        return Stored(after, version._replace(last=commit))

    def _publish(self, commit: StorageCommit) -> None:
        """What it accepted appears. Raises OwnershipLost where there is a later one."""
        publish(self._folder, commit.named, commit.accepted, partial(self._check_last, commit.number))

    def _check_last(self, number: int) -> None:
        with storage_errors(self._folder):
            later = storage.exists(self._folder, commit_path(number + 1))
        if later or self._has_head_after(number):
            raise taken(self._folder)

    # ---- files ------------------------------------------------------------------------------------------------------

    def _find(self) -> tuple[StorageCommit | None, StorageNames]:
        """The last commit, and what the names are after it. What is read while another writes a head, and removes what is before it, is
        read again."""
        while True:
            heads = self._numbers(HEADS)
            last, names = self._from(head_path(max(heads)) if heads else HEAD_OF_VERSION_1)
            if self._numbers(HEADS) == heads:
                break
        with storage_errors(self._folder):
            if last is None and (heads or storage.exists(self._folder, HEAD_OF_VERSION_1)):
                raise SinkError(f"{self._folder}/{COMMITS} has no commit of its head's number", hint=_RESTORE)
        return last, names

    def _from(self, head_name: str) -> tuple[StorageCommit | None, StorageNames]:
        """Of the commits from a head on; where that is not there, from the first one on."""
        with storage_errors(self._folder):
            head = storage.read_files(self._folder, [head_name]).get(head_name)
        number, names = (0, StorageNames()) if head is None else _head_of(head, f"{self._folder}/{head_name}")
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
        return last, names

    def _write_head(self, number: int, names: StorageNames | None) -> None:
        head = {"version": FORMAT_VERSION, "number": number, "names": _change_to_plain(_whole(names or StorageNames()))}
        with storage_errors(self._folder):
            storage.create_exclusively(self._folder, head_path(number), _json(head))
        gone = [head_path(one) for one in self._numbers(HEADS) if one < number]
        gone += [commit_path(one) for one in self._numbers(COMMITS) if one < number - HEAD_EVERY]
        with storage_errors(self._folder):
            storage.remove(self._folder, gone)

    def _create(self, commit: StorageCommit) -> bool:
        with storage_errors(self._folder):
            created = storage.create_exclusively(self._folder, commit_path(commit.number), _commit_to_json(commit))
        return created and not self._has_head_after(commit.number)

    def _has_head_after(self, number: int) -> bool:
        return any(head > number for head in self._numbers(HEADS))

    def _numbers(self, place: str) -> list[int]:
        with storage_errors(self._folder):
            names = storage.list_names(replace(self._folder, root=self._folder.path(place)), deep=False)
        return sorted(int(name) for name in names if name.isdecimal())


def _version(stored: Stored[StorageNames]) -> StorageVersion:
    assert isinstance(stored.version, StorageVersion)
    return stored.version


def _number_after(version: StorageVersion) -> int:
    return version.last.number + 1 if version.last else 0


def _nothing(names: StorageNames | None) -> Named:
    """What a commit says where nothing appears."""
    names = names or StorageNames()
    return Named(NamesChange(names.begin_ts, names.date))


# ---- as JSON -------------------------------------------------------------------------------------------------------------


def _commit_to_json(commit: StorageCommit) -> bytes:
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


def _commit_of(data: bytes, name: str) -> StorageCommit:
    with _reading(data, name) as found:
        epoch, incarnation = found["owner"]
        accepted = None
        if found["accepted"] is not None:
            seq, upto_ts, manifest = found["accepted"]
            accepted = Accepted(Seq(int(seq)), CommitTs(int(upto_ts)), str(manifest))
        files = tuple((str(staged), str(final)) for staged, final in found["files"])
        named = Named(_change_of(found["change"]), found["before"], files, found["after"])
        return StorageCommit(int(found["number"]), Owner(int(epoch), int(incarnation)), str(found["by"]), accepted, named)


def _head_of(data: bytes, name: str) -> tuple[int, StorageNames]:
    with _reading(data, name) as found:
        return int(found["number"]), StorageNames().after(_change_of(found["names"]))


def _whole(names: StorageNames) -> NamesChange:
    return NamesChange(names.begin_ts, names.date, dict(names.versions), names.lasts)


def _change_to_plain(change: NamesChange) -> dict[str, Any]:
    versions = [[*name, None if one is None else [str(one.version), one.checksum]] for name, one in change.versions.items()]
    lasts = [[*place.table, place.partition, str(last.version), last.date, last.number] for place, last in change.lasts.items()]
    return {"begin_ts": str(change.begin_ts), "date": change.date, "versions": versions, "lasts": lasts}


def _change_of(found: Any) -> NamesChange:
    versions = {
        TableName(schema, table): None if one is None else StoredVersion(int(one[0]), one[1]) for schema, table, one in found["versions"]
    }
    lasts = {
        StoragePlace(TableName(schema, table), int(partition)): Last(int(version), date, int(number))
        for schema, table, partition, version, date, number in found["lasts"]
    }
    return NamesChange(int(found["begin_ts"]), found["date"], versions, lasts)


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
