"""canal-json written slowly, a row and a character at a time: the twin of codecs/encode/canal_json.py. Random tables for both."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, cast
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, IndexPart, Kind, TableDefinition, TableName, TableSchema
from spark_merge.port.contract import CHANGES

Text = str | None
Row = list[Text]

TYPES: dict[str, tuple[int, int]] = {
    "tinyint(4)": (-6, -6), "tinyint(3) unsigned": (-6, 5), "smallint(6)": (5, 5), "smallint(5) unsigned": (5, 4),
    "mediumint(9)": (4, 4), "mediumint(8) unsigned": (4, 4), "int(11)": (4, 4), "int(10) unsigned": (4, -5),
    "int(10) unsigned zerofill": (4, -5), "bigint(20)": (-5, -5), "bigint(20) unsigned": (-5, 3), "float": (7, 7),
    "float unsigned": (7, 7), "double": (8, 8), "decimal(20,4)": (3, 3), "date": (91, 91), "time(3)": (92, 92), "datetime(6)": (93, 93),
    "timestamp": (93, 93), "timestamp(3)": (93, 93), "year(4)": (12, 12), "char(10)": (1, 1), "varchar(20)": (12, 12),
    "tinytext": (2005, 2005), "text": (2005, 2005), "mediumtext": (2005, 2005), "longtext": (2005, 2005), "binary(4)": (2004, 2004),
    "varbinary(9)": (2004, 2004), "tinyblob": (2004, 2004), "blob": (2004, 2004), "mediumblob": (2004, 2004), "longblob": (2004, 2004),
    "enum('a','','B b')": (4, 4), "enum('x','y''z')": (4, 4), "set('p','q','r')": (-7, -7), "bit(1)": (-7, -7), "bit(64)": (-7, -7),
    "json": (12, 12), "vector(3)": (12, 12),
}  # fmt: skip
"""COLUMN_TYPE to the java types of what fits and of what does not."""

_MOST = {"tinyint": 127, "smallint": 32767, "mediumint": 1 << 23, "int": (1 << 31) - 1, "bigint": (1 << 63) - 1}
_NAME = TableName("shop", "t")
_LETTERS = "ab \"\\/<>&\b\f\n\r\t\0\x1f\x7f\x80ü中😀\u2028\u2029'"
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
_BINARIES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}


def word_of(type_text: str) -> str:
    return type_text.partition("(")[0].partition(" ")[0]


def kind_of(type_text: str) -> Kind:
    word = word_of(type_text)
    if word in _MOST:
        return "uint" if "unsigned" in type_text else "int"
    return cast("Kind", "text" if word in _TEXTS else "binary" if word in _BINARIES else word)


def column(name: str, type_text: str) -> Column:
    kind, inside = kind_of(type_text), type_text.partition("(")[2].rpartition(")")[0]
    elements = tuple(label[1:-1].replace("''", "'") for label in inside.split(",")) if kind in ("enum", "set") else ()
    scale = {"decimal(20,4)": 4, "time(3)": 3, "datetime(6)": 6, "timestamp(3)": 3}.get(type_text, 0)
    length = int(inside) if word_of(type_text) in ("binary", "bit") else 20 if kind == "decimal" else -1
    return Column(name, kind, True, length, scale, elements)


def table(types: Mapping[str, str], key: tuple[str, ...], name: TableName = _NAME) -> TableSchema:
    """`types`: COLUMN_TYPE by column. The key is the primary one, out of the columns' order."""
    columns = tuple(ColumnDefinition(column, text) for column, text in types.items())
    indexes = (IndexDefinition("PRIMARY", tuple(map(IndexPart, reversed(key))), unique=True, primary=True),) if key else ()
    return TableSchema(name, tuple(column(one, text) for one, text in types.items()), key, definition=TableDefinition(columns, indexes))


# ---- the slow writer ------------------------------------------------------------------------------------------------


def json_text(text: str) -> str:
    made = ""
    for char in text:
        if char in '"\\':
            made += "\\" + char
        elif char in "\n\r\t":
            made += {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
        elif char < " " or char in "<>&\u2028\u2029":
            made += f"\\u{ord(char):04x}"
        else:
            made += char
    return f'"{made}"'


def value_text(text: str, of: Column, zone: ZoneInfo) -> str:
    match of.kind:
        case "float":
            return without_exponent(str(np.float32(float(text))))
        case "double":
            return without_exponent(repr(float(text)))
        case "enum":
            return str(of.elements.index(text) + 1 if text in of.elements else 0)
        case "set":
            return str(sum(1 << of.elements.index(label) for label in text.split(","))) if text else "0"
        case "year":
            return str(int(text))
        case "binary":
            return "".join(map(chr, bytes.fromhex(text)))
        case "timestamp" if not text.startswith("0000"):
            local = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC).astimezone(zone)
            return local.strftime("%Y-%m-%d %H:%M:%S") + text[19:]
        case _:
            return text


def without_exponent(shortest: str) -> str:
    text = format(Decimal(shortest), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def message(schema: TableSchema, change: Mapping[str, Any], *, zone: ZoneInfo, full: bool, updated: bool, key_only: bool) -> bytes:
    definition = schema.definition
    assert definition is not None
    types = {one.name: one.type_text for one in definition.columns}
    before, after, op = change["before"], change["after"], change["op"]
    shown = [one for one in schema.columns if not (op == "delete" and key_only) or one.name in schema.key]
    primary = [part.column for index in definition.indexes if index.primary for part in index.parts]
    images = {
        name: {one.name: None if text is None else value_text(text, one, zone) for one, text in zip(schema.columns, image, strict=True)}
        for name, image in (("before", before), ("after", after))
        if image is not None
    }
    data, old = images["before" if op == "delete" else "after"], images["before"] if op == "update" else None
    es = change["commit_ts"] >> 18

    def image(values: Mapping[str, Text], names: list[str]) -> str:
        fields = (json_text(name) + ":" + ("null" if (text := values[name]) is None else json_text(text)) for name in names)
        return "[{" + ",".join(fields) + "}]"

    def java(name: str) -> int:
        usual, promoted = TYPES[types[name]]
        text = data[name]
        return promoted if usual != promoted and text is not None and int(text) > _MOST[word_of(types[name])] else usual

    def mysql(name: str) -> str:
        text = types[name]
        return text if full else word_of(text) + (" unsigned" if " unsigned" in text else "") + (" zerofill" if " zerofill" in text else "")

    names = [one.name for one in shown]
    changed = [name for name in names if old is None or not updated or old[name] != data[name]]
    made = '{"id":0,"database":' + json_text(schema.name.schema) + ',"table":' + json_text(schema.name.table)
    made += ',"pkNames":[' + ",".join(json_text(one.name) for one in schema.columns if one.name in primary) + "]"
    made += f',"isDdl":false,"type":"{op.upper()}","es":{es},"ts":{es},"sql":""'
    made += ',"sqlType":{' + ",".join(f"{json_text(name)}:{java(name)}" for name in names) + "}"
    made += ',"mysqlType":{' + ",".join(f"{json_text(name)}:{json_text(mysql(name))}" for name in names) + "}"
    made += ',"old":' + ("null" if old is None else image(old, changed)) + ',"data":' + image(data, names)
    return (made + f',"_tidb":{{"commitTs":{change["commit_ts"]}}}}}').encode()


# ---- random tables --------------------------------------------------------------------------------------------------


def random_table(random: Random) -> TableSchema:
    texts = random.choices(list(TYPES), k=random.choice([1, 3, 12, 40]))
    types = {f"c{number}{random.choice(['', ' <&>', 'ü', chr(34)])}": text for number, text in enumerate(texts)}
    name = TableName(random.choice(["shop", 's"<']), random.choice(["t", "t\\\u2028"]))
    return table(types, tuple(random.sample(sorted(types), random.choice([0, 1, min(2, len(types))]))), name)


def random_text(random: Random, of: Column, type_text: str) -> Text:
    return None if random.random() < 0.15 else _RANDOM[of.kind](random, of, type_text)


def _integer(random: Random, of: Column, type_text: str) -> str:
    most = _MOST[word_of(type_text)]
    low, high = (0, 2 * most + 1) if of.kind == "uint" else (-most - 1, most)
    return str(random.choice([low, high, most, min(most + 1, high), random.randint(low, high)]))


def _float(random: Random, of: Column, type_text: str) -> str:
    single = of.kind == "float"
    while True:
        bits = random.randbytes(4 if single else 8)
        number = struct.unpack("<f" if single else "<d", bits)[0]
        number = random.choice(
            [number, random.uniform(-1e4, 1e4), float(random.randint(-(10**16), 10**16)), 0.0, -0.0, 1e-5, 2.0**24 + 2, 1e21]
        )
        number = float(np.float32(number)) if single else number
        if math.isfinite(number):
            return repr(number)


def _moment(random: Random, of: Column, type_text: str) -> str:
    fraction = f".{random.randrange(10**of.scale):0{of.scale}d}" if of.scale else ""
    if of.kind == "timestamp" and random.random() < 0.1:
        return "0000-00-00 00:00:00" + ("." + "0" * of.scale if of.scale else "")
    begin = datetime(1970, 1, 2) if of.kind == "timestamp" else datetime(1000, 1, 1)  # noqa: DTZ001  (text of no zone)
    days = 24_800 if of.kind == "timestamp" else 3_000_000
    return (begin + timedelta(seconds=random.randrange(days * 86_400))).isoformat(sep=" ") + fraction


_RANDOM: dict[str, Callable[[Random, Column, str], str]] = {
    "int": _integer,
    "uint": _integer,
    "float": _float,
    "double": _float,
    "decimal": lambda random, of, _: f"{random.randint(-(10**8), 10**8)}.{random.randrange(10**of.scale):0{of.scale}d}",
    "date": lambda random, of, _: random.choice(["0000-00-00", "2024-02-29", "9999-12-31", "2020-02-30"]),
    "time": lambda random, of, _: f"{random.choice(['', '-'])}{random.randrange(839):02d}:59:00.{random.randrange(1000):03d}",
    "datetime": _moment,
    "timestamp": _moment,
    "year": lambda random, of, _: random.choice(["0000", "1901", "2155"]),
    "text": lambda random, of, _: "".join(random.choices(_LETTERS if random.random() < 0.5 else "abc ü", k=random.randrange(12))),
    "json": lambda random, of, _: random.choice(['{"a": "<b>"}', "null", '"s"', "[1.5, true]"]),
    "binary": lambda random, of, _: random.randbytes(max(of.length, 0) or random.randrange(9)).hex().upper(),
    "enum": lambda random, of, _: random.choice(["", *of.elements]),
    "set": lambda random, of, _: ",".join(label for label in of.elements if random.random() < 0.5),
    "bit": lambda random, of, _: str(random.getrandbits(of.length)),
    "vector": lambda random, of, _: random.choice(["[1,2,3]", "[0.1,-2.5,3e+20]"]),
}  # fmt: skip


def random_changes(random: Random, schema: TableSchema, rows: int) -> pa.Table:
    """Of any op in any order; an update leaves about half of the columns as they are."""
    definition = schema.definition
    assert definition is not None

    def row() -> Row:
        return [random_text(random, one, made.type_text) for one, made in zip(schema.columns, definition.columns, strict=True)]

    results: list[dict[str, Any]] = []
    ops = random.choice([["insert"], ["insert", "update", "delete"]])
    for ordinal in range(rows):
        op, old, new = random.choice(ops), row(), row()
        new = [random.choice(pair) for pair in zip(old, new, strict=True)] if op == "update" else new
        results.append(
            {"seq": 1, "commit_ts": random.randrange(1 << 58, 1 << 62), "rank": 0 if op == "delete" else 1, "ordinal": ordinal}
            | {"schema": schema.name.schema, "table": schema.name.table, "op": op, "key": str(ordinal)}
            | {"before": None if op == "insert" else old, "after": None if op == "delete" else new}
        )
    return pa.Table.from_pylist(results, schema=CHANGES)
