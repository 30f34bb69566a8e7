"""A table and a key as somebody typed them: in the spelling of the log, or an error that names what there is."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sidecar.shared.errors import RefusedRequest, nearest
from sidecar.shared.log.manifests import decoded as decoded_manifest
from sidecar.shared.log.manifests import kept, last_manifest, manifest_files
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.keyset import Key, KeyColumn, NotAKey, ReadKey, key_columns, spelled_key
from sidecar.shared.model.nouns import TableName, TableSchema, carried, lowered
from spark_merge.log.read import LoggedSchemas
from spark_merge.tail.followed import FollowedTable

SEGMENT_MAX = 1 << 40
"""A number that is greater is a TSO: those of 1970's first minute are less, and no log has so many segments."""


def table_named(log: Folder, text: str) -> tuple[FollowedTable, TableSchema]:
    """The table of this name that the log had last. Raises RefusedRequest, naming a table with a name like it; LogBroken."""
    last = last_manifest(log)
    if last is None:
        raise RefusedRequest(f"the log {log} has no segment yet", hint="wait until the sidecar has written one: see dumpquery")
    tables: Mapping[TableName, TableSchema] = LoggedSchemas(log, last.next_schemas or last.schemas)
    there = _named(tables, text) or _of_before(log, text, last.next_schemas or last.schemas)
    if there is None:
        near = nearest(text, map(str, carried(tables)))
        raise RefusedRequest(
            f"the log {log} has no table {text}{near}",
            hint="name it as SCHEMA.TABLE, as dumpquery does; the log has those of the changefeed",
        )
    if not there.key:
        raise RefusedRequest(f"{there.name} has no handle key: TiCDC sends no rows of it", hint="see `ticdc-dump check` for such tables")
    return FollowedTable(there.name, there.name, there.table_id), there


def _named(tables: Mapping[TableName, TableSchema], text: str) -> TableSchema | None:
    return next((tables[name] for name in tables if lowered(str(name)) == lowered(text)), None)


def _of_before(log: Folder, text: str, last: str) -> TableSchema | None:
    """A table that was dropped or renamed since: in the latest of the kept schemas that have it."""
    seen = {last}
    for seq, data in manifest_files(log, kept(log)[::-1]):
        manifest = None if data is None else decoded_manifest(log, seq, data)
        for name in () if manifest is None else (manifest.next_schemas, manifest.schemas):
            if name is not None and name not in seen:
                seen.add(name)
                if (there := _named(LoggedSchemas(log, name), text)) is not None:
                    return there
    return None


def parse_key(schema: TableSchema, text: str) -> Key:
    """The values between commas, or as a JSON array; of a key of one column all of `text` is the value, commas too. In canonical text.
    Raises RefusedRequest for another number of values, or one that its column cannot have."""
    columns = key_columns(schema)
    values = _array(text, len(columns)) or ((text,) if len(columns) == 1 else tuple(text.split(",")))
    key = ReadKey(schema.name, tuple(map(KeyColumn, columns)))
    names = ", ".join(f"{column.name} ({column.kind})" for column in columns)
    if len(values) != len(columns):
        raise RefusedRequest(
            f"--key {text} has {len(values)} values, and the handle key of {schema.name} has {len(columns)}: {names}",
            hint="write them between commas, or as a JSON array: --key '[\"a,b\", 2]'",
        )
    try:
        return spelled_key(key, values)
    except NotAKey as error:
        raise RefusedRequest(f"--key {text} of {schema.name}: {error}", hint=f"the handle key is {names}") from error


def _array(text: str, count: int) -> Key | None:
    """Of so many values; numbers as they are written. None: it is no such array."""
    try:
        values = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    is_key = isinstance(values, list) and len(values) == count and all(isinstance(one, str) for one in values)
    return tuple(values) if is_key else None
