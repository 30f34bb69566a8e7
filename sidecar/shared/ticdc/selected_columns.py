"""Column selectors: which columns of a table a changefeed carries. What it does not carry is no column of the table for us.

- The first selector that has a table decides; a table that none has is whole. Columns are compared without case.
- TiCDC omits the others of both images of a row, in every protocol; of a message of a key alone too. An update of such columns alone
  comes as one that changes nothing. DDLs name them all the same.
- Both architectures do so in Kafka. Files have such columns too before v26.3.4, and always in the classic architecture. So a row may have
  them all (spark_merge/codecs/decode), and none of them is read.
- A selector must leave the handle key whole: the classic architecture refuses one that does not, the other one accepts it if a unique key
  is left, by which nobody here knows a row. The watermark table is never narrowed: `no_marks` judges it.
- TiCDC's filters see whole rows, so their expressions may name any column (TableSchema.omitted).

Source: pingcap/ticdc downstreamadapter/sink/columnselector/column_selector.go, its codecs in pkg/sink/codec,
downstreamadapter/sink/cloudstorage/dml_writers.go; pingcap/tiflow cdc/sink/dmlsink/mq/transformer/columnselector/column_selector.go;
pingcap/tidb pkg/util/table-filter/column_filter.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from sidecar.shared.model.nouns import MARK_TABLE, TableDefinition, TableName, TableSchema, lowered
from sidecar.shared.sql.lexer import tokens
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.table_rules import TableRules, compiled


@dataclass(frozen=True, slots=True)
class CompiledSelector:
    """`setting`: its name in TiCDC's configuration."""

    setting: str
    tables: TableRules
    columns: TableRules

    def has(self, column: str) -> bool:
        return self.columns.matches(TableName(_COLUMN, column))


@dataclass(frozen=True, slots=True)
class SelectedColumns:
    """Of one changefeed; `of` makes it."""

    selectors: tuple[CompiledSelector, ...]

    @classmethod
    def of(cls, changefeed: Changefeed) -> SelectedColumns:
        """Raises FeedUnsuitable for rules that are none."""
        sensitive = changefeed.filter.case_sensitive
        return cls(
            tuple(
                CompiledSelector(
                    setting := f"sink.column-selectors number {number}",
                    compiled(setting, one.matcher, case_sensitive=sensitive),
                    compiled(setting, _as_table_rules(one.columns), case_sensitive=False),
                )
                for number, one in enumerate(changefeed.column_selectors, 1)
            )
        )

    def selector(self, table: TableName) -> CompiledSelector | None:
        """The one that decides; None: all columns are carried."""
        return next((one for one in self.selectors if one.tables.matches(table)), None)

    def narrowed(self, schema: TableSchema) -> TableSchema:
        """The table as the changefeed carries it; one that is so already is the same. `key` is the whole handle key whatever is carried."""
        selector = None if schema.name == MARK_TABLE else self.selector(schema.name)
        lost = () if selector is None else tuple(one for one in schema.columns if not selector.has(one.name))
        if selector is None or not lost:
            return schema
        of_table = schema.definition
        definition = of_table and _without(of_table, [one.name for one in of_table.columns if not selector.has(one.name)])
        kept = tuple(one for one in schema.columns if one not in lost)
        return replace(schema, columns=kept, definition=definition, omitted=lost)


_COLUMN = "column"


def _as_table_rules(columns: Iterable[str]) -> list[str]:
    """A column rule is the right half of a table rule."""
    rules = [rule for column in columns if (rule := column.strip()) and not rule.startswith("#")]
    return [f"!{_COLUMN}.{rule[1:]}" if rule.startswith("!") else f"{_COLUMN}.{rule}" for rule in rules]


# ---- what a table was made of ---------------------------------------------------------------------------------------


def _without(definition: TableDefinition, names: Iterable[str]) -> TableDefinition:
    """Without these columns, and without virtual ones that a formula makes of them. Indexes and the formulas of stored columns stay, as
    TiCDC's messages have flags of them: they may name columns that are not there."""
    gone: set[str] = set()
    more = {lowered(name) for name in names}
    while more:
        gone |= more
        virtual = (one for one in definition.columns if one.generated and not one.stored and lowered(one.name) not in gone)
        more = {lowered(one.name) for one in virtual if _names_any(one.generated, gone)}
    return replace(definition, columns=tuple(one for one in definition.columns if lowered(one.name) not in gone))


def _names_any(formula: str, names: Collection[str]) -> bool:
    return any(token.kind in ("word", "name") and lowered(token.name) in names for token in tokens(formula))
