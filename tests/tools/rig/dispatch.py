"""Which topic and partition a row goes to (tiflow cdc/sink/dmlsink/mq/dispatcher): the first rule that matches, else by table.

table: crc32(schema + table); index-value: the same, xor crc32(column + value) of each handle column, in binary and text as
`column.value to text` writes them. Both modulo the partitions that the topic has at this moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal
from zlib import crc32

from sidecar.shared.model.nouns import TableName
from tests.tools.rig.columns import Table
from tests.tools.rig.row_image import Image


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """`matcher`: `schema.table` with * and ?. `topic` is an expression with {schema} and {table}; empty: the changefeed's."""

    matcher: tuple[str, ...]
    partition: Literal["table", "index-value"] = "table"
    topic: str = ""


@lru_cache(maxsize=4096)
def matches(rules: tuple[str, ...], table: TableName) -> bool:
    """By TiCDC's table filter, without quotes and expressions: the last rule that matches decides; `!` excludes."""
    result = False
    for rule in rules:
        if fnmatchcase(str(table), rule.removeprefix("!")):
            result = not rule.startswith("!")
    return result


@lru_cache(maxsize=4096)
def dispatcher_of(dispatchers: tuple[Dispatcher, ...], table: TableName) -> Dispatcher:
    return next((dispatcher for dispatcher in dispatchers if matches(dispatcher.matcher, table)), Dispatcher(("*.*",)))


def topic_of(dispatcher: Dispatcher, table: TableName, default: str) -> str:
    return dispatcher.topic.format(schema=table.schema, table=table.table) if dispatcher.topic else default


def partition_of(dispatcher: Dispatcher, table: Table, image: Image, partitions: int) -> int:
    """`image` is the new one, the old one of a delete."""
    hashed = crc32((table.name.schema + table.name.table).encode())
    if dispatcher.partition == "index-value":
        for number in table.handle:
            value = image[number]
            content = value if isinstance(value, bytes) else str(value).encode()
            hashed ^= crc32(table.columns[number].name.encode() + content)
    return hashed % partitions
