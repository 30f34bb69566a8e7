"""Columns that TiCDC's classic architecture would confuse, in simple: the table stops before, or with its first message that shows it.

To describe a table, its encoder sorts the table's columns by their ids, in the very object from which it then takes the names of a row's
columns by place (tiflow pkg/sink/codec/simple/message.go, newTableSchema). So while each column has been added at the end, names are
right. Once one was added by FIRST or AFTER, or has a new id because its type was rewritten, values come under other columns' names: in the
recording `ddl` those of `cost` as `price_with_tax`. What the messages describe has the order of the ids, and is compared:

- a DDL that ends the order stops, before a row comes that it makes wrong;
- what a BOOTSTRAP describes is compared with the table in TiDB, as the order may have ended before the log began. One that was built before
  is of no table that is known. Columns that are not in both, such as generated ones, are passed over: a row with their names is refused.

The new architecture sorts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from sidecar.shared.codecs.contract import Codec, CodecWithDescriptions, TableDescription
from sidecar.shared.codecs.registry import protocol_of
from sidecar.shared.codecs.simple import READ_ROW_HEAD, Simple
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Mark, Message, TableName, TableSchema, physical_ms
from sidecar.shared.sql.lexer import tokens
from sidecar.shared.ticdc.changefeed import Changefeed

_PLAIN = Simple()
_HINT = (
    "create a changefeed with protocol=open-protocol or canal-json, or with TiCDC's new architecture from v8.5.6, and attach to it with a"
    " new log, empty sinks and a dump: rows of this table that came before may be wrong already"
)


def takes_other_names(changefeed: Changefeed) -> bool:
    """Whether columns can be confused in it."""
    protocol = protocol_of(changefeed.protocol)
    return protocol is not None and protocol.sorts_columns and not changefeed.new_architecture


class CodecInColumnOrder:
    """`codec`, of messages whose tables `forms` reads. `tables`: as they are in TiDB, where `after_ts` has passed."""

    def __init__(
        self,
        codec: Codec,
        forms: CodecWithDescriptions,
        tables: Callable[[], Mapping[TableName, TableSchema]],
        after_ts: Callable[[], CommitTs],
    ) -> None:
        self._codec, self._forms, self._tables, self._after_ts = codec, forms, tables, after_ts

    @property
    def name(self) -> str:
        return self._codec.name

    def envelopes(self, message: Message) -> list[Envelope]:
        """Raises FeedUnsuitable also for a table whose columns TiCDC confuses."""
        plain = message.value is not None and message.value.startswith(READ_ROW_HEAD)  # also in Avro: read_rows.py
        form = (_PLAIN if plain else self._forms).form(message)
        if form is not None and form.built_ms > physical_ms(self._after_ts()):
            self._check(message, form)
        return self._codec.envelopes(message)

    def identity(self, change: Change) -> Hashable:
        return self._codec.identity(change)

    def mark(self, change: Change) -> Mark | None:
        return self._codec.mark(change)

    def _check(self, message: Message, form: TableDescription) -> None:
        if form.query:
            if form.before is not None and ends_order(form.before, form.columns, form.query):
                raise _confused(message, form.table, f"after this DDL ({form.query})")
        elif (there := self._named(form.table)) is not None and not same_order(form.columns, there.column_names()):
            raise _confused(message, form.table, "as its columns are not in the order in which they were made,")

    def _named(self, table: TableName) -> TableSchema | None:
        tables = self._tables()
        return tables.get(table) or next((one for name, one in tables.items() if name.folded() == table.folded()), None)


def same_order(some: Sequence[str], others: Sequence[str]) -> bool:
    """Of those that are in both, in any case."""
    left, right = [name.lower() for name in some], [name.lower() for name in others]
    return [name for name in left if name in right] == [name for name in right if name in left]


def ends_order(before: Sequence[str], after: Sequence[str], query: str) -> bool:
    """Whether a DDL makes a table whose columns are not in the order of their ids. `before`, `after`: in that order."""
    words = [token.value if token.kind == "word" else "" for token in tokens(query)]
    moves = [
        word == "AFTER" or (word == "FIRST" and following != "PARTITION") for word, following in zip(words, [*words[1:], ""], strict=True)
    ]
    return any(moves) or not same_order(before, after)


def _confused(message: Message, table: TableName, when: str) -> FeedUnsuitable:
    return FeedUnsuitable(
        f"{message.at()}: {when} TiCDC's classic architecture gives values of {table} under other columns' names, in protocol simple",
        hint=_HINT,
    )
