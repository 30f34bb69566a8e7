"""Whether a column of the target holds every value of its column at the source: two values never become one there, and none is rejected.

`tables.target_table` applies it to each column of a table that is there, by the log's definitions: at `check`, when a table first has rows,
and after each DDL. A type that holds more is fine. The values are those of the source's type. They are written as `statements.literal_of`
writes them, in the sessions of sidecar/shared/mysql/setup.py.

    integers, bits, years, decimals   all their digits, and their sign; in floating-point columns as many digits as these tell apart
    floats, doubles                   the same or the wider type, with as many digits as the source's where it has (M,D)
    dates and times                   all digits of their fraction. A TIMESTAMP is a DATETIME in UTC too, and a DATE is one at midnight
    texts, bytes                      their length in the target's character set; spaces and zeros at their end
    labels                            each of them, those of a set in their order
    all of these as text              in the length of the longest; but of a floating-point number the text is the server's

What this does not know (UUID, INET6, geometry) holds nothing: UUID, for example, takes texts of either case for one. A CHECK of the target
is not read: it rejects a row with an error.
Keys, which compare, are `compares`'.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from decimal import Context, Decimal
from fractions import Fraction
from typing import NamedTuple

from sidecar.shared.model.nouns import Column, ColumnDefinition, Kind
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.rowcodec.type_cast import KINDS, TEXT_BYTES, ColumnType, column_type, integer_range
from sidecar.shared.sql.text import Shows, labels
from spark_merge.ddl.conversion import Typed
from spark_merge.sinks.mysql.server_table import ServerColumn

_BYTES_MAX = 4
_UTF8_BYTES = {"ascii": 1, "utf8": 3}
"""Of a character of the source, at most; TiDB's latin1 takes every one."""
_BYTES_THERE = {"ascii": 1, "latin1": 1, "gbk": 2, "utf8": 3}
"""Of a character in a column of the target, at most."""
_VARCHAR_BYTES_MAX = (1 << 16) - 1 - len("..")
"""Of a row, which has two bytes for its length."""
_TEXTS = ("tinytext", "text", "mediumtext", "longtext")
_AS_UTF8 = frozenset({"ascii", "utf8", "utf8mb4"})
_UNICODE = frozenset({"utf8mb4", "utf16", "utf16le", "utf32"})
"""Character sets that have every character."""
_FOREIGN = {"ascii": "é", "latin1": "λ", "utf8": "😀", "utf8mb3": "😀"}
"""A character that each has not."""
_WHOLE_DOUBLE_MAX = 1 << 53
_YEARS, _BIT_MAX = (0, 2155), 64
_DECIMAL, _MOMENT_CHARS = 10, {"date": 10, "time": 10, "datetime": 19, "timestamp": 19}
_NEIGHBOURS = 64
_CONTEXT = Context(prec=100)


class Narrowing(NamedTuple):
    """`values`: canonical texts of the source, two that are one at the target, or one that it rejects; empty where `why` says it."""

    values: tuple[str, ...] = ()
    why: str = "it has not all the values of that type"

    def __str__(self) -> str:
        match self.values:
            case (one, other):
                return f"{one!r} and {other!r} would be one value there"
            case (one,):
                return f"{one!r} would be rejected there"
        return self.why


_OTHER_KIND = Narrowing(why="it is a type of another kind")
NULL = Narrowing(why="NULL would be rejected there")


def lost(source: Typed, target: ServerColumn, flavour: Flavour) -> Narrowing | None:
    """None: `target`, a column at a server of `flavour`, holds each value of `source`."""
    there = _typed(target, flavour)
    return _OTHER_KIND if there is None else _lost(source, there)


def holding_type(source: ColumnDefinition, charset: str) -> str:
    """The type that a column of texts is made with in this character set: its own, or the first TEXT that holds each of its values."""
    here = column_type(source)
    there = ((text, ColumnType.of(text, charset)) for text in (source.type_text, *_TEXTS))
    return next(text for text, shape in there if _may_be_made(shape) and _of_text(here, shape) is None)


def _may_be_made(shape: ColumnType) -> bool:
    width = _BYTES_THERE.get(_plain(shape.charset), _BYTES_MAX)
    return shape.name != "varchar" or _size(shape) * width <= _VARCHAR_BYTES_MAX


def _typed(target: ServerColumn, flavour: Flavour) -> Typed | None:
    """None for a type that TiDB has not."""
    kind = KINDS.get(target.type)
    if kind is None:
        return None
    shape = ColumnType.of(target.type_text, target.charset or "")
    shows = Shows.TIDB if flavour is Flavour.TIDB else Shows.MYSQL
    elements = labels(target.type_text, shows) if kind in ("enum", "set") else ()
    return Typed(Column(target.name, "uint" if kind == "int" and shape.unsigned else kind, elements=elements), shape)


def _lost(source: Typed, target: Typed) -> Narrowing | None:
    here, there = _type(source), _type(target)
    match source.column.kind, target.column.kind:
        case (("int" | "uint" | "bit" | "year" | "decimal"), _):
            return _of_number(exact(source.column.kind, here), source.column.kind, target)
        case (("float" | "double"), _):
            return _of_floating(source, target)
        case (("date" | "time" | "datetime" | "timestamp"), _):
            return _of_moment(source, target)
        case "text", "text":
            return _of_text(here, there)
        case "text", "binary":
            return _too_short(_bytes(here), there) or (Narrowing(("a", "a\0")) if there.name == "binary" else None)
        case "binary", "binary":
            return _of_bytes(here, there)
        case "enum", ("enum" | "text"):
            return _of_labels(source, target, max(map(len, source.column.elements), default=0))
        case "set", ("set" | "text"):
            return _of_labels(source, target, len(",".join(source.column.elements)))
        case "json", "text":
            holds = there.name == "longtext" and there.charset in _UNICODE
            return None if holds else Narrowing(why="a json may be longer, or have other letters")
        case "json", "json":
            return None
        case "vector", "vector":
            return None if there.size in (-1, here.size) else Narrowing(why="it is a vector of another length")
    return _OTHER_KIND


def _type(one: Typed) -> ColumnType:
    assert one.type is not None, "a definition has it"
    return one.type


# ---- numbers ----------------------------------------------------------------------------------------------------------


class _Exact(NamedTuple):
    """Every multiple of 10 ** -scale from `low` to `high`, which count in such units."""

    low: int
    high: int
    scale: int = 0

    def text(self, units: int) -> str:
        return f"{Decimal(units).scaleb(-self.scale, _CONTEXT):f}"

    def digits(self) -> int:
        return len(str(max(-self.low, self.high)))

    def greatest(self) -> Fraction:
        return Fraction(self.high, 10**self.scale)

    def least(self) -> Fraction:
        return Fraction(self.low, 10**self.scale)


def exact(kind: Kind, shape: ColumnType) -> _Exact:
    match kind:
        case "year":
            return _Exact(*_YEARS)
        case "bit":
            return _Exact(0, (1 << max(shape.size, 1)) - 1)
        case "decimal":
            high = 10 ** (shape.size if shape.size > 0 else _DECIMAL) - 1
            return _Exact(0 if shape.unsigned else -high, high, shape.scale)
        case _:
            return _Exact(*integer_range(shape))


def _of_number(here: _Exact, kind: Kind, target: Typed) -> Narrowing | None:
    shape = _type(target)
    match target.column.kind:
        case "year":
            return _into_year(here, kind, shape)
        case "bit" if kind == "year":
            return _OTHER_KIND  # it is written in quotes, whose bytes a BIT would take
        case "int" | "uint" | "bit" | "decimal":
            return _in_range(here, exact(target.column.kind, shape))
        case "float" | "double":
            return _as_floating(here, target.column.kind, shape)
        case "text":
            longest = max(here.text(here.low), here.text(here.high), key=len)
            return Narrowing((longest,)) if _characters(shape) < max(len(longest), 4 if kind == "year" else 1) else None
    return _OTHER_KIND


def _into_year(here: _Exact, kind: Kind, shape: ColumnType) -> Narrowing | None:
    if kind == "year":
        return Narrowing(("1901",)) if shape.size == 2 else None
    return Narrowing(("5", "2005")) if here.high >= 2005 and not here.scale else _OTHER_KIND


def _in_range(here: _Exact, there: _Exact) -> Narrowing | None:
    if here.scale > there.scale:
        return Narrowing((here.text(1), here.text(2)))
    if here.greatest() > there.greatest():
        return Narrowing((here.text(here.high),))
    return Narrowing((here.text(here.low),)) if here.least() < there.least() else None


def _as_floating(here: _Exact, kind: Kind, shape: ColumnType) -> Narrowing | None:
    """A server shows six digits of a FLOAT, and all that it takes to know a DOUBLE."""
    if shape.unsigned and here.low < 0:
        return Narrowing((here.text(here.low),))
    if shape.size >= 0 and (loss := _in_range(here, _rounded(shape))) is not None:
        return loss
    if here.digits() <= (6 if kind == "float" else 15) or (kind == "double" and not here.scale and here.high <= _WHOLE_DOUBLE_MAX):
        return None
    values = [here.text(here.high - one) for one in range(_NEIGHBOURS)]
    seen = float if kind == "double" else _seen_float
    return next(Narrowing((one, other)) for one, other in zip(values[1:], values[:-1], strict=True) if seen(one) == seen(other))


def _seen_float(text: str) -> str:
    return f"{struct.unpack('<f', struct.pack('<f', float(text)))[0]:.6g}"


def _rounded(shape: ColumnType) -> _Exact:
    """What FLOAT(M,D) and DOUBLE(M,D) round to."""
    high = 10**shape.size - 1
    return _Exact(0 if shape.unsigned else -high, high, shape.scale)


def _of_floating(source: Typed, target: Typed) -> Narrowing | None:
    here, there = _type(source), _type(target)
    if target.column.kind not in ("float", "double"):
        scale = exact(target.column.kind, there).scale if target.column.kind in ("int", "uint", "decimal") else -1
        fine = scale >= 0 and (here.size < 0 or here.scale > scale)
        return Narrowing(_parts(scale)) if fine else Narrowing(why="another server makes another text or number of a floating-point number")
    if there.unsigned and not here.unsigned:
        return Narrowing(("-1.0",))
    if there.size >= 0:
        if here.size < 0 or here.scale > there.scale:
            return Narrowing(_parts(there.scale))
        if (loss := _in_range(_rounded(here._replace(unsigned=True)), _rounded(there))) is not None:
            return loss
    if (source.column.kind, target.column.kind) == ("double", "float"):
        if here.size < 0:
            return Narrowing(("1.00000000001", "1.00000000002"))
        return _as_floating(_rounded(here), "float", there)
    return None


def _parts(scale: int) -> tuple[str, str]:
    """Of 10 ** -scale, which round to 0."""
    return repr(float(f"1e-{scale + 1}")), repr(float(f"2e-{scale + 1}"))


# ---- dates and times --------------------------------------------------------------------------------------------------


def _of_moment(source: Typed, target: Typed) -> Narrowing | None:
    here, there = source.column.kind, target.column.kind
    digits, digits_there = _fraction(source), _fraction(target)
    match here, there:
        case _, "text":
            chars = _MOMENT_CHARS[here] + digits + bool(digits)
            return Narrowing((_first(here, digits),)) if _characters(_type(target)) < chars else None
        case (("datetime" | "timestamp"), "date"):
            return Narrowing(("2024-01-02 00:00:01" + _zeros(digits), "2024-01-02 00:00:02" + _zeros(digits)))
        case (("date" | "datetime"), "timestamp"):
            return Narrowing((_first(here, digits),))
        case ("time", "time") | ("date", "date") | (("date" | "datetime" | "timestamp"), "datetime") | ("timestamp", "timestamp"):
            start = "12:00:00." if here == "time" else "2024-01-02 12:00:00."
            return Narrowing((f"{start}{1:0{digits}d}", f"{start}{2:0{digits}d}")) if digits > digits_there else None
    return _OTHER_KIND


def _fraction(one: Typed) -> int:
    return 0 if one.column.kind == "date" else max(_type(one).size, 0)


def _zeros(digits: int) -> str:
    return "." + "0" * digits if digits else ""


def _first(kind: Kind, digits: int) -> str:
    start = {"date": "1000-01-02", "time": "-100:00:00", "timestamp": "2024-01-02 00:00:00"}.get(kind, "1000-01-02 00:00:00")
    return start + _zeros(digits)


# ---- texts, bytes, labels ---------------------------------------------------------------------------------------------


def _of_text(here: ColumnType, there: ColumnType) -> Narrowing | None:
    if there.name == "char" != here.name:
        return Narrowing(("a", "a "))
    if not _has_characters(here.charset, there.charset):
        foreign, why = _FOREIGN.get(there.charset, "😀"), f"{there.charset} has not every character of {here.charset}"
        return Narrowing((foreign,)) if here.charset in _UNICODE else Narrowing(why=why)
    if here.name in TEXT_BYTES and there.name in TEXT_BYTES:
        sets = {_plain(here.charset), _plain(there.charset)}
        as_long = len(sets) == 1 or sets <= _AS_UTF8
        return _too_short(TEXT_BYTES[here.name] * (1 if as_long else _BYTES_MAX), there)
    if there.name in TEXT_BYTES and here.name not in TEXT_BYTES:
        return _too_short(_size(here) * _BYTES_THERE.get(_plain(there.charset), _BYTES_MAX), there)
    return _too_short(_size(here), there)


def _has_characters(source: str, target: str) -> bool:
    return _plain(source) == _plain(target) or target in _UNICODE or source == "ascii"


def _plain(charset: str) -> str:
    return "utf8" if charset == "utf8mb3" else charset


def _characters(shape: ColumnType) -> int:
    return _size(shape) // _BYTES_MAX if shape.name in TEXT_BYTES else _size(shape)


def _bytes(shape: ColumnType) -> int:
    """Of the longest text in UTF-8."""
    return _size(shape) * (1 if shape.name in TEXT_BYTES else _UTF8_BYTES.get(_plain(shape.charset), _BYTES_MAX))


def _size(shape: ColumnType) -> int:
    """Characters, or bytes of a TEXT and of bytes. CHAR and BINARY without a length have 1."""
    return TEXT_BYTES.get(shape.name, 1 if shape.size < 0 else shape.size)


def _too_short(length: int, there: ColumnType) -> Narrowing | None:
    """A LONGTEXT or LONGBLOB has what any server sends."""
    room = _size(there)
    return None if room >= min(length, TEXT_BYTES["longtext"]) else Narrowing(why=f"longer values than {room} would be rejected there")


def _of_bytes(here: ColumnType, there: ColumnType) -> Narrowing | None:
    fixed = here.name == there.name == "binary"
    if there.name == "binary" and not fixed:
        return Narrowing(("61", "6100"))
    if fixed and _size(here) < _size(there):
        return Narrowing(why="it adds zeros to each value")
    return _too_short(_size(here), there)


def _of_labels(source: Typed, target: Typed, longest: int) -> Narrowing | None:
    """Labels that the log does not have are no loss: one that the target has not is an error, when it comes."""
    mine, others, shape = source.column.elements, target.column.elements, _type(target)
    if target.column.kind == "text":
        if not _has_characters(_type(source).charset, shape.charset) and not all(map(str.isascii, mine)):
            return Narrowing(why=f"{shape.charset} may not have the letters of its labels")
        return Narrowing(why="a label is longer") if longest > _characters(shape) else None
    if not mine or not others:
        return None
    if missing := [one for one in mine if one not in others]:
        return Narrowing((missing[0],))
    if target.column.kind == "set" and _among(others, mine) != list(mine):
        return Narrowing(why="its labels are in another order")
    return None


def _among(all_of_them: Iterable[str], some: tuple[str, ...]) -> list[str]:
    return [one for one in all_of_them if one in some]
