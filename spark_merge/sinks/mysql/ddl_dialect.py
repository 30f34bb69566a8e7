"""A statement's text for a target: for what TiDB alone knows stands what the target has for it. The table of deploy/SQL-DDL.md."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.model.nouns import TableName, lowered
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.sql.text import quoted
from spark_merge.ddl.statement import (
    BoundPiece,
    DefaultPiece,
    Feature,
    FeatureKind,
    FormulaPiece,
    Piece,
    Pieces,
    SchemaPiece,
    Statement,
    StatementKind,
    TypePiece,
)
from spark_merge.sinks.mysql.by_bytes import MadeText, charset_by_bytes


class TableCharset(NamedTuple):
    """What a new table has whose text names none: of its schema in the log where that has it, else TiDB's default."""

    charset: str = "utf8mb4"
    collation: str = "utf8mb4_bin"


TIDBS = TableCharset()


@dataclass(frozen=True, slots=True)
class Replacements:
    """What is written otherwise than the statement has it, so that the target makes what TiDB made (ddl_values.py). Names are folded.
    `defaults`: SQL behind DEFAULT, by column; `bounds`: of a partition, with parentheses; `plain`: generated columns that are written as
    plain ones; `by_bytes`: texts compare bytes at the source and by their collations at the target (by_bytes.py), and `texts` is what
    columns have there that the statement makes."""

    defaults: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, str] = field(default_factory=dict)
    plain: Collection[str] = ()
    by_bytes: bool = False
    texts: Mapping[str, MadeText] = field(default_factory=dict)


AS_IT_IS = Replacements()

Decision = Callable[[str], str | None]
"""TiDB's text to the target's; None: refused."""


def _keep(text: str) -> str | None:
    return text


def _drop(_: str) -> str | None:
    return ""


def _refuse(_: str) -> str | None:
    return None


def _in_parentheses(text: str) -> str | None:
    return f" ({text.strip()})"


def _as_ignored(text: str) -> str | None:
    return " IGNORED" if text.strip().upper() == "INVISIBLE" else " NOT IGNORED"


def _charset(text: str) -> str | None:
    return f" CHARACTER SET {text}"


def _collation(text: str) -> str | None:
    return f" COLLATE {text}"


def _mariadb_charset(text: str) -> str | None:
    return None if text == "gb18030" else _charset(text)


def _mariadb_collation(text: str) -> str | None:
    return None if text.startswith("gb18030") else _collation(collation_at(text, Flavour.MARIADB))


_MARIADB, _MYSQL, _TIDB = Flavour.MARIADB, Flavour.MYSQL, Flavour.TIDB
_MARIADBS = {"utf8mb4_0900_ai_ci": "utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_0900_bin": "utf8mb4_nopad_bin"}
"""MySQL's of UCA 9.0 are MariaDB's of UCA 14.0, also without padding: a few rare letters are equal in the one alone."""


def collation_at(collation: str, dialect: Flavour) -> str:
    """In its own words."""
    return _MARIADBS.get(collation, collation) if dialect is _MARIADB else collation


_EVERYWHERE: dict[FeatureKind, Decision] = {
    "placement": _drop, "ttl settings": _drop, "tiflash": _drop, "attributes": _drop, "storage": _drop, "algorithm": _drop, "check": _drop,
    "inline reference": _drop,
    "charset": _charset, "collation": _collation,
}  # fmt: skip
_TIDBS_OWN: dict[FeatureKind, Decision] = {
    "auto_random": _drop, "row ids": _drop, "clustered": _drop, "ttl": _drop, "unknown option": _drop, "linear": _drop,
}  # fmt: skip
_WITHOUT: dict[FeatureKind, Decision] = {
    "vector": _refuse, "global index": _refuse, "interval partitions": _refuse, "default partition": _refuse,
    "default function": _in_parentheses,
}  # fmt: skip

DECISIONS: dict[Flavour, dict[FeatureKind, Decision]] = {
    _TIDB: _EVERYWHERE,
    _MYSQL: _EVERYWHERE | _TIDBS_OWN | _WITHOUT | {"condition": _drop},
    _MARIADB: _EVERYWHERE | _TIDBS_OWN | _WITHOUT | {
        "charset": _mariadb_charset, "collation": _mariadb_collation, "expression index": _refuse, "json path": _refuse,
        "index visibility": _as_ignored, "nullability of a generated column": _drop,
    },
}  # fmt: skip
"""What is not named is kept as TiDB has it."""


def rendered(statement: Statement, dialect: Flavour, charset: TableCharset = TIDBS, rewrites: Replacements = AS_IT_IS) -> str:
    """`statement` names tables of the target. Empty: there is nothing to carry out at this target. Raises UnsupportedDdl, by
    name, for what the target has not."""
    if statement.kind is StatementKind.NOTHING:
        return ""
    if statement.kind is StatementKind.CREATE_VIEW:
        raise UnsupportedDdl(
            f"the DDL {statement.text!r} makes a view, whose SELECT is not read here",
            hint="make it at the target by hand and name its commit_ts in the sink's `ddl-done`, or skip views: `skip-views=true`",
        )
    write = _Writer(statement, dialect, charset, rewrites)
    items = [text for item in statement.items if (text := write.pieces(item))]
    if statement.items and not items:
        return ""
    return (write.pieces(statement.head) + ",".join(items) + write.pieces(statement.tail)).strip()


class _Writer(NamedTuple):
    statement: Statement
    dialect: Flavour
    charset: TableCharset
    rewrites: Replacements

    def pieces(self, pieces: Pieces) -> str:
        return "".join(map(self._piece, pieces))

    def _piece(self, piece: Piece) -> str:
        match piece:
            case TableName():
                return f" {quoted(piece.schema)}.{quoted(piece.table)}"
            case SchemaPiece():
                return " " + quoted(piece.schema)
            case Feature("charset of the table"):
                return self._feature(Feature("charset", self.charset.charset)) + self._feature(Feature("collation", self.charset.collation))
            case Feature():
                return self._feature(piece)
            case TypePiece():
                made = self.rewrites.texts.get(lowered(piece.column))
                return self._text_column(made, piece) if made else self.pieces((*piece.type, *piece.charset))
            case DefaultPiece():
                rewrites = self.rewrites.defaults.get(lowered(piece.column))
                return self.pieces(piece.word) + self.pieces(piece.value) if rewrites is None else f" DEFAULT {rewrites}"
            case FormulaPiece():
                if lowered(piece.column) in self.rewrites.plain:
                    return "".join(one.text for one in piece.null if isinstance(one, Feature))
                return self.pieces(piece.formula) + self.pieces(piece.null)
            case BoundPiece():
                return self.rewrites.bounds.get(lowered(piece.partition), piece.text)
            case _:
                return piece

    def _text_column(self, made: MadeText, piece: TypePiece) -> str:
        kind = f" {made.type}" if made.type else self.pieces(piece.type)
        return kind + self._feature(Feature("charset", made.charset)) + self._feature(Feature("collation", made.collation))

    def _feature(self, feature: Feature) -> str:
        value = feature.text
        if self.rewrites.by_bytes and feature.kind in ("charset", "collation"):
            made = charset_by_bytes(value.partition("_")[0], self.dialect)
            value = made.charset if feature.kind == "charset" else made.collation
        text = DECISIONS[self.dialect].get(feature.kind, _keep)(value)
        if text is None:
            raise UnsupportedDdl(
                f"the DDL {self.statement.text!r} has what {self.dialect.value} has not: {feature.kind}, {feature.text.strip()!r}",
                hint="carry out at the target by hand what it means there, and name the DDL's commit_ts in the sink's `ddl-done`",
            )
        return text
