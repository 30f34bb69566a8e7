"""Whether two rows of the source can be one at the target: a unique key there takes them for equal, and REPLACE keeps the newer one alone.

A unique key of the target is safe if the source has one whose columns are all in it, each compared there as exactly as at the source or
more: then two rows that are equal there are equal here, and the source has no two such rows. The handle key is compared column by column:
rows are deleted by it. What a key's columns hold is `holds.lost`'s.

    by bytes        binary, utf8mb4_0900_bin, …_nopad_bin, all of a TiDB without new collations: as exact as any
    …_bin           without spaces at the end: as exact as each collation that pads, and for a CHAR, which keeps no such spaces
    all others      as exact as the collation of that name

In the rows of a partition (ddl_partitions.py) a text must be equal, and in RANGE be before a bound, exactly where it is so at the source,
neither more nor less: `alike`. TiDB orders texts otherwise than other servers do:

    order    by the code points of what is _bin (gbk and gb18030 excepted); other servers by the bytes of the character set
    the end  spaces there are cut; other servers compare a shorter text as if spaces followed, so "a\\t" is before "a"

A collation that keeps spaces at the end has TiDB's order before a bound that has none there, and no character below a space.

Sources: pingcap/tidb pkg/util/collate/bin.go, gbk_bin.go; MariaDB strings/ctype-mb.c, ctype-uca1400data.h.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from sidecar.shared.model.nouns import ColumnDefinition, TableDefinition, TableSchema, lowered
from sidecar.shared.rowcodec.type_cast import KINDS, ColumnType
from spark_merge.sinks.mysql.holds import Narrowing
from spark_merge.sinks.mysql.server_table import ServerColumn, ServerTable, UniqueIndex

UniqueKey: TypeAlias = "Mapping[str, int]"
"""Its columns in small letters, each with the length of its prefix, -1 for all of it."""

_BY_BYTES = frozenset({"", "binary", "utf8mb4_0900_bin"})
_MAY = "it may take two of its texts for equal"
_EXPANDS = re.compile(r"_(unicode|0900|uca1400).*_ci$")
_UTF8 = re.compile(r"^utf8(mb3|mb4)?_")
_BY_CODE_POINTS = frozenset({"bin", "0900_bin", "ascii_bin"})
"""Of Unicode's character sets without their names."""
_NOT_PLAIN = re.compile(r" $|[\x00-\x1f]")
"""Of a bound: a space at its end, or a character below a space."""
_LABELS = frozenset({"enum", "set"})
_NUMBERS = frozenset({"int", "uint", "decimal", "bit", "float", "double"})


def coarser(here: ColumnDefinition, there: ServerColumn, *, by_bytes: bool) -> Narrowing | None:
    """How the target's column takes two of the source's texts for equal. `by_bytes`: the source's cluster compares bytes alone."""
    target = _named(there.collation or "")
    if not here.collation or there.type in _LABELS or target in _BY_BYTES or target.endswith("_nopad_bin"):
        return None
    source = "binary" if by_bytes else _named(here.collation)
    if _UTF8.sub("", target).replace("nopad_", "") == _UTF8.sub("", source):
        return None
    keeps_no_spaces = ColumnType.of(here.type_text).name == "char"
    if _pads(target) and not _pads(source) and not keeps_no_spaces:
        return Narrowing(("a", "a "))
    if target.endswith("_bin"):
        return None
    if source == "binary" or source.endswith("_bin"):
        return Narrowing(("a", "A")) if target.endswith("_ci") else Narrowing(why=_MAY)
    if target.endswith("_general_ci"):
        return Narrowing(("s", "ß"))
    return Narrowing(("ß", "ss")) if source.endswith("_general_ci") and _EXPANDS.search(target) else Narrowing(why=_MAY)


class Comparison(NamedTuple):
    """How a server compares texts: by the letters that are `equal` in its collation, in that `order`, and by the spaces at the `end`.
    Empty: a letter is equal to itself alone; in the order of code points."""

    equal: str = ""
    order: str = ""
    end: Literal["kept", "cut", "padded"] = "kept"


def comparison(collation: str, *, by_bytes: bool, at_tidb: bool) -> Comparison:
    """`by_bytes`: the server compares bytes alone, those of UTF-8."""
    name = _UTF8.sub("", collation).replace("nopad_", "")
    if by_bytes or name in ("", "binary"):
        return Comparison()
    by_code_points = name in _BY_CODE_POINTS or (at_tidb and name == "latin1_bin")
    # MariaDB's of UCA 14.0 stands for that of 9.0, which had not all its letters: these are in other places
    equal = "" if name.endswith("bin") else name.replace("uca1400_", "0900_")
    return Comparison(equal, "" if by_code_points else name, "kept" if not _pads(collation) else "cut" if at_tidb else "padded")


class Servers(NamedTuple):
    """Whether the source's compares bytes alone, whether the target's does, and whether that is a TiDB."""

    by_bytes: bool
    by_bytes_there: bool
    tidb_there: bool


def alike(here: ColumnDefinition, there: ServerColumn, servers: Servers, bounds: Collection[str] | None, *, decides: bool = True) -> bool:
    """Whether two values are equal at the target just where they are at the source; and each is before each of these texts just where that
    is so at the source. None: nothing is ordered. `decides`: what is equal to a bound is not before it, whatever other columns are."""
    if bool(here.charset) != ((there.charset or "binary") != "binary"):
        return False
    mine = comparison(here.collation, by_bytes=servers.by_bytes, at_tidb=True)
    others = comparison(there.collation or "", by_bytes=servers.by_bytes_there, at_tidb=servers.tidb_there)
    if mine.equal != others.equal:
        return False
    if bounds is None:
        return (mine.end == "kept") == (others.end == "kept")
    plain = decides and mine.end == "cut" and others.end == "kept" and not any(map(_NOT_PLAIN.search, bounds))
    return mine.order == others.order and (mine.end == others.end or plain)


def _pads(collation: str) -> bool:
    return collation != "binary" and "_0900_" not in collation and "_nopad_" not in collation


def _named(collation: str) -> str:
    """As TiDB names it. MariaDB's of UCA 14.0 stands for that of 9.0 (ddl_dialect.py): all but a few rare letters compare alike."""
    return collation.replace("utf8mb3_", "utf8_").replace("uca1400_nopad", "0900")


def merged_rows(schema: TableSchema, definition: TableDefinition, table: ServerTable) -> Iterator[tuple[str, Narrowing]]:
    """What takes two rows for one, as a text, and how."""
    there = {lowered(column.name): column for column in table.columns}
    columns = {lowered(column.name): column for column in definition.columns}
    by_bytes = not definition.new_collation
    losses: dict[str, Narrowing] = {}
    for name in columns.keys() & there.keys():
        if not table.by_bytes and (loss := coarser(columns[name], there[name], by_bytes=by_bytes)) is not None:
            losses[name] = loss
    for name in map(lowered, schema.key):
        if name in columns and name in there and (loss := losses.get(name) or _by_number(columns[name], there[name])) is not None:
            yield _compared(columns[name], there[name], by_bytes=by_bytes), loss
    keys = _unique_keys(schema, definition)
    for index in table.indexes:
        if not _safe(index, keys, losses) and not _same_expressions(index, definition):
            yield f"unique key {_shown(index)}", _whose(index, keys, losses)


def _by_number(here: ColumnDefinition, there: ServerColumn) -> Narrowing | None:
    """Such a key is looked up by a number, and a server makes a DOUBLE of each text to compare it."""
    kind = KINDS.get(ColumnType.of(here.type_text).name)
    return Narrowing(why="its numbers are texts there, which a server compares as DOUBLE") if kind in _NUMBERS and there.charset else None


def _compared(here: ColumnDefinition, there: ServerColumn, *, by_bytes: bool) -> str:
    source = "its bytes (the cluster has no new collations)" if by_bytes else here.collation or here.type_text
    return f"key column {here.name}, compared by {there.collation} and at the source by {source}"


def _unique_keys(schema: TableSchema, definition: TableDefinition) -> list[UniqueKey]:
    """Of columns that the changefeed carries: the others have one value in all rows of the target."""
    keys: list[UniqueKey] = [dict.fromkeys(map(lowered, schema.key), -1)]
    carried = {one.name for one in definition.columns}
    for index in definition.indexes:
        if index.unique and all(part.column in carried for part in index.parts):
            keys.append({lowered(part.column): part.length for part in index.parts})
    return keys


def _safe(index: UniqueIndex, keys: list[UniqueKey], losses: Mapping[str, Narrowing]) -> bool:
    parts = {lowered(column): length for column, length in index if column is not None}
    return any(all(name in parts and name not in losses and _as_long(parts[name], length) for name, length in key.items()) for key in keys)


def _as_long(there: int | None, here: int) -> bool:
    return there is None or 0 <= here <= there


def _same_expressions(index: UniqueIndex, definition: TableDefinition) -> bool:
    """Servers write an expression otherwise than TiDB: it is known by the columns beside it."""
    mine = sorted(lowered(column or "") for column, _ in index)
    others = (one for one in definition.indexes if one.unique and any(part.expression for part in one.parts))
    return any(sorted(lowered(part.column) for part in one.parts) == mine for one in others)


def _shown(index: UniqueIndex) -> str:
    return f"({', '.join((column or 'an expression') + (f'({length})' if length else '') for column, length in index)})"


def _whose(index: UniqueIndex, keys: list[UniqueKey], losses: Mapping[str, Narrowing]) -> Narrowing:
    """Why it is not safe: that of a column, if the source has such a key."""
    parts = {lowered(column): length for column, length in index if column is not None}
    alike = next((key for key in keys if key.keys() <= parts.keys()), None)
    if alike is None:
        return Narrowing(why="the source has none of these columns: two of its rows that are equal in them would be one there")
    for name, length in alike.items():
        if name in losses:
            return losses[name]
        if not _as_long(parts[name], length):
            return Narrowing(why=f"two rows whose {name} begins with the same {parts[name]} characters would be one there")
    raise AssertionError("a key that is safe has no reason")
