"""TiDB's conversion of a value whose column gets another type, as slow as it is plain: pkg/types/datum.go ConvertTo.

`cast` is the judge of what a SQL target makes of the same statement. A type it has no rule for raises NoRule: a target must not carry out
what nobody here knows.

    numbers      MyDecimal.Round (half away from zero), IntergerSignedUpperBound and its like; a decimal to a double: ParseFloat
    times        Time.RoundFrac, Duration.RoundFrac: half up; to a DATE what is behind the day is cut (convertToMysqlTime)
    texts        convertToString: FormatInt, FormatFloat 'f'; ProduceStrWithSpecifiedTp: spaces that are too many are cut
    labels       ParseEnum, ParseSet: by the label
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import NamedTuple

from sidecar.shared.model.nouns import Column, ColumnDefinition, Kind
from sidecar.shared.rowcodec.type_cast import INTEGER_BITS, TEXT_BYTES, integer_range
from sidecar.shared.rowcodec.type_cast import column_type as type_of

_EXACT = Context(prec=200)


class NoRule(Exception):
    """Of these two types."""


class Typed(NamedTuple):
    """A type, as information_schema spells it, with the column that it makes."""

    text: str
    column: Column

    @property
    def definition(self) -> ColumnDefinition:
        charset = "utf8mb4" if self.column.kind in ("text", "enum", "set") else ""
        return ColumnDefinition("a", self.text, charset=charset, collation="utf8mb4_bin" * bool(charset))


def typed(text: str, kind: Kind, *, length: int = -1, scale: int = 0, elements: tuple[str, ...] = ()) -> Typed:
    return Typed(text, Column("a", kind, length=length, scale=scale, elements=elements))


def cast(text: str, old: Typed, new: Typed) -> tuple[str, bool]:
    """Canonical text, and whether a strict session refuses the statement for it: then it is what another session makes."""
    match old.column.kind, new.column.kind:
        case (("int" | "uint" | "decimal" | "bit" | "year"), ("int" | "uint")):
            return _integer(Decimal(text), new)
        case (("int" | "uint" | "decimal"), "decimal"):
            return _decimal(Decimal(text), new)
        case (("int" | "uint" | "decimal" | "float"), "double"):
            return repr(float(text)), False
        case "bit", "bit":
            most = (1 << new.column.length) - 1
            return str(min(int(text), most)), int(text) > most
        case ("datetime" | "timestamp") as was, now if was == now:
            return _moment(text, new.column.scale), False
        case "time", "time":
            return _duration(text, new.column.scale), False
        case "datetime", "date":
            return text[:10], False
        case "date", "date":
            return text, False
        case "date", "datetime":
            return f"{text} 00:00:00{'.' * bool(new.column.scale)}{'0' * new.column.scale}", False
        case (("int" | "uint" | "decimal" | "date" | "time" | "datetime" | "enum" | "set" | "text" | "json"), "text"):
            return _text(text, new)
        case "binary", "binary":
            return _binary(text, new)
        case "enum", "enum":
            return (text, False) if text in new.column.elements else ("", True)
        case "set", "set":
            given = text.split(",") if text else []
            return ",".join(one for one in new.column.elements if one in given), not set(given) <= set(new.column.elements)
        case _:
            raise NoRule(f"{old.text} to {new.text}")


def _integer(value: Decimal, new: Typed) -> tuple[str, bool]:
    whole = int(value.quantize(Decimal(1), ROUND_HALF_UP, _EXACT))
    low, high = integer_range(type_of(new.definition))
    return str(min(max(whole, low), high)), not low <= whole <= high


def _decimal(value: Decimal, new: Typed) -> tuple[str, bool]:
    scale = new.column.scale
    rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    most = (Decimal(10**new.column.length) - 1).scaleb(-scale, _EXACT)
    low = Decimal(0).scaleb(-scale) if type_of(new.definition).unsigned else -most
    kept = min(max(rounded, low), most)
    return f"{kept if kept else kept.copy_abs():f}", kept != rounded


def _moment(text: str, scale: int) -> str:
    if text.startswith("0000-00-00"):
        return f"0000-00-00 00:00:00{'.' * bool(scale)}{'0' * scale}"
    return _spelled(_rounded(datetime.fromisoformat(text), scale), scale)


def _rounded(moment: datetime, scale: int) -> datetime:
    step = 10 ** (6 - scale)
    more = -moment.microsecond % step
    return moment + timedelta(microseconds=more if 2 * more <= step and more else more - step if more else 0)


def _spelled(moment: datetime, scale: int) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}".rjust(19, "0") + (f".{moment:%f}"[: scale + 1] if scale else "")


def _duration(text: str, scale: int) -> str:
    """Half away from zero."""
    sign, clock = ("-", text[1:]) if text.startswith("-") else ("", text)
    hours, minutes, seconds = clock.split(":")
    value = (int(hours) * 3600 + int(minutes) * 60 + Decimal(seconds)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    whole = int(value)
    digits = f"{value - whole:f}"[1:] if scale else ""
    sign = sign if value else ""
    return f"{sign}{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{digits}"


def _text(text: str, new: Typed) -> tuple[str, bool]:
    kind = type_of(new.definition)
    cut = text.encode()[: TEXT_BYTES[kind.name]].decode(errors="ignore") if kind.name in TEXT_BYTES else text[: kind.size]
    lost = text[len(cut) :].strip(" \t\n\r") != "" or (kind.name in TEXT_BYTES and cut != text)
    return (cut.rstrip(" ") if kind.name == "char" else cut), lost


def _binary(text: str, new: Typed) -> tuple[str, bool]:
    kind = type_of(new.definition)
    size = TEXT_BYTES.get(kind.name, kind.size)
    cut = text[: 2 * size]
    return (cut.ljust(2 * size, "0") if kind.name == "binary" else cut), len(text) > 2 * size


# ---- types and their values --------------------------------------------------------------------------------------------


def _integers() -> list[Typed]:
    signed = [typed(f"{name}(9)", "int") for name in INTEGER_BITS]
    return [*signed, *(typed(f"{name}(9) unsigned", "uint") for name in INTEGER_BITS)]


TYPES: tuple[Typed, ...] = (
    *_integers(),
    *(typed(f"decimal({size},{scale})", "decimal", length=size, scale=scale) for size, scale in ((5, 0), (9, 2), (12, 4), (30, 10))),
    typed("decimal(9,2) unsigned", "decimal", length=9, scale=2),
    typed("double", "double"), typed("float", "float"), typed("year(4)", "year"), typed("date", "date"), typed("json", "json"),
    *(typed(f"datetime({scale})" if scale else "datetime", "datetime", scale=scale) for scale in (0, 3, 6)),
    *(typed(f"timestamp({scale})" if scale else "timestamp", "timestamp", scale=scale) for scale in (0, 3, 6)),
    *(typed(f"time({scale})" if scale else "time", "time", scale=scale) for scale in (0, 3, 6)),
    *(typed(one, "text") for one in ("char(5)", "varchar(5)", "varchar(30)", "varchar(200)", "tinytext", "text", "longtext")),
    *(typed(f"bit({size})", "bit", length=size) for size in (1, 8, 63)),
    typed("binary(4)", "binary", length=4), typed("binary(8)", "binary", length=8),
    *(typed(one, "binary") for one in ("varbinary(4)", "varbinary(8)", "blob")),
    *(typed(f"enum({','.join(map(repr, one))})", "enum", elements=one) for one in (("x", "y"), ("y", "z", "x"), ("2", "x", "y"))),
    *(typed(f"set({','.join(map(repr, one))})", "set", elements=one) for one in (("x", "y"), ("y", "z", "x"), ("x",))),
)  # fmt: skip

_DAYS = ("2020-01-01", "1999-12-31", "2020-02-28", "2021-02-28")
_CLOCKS = ("23:59:59", "00:00:00", "12:30:59")
_FRACTIONS = ("500000", "499999", "999999", "000000", "000500", "000499")


def values_of(one: Typed) -> list[str]:
    """Canonical texts, with those at the ends of what rounds, fits and differs."""
    column, kind = one.column, type_of(one.definition)
    match column.kind:
        case "int" | "uint":
            low, high = integer_range(kind)
            return [str(number) for number in dict.fromkeys((low, high, 0, 7, min(high, 12345)))]
        case "decimal":
            most = 10**column.length - 1
            halves = (
                [5 * 10 ** (column.scale - 1), 15 * 10 ** (column.scale - 1), 5 * 10 ** (column.scale - 1) - 1] if column.scale else [5]
            )
            signed = [most, 0, *halves, *(() if kind.unsigned else (-most, *(-one for one in halves[:2])))]
            return [f"{Decimal(number).scaleb(-column.scale, _EXACT):f}" for number in signed]
        case "double":
            return ["1e+20", "0.1", "2.5", "-3.5", "1e-07", "16777217.0"]
        case "float":
            return ["16777216.0", "0.10000000149011612", "2.5", "1.0000000200408773e+20"]
        case "bit":
            return [str((1 << column.length) - 1), "0", "1"]
        case "year":
            return ["0000", "1901", "2024", "2155"]
        case "date":
            return [*_DAYS, "0000-00-00"]
        case "datetime" | "timestamp":
            return [_short(f"{day} {clock}.{digits}", column.scale) for day in _DAYS for clock in _CLOCKS for digits in _FRACTIONS]
        case "time":
            return [
                _short(f"{clock}.{digits}", column.scale)
                for clock in ("-00:00:00", "00:59:59", "-12:00:00", "99:59:59")
                for digits in _FRACTIONS
            ]
        case "text":
            size = min(kind.size if kind.size >= 0 else TEXT_BYTES[kind.name], 300)
            texts = [
                "",
                "a",
                "ü中",
                "12",
                "x" * size,
                "é" * (size if kind.size >= 0 else size // 2),
                "a\tb",
                "ab   "[:size],
                "ab \t"[:size],
            ]
            return [text.rstrip(" ") if kind.name == "char" else text for text in texts]
        case "binary":
            size = min(kind.size if kind.size >= 0 else 300, 300)
            texts = ["", "61", "61" * size, "00", "6120", "FF00"]
            return [text.ljust(2 * size, "0") if kind.name == "binary" else text for text in texts]
        case "enum":
            return [*column.elements]
        case "set":
            return ["", *column.elements, ",".join(column.elements)]
        case "json":
            return ["null", '{"a": 1}', '"x"', "[1, 2]"]
        case _:
            raise NoRule(one.text)


def _short(text: str, scale: int) -> str:
    """A negative zero is none."""
    head, _, digits = text.partition(".")
    made = f"{head}.{digits[:scale]}" if scale else head
    return made.removeprefix("-") if made.startswith("-") and not made.strip("-0:.") else made
