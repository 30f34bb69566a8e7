"""What TiCDC's own storage sink wrote in csv beside the recorded Kafka feeds, as changes.

A clone without the whole set of recordings has it of `tz` alone (tests/recordings/make_storage.py).
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from functools import cache
from itertools import count

from sidecar.feeds.storage.csv_rows import rows
from sidecar.shared.codecs.csv import CsvCodec
from sidecar.shared.model.nouns import Change, Lane, Message
from sidecar.shared.ticdc.csv_dialect import CsvDialect
from tests.recordings.make_storage import ARCHIVE, WHOLE
from tests.support.recordings import recording, whole_set

RECORDED = ("tz", "shop", "shop-new", "ddl", "ddl-new") if whole_set() else WHOLE
"""By name; of `ddl` recordings with schema changes."""

DIALECT = CsvDialect(commit_ts=True, old_values=True)
"""Of every recorded changefeed."""


def storage_changes(name: str) -> Iterator[Change]:
    """Every row, file by file, in the order of the paths."""
    files, positions, codec = _files(name), count(), CsvCodec()
    for path, data in files.items():
        if path.endswith(".csv"):
            for row in rows(data, DIALECT, _columns(files, path), place=path):
                (change,) = codec.envelopes(Message(Lane("storage"), next(positions), None, row.value))
                assert isinstance(change, Change)
                assert change.commit_ts == row.commit_ts
                yield change


def _columns(files: dict[str, bytes], path: str) -> list[str]:
    """Of the schema file of the version that the data file's folder has."""
    schema, table, version, *_ = path.split("/")
    (content,) = (content for name, content in files.items() if name.startswith(f"{schema}/{table}/meta/schema_{version}_"))
    return [column["ColumnName"] for column in json.loads(content)["TableColumns"]]


@cache
def archived(name: str) -> dict[str, bytes]:
    """What the repository has of a recording, by path in the storage's folder."""
    with tarfile.open(ARCHIVE) as archive:
        members = [member for member in archive if member.name.startswith(f"{name}/")]
        return {member.name.partition("/")[2]: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]  # files


def _files(name: str) -> dict[str, bytes]:
    if name in WHOLE:
        return archived(name)
    folder = recording(name) / "storage" / "storage-csv"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
