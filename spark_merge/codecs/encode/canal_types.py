"""What the messages of one table have in common in canal-json: names, types, and the texts between its values.

`mysqlType` is the type's word (`int unsigned`), or all of it (`int(11) unsigned`, `enum('a','b')`). `sqlType` is a number of
java.sql.Types; that of an unsigned integer depends on the value, for Java has none: what does not fit goes to the next larger type, and
MEDIUMINT always fits. Source: tiflow pkg/sink/codec/internal/java.go, canal/canal_entry.go::getJavaSQLType; tidb pkg/parser/types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.encode.easy_json import quoted
from spark_merge.codecs.encode.messages import definition_of

_JAVA = {
    "tinyint": -6, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "float": 7, "double": 8, "decimal": 3, "bit": -7, "year": 12,
    "date": 91, "time": 92, "datetime": 93, "timestamp": 93, "char": 1, "varchar": 12, "tinytext": 2005, "text": 2005, "mediumtext": 2005,
    "longtext": 2005, "binary": 2004, "varbinary": 2004, "tinyblob": 2004, "blob": 2004, "mediumblob": 2004, "longblob": 2004, "enum": 4,
    "set": -7, "json": 12, "vector": 12,
}  # fmt: skip

_TYPE = re.compile(r"([a-z]+)(?:\(.*\))?((?: unsigned)?(?: zerofill)?)", re.DOTALL)


class Promotion(NamedTuple):
    """Above `most` the type of an unsigned integer is `java`."""

    most: int
    java: int


_PROMOTIONS = {
    "tinyint": Promotion((1 << 7) - 1, 5),
    "smallint": Promotion((1 << 15) - 1, 4),
    "int": Promotion((1 << 31) - 1, -5),
    "bigint": Promotion((1 << 63) - 1, 3),
}


@dataclass(frozen=True, slots=True)
class CanalColumn:
    """`quoted` is its name in JSON."""

    column: Column
    quoted: str
    mysql: str
    java: int
    promotion: Promotion | None
    in_key: bool


@dataclass(frozen=True, slots=True)
class CanalTable:
    """`head` is a message up to and with `"type":`."""

    schema: TableSchema
    head: str
    columns: tuple[CanalColumn, ...]


def canal_table(schema: TableSchema, *, full_types: bool) -> CanalTable:
    """Raises SinkError where the definition of the table or of a column is not known."""
    name, definition = schema.name, definition_of(schema)
    types = {column.name: column.type_text for column in definition.columns}
    primary = {part.column for index in definition.indexes if index.primary for part in index.parts}
    keys = ",".join(quoted(column.name) for column in schema.columns if column.name in primary)
    head = f'{{"id":0,"database":{quoted(name.schema)},"table":{quoted(name.table)},"pkNames":[{keys}],"isDdl":false,"type":'
    columns = (_column(schema, column, types.get(column.name), full_types=full_types) for column in schema.columns)
    return CanalTable(schema, head, tuple(columns))


def _column(schema: TableSchema, column: Column, type_text: str | None, *, full_types: bool) -> CanalColumn:
    match = None if type_text is None else _TYPE.fullmatch(type_text)
    if type_text is None or match is None or match[1] not in _JAVA:
        what = (
            "is not among those that the table was made of" if type_text is None else f"has the type {type_text}, which canal-json has not"
        )
        raise SinkError(
            f"table {schema.name}, column {column.name}: it {what}",
            hint="check that the log is whole, then report this: the definition in the log's schemas does not fit the columns",
        )
    word, rest = match[1], match[2]
    return CanalColumn(
        column=column,
        quoted=quoted(column.name),
        mysql=quoted(type_text if full_types else word + rest),
        java=_JAVA[word],
        promotion=_PROMOTIONS.get(word) if column.kind == "uint" else None,
        in_key=column.name in schema.key,
    )
