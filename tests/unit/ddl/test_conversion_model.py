"""What is called unchanged against a slow model of TiDB's cast, in a strict session and in one that clips."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import NamedTuple

import pytest

from sidecar.shared.model.nouns import Column, ColumnDefinition, Kind
from sidecar.shared.rowcodec.type_cast import column_type
from sidecar.shared.sql.text import Shows, shown
from spark_merge.ddl.conversion import Conversion, Typed, conversion

BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
BYTES = {"tinytext": 255, "text": 65535, "longtext": (1 << 32) - 1}
LABELS = ("a", "b", "ü", "longer")


class Sql(NamedTuple):
    name: str
    size: int = -1
    scale: int = 0
    unsigned: bool = False
    labels: tuple[str, ...] = ()

    def typed(self) -> Typed:
        if self.name in BITS:
            return self._of("uint" if self.unsigned else "int", f"{self.name}(9){' unsigned' * self.unsigned}")
        match self.name:
            case "decimal":
                text = f"decimal({self.size},{self.scale}){' unsigned' * self.unsigned}"
                return self._of("decimal", text, length=self.size, scale=self.scale)
            case "char" | "varchar":
                return self._of("text", f"{self.name}({self.size})", charset="utf8mb4")
            case "tinytext" | "text" | "longtext":
                return self._of("text", self.name, charset="utf8mb4")
            case "enum" | "set":
                return self._of(self.name, f"{self.name}({shown(self.labels, Shows.TIDB)})", elements=self.labels)
            case "bit":
                return self._of("bit", f"bit({self.size})", length=self.size)
            case _:
                return self._of("year", "year(4)")

    def _of(self, kind: Kind, text: str, *, charset: str = "", length: int = -1, scale: int = 0, elements: tuple[str, ...] = ()) -> Typed:
        column = Column("a", kind, length=length, scale=scale, elements=elements)
        return Typed(column, column_type(ColumnDefinition("a", text, charset=charset)))


def a_type(random: Random) -> Sql:
    match random.choice(["int", "decimal", "text", "blob", "enum", "set", "bit", "year"]):
        case "int":
            return Sql(random.choice([*BITS]), unsigned=random.random() < 0.5)
        case "decimal":
            scale = random.choice([0, 1, 2])
            return Sql("decimal", scale + random.choice([2, 3, 5, 10, 20]), scale, unsigned=random.random() < 0.3)
        case "text":
            return Sql(random.choice(["char", "varchar"]), random.choice([1, 3, 4, 6, 20, 63, 64, 255, 256]))
        case "blob":
            return Sql(random.choice([*BYTES]))
        case "bit":
            return Sql("bit", random.choice([1, 7, 8, 16, 31, 63, 64]))
        case "year":
            return Sql("year")
        case name:
            return Sql(name, labels=tuple(random.sample(LABELS, random.randrange(1, len(LABELS) + 1))))


def value_of(sql: Sql, random: Random) -> str:
    """Canonical text; those at the ends of the type are likely."""
    if sql.name in BITS:
        low, high = (0, 2 ** BITS[sql.name] - 1) if sql.unsigned else (-(2 ** (BITS[sql.name] - 1)), 2 ** (BITS[sql.name] - 1) - 1)
        return str(random.choice([low, high, random.randint(low, high), random.randint(0, 9)]))
    match sql.name:
        case "decimal":
            most = 10**sql.size - 1
            scaleb = Decimal(random.choice([most, random.randint(0, most), 0])).scaleb(-sql.scale)
            return f"{scaleb if sql.unsigned or not scaleb or random.random() < 0.5 else -scaleb:f}"
        case "char" | "varchar":
            text = random.choice(["x", "ü", "中", "x "]) * random.choice([sql.size, random.randint(0, sql.size)])
            return text[: sql.size].rstrip(" ") if sql.name == "char" else text[: sql.size]
        case "tinytext" | "text" | "longtext":
            text = random.choice(["x", "x "]) * min(BYTES[sql.name], 70_000)
            return text[: random.choice([min(BYTES[sql.name], 70_000), 3])]
        case "enum":
            return random.choice(sql.labels)
        case "set":
            return ",".join(label for label in sql.labels if random.random() < 0.6)
        case "bit":
            return str(random.choice([2**sql.size - 1, random.getrandbits(sql.size)]))
        case _:
            return random.choice(["0000", "1901", "2155"])


def cast(text: str, old: Sql, new: Sql, *, strict: bool) -> str | None:
    """pkg/types ConvertTo. None: a strict session refuses the statement, or this model has no rule for it."""
    try:
        made = _cast(text, old, new)
    except (ValueError, ArithmeticError):
        return None
    if made is None:
        return None
    value, clipped = made
    return None if clipped and strict else value


def _cast(text: str, old: Sql, new: Sql) -> tuple[str, bool] | None:
    number = Decimal(text) if old.name in BITS or old.name in ("decimal", "bit", "year") else None
    if new.name in BITS and number is not None:
        low, high = (0, 2 ** BITS[new.name] - 1) if new.unsigned else (-(2 ** (BITS[new.name] - 1)), 2 ** (BITS[new.name] - 1) - 1)
        whole = int(number.quantize(Decimal(1), ROUND_HALF_UP))
        made = str(min(max(whole, low), high))
        return made, not low <= whole <= high
    if new.name == old.name == "year":
        return text, False
    if new.name == "decimal" and number is not None and old.name not in ("bit", "year"):
        rounded = number.quantize(Decimal(1).scaleb(-new.scale), ROUND_HALF_UP)
        most = (Decimal(10**new.size) - 1).scaleb(-new.scale)
        kept = min(max(rounded, Decimal(0).scaleb(-new.scale) if new.unsigned else -most), most)
        return f"{kept:f}", kept != rounded
    if new.name == "bit" and old.name == "bit":
        return str(min(int(text), 2**new.size - 1)), int(text) >= 2**new.size
    if new.name in ("enum", "set") and old.name == new.name:
        given = [one for one in text.split(",") if one] if new.name == "set" else [text]
        kept_labels = [one for one in new.labels if one in given]
        return ",".join(kept_labels), len(kept_labels) < len(given)
    if new.name in ("char", "varchar", *BYTES) and old.name != "bit":
        text = str(int(text)) if old.name == "year" else text  # types.Datum has a year as an int64
        cut = text.encode()[: BYTES[new.name]].decode(errors="ignore") if new.name in BYTES else text[: new.size]
        lost = text[len(cut) :].strip(" ") != ""
        return (cut.rstrip(" ") if new.name == "char" else cut), lost
    return None


@pytest.mark.parametrize("seed", range(40))
def test_what_is_called_unchanged_keeps_its_text_whatever_the_sql_mode(seed: int) -> None:
    random = Random(seed)
    for _ in range(120):
        old = a_type(random)
        new = old._replace(size=random.choice([1, 3, 63, 255])) if old.name == "varchar" and random.random() < 0.3 else a_type(random)
        way = conversion(old.typed(), new.typed())
        for text in (value_of(old, random) for _ in range(6)):
            clipped, strict = cast(text, old, new, strict=False), cast(text, old, new, strict=True)
            if way is Conversion.PADDED:
                assert clipped is not None
                assert Decimal(clipped) == Decimal(text), (old, new, text)
                assert strict == clipped, (old, new, text)
            elif way is not None and old.name == "year" and new.name in BITS:
                assert clipped == strict == str(int(text)), "a year has four digits and a number has none at its beginning"
            elif way is not None:
                assert clipped == strict == text, (old, new, text, way)


@pytest.mark.parametrize("seed", range(40))
def test_what_holds_every_value_is_not_refused(seed: int) -> None:
    """Else every MODIFY would stop a sink: a type with more room keeps its values."""
    random = Random(seed)
    old = a_type(random)
    wider = {
        "tinyint": old._replace(name="bigint"), "decimal": old._replace(size=old.size + 3), "varchar": old._replace(size=old.size + 1),
        "char": Sql("varchar", old.size), "text": Sql("longtext"), "enum": old._replace(labels=(*old.labels, "new")),
        "set": old._replace(labels=(*old.labels, "new")), "bit": old._replace(size=64), "year": Sql("smallint"),
    }.get(old.name, old)  # fmt: skip
    assert conversion(old.typed(), wider.typed()) is Conversion.UNCHANGED
