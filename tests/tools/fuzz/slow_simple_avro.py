"""simple in Avro, slowly: the twin of sidecar/shared/codecs/simple_avro.py. The JSON that it makes is read by slow_simple.py."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any

import msgspec

from tests.tools.fuzz import slow_simple
from tests.tools.fuzz.slow_simple import Event, mark, rows
from tests.tools.fuzz.verdict import Refused

__all__ = ["envelopes", "mark", "rows"]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise Refused("it ends")
        self.at += size
        return self.data[self.at - size : self.at]

    def long(self) -> int:
        """Of more than ten bytes, which nobody writes, fastavro shifts round in its 64 bits."""
        number, shift = 0, 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift % 64
            shift += 7
            if byte < 0x80:
                return (number & _BITS_64) >> 1 ^ -(number & 1)

    def text(self) -> str:
        try:
            return self.take(self.long()).decode()
        except UnicodeDecodeError as error:
            raise Refused("no UTF-8") from error

    def boolean(self) -> bool:
        return self.take(1) != b"\0"

    def maybe(self, read: Callable[[], Any]) -> Any:
        return [lambda: None, read][self.branch(2)]()

    def branch(self, count: int) -> int:
        number = self.long()
        if not 0 <= number < count:
            raise Refused("no branch")
        return number

    def blocks(self, read: Callable[[], Any]) -> list[Any]:
        made: list[Any] = []
        while count := self.long():
            if count < 0:
                count = -count
                self.long()
            for _ in range(count):
                made.append(read())
        return made

    # ---- the schema -------------------------------------------------------------------------------------------------

    def table(self) -> dict[str, Any]:
        made = {"schema": self.text(), "table": self.text()}
        self.long(), self.long()
        self.blocks(self.column)
        self.blocks(self.index)
        return made

    def column(self) -> None:
        self.text(), self.text(), self.text(), self.text(), self.long()
        self.maybe(self.long)
        self.maybe(lambda: self.blocks(self.text))
        self.maybe(self.boolean)
        self.maybe(self.boolean)
        self.boolean()
        self.maybe(self.text)

    def index(self) -> None:
        self.text()
        self.take(3)
        self.blocks(self.text)

    def cells(self) -> dict[str, Any]:
        return dict(sorted(dict(self.blocks(lambda: (self.text(), self.cell()))).items()))

    def cell(self) -> Any:
        match self.branch(8):
            case 0:
                return None
            case 1:
                return str(self.long())
            case 2:
                return repr(struct.unpack("<f", self.take(4))[0])
            case 3:
                return repr(struct.unpack("<d", self.take(8))[0])
            case 4:
                return self.text()
            case 5:
                return base64.b64encode(self.take(self.long())).decode()
            case 6:
                return {"location": self.text(), "value": self.text()}
            case _:
                return str(self.long() & _BITS_64)

    def message(self) -> dict[str, Any]:
        if self.branch(12) != 11:
            raise Refused("no message")
        kind = ["WATERMARK", "BOOTSTRAP", "DDL", "DML"][self.branch(4)]
        made: dict[str, Any] = {"type": kind, "commitTs": 0}
        match self.branch(4):
            case 0:
                made |= {"version": self.long(), "commitTs": self.long(), "buildTs": self.long()}
            case 1:
                made |= {"version": self.long(), "buildTs": self.long(), "tableSchema": self.table()}
            case 2:
                made |= {"version": self.long(), "type": _DDLS[self.branch(len(_DDLS))], "sql": self.text(), "commitTs": self.long()}
                made |= {"buildTs": self.long(), "tableSchema": self.maybe(self.table), "preTableSchema": self.maybe(self.table)}
            case _:
                made |= {"version": self.long(), "database": self.text(), "table": self.text(), "tableID": self.long()}
                made |= {"type": ["INSERT", "UPDATE", "DELETE"][self.branch(3)], "commitTs": self.long(), "buildTs": self.long()}
                made |= {
                    "schemaVersion": self.long(),
                    "claimCheckLocation": self.maybe(self.text),
                    "handleKeyOnly": self.maybe(self.boolean),
                }
                made |= {"checksum": self.maybe(self.checksum), "data": self.maybe(self.cells), "old": self.maybe(self.cells)}
        if self.at != len(self.data):
            raise Refused("more behind it")
        return {name: value for name, value in made.items() if value is not None}

    def checksum(self) -> dict[str, Any]:
        return {"version": self.long(), "corrupted": self.boolean(), "current": self.long(), "previous": self.long()}


_BITS_64 = (1 << 64) - 1
_DDLS = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")


def envelopes(key: bytes | None, value: bytes | None, unpacked: Any) -> list[Event]:
    if value is None:
        raise Refused("null")
    plain = msgspec.json.encode(_Reader(unpacked(value)).message())
    return slow_simple.envelopes(key, plain, bytes)
