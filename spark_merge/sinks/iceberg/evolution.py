"""What a table's columns become when the source's do: a new schema of Iceberg's, in which a column that stayed keeps its id.

    added     a field at the end; rows of before have null there
    dropped   gone; a read of an earlier snapshot has it
    renamed   the same field by another name. Which one it is, TiDB's column ids tell (a feed of key-values), and the DDL's text: a CHANGE
              that rewrites rows gives the column another id
    retyped   the wider one of both types, if Iceberg widens to it (types.widened): a narrower one is not asked for. Else the DDL is
              refused, or by `changed-types=anew` the column is dropped and added: what was written before is null in it

Another table of the same name (dropped and made again) goes on in the same one of Iceberg; a column of another type is anew there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from sidecar.core.model import Column, TableSchema, lowered
from sidecar.errors import SinkError, UnsupportedDdl
from sidecar.log.manifest import DdlRecord
from sidecar.rowcodec.kv_layout import kv_table_of
from spark_merge.sinks.iceberg.types import Mode, envelope, envelope_fields, iceberg_type, widened
from spark_merge.sinks.mysql.ddl_tokens import Token, tokens

Renamed = Mapping[str, str]
"""A column's former name by the one that it has, both folded."""


def evolved(there: Schema, last_id: int, after: TableSchema, renamed: Renamed, *, anew: bool, mode: Mode = "append") -> Schema | None:
    """`there` for the columns of `after`; None where it fits as it is. `last_id`: the greatest field id that the table has had. Raises
    SinkError for a type that Iceberg does not widen to, unless `anew`."""
    width = envelope_fields(mode)
    former = {lowered(field.name): field for field in there.fields[width:]}
    taken = set(renamed.values())
    kept: dict[int, NestedField] = {}
    added: list[NestedField] = []
    for column in after.columns:
        name = lowered(column.name)
        field = former.get(renamed.get(name, "" if name in taken else name))
        wanted = iceberg_type(column)
        kind = None if field is None else widened(field.field_type, wanted)
        if field is not None and kind is not None:
            kept[field.field_id] = NestedField(field.field_id, column.name, kind, required=False)
        elif field is None or anew:
            added.append(NestedField(last_id + len(added) + 1, column.name, wanted, required=False))
        else:
            raise SinkError(
                f"{after.name}.{column.name} is {field.field_type} in Iceberg and {wanted} after this DDL, which Iceberg does not widen to",
                hint="add changed-types=anew to the sink's URI: the column is dropped there and added, and rows of before have null in it; "
                "or deliver to a new namespace, and dump again",
            )
    own = [
        NestedField(field.field_id, name, field.field_type, required=False)
        for field, name in zip(there.fields[:width], envelope(after, mode), strict=True)
    ]
    stay = [kept[field.field_id] for field in there.fields[width:] if field.field_id in kept]
    found = (*own, *stay, *added)
    return None if _same(found, there.fields) else Schema(*found)


def renamed(before: TableSchema | None, after: TableSchema, ddls: Iterable[DdlRecord]) -> Renamed:
    """Which columns got other names by these DDLs. Of a table that is another one: none."""
    if before is None or before.table_id != after.table_id:
        return {}
    found: dict[str, str] = {}
    for ddl in ddls:
        found |= _told(ddl.query)
    if before.layout and after.layout:
        found |= _by_id(before, after)
    old, new = ({lowered(column.name) for column in schema.columns} for schema in (before, after))
    return {name: former for name, former in found.items() if name in new and former in old}


def same_columns(one: TableSchema, other: TableSchema) -> bool:
    """For Iceberg: lengths of a text, labels and what may be null are nothing to it."""
    return one.columns == other.columns or list(map(_identity, one.columns)) == list(map(_identity, other.columns))


def _identity(column: Column) -> tuple[str, str]:
    return column.name, str(iceberg_type(column))


def _same(some: Iterable[NestedField], others: Iterable[NestedField]) -> bool:
    return [(f.field_id, f.name, f.field_type) for f in some] == [(f.field_id, f.name, f.field_type) for f in others]


def _by_id(before: TableSchema, after: TableSchema) -> dict[str, str]:
    names = {column.id: lowered(column.column.name) for column in kv_table_of(before).columns}
    found = {lowered(column.column.name): names[column.id] for column in kv_table_of(after).columns if column.id in names}
    return {name: former for name, former in found.items() if name != former}


def _told(query: str) -> dict[str, str]:
    """`RENAME COLUMN a TO b` and `CHANGE [COLUMN] [IF EXISTS] a b …` of an ALTER TABLE."""
    try:
        found = tokens(query)
    except UnsupportedDdl:
        return {}
    if not found or found[0].value != "ALTER":
        return {}
    pairs: dict[str, str] = {}
    for at, token in enumerate(found):
        if token.kind != "word":
            continue
        rest = found[at + 1 :]
        if token.value == "CHANGE":
            rest = _without(_without(rest, "COLUMN"), "IF", "EXISTS")
            pair = rest[:2]
        elif token.value == "RENAME" and rest[0].value == "COLUMN" and rest[2:3] and rest[2].value == "TO":
            pair = [rest[1], *rest[3:4]]
        else:
            continue
        if len(pair) == 2 and all(name.kind in ("word", "name") for name in pair):
            former, name = (lowered(_name(one)) for one in pair)
            if former != name:
                pairs[name] = former
    return pairs


def _without(rest: list[Token], *words: str) -> list[Token]:
    return rest[len(words) :] if [token.value for token in rest[: len(words)]] == list(words) else rest


def _name(token: Token) -> str:
    return token.value if token.kind == "name" else token.text
