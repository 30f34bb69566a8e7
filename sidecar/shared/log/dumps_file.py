"""What manifests leave to a file of the log, because it is the same in most of them: the tables of dumps that have many.

A manifest has the progress of each table of each dump. Of thousands of tables that is megabytes a segment, and nearly all of them are as
they were a segment ago, for ever once a dump is over. So it names a file, and has only the tables that are not as in it.

    dumps/{epoch}/{sha256}.json    {dump id: [tables, as in Progress.to_json]}

- The file is written before the first manifest that names it, and goes with the last one, as a schemas file does.
- The first manifest that names a file has what changed since the file before. So what a segment completed is in its own manifest, and only
  who continues a dump, or certifies it, reads the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sidecar.shared.log.manifest import UNREADABLE, LoggedDumps, Manifest, ManifestUnreadable
from sidecar.shared.model.nouns import TableName
from sidecar.shared.model.progress import OVER, Progress, TableProgress, tables_to_json

TABLES_MIN = 64
"""So many tables, or fewer, a manifest has itself."""

CHANGED_SHARE = 1 / 16
"""Of the tables, before a new file is written: a dump writes few files, and a manifest has few tables."""

_dumps_of = msgspec.json.Decoder(dict[str, list[dict[str, Any]]]).decode
Tables = dict[TableName, TableProgress]


@dataclass(slots=True)
class DumpsFile:
    """For one writer. `name`: of the file that the next manifest will name, too, if little changes; empty: none."""

    name: str = ""
    _tables: dict[str, Tables] | None = None

    def logged(self, dumps: Sequence[Progress], write: Callable[[bytes], str]) -> LoggedDumps:
        """`write`: a file with these bytes, durable under the name that it returns."""
        tables = sum(len(dump.tables) for dump in dumps)
        if tables <= TABLES_MIN:
            self.name, self._tables = "", None
            return LoggedDumps(tuple(dump.to_json() for dump in dumps))
        known = self._tables or {}
        changed = [_changed(dump, known.get(dump.dump_id, {})) for dump in dumps]
        most = 0 if all(dump.state in OVER for dump in dumps) else tables * CHANGED_SHARE
        if sum(map(len, changed)) > max(most, TABLES_MIN) or not all(_begins_with(dump, known.get(dump.dump_id, {})) for dump in dumps):
            data = {dump.dump_id: tables_to_json(dump.tables) for dump in dumps}
            self.name = write(msgspec.json.encode(data))
            self._tables = {dump.dump_id: {one.table: one for one in dump.tables} for dump in dumps}
        results = (replace(dump, tables=tuple(tables)).to_json() for dump, tables in zip(dumps, changed, strict=True))
        return LoggedDumps(tuple(results), self.name)


def _changed(dump: Progress, known: Tables) -> list[TableProgress]:
    """Those that are not as in `known`, which then has equal ones as the dump has them: they are compared once."""
    result = []
    for table in dump.tables:
        before = known.get(table.table)
        if before is table:
            continue
        if before == table:
            known[table.table] = table
        else:
            result.append(table)
    return result


def _begins_with(dump: Progress, known: Tables) -> bool:
    """Whether its tables are those of the file, in their order, and perhaps more: else a reader would have others."""
    return [*known] == [table.table for table in dump.tables[: len(known)]]


def with_all_tables(manifest: Manifest, data: bytes) -> Manifest:
    """Its dumps with the tables of the file that it names, whose content is `data`. Raises ManifestUnreadable."""
    try:
        known = _dumps_of(data)
        dumps = tuple(dump | {"tables": _overlaid(known.get(dump["dump_id"], []), dump["tables"])} for dump in manifest.dumps)
    except (*UNREADABLE, KeyError, TypeError, ValueError) as error:
        raise ManifestUnreadable(f"{manifest.dumps_file} has no tables of dumps: {error!r}") from error
    return replace(manifest, progress=dumps[0], more_dumps=dumps[1:], dumps_file="") if dumps else manifest


def _overlaid(known: list[dict[str, Any]], changed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*({TableName(*one["table"]): one for one in (*known, *changed)}).values()]
