"""ALTER TABLE: one change after another, each a piece of the list. What is none of these is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sidecar.shared.model.nouns import TableName
from spark_merge.ddl.column_syntax import FORCED, Charset, column, condition, default, element, placement, table_option, tiflash_replica
from spark_merge.ddl.partition_syntax import NOT_LOGGED, definitions, partition_by
from spark_merge.ddl.reader import TokenReader
from spark_merge.ddl.statement import ColumnClause, ColumnWord, Feature, Partitions, Pieces, Statement, StatementKind


def alter_table(reader: TokenReader) -> Statement:
    """From the table's name on."""
    table, unqualified = reader.table(), reader.unqualified
    head = reader.made()
    alter = _Alter(reader, table)
    alter.changes()
    items = tuple(alter.items)
    statement = Statement(
        StatementKind.ALTER_TABLE,
        reader.text,
        (" ALTER TABLE", *head),
        items,
        moves=tuple(alter.renames),
        changes=tuple(alter.columns),
        partitions=alter.partitions,
        leaving=alter.leaving,
        unqualified=tuple((unqualified, bare) for bare in alter.unqualified),
    )
    if alter.exchanged is None:
        return statement
    return replace(statement, kind=StatementKind.EXCHANGE, moves=((table, alter.exchanged),), unqualified=())


class _Alter:
    def __init__(self, reader: TokenReader, table: TableName) -> None:
        self._reader = reader
        self._table = table
        self.items: list[Pieces] = []
        self.exchanged: TableName | None = None
        self.renames: list[tuple[TableName, TableName]] = []
        self.unqualified: list[bool] = []
        self.columns: list[ColumnClause] = []
        self.partitions = Partitions.UNTOUCHED
        self.leaving: tuple[str, ...] | None = None

    def changes(self) -> None:
        """`change, change, … [change]`: some come without a comma behind the others. Of those the targets' grammars have PARTITION BY and
        REMOVE PARTITIONING in the same place, and the others as changes of their own."""
        reader = self._reader
        if reader.at_end():
            self.items.append(())  # TiCDC writes none of what is the cluster's own
            return
        while True:
            self._change()
            self.items.append(reader.made())
            if not reader.skip(","):
                if any(reader.sees(words) for words in ("PARTITION BY", "REMOVE PARTITIONING")):
                    self._change()
                    self.items[-1] += reader.made()
                if not any(reader.sees(words) for words in _WITHOUT_A_COMMA):
                    return

    def _change(self) -> None:
        reader = self._reader
        if reader.sees("PARTITION BY"):
            return self._partition_by()
        for word, read in _BY_WORD.items():
            if reader.sees(word) and not reader.sees(FORCED):
                reader.take(word) if word in _COPIED else reader.skip(word)
                return read(self)
        charset = Charset()
        if not table_option(reader, charset):
            reader.refuse("a change of a table")
        while not reader.sees(",") and table_option(reader, charset):
            pass
        for piece in charset.pieces():
            reader.write(piece)
        return None

    # ---- columns and indexes -------------------------------------------------------------------------------------------

    def _add(self) -> None:
        reader = self._reader
        if reader.take("PARTITION"):
            condition(reader)
            reader.skip(NOT_LOGGED)
            if reader.take("PARTITIONS"):
                self._rearranged()
                return reader.number()
            return None if definitions(reader) else self._rearranged()
        if element(reader):
            return self._without_what_no_target_has()
        reader.take("COLUMN")
        condition(reader)
        if not reader.take("("):
            self._column(ColumnWord.ADD)
            return self._position()
        while True:
            if not element(reader):
                self._column(ColumnWord.ADD)
            if not reader.take(","):
                return reader.need(")")

    def _without_what_no_target_has(self) -> None:
        made = self._reader.made()
        dropped = [piece for piece in made if isinstance(piece, Feature) and piece.kind in ("check", "tiflash")]
        for piece in dropped or made:
            self._reader.write(piece)

    def _drop(self) -> None:
        reader = self._reader
        if reader.take("PRIMARY KEY"):
            return None
        if reader.take("PARTITION"):
            self.partitions = Partitions.ROWS_LEAVE
            condition(reader)
            self.leaving = reader.names()
            return None
        if reader.skip_any(("CHECK", "CONSTRAINT")):
            reader.made()
            return reader.feature("check", reader.option())
        of_column = not reader.take_any(("INDEX|KEY", "FOREIGN KEY"))
        if of_column:
            reader.take("COLUMN")
        condition(reader)
        name = reader.name()
        if of_column:
            self.columns.append(ColumnClause(ColumnWord.DROP, name, name))
        reader.skip("RESTRICT|CASCADE")
        return None

    def _alter(self) -> None:
        reader = self._reader
        if reader.skip_any(("CHECK", "CONSTRAINT")):
            reader.made()
            reader.feature("check", reader.option())
            reader.skip_any(("NOT ENFORCED", "ENFORCED"))
            return None
        if reader.take("INDEX"):
            reader.name()
            if not reader.sees("VISIBLE|INVISIBLE"):
                reader.refuse("VISIBLE or INVISIBLE")
            return reader.feature("index visibility", " " + reader.option())
        reader.take("COLUMN")
        name = reader.name()
        self.columns.append(ColumnClause(ColumnWord.DEFAULT, name, name))
        if reader.take("DROP DEFAULT"):
            return None
        reader.need("SET DEFAULT")
        return default(reader)

    def _modify(self) -> None:
        reader = self._reader
        reader.take("COLUMN")
        condition(reader)
        self._column(ColumnWord.MODIFY)
        self._position()

    def _column(self, word: ColumnWord) -> None:
        name, kind = column(self._reader)
        self.columns.append(ColumnClause(word, name, name, kind))

    def _change_column(self) -> None:
        reader = self._reader
        reader.take("COLUMN")
        condition(reader)
        before = reader.name()
        self.columns.append(ColumnClause(ColumnWord.CHANGE, before, *column(reader)))
        self._position()

    def _position(self) -> None:
        if self._reader.take("AFTER"):
            self._reader.name()
        else:
            self._reader.take("FIRST")

    def _rename(self) -> None:
        reader = self._reader
        if reader.take("COLUMN"):
            before = reader.name()
            reader.need("TO")
            self.columns.append(ColumnClause(ColumnWord.RENAME, before, reader.name()))
        elif reader.take("INDEX|KEY"):
            reader.name()
            reader.need("TO")
            reader.name()
        else:
            reader.skip_any(("TO|AS", "="))
            reader.write(" TO")
            self.renames.append((self._table, reader.table()))
            self.unqualified.append(reader.unqualified)

    # ---- the table -----------------------------------------------------------------------------------------------------

    def _convert(self) -> None:
        charset = Charset()
        while charset.read(self._reader):
            pass
        if charset.charset in ("", "default"):
            self._reader.refuse("a charset")
        for piece in charset.pieces():
            self._reader.write(piece)

    def _rearranged(self) -> None:
        if self.partitions is Partitions.UNTOUCHED:
            self.partitions = Partitions.REARRANGED

    def _partition_by(self) -> None:
        self._rearranged()
        partition_by(self._reader)

    def _truncate_partitions(self) -> None:
        self.partitions = Partitions.ROWS_LEAVE
        self.leaving = () if self._reader.take("ALL") else self._reader.names()

    def _reorganize(self) -> None:
        self._rearranged()
        self._reader.skip(NOT_LOGGED)
        self._reader.names()
        self._reader.need("INTO")
        definitions(self._reader)

    def _exchange(self) -> None:
        reader = self._reader
        self.partitions = Partitions.ROWS_LEAVE
        self.leaving = (reader.name(),)
        reader.need("WITH TABLE")
        self.exchanged = reader.table()
        reader.skip("WITH|WITHOUT VALIDATION")
        reader.write(" WITHOUT VALIDATION")

    def _tiflash(self) -> None:
        tiflash_replica(self._reader)

    def _attributes(self) -> None:
        self._reader.feature("attributes", self._reader.option())

    def _of_partition(self) -> None:
        reader = self._reader
        reader.option()
        if reader.skip("ATTRIBUTES"):
            self._attributes()
        else:
            placement(reader)

    def _no_effect(self) -> None:
        self._reader.feature("attributes", "")

    def _algorithm(self) -> None:
        self._reader.feature("algorithm", self._reader.option())

    def _remove_ttl(self) -> None:
        self._reader.feature("ttl", " REMOVE TTL")

    def _coalesce(self) -> None:
        self._rearranged()
        self._reader.skip(NOT_LOGGED)
        self._reader.number()

    # ---- partitions of an interval: `WORDS LESS THAN (…)` --------------------------------------------------------------

    def _first_partition(self) -> None:
        self.partitions = Partitions.ROWS_LEAVE
        self._interval(" FIRST PARTITION LESS THAN")

    def _last_partition(self) -> None:
        self._interval(" LAST PARTITION LESS THAN")

    def _merge_partitions(self) -> None:
        self._rearranged()
        self._interval(" MERGE FIRST PARTITION LESS THAN")

    def _split_partition(self) -> None:
        self._rearranged()
        self._interval(" SPLIT MAXVALUE PARTITION LESS THAN")

    def _interval(self, words: str) -> None:
        reader = self._reader
        text = f"{words} {reader.bare_parens().strip()}"
        reader.feature("interval partitions", text + (" IF EXISTS" if reader.skip("IF EXISTS") else ""))
        reader.skip(NOT_LOGGED)

    # ---- what no target needs ------------------------------------------------------------------------------------------

    def _of_all_or_some_partitions(self) -> None:
        reader = self._reader
        reader.skip(NOT_LOGGED)
        if not reader.skip("ALL"):
            reader.names()
            reader.made()
        self._no_effect()

    def _order(self) -> None:
        """`column [ASC|DESC], …`: a comma is of the list where a column follows it."""
        reader = self._reader
        reader.option()
        while True:
            reader.skip("ASC|DESC")
            if not (reader.sees(",") and reader.word_after_name() in ("", ",", "ASC", "DESC", ";")):
                return self._no_effect()
            reader.skip(",")
            reader.option()

    def _statistics(self) -> None:
        reader = self._reader
        reader.skip_any(("IF NOT EXISTS", "IF EXISTS"))
        reader.option()
        if reader.next.kind == "word":
            reader.option()
            reader.bare_parens()
        self._no_effect()


_WITHOUT_A_COMMA = (
    "REMOVE TTL", "REORGANIZE PARTITION", "SPLIT MAXVALUE PARTITION LESS", "MERGE FIRST PARTITION LESS", "PARTITION",
)  # fmt: skip
"""parser.y::AlterTableSpecSingleOpt, but for what stands with the change before it."""

_BY_WORD: dict[str, Callable[[_Alter], None]] = {
    "SET TIFLASH REPLICA": _Alter._tiflash,
    "SET HYPO TIFLASH REPLICA": _Alter._tiflash,
    "ADD STATS_EXTENDED": _Alter._statistics,
    "DROP STATS_EXTENDED": _Alter._statistics,
    "ORDER BY": _Alter._order,
    "FIRST PARTITION LESS THAN": _Alter._first_partition,
    "LAST PARTITION LESS THAN": _Alter._last_partition,
    "MERGE FIRST PARTITION LESS THAN": _Alter._merge_partitions,
    "SPLIT MAXVALUE PARTITION LESS THAN": _Alter._split_partition,
    "OPTIMIZE|REPAIR|REBUILD|CHECK PARTITION": _Alter._of_all_or_some_partitions,
    "CONVERT TO": _Alter._convert,
    "ADD": _Alter._add,
    "DROP": _Alter._drop,
    "ALTER": _Alter._alter,
    "MODIFY": _Alter._modify,
    "CHANGE": _Alter._change_column,
    "RENAME": _Alter._rename,
    "TRUNCATE PARTITION": _Alter._truncate_partitions,
    "REORGANIZE PARTITION": _Alter._reorganize,
    "EXCHANGE PARTITION": _Alter._exchange,
    "COALESCE PARTITION": _Alter._coalesce,
    "REMOVE PARTITIONING": _Alter._rearranged,
    "REMOVE TTL": _Alter._remove_ttl,
    "PARTITION": _Alter._of_partition,
}
_BY_WORD |= dict.fromkeys(("ALGORITHM", "LOCK"), _Alter._algorithm)
_BY_WORD |= dict.fromkeys(("ATTRIBUTES", "STATS_OPTIONS"), _Alter._attributes)
_NO_EFFECT = (
    "CACHE", "NOCACHE", "FORCE", "DISABLE KEYS", "ENABLE KEYS", "WITH VALIDATION", "WITHOUT VALIDATION", "READ ONLY", "READ WRITE",
    "SECONDARY_LOAD", "SECONDARY_UNLOAD",
)  # fmt: skip
_BY_WORD |= dict.fromkeys(_NO_EFFECT, _Alter._no_effect)
_COPIED = {
    "CONVERT TO", "ADD", "DROP", "ALTER", "MODIFY", "CHANGE", "RENAME", "TRUNCATE PARTITION", "REORGANIZE PARTITION", "EXCHANGE PARTITION",
    "COALESCE PARTITION", "REMOVE PARTITIONING",
}  # fmt: skip
