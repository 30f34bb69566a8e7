"""An output in TiCDC's storage layout as its one writer has it: whose it is and how it is written (`_ticdc_dump/log`), and what it keeps in
its commits (../chain.py): under which names what was staged appears (publish.py).

Before a commit nothing of its batch is seen, and after it all of it comes under these names, whichever process dies. So a batch may be done
again in any cut, date and number are fixed once, and a file has one content for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.kit.chain import LastCommit, NumberedFiles
from spark_merge.sinks.kit.position import OutputState, Stored
from spark_merge.sinks.kit.records import JsonRecord
from spark_merge.sinks.storage.layout import COMMITS, HEAD_OF_VERSION_1, HEADS, IDENTITY, OURS, PROBE, StoragePlace
from spark_merge.sinks.storage.names import Last, Named, NamesChange, StorageNames, StoredVersion
from spark_merge.sinks.storage.options import StorageOptions
from spark_merge.sinks.storage.publish import publish

VERSIONS = (1, 2)
"""Of the folder. Version 1, which had one head and kept all commits, is continued and becomes the last one."""
COMMIT_VERSION = 1


class StorageLog(NamedTuple):
    """Whose output a folder is, and the options by which it is written."""

    log_id: str
    options: dict[str, str]
    version: int = VERSIONS[-1]


@dataclass(frozen=True, slots=True)
class StorageCommit:
    """`by`: as of `CommittedOutput.next`. `accepted`: the last segment that is accepted from here on. `named`: what appears; nothing where
    `owner` opened."""

    number: int
    owner: Owner
    by: str
    accepted: Accepted | None
    named: Named


class StorageHead(NamedTuple):
    number: int
    names: StorageNames


class StorageOutput:
    """`CommittedOutput` in `folder`. The detail is what the names are after all commits, the payload what appears."""

    probe = PROBE

    def __init__(self, folder: Folder, options: StorageOptions) -> None:
        self.record = COMMIT
        self.commits = NumberedFiles(folder, COMMITS)
        self._heads = NumberedFiles(folder, HEADS)
        self._folder, self._options = folder, options
        self._written: StorageLog | None = None

    def log_id(self) -> str | None:
        storage_log = self._written = LOG.read(self._folder, IDENTITY)
        if storage_log is None:
            _check_empty(self._folder)
            return None
        if differing := sorted({name for name, _ in storage_log.options.items() ^ self._options.output_form.items()}):
            raise SinkError(
                f"{self._folder} was begun with other values of {', '.join(differing)}",
                hint="give the same ones, or deliver to a new folder: its readers go by them",
            )
        return storage_log.log_id

    def claim(self, log_id: str) -> bool:
        mine = StorageLog(log_id, dict(self._options.output_form))
        if self._written is None:
            return LOG.create(self._folder, IDENTITY, mine)
        if self._written != mine:
            LOG.write(self._folder, IDENTITY, mine)
        return True

    def last(self) -> LastCommit[StorageCommit, StorageNames]:
        """What is read while another writes a head, and removes what is before it, is read again."""
        while True:
            heads = self._heads.numbers()
            head = HEAD.read(self._folder, self._heads.path(heads[-1]) if heads else HEAD_OF_VERSION_1)
            number, names = head or StorageHead(0, StorageNames())
            paths = [self.commits.path(one) for one in self.commits.numbers() if one >= number]
            commits = list(COMMIT.read_all(self._folder, paths).values())
            if self._heads.numbers() == heads:
                break
        if (commits and commits[0].number != number) or (head and not commits):
            raise SinkError(f"{self._folder}/{COMMITS} has no commit of its head's number", hint=COMMIT.hint)
        for commit in commits[0 if head is None else 1 :]:
            names = names.after(commit.named.change)
        last = commits[-1] if commits else None
        return LastCommit(last, None if last is None else last.accepted, None if names == StorageNames() else names)

    def next(
        self, number: int, by: str, _: Stored[StorageNames] | None, after: OutputState[StorageNames], payload: Named | None
    ) -> StorageCommit:
        names = after.detail or StorageNames()
        return StorageCommit(number, after.owner, by, after.accepted, payload or Named(NamesChange(names.begin_ts, names.date)))

    def show(self, commit: StorageCommit, check_last: Callable[[], None]) -> None:
        publish(self._folder, commit.named, commit.accepted, check_last)

    def head(self, number: int, detail: StorageNames | None) -> None:
        HEAD.create(self._folder, self._heads.path(number), StorageHead(number, detail or StorageNames()))
        self._heads.remove_below(number)


def _check_empty(folder: Folder) -> None:
    """Names that TiCDC itself gave could be ours to give."""
    there = storage.list_names(folder, deep=False)
    try:
        there += storage.list_folders(folder)
    except SinkError as error:
        if isinstance(error.__cause__, storage.Absent):
            return
        raise
    if others := [name for name in there if name != OURS and not storage.is_temporary(name)]:
        raise SinkError(
            f"{folder} holds {others[0]}, and no output of ours", hint="deliver to a new folder: what TiCDC wrote cannot be continued"
        )


# ---- as JSON -------------------------------------------------------------------------------------------------------------


def _commit_to_plain(commit: StorageCommit) -> dict[str, Any]:
    accepted = commit.accepted
    return {
        "version": COMMIT_VERSION,
        "number": commit.number,
        "owner": list(commit.owner),
        "by": commit.by,
        "accepted": None if accepted is None else [accepted.seq, str(accepted.upto_ts), accepted.manifest],
        "change": _change_to_plain(commit.named.change),
        "before": commit.named.before,
        "files": commit.named.files,
        "after": commit.named.after,
    }


def _commit_of(value: Any) -> StorageCommit:
    owner, accepted = Owner(*map(int, value["owner"])), None
    if value["accepted"] is not None:
        seq, upto_ts, manifest = value["accepted"]
        accepted = Accepted(Seq(int(seq)), CommitTs(int(upto_ts)), str(manifest))
    files = tuple((str(staged), str(final)) for staged, final in value["files"])
    named = Named(_change_of(value["change"]), value["before"], files, value["after"])
    return StorageCommit(int(value["number"]), owner, str(value["by"]), accepted, named)


def _head_to_plain(head: StorageHead) -> dict[str, Any]:
    names = head.names
    whole = NamesChange(names.begin_ts, names.date, dict(names.versions), names.lasts)
    return {"version": COMMIT_VERSION, "number": head.number, "names": _change_to_plain(whole)}


def _head_of(value: Any) -> StorageHead:
    return StorageHead(int(value["number"]), StorageNames().after(_change_of(value["names"])))


def _change_to_plain(change: NamesChange) -> dict[str, Any]:
    versions = [[*name, None if one is None else [str(one.version), one.checksum]] for name, one in change.versions.items()]
    lasts = [[*place.table, place.partition, str(last.version), last.date, last.number] for place, last in change.lasts.items()]
    return {"begin_ts": str(change.begin_ts), "date": change.date, "versions": versions, "lasts": lasts}


def _change_of(value: Any) -> NamesChange:
    versions = {
        TableName(schema, table): None if one is None else StoredVersion(int(one[0]), one[1]) for schema, table, one in value["versions"]
    }
    lasts = {
        StoragePlace(TableName(schema, table), int(partition)): Last(int(version), date, int(number))
        for schema, table, partition, version, date, number in value["lasts"]
    }
    return NamesChange(int(value["begin_ts"]), value["date"], versions, lasts)


LOG: JsonRecord[StorageLog] = JsonRecord(
    lambda log: {"version": log.version, "log_id": log.log_id, "options": log.options},
    lambda value: StorageLog(str(value["log_id"]), dict(value["options"]), value["version"]),
    VERSIONS,
)
COMMIT = JsonRecord(_commit_to_plain, _commit_of, (COMMIT_VERSION,))
HEAD = JsonRecord(_head_to_plain, _head_of, (COMMIT_VERSION,))
