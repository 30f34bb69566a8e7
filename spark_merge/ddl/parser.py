"""A DDL's text as TiCDC sends it, or as its author wrote it, to a `Statement`.

A reader of our own and not a library's: of the statements that TiDB knows, sqlglot's MySQL dialect takes two thirds of those in our
recordings, answers the rest with an error or as an unparsed command, and makes a plain comment of `/*T![clustered_index] … */`. What is
needed is less than a syntax tree: which statement it is, which of its words are names of tables and schemas, and which are TiDB's own. All
else must be of the grammar to be copied; what is not is refused.
"""

from __future__ import annotations

from dataclasses import replace

from sidecar.shared.model.nouns import TableName
from spark_merge.ddl.alter_table import alter_table
from spark_merge.ddl.column_syntax import (
    Charset,
    column,
    condition,
    element,
    index_options,
    index_parts,
    placement,
    table_option,
    tiflash_replica,
)  # fmt: skip
from spark_merge.ddl.partition_syntax import partition_by
from spark_merge.ddl.reader import TokenReader
from spark_merge.ddl.statement import Feature, Pieces, SchemaPiece, Statement, StatementKind

_OF_THE_CLUSTER = (
    "CREATE PLACEMENT", "ALTER PLACEMENT", "DROP PLACEMENT", "CREATE OR REPLACE PLACEMENT", "CREATE RESOURCE", "ALTER RESOURCE",
    "DROP RESOURCE", "LOCK TABLE|TABLES", "UNLOCK TABLE|TABLES", "LOCK STATS", "UNLOCK STATS", "CREATE|ALTER|DROP SEQUENCE",
    "CREATE VECTOR|COLUMNAR|HYBRID INDEX",
)  # fmt: skip
_OPENS_A_VIEW = "CREATE VIEW|OR|ALGORITHM|DEFINER|SQL"
"""OR REPLACE, ALGORITHM, DEFINER and SQL SECURITY stand in no other CREATE of TiDB's grammar but that of a placement policy."""


def parsed(text: str, schema: str) -> Statement:
    """`schema`: what names without one belong to. Raises UnsupportedDdl, with the word at which it is not understood."""
    reader = TokenReader(text, schema)
    if any(reader.sees(words) for words in _OF_THE_CLUSTER):
        return Statement(StatementKind.NOTHING, text)
    if reader.sees(_OPENS_A_VIEW):
        return Statement(StatementKind.CREATE_VIEW, text)
    statement = _statement(reader, schema)
    while reader.skip(";"):
        pass
    if not reader.at_end():
        reader.refuse("its end")
    return statement


def _statement(reader: TokenReader, schema: str) -> Statement:
    if reader.skip("CREATE DATABASE|SCHEMA"):
        return _create_schema(reader)
    if reader.skip("ALTER DATABASE|SCHEMA"):
        return _alter_schema(reader, schema)
    if reader.skip("DROP DATABASE|SCHEMA"):
        reader.skip("IF EXISTS")
        reader.schema()
        return Statement(StatementKind.DROP_SCHEMA, reader.text, (" DROP DATABASE", *reader.made()))
    if reader.skip("CREATE TABLE"):
        return _create_table(reader)
    if reader.skip_any(("ALTER IGNORE TABLE", "ALTER TABLE")):
        return alter_table(reader)
    if reader.skip("DROP TABLE|TABLES"):
        return _drop(reader, StatementKind.DROP_TABLE)
    if reader.skip("DROP VIEW"):
        return _drop(reader, StatementKind.DROP_VIEW)
    if reader.skip("RENAME TABLE|TABLES"):
        return _rename(reader)
    if reader.skip("TRUNCATE"):
        reader.skip("TABLE")
        reader.table()
        return Statement(StatementKind.TRUNCATE, reader.text, (" TRUNCATE TABLE", *reader.made()))
    if reader.take("CREATE INDEX") or reader.take("CREATE UNIQUE|FULLTEXT INDEX"):
        return _create_index(reader)
    if reader.take("DROP INDEX"):
        condition(reader)
        reader.name()
        reader.need("ON")
        reader.table()
        while reader.skip_any(("ALGORITHM", "LOCK")):
            reader.option()
        return Statement(StatementKind.DROP_INDEX, reader.text, reader.made())
    return reader.refuse("a statement that a target can be given (what comes back from a drop cannot)")


# ---- schemas ----------------------------------------------------------------------------------------------------------


def _create_schema(reader: TokenReader) -> Statement:
    reader.skip("IF NOT EXISTS")
    reader.schema()
    charset = _schema_options(reader)
    if not charset.charset and not charset.collation:
        charset.charset = "utf8mb4"
    return Statement(StatementKind.CREATE_SCHEMA, reader.text, (" CREATE DATABASE", *reader.made(), *charset.pieces()))


def _alter_schema(reader: TokenReader, schema: str) -> Statement:
    if reader.sees("DEFAULT") or reader.sees("CHARACTER|CHARSET|COLLATE|PLACEMENT|SET|READ"):
        reader.write(SchemaPiece(schema))
    else:
        reader.schema()
    name = reader.made()
    items = tuple(_schema_options(reader).pieces())
    return Statement(StatementKind.ALTER_SCHEMA if items else StatementKind.NOTHING, reader.text, (" ALTER DATABASE", *name), tail=items)


def _schema_options(reader: TokenReader) -> Charset:
    charset = Charset()
    while True:
        reader.skip("DEFAULT")
        if charset.read(reader):
            continue
        if reader.sees("PLACEMENT"):
            placement(reader)
        elif reader.skip_any(("ENCRYPTION", "READ ONLY")):
            reader.option()
        elif reader.skip("SET TIFLASH REPLICA"):
            tiflash_replica(reader)
        elif not reader.unknown_option():
            return charset


# ---- tables -----------------------------------------------------------------------------------------------------------


def _create_table(reader: TokenReader) -> Statement:
    reader.skip("IF NOT EXISTS")
    table = reader.table()
    head: Pieces = (" CREATE TABLE", *reader.made())
    if reader.sees("LIKE") or reader.sees("( LIKE"):
        inside = reader.skip("(")
        reader.must_skip("LIKE")
        source = reader.table()
        if inside:
            reader.must_skip(")")
        return Statement(StatementKind.CREATE_LIKE, reader.text, (*head, " LIKE"), tail=reader.made(), moves=((source, table),))
    reader.must_skip("(")
    items = [_element(reader)]
    while reader.skip(","):
        items.append(_element(reader))
    reader.must_skip(")")
    return Statement(StatementKind.CREATE_TABLE, reader.text, (*head, " ("), tuple(items), (")", *_table_options(reader)))


def _element(reader: TokenReader) -> Pieces:
    """Without IF NOT EXISTS of an index, which says nothing of a new table, and which MariaDB has in ALTER TABLE alone."""
    if not element(reader):
        column(reader)
    return tuple(piece for piece in reader.made() if not (isinstance(piece, Feature) and piece.kind == "condition"))


def _table_options(reader: TokenReader) -> Pieces:
    charset = Charset()
    while table_option(reader, charset):
        reader.skip(",")
    options = reader.made()
    if reader.sees("PARTITION BY"):
        partition_by(reader)
    while reader.unknown_option():
        pass
    return (*(charset.pieces() or (Feature("charset of the table", ""),)), *options, *reader.made())


def _drop(reader: TokenReader, kind: StatementKind) -> Statement:
    reader.skip("IF EXISTS")
    items = [_table(reader)]
    while reader.skip(","):
        items.append(_table(reader))
    reader.skip("RESTRICT|CASCADE")
    return Statement(kind, reader.text, (f" {kind.value}",), tuple(items))


def _table(reader: TokenReader) -> Pieces:
    reader.table()
    return reader.made()


def _rename(reader: TokenReader) -> Statement:
    items: list[Pieces] = []
    moves: list[tuple[TableName, TableName]] = []
    unqualified: list[tuple[bool, bool]] = []
    while True:
        before, bare = reader.table(), reader.unqualified
        reader.need("TO")
        moves.append((before, reader.table()))
        unqualified.append((bare, reader.unqualified))
        items.append(reader.made())
        if not reader.skip(","):
            statement = Statement(StatementKind.RENAME, reader.text, (" RENAME TABLE",), tuple(items), moves=tuple(moves))
            return replace(statement, unqualified=tuple(unqualified))


def _create_index(reader: TokenReader) -> Statement:
    condition(reader)
    reader.name()
    reader.skip("USING") and reader.option()
    reader.need("ON")
    reader.table()
    index_parts(reader)
    index_options(reader)
    return Statement(StatementKind.CREATE_INDEX, reader.text, reader.made())
