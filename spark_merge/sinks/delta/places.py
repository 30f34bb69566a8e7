"""Where a table of the source is below the output's folder: `{schema}/{table}`.

Of both names ASCII letters, digits, `-` and `_` stay, and every other byte of the UTF-8 text is `~XX`, a leading `_` too: names with an
underscore in front are the output's own, and engines pass over them. No `%`, which some readers of a URI decode and others do not. A name
that is longer than file systems take is its beginning, `~~` and a hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from urllib.parse import quote

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import TableName

NAME_BYTES_MAX = 200
_HEAD_BYTES, _HASH_DIGITS = 150, 32


def table_place(target: TableName) -> str:
    """`target`: after the routes."""
    return f"{_part(target.schema)}/{_part(target.table)}"


def places_in(folder: Folder) -> Iterator[str]:
    """Of all tables below an output's folder. Raises SinkError."""
    for schema in storage.list_folders(folder):
        if not schema.startswith("_"):
            yield from (f"{schema}/{table}" for table in storage.list_folders(folder, under=schema))


def _part(name: str) -> str:
    quoted = quote(name, safe="").replace("~", "%7E").replace(".", "%2E").replace("%", "~")
    quoted = f"~5F{quoted[1:]}" if quoted.startswith("_") else quoted
    if len(quoted) <= NAME_BYTES_MAX:
        return quoted
    return f"{quoted[:_HEAD_BYTES]}~~{hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]}"
