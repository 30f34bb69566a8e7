"""The fields of TiDB's TableInfo that decoding of raw key-values goes by, and what each may be.

Rules: a TableInfo comes from a status port, a table of TiDB or a log, and is checked once, as a whole, before anything is made of it.
Behind this check a field is there, of its type, and within the sizes that MySQL's types have, so that no width or scale makes a
number or a text of absurd size. Fields that are not named here decide nothing.

Source: pingcap/tidb pkg/meta/model/{table,column,index}.go; MySQL's limits of types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

_Id = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Small = Annotated[int, msgspec.Meta(ge=-1, le=255)]
_Length = Annotated[int, msgspec.Meta(ge=-1, le=(1 << 63) - 1)]

_PUBLIC = 5

_LENGTHS = {246: range(1, 66), 16: range(1, 65), 254: range(-1, 256)}
"""By type: DECIMAL's digits, BIT's bits, CHAR's characters and BINARY's bytes."""
_SCALES = {246: range(31), 7: range(-1, 7), 11: range(-1, 7), 12: range(-1, 7)}
"""DECIMAL's digits, and the fractional digits of TIMESTAMP, TIME and DATETIME."""
_ELEMENTS = {247: range(1, 65536), 248: range(1, 65)}
"""Labels of ENUM and SET."""


class _Name(msgspec.Struct):
    O: str  # noqa: E741  # TiDB's name of the field


class _Type(msgspec.Struct):
    Tp: _Small
    Flag: _Id
    Flen: _Length
    Decimal: _Small
    Charset: str
    Collate: str
    Elems: list[str] | None

    def __post_init__(self) -> None:
        sizes = ((self.Flen, _LENGTHS), (self.Decimal, _SCALES), (len(self.Elems or ()), _ELEMENTS))
        if any(self.Tp in allowed and size not in allowed[self.Tp] for size, allowed in sizes):
            raise ValueError(f"type {self.Tp} with length {self.Flen}, scale {self.Decimal} and {len(self.Elems or ())} labels")


class _Column(msgspec.Struct):
    id: _Id
    name: _Name
    offset: _Id
    origin_default: str | int | float | None
    origin_default_bit: str | None
    generated_expr_string: str
    generated_stored: bool
    type: _Type
    state: _Small
    version: _Id
    successor: _Column | None = None
    dropped: bool = False


class _IndexColumn(msgspec.Struct):
    name: _Name
    length: _Length


class _Index(msgspec.Struct):
    id: _Id
    idx_cols: list[_IndexColumn]
    state: _Small
    is_unique: bool
    is_primary: bool


class _Definition(msgspec.Struct):
    id: _Id


class _Partition(msgspec.Struct):
    enable: bool
    definitions: list[_Definition]
    adding_definitions: list[_Definition] | None = None
    dropping_definitions: list[_Definition] | None = None


class _TableInfo(msgspec.Struct):
    id: _Id
    name: _Name
    cols: list[_Column]
    index_info: list[_Index] | None
    pk_is_handle: bool
    is_common_handle: bool
    partition: _Partition | None = None


def check_fields(info: Mapping[str, Any]) -> None:
    """Raises ValueError with the place of the field."""
    table_info = msgspec.convert(dict(info), _TableInfo)
    successors = [column.successor.id for column in table_info.cols if column.successor is not None]
    read = [column.id for column in table_info.cols if column.state == _PUBLIC] + successors
    for some in (read, [column.id for column in table_info.cols], [column.name.O for column in table_info.cols]):
        if len(set(some)) < len(some):
            raise ValueError(f"two columns of one id or name: {some}")
