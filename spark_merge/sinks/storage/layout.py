"""An output folder: TiCDC's layout, which readers know, and `_ticdc_dump/`, which they pass over.

    {schema}/{table}/{version}/[{partition id}/][{date}/]CDC{number}.csv|json  rows of a table, in order; from 1 in each folder
    {schema}/{table}/{version}/[{partition id}/][{date}/]meta/CDC.index        the name of the folder's last file
    {schema}/{table}/meta/schema_{version}_{checksum}.json   what the table is from `version` on, and the DDL that made it
    {schema}/meta/schema_{version}_{checksum}.json           a DDL of a schema
    metadata                                                 {"checkpoint-ts":…}: all up to it is here

    _ticdc_dump/log                     whose output this is, and how it is written
    _ticdc_dump/commits/{number:020d}   created exclusively, one after another: an owner opened it, or accepted. The last is THE POSITION
    _ticdc_dump/heads/{number:020d}     what all commits up to that one come to; the greatest counts, and what is before it is removed
    _ticdc_dump/head                    of version 1, in their stead: at or before the last commit
    _ticdc_dump/staged/{owner's epoch}-{incarnation}-{attempt}-{number}   what tasks wrote, until it is accepted
    _ticdc_dump/probe                   that this storage lets a file be created once only was tried with it

What is ours has no ending that TiCDC's readers look for. Source: pingcap/tiflow pkg/sink/cloudstorage/path.go, path_key.go.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName
from spark_merge.port.contract import Owner

OURS = "_ticdc_dump"
IDENTITY = f"{OURS}/log"
COMMITS = f"{OURS}/commits"
HEADS = f"{OURS}/heads"
HEAD_OF_VERSION_1 = f"{OURS}/head"
STAGED = f"{OURS}/staged"
PROBE = f"{OURS}/probe"
CHECKPOINT = "metadata"

NAME_BYTES_MAX = 255
_STAGED = re.compile(r"(\d+)-(\d+)-[0-9a-f]+-\d+")


class StoragePlace(NamedTuple):
    """Whose rows a file has: a table's, or one partition's of it (0: no folder of its own)."""

    table: TableName
    partition: int = 0


def staged_path(owner: Owner, attempt: str, number: int) -> str:
    """`attempt`: lower-case hex, another one whenever a task runs."""
    return f"{STAGED}/{owner.epoch}-{owner.incarnation}-{attempt}-{number}"


def staged_by(name: str) -> Owner:
    """Whose a file of the staged folder is; nobody's, (-1, 0), for another name."""
    match = _STAGED.search(name)
    return Owner(int(match[1]), int(match[2])) if match else Owner(-1, 0)


def data_folder(place: StoragePlace, version: int, date: str) -> str:
    check_name(place.table)
    parts = [*place.table, str(version), *([str(place.partition)] if place.partition else []), *([date] if date else [])]
    return "/".join(parts)


def data_name(number: int, digits: int, ending: str) -> str:
    return f"CDC{number:0{digits}d}.{ending}"


def index_of(data_path: str) -> tuple[str, bytes]:
    """The index that names this file as its folder's last, and its content."""
    folder, _, name = data_path.rpartition("/")
    return f"{folder}/meta/CDC.index", f"{name}\n".encode()


def schema_path(name: TableName, version: int, checksum: int) -> str:
    """Of a schema itself where the table is empty."""
    check_name(name)
    return "/".join([*(part for part in name if part), "meta", f"schema_{version}_{checksum:010d}.json"])


def check_name(name: TableName) -> None:
    """TiCDC writes names as they are. Raises SinkError for one that would lead elsewhere."""
    for part in name:
        if "/" in part or "\0" in part or part in (".", "..") or len(part.encode()) > NAME_BYTES_MAX or name.schema in (OURS, CHECKPOINT):
            raise SinkError(
                f"{name} cannot be a folder of TiCDC's storage layout",
                hint="leave the table out of this sink (filter rules of the changefeed), or deliver to files with format=jsonl",
            )
