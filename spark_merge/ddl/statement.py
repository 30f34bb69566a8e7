"""What the reader makes of a DDL: its kind, and its text in pieces, of which each name of a table or schema is one, and each word that
not every target knows is one. `sinks/mysql/ddl_dialect.py` puts them together again for a target; no other text is ever passed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

from sidecar.shared.model.nouns import TableName


class StatementKind(Enum):
    CREATE_SCHEMA = "CREATE DATABASE"
    ALTER_SCHEMA = "ALTER DATABASE"
    DROP_SCHEMA = "DROP DATABASE"
    CREATE_TABLE = "CREATE TABLE"
    CREATE_LIKE = "CREATE TABLE … LIKE"
    ALTER_TABLE = "ALTER TABLE"
    EXCHANGE = "ALTER TABLE … EXCHANGE PARTITION"
    RENAME = "RENAME TABLE"
    DROP_TABLE = "DROP TABLE"
    DROP_VIEW = "DROP VIEW"
    TRUNCATE = "TRUNCATE TABLE"
    CREATE_INDEX = "CREATE INDEX"
    DROP_INDEX = "DROP INDEX"
    CREATE_VIEW = "CREATE VIEW"
    NOTHING = "nothing for a target"
    """What concerns the source's cluster alone: placement policies, resource groups, locks."""
    UNREAD = "not understood"


class Partitions(Enum):
    """What an ALTER TABLE does with the rows of partitions."""

    UNTOUCHED = "untouched"
    REARRANGED = "rearranged"
    """Rows come to other partitions: REORGANIZE, COALESCE, REMOVE PARTITIONING, PARTITION BY, ADD PARTITION PARTITIONS n."""
    ROWS_LEAVE = "rows leave"
    """Rows leave or come without a change event of each: DROP, TRUNCATE, EXCHANGE."""


class SchemaPiece(NamedTuple):
    schema: str


FeatureKind = Literal[
    "auto_random", "row ids", "clustered", "placement", "ttl", "ttl settings", "tiflash", "attributes", "storage", "algorithm", "check",
    "charset", "collation", "charset of the table", "vector", "expression index", "json path", "default function", "global index",
    "index visibility", "interval partitions", "default partition", "nullability of a generated column", "condition", "unknown option",
    "inline reference", "linear",
]  # fmt: skip


class Feature(NamedTuple):
    """`text` as TiDB has it; of a charset or collation its name in small letters."""

    kind: FeatureKind
    text: str


class TypePiece(NamedTuple):
    """A column's type with its character set and collation, as far as the text has them."""

    column: str
    type: Pieces
    charset: Pieces


class DefaultPiece(NamedTuple):
    """Where a column has its DEFAULT. `value`: what is behind the word, which is `word`; empty: the column has none."""

    column: str
    value: Pieces = ()
    word: Pieces = ()


class FormulaPiece(NamedTuple):
    """What makes a column a generated one. `null`: whether it may be NULL, as far as the text says so."""

    column: str
    formula: Pieces
    null: Pieces


class BoundPiece(NamedTuple):
    """What is behind VALUES LESS THAN or VALUES IN."""

    partition: str
    text: str


Piece: TypeAlias = "str | TableName | SchemaPiece | Feature | TypePiece | DefaultPiece | FormulaPiece | BoundPiece"
Pieces: TypeAlias = tuple[Piece, ...]


class ColumnWord(Enum):
    """What an ALTER TABLE says of a column."""

    ADD = "ADD"
    DROP = "DROP"
    RENAME = "RENAME"
    CHANGE = "CHANGE"
    """Its type and name."""
    MODIFY = "MODIFY"
    """Its type."""
    DEFAULT = "SET DEFAULT"


class ColumnClause(NamedTuple):
    """The column's names before and after the statement, as written; of an added or dropped one they are equal. `type`: the text of its
    type, where the statement has one."""

    word: ColumnWord
    before: str
    after: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """`head items tail`; the items are separated by commas, and one of which a target needs nothing is omitted. Of an ALTER TABLE without
    items, nothing is carried out. `text` is the source's. `moves`: of RENAME each (from, to) in turn, of EXCHANGE the partitioned
    table and the other one; `unqualified`: of RENAME and of ALTER TABLE … RENAME, which names of each move had no schema in the text;
    `leaving`: the partitions whose rows leave, empty for all; None: the text does not name them. `changes`: of ALTER TABLE, in the order
    of the text."""

    kind: StatementKind
    text: str
    head: Pieces = ()
    items: tuple[Pieces, ...] = ()
    tail: Pieces = ()
    moves: tuple[tuple[TableName, TableName], ...] = ()
    changes: tuple[ColumnClause, ...] = ()
    partitions: Partitions = Partitions.UNTOUCHED
    leaving: tuple[str, ...] | None = None
    unqualified: tuple[tuple[bool, bool], ...] = ()

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Those that CHANGE and RENAME COLUMN name, (before, after)."""
        return tuple((one.before, one.after) for one in self.changes if one.word in (ColumnWord.CHANGE, ColumnWord.RENAME))

    def guesses(self, source: TableName) -> bool:
        """Whether the schema of a renamed table is only assumed: its author's, where a job's is that of another name of the statement."""
        bare = any(move[0] == source and one for move, (one, _) in zip(self.moves, self.unqualified, strict=True))
        return bare and not all(one and other for one, other in self.unqualified)

    def pieces(self) -> Iterator[Piece]:
        yield from self.head
        for item in self.items:
            yield from item
        yield from self.tail

    def tables(self) -> tuple[TableName, ...]:
        """Each once, in the order of the text."""
        return tuple(dict.fromkeys(piece for piece in self.pieces() if isinstance(piece, TableName)))

    def schemas(self) -> tuple[str, ...]:
        """Of a DDL of a schema: its name."""
        return tuple(dict.fromkeys(piece.schema for piece in self.pieces() if isinstance(piece, SchemaPiece)))
