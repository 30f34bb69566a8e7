"""A statement as the log has its tables, and as the target has them. Names alone are replaced, each wherever it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import TableName, TableSchema, lowered
from spark_merge.ddl.routes import Routes
from spark_merge.ddl.statement import Piece, Pieces, SchemaPiece, Statement, StatementKind
from spark_merge.ddl.tokens import REPORT
from spark_merge.port.contract import Head

Move = tuple[TableName, TableName]

_ASIDE, _NAME_MAX = "__ticdc_dump", 64


def of_the_log(statement: Statement, record: DdlRecord, head: Head) -> Statement:
    """With the spelling of the log, in which rows come, and without what is another record's or no table of the log: of DROP TABLE a, b
    each table has a record of its own, with the whole text; RENAME TABLE may name tables that are not replicated."""
    tables = {name.folded(): name for known in (head.next_schemas, head.schemas) for name in known if name.table}
    schemas = {lowered(name.schema): name.schema for name in tables.values()}

    def spelled(name: TableName) -> TableName:
        return tables.get(name.folded(), TableName(schemas.get(lowered(name.schema), name.schema), name.table))

    across_schemas = _across_schemas(statement, head)
    across_schemas = renamed(across_schemas, spelled, lambda schema: schemas.get(lowered(schema), schema))
    match across_schemas.kind:
        case StatementKind.DROP_TABLE | StatementKind.DROP_VIEW:
            return _own_drop(across_schemas, record)
        case StatementKind.RENAME:
            return _replicated_moves(across_schemas, head.schemas)
        case _:
            return across_schemas


def at_target(statement: Statement, routes: Routes) -> Statement:
    return renamed(statement, routes.target, routes.schema)


def places(statement: Statement) -> tuple[TableName, ...]:
    """What it names, each once: tables, or a schema without a table."""
    return statement.tables() or tuple(TableName(schema, "") for schema in statement.schemas())


def table_of(statement: Statement) -> TableName | None:
    """The table that it leaves made or changed, by its name after it; None where that is none, or no single one."""
    match statement.kind:
        case (
            StatementKind.CREATE_TABLE
            | StatementKind.CREATE_LIKE
            | StatementKind.ALTER_TABLE
            | StatementKind.CREATE_INDEX
            | StatementKind.DROP_INDEX
            | StatementKind.TRUNCATE
        ):
            return statement.moves[0][1] if statement.moves else statement.tables()[0]
        case _:
            return None


def changed_tables(statement: Statement) -> tuple[TableName, ...]:
    """Those that it makes, ends or changes, by their names before and after it. Not those that it only reads: of LIKE and REFERENCES, which
    come last."""
    all_change = (statement.moves and statement.kind is not StatementKind.CREATE_LIKE) or statement.kind is StatementKind.DROP_TABLE
    return statement.tables() if all_change else statement.tables()[:1]


def name_before(statement: Statement, name: TableName) -> TableName | None:
    """Of the table that has `name` after these moves; None: it had another table's name then, or was not there."""
    for source, target in reversed(statement.moves):
        if target.folded() == name.folded():
            name = source
        elif source.folded() == name.folded():
            return None
    return name


def together(statements: Sequence[Statement], head: Head) -> Statement:
    """Several RENAMEs of one commit as one statement. TiCDC sends a record for each table of RENAME TABLE, from the name before to the name
    after all of them: where they cannot come one after another, they are done as if at once."""
    moves = [move for statement in statements for move in statement.moves]
    if not _one_after_another(moves, {name for name, schema in head.schemas.items() if schema.columns}):
        moves = _at_once(moves)
    items: tuple[Pieces, ...] = tuple((source, " TO", target) for source, target in moves)
    return Statement(StatementKind.RENAME, "; ".join(one.text for one in statements), (" RENAME TABLE",), items, moves=tuple(moves))


def _one_after_another(moves: Sequence[Move], known: set[TableName]) -> bool:
    """True also where the log knows none of them."""
    there = set(known) or {source for source, _ in moves}
    for source, target in moves:
        if source not in there or target in there:
            return False
        there = there - {source} | {target}
    return True


def _at_once(moves: Sequence[Move]) -> list[Move]:
    """In an order in which each target's name is free; of a circle, one goes by a name of its own."""
    waiting, ordered = list(moves), []
    while waiting:
        sources = {source for source, _ in waiting}
        free = next((move for move in waiting if move[1] not in sources), None)
        if free is None:
            source, target = waiting[0]
            aside = TableName(source.schema, f"{source.table[: _NAME_MAX - len(_ASIDE)]}{_ASIDE}")
            ordered.append((source, aside))
            waiting[0] = (aside, target)
        else:
            ordered.append(free)
            waiting.remove(free)
    return ordered


def renamed(statement: Statement, table: Callable[[TableName], TableName], schema: Callable[[str], str]) -> Statement:
    def one(piece: Piece) -> Piece:
        if isinstance(piece, TableName):
            return table(piece)
        return SchemaPiece(schema(piece.schema)) if isinstance(piece, SchemaPiece) else piece

    def every(pieces: Pieces) -> Pieces:
        return tuple(map(one, pieces))

    return replace(
        statement,
        head=every(statement.head),
        items=tuple(map(every, statement.items)),
        tail=every(statement.tail),
        moves=tuple((table(source), table(target)) for source, target in statement.moves),
    )


def _across_schemas(statement: Statement, head: Head) -> Statement:
    """`RENAME TABLE a TO other.b`: the job's schema is the new one, and `a` belongs to its author's, which no text says. Its id does. Of
    several moves each is judged alone: `a` and `other.a` may be two tables that would have one name."""
    if all(source and target for source, target in statement.unqualified):
        return statement
    now = {schema.table_id: name for name, schema in head.next_schemas.items() if schema.table_id}
    moved = [(name, now[schema.table_id]) for name, schema in head.schemas.items() if schema.table_id in now]
    moves = _by_ids(statement, [pair for pair in moved if pair[0] != pair[1]])
    if statement.kind is StatementKind.RENAME:
        items = tuple((source, *item[1:-1], target) for (source, target), item in zip(moves, statement.items, strict=True))
        return replace(statement, items=items, moves=moves)
    ((source, _),), ((right, _),) = statement.moves, moves
    return renamed(statement, lambda name: right if name == source else name, lambda schema: schema)


def _by_ids(statement: Statement, moved: list[Move]) -> tuple[Move, ...]:
    """`moved`: what became of the log's tables. The moves whose names have most schemas are judged first. Where one fits more than one of
    the others' tables, or none, it is taken as it is."""

    def fits(name: TableName, bare: bool, table: TableName) -> bool:
        return lowered(name.table) == lowered(table.table) and (bare or lowered(name.schema) == lowered(table.schema))

    moves = list(statement.moves)
    for number in sorted(range(len(moves)), key=lambda number: sum(statement.unqualified[number])):
        fitting = [pair for pair in moved if all(map(fits, moves[number], statement.unqualified[number], pair))]
        if len(fitting) == 1:
            moves[number] = fitting[0]
            moved.remove(fitting[0])
    return tuple(moves)


def _own_drop(statement: Statement, record: DdlRecord) -> Statement:
    if len(statement.items) == 1:
        return statement
    own = TableName(record.schema, record.table).folded()
    items = tuple(item for item in statement.items if any(isinstance(one, TableName) and one.folded() == own for one in item))
    if not items:
        raise UnsupportedDdl(f"the DDL {statement.text!r} came for {record.schema}.{record.table}, which it does not name", hint=REPORT)
    # of `t, s2.t` the first one is of the author's schema, and has the record's here: the statement names each table once
    return replace(statement, items=items[:1])


def _replicated_moves(statement: Statement, schemas: Mapping[TableName, TableSchema]) -> Statement:
    """Those of tables that the log has; all, where it knows none of them."""
    known = {name for name, schema in schemas.items() if schema.columns}
    kept = []
    for number, (source, target) in enumerate(statement.moves):
        if source in known:
            known = known - {source} | {target}
            kept.append(number)
    if not kept:
        return statement
    return replace(
        statement, items=tuple(statement.items[number] for number in kept), moves=tuple(statement.moves[number] for number in kept)
    )
