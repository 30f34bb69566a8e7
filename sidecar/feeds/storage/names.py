"""What TiCDC's storage sink calls its files (pingcap/ticdc pkg/cloudstorage/path_key.go, generator.go, schema_file.go).

    metadata                                                     {"checkpoint-ts":N}
    {schema}/{table}/meta/schema_{version}_{checksum}.json       a table's columns, or a DDL;  of a database {schema}/meta/…
    {schema}/{table}/{version}/[{partition}/][{date}/]CDC{number}.csv|json
    {table id}/…                                                 in place of both names, with use-table-id-as-path

`CDC_{dispatcher}_{number}` where several nodes write a table (enable-table-across-nodes). A file's number rises within its folder and
dispatcher, from 1. The index (meta/CDC.index) is not read: it names files that are absent, or lacks some. Which folders there are is seen
by their names alone, as the changefeed's settings may have been others before.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sidecar.shared.model.nouns import CommitTs

METADATA = "metadata"

_DATA = re.compile(r"(?P<folder>.+)/CDC(?:_(?P<dispatcher>[^/_]+)_)?(?P<number>\d{6,20})\.(?P<form>csv|json)", re.DOTALL)
_SCHEMA = re.compile(r"(?P<table>.+)/meta/schema_(?P<version>\d+)_\d{10}\.json", re.DOTALL)
_LIKE_DATA = re.compile(r"(?:.*/)?CDC[^/]*\.(?:csv|json)", re.DOTALL)
_BELOW_VERSION = re.compile(r"\d{4}-\d{2}(?:-\d{2})?|\d{1,14}")
"""A date or a partition's id, both of which may be there."""


class Stream(NamedTuple):
    """Files that one writer numbers. `dispatcher` empty: a table has one."""

    folder: str
    dispatcher: str


class RowsFile(NamedTuple):
    """`table`: the folder of the table, beside whose `meta/` the file's folder is. `form`: its ending."""

    stream: Stream
    number: int
    name: str
    table: str
    version: CommitTs
    form: str


class FormFile(NamedTuple):
    table: str
    version: CommitTs
    name: str


def file_of(name: str) -> RowsFile | FormFile | None:
    """None for what is neither: what a crash leaves, the index, and `is_odd` ones."""
    if match := _SCHEMA.fullmatch(name):
        return FormFile(match["table"], CommitTs(int(match["version"])), name)
    match = _DATA.fullmatch(name)
    if match is None:
        return None
    folders = match["folder"].split("/")
    for _ in range(2):
        if not _is_version(folders[-1]) and len(folders) > 1 and _BELOW_VERSION.fullmatch(folders[-1]):
            folders.pop()
    if len(folders) < 2 or not _is_version(folders[-1]):
        return None
    stream = Stream(match["folder"], match["dispatcher"] or "")
    return RowsFile(stream, int(match["number"]), name, "/".join(folders[:-1]), CommitTs(int(folders[-1])), match["form"])


def is_odd(name: str) -> bool:
    """Whether it is called as a data file, and is at a place where none is expected."""
    return _LIKE_DATA.fullmatch(name) is not None and file_of(name) is None


def _is_version(folder: str) -> bool:
    """A TSO, which no partition's id is: these are counted from 1."""
    return folder.isascii() and folder.isdecimal() and len(folder) >= 15
