"""What a corpus of statements may say, a line each:

    STATEMENT       as somebody writes it, in schema s
    ~ STATEMENT     the same one as TiDB's parser restores it, which is what TiCDC sends

What comes out: TiDB's action, by which Kafka's and storage's messages name the statement; what the statement does to tables, columns and
rows, which lakes and document stores follow; and the text that each SQL target is sent, or why it is refused. For a restored statement only
what is another than above; texts of SQL are compared without case, quotes and spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.ticdc.ddl_text import action_of, keeps_rows
from spark_merge.ddl.names import changed_tables, places
from spark_merge.ddl.parser import parsed
from spark_merge.ddl.statement import Partitions, Statement, StatementKind
from spark_merge.sinks.mysql.ddl_dialect import rendered

_SCHEMA = "s"


class DdlPlayer:
    def __init__(self) -> None:
        self._above: list[str] = []

    def play(self, line: str) -> list[str]:
        play = list(_reported(line.removeprefix("~ ")))
        if not line.startswith("~ "):
            self._above = play
            return play
        above = set(map(_plain, self._above))
        return [one for one in play if _plain(one) not in above] or ["the same"]


def _plain(text: str) -> str:
    return re.sub(r"[\s`]+", "", text).casefold()


def _reported(text: str) -> Iterator[str]:
    try:
        yield f"action  {action_of(text).name}"
    except UnsupportedDdl:
        yield "action  none"
    try:
        statement = parsed(text, _SCHEMA)
    except UnsupportedDdl as error:
        yield f"does    {'nothing to rows, whatever else it says' if keeps_rows(text) else 'what no sink that keeps tables follows'}"
        yield f"SQL     {error.message.replace(repr(text), '…')}"
        return
    yield f"does    {_effect(statement)}"
    yield from _sent(statement)


def _effect(statement: Statement) -> str:
    match statement.kind:
        case StatementKind.NOTHING:
            return "nothing"
        case StatementKind.CREATE_VIEW:
            return "a view"
        case StatementKind.RENAME:
            return "RENAME TABLE " + ", ".join(f"{source} to {target}" for source, target in statement.moves)
    names = changed_tables(statement) or places(statement)
    parts = [f"{one.word.value} {one.before}" + (f" to {one.after}" if one.after != one.before else "") for one in statement.changes]
    parts += [f"RENAME to {target}" for _, target in statement.moves if statement.kind is StatementKind.ALTER_TABLE]
    parts += [] if statement.partitions is Partitions.UNTOUCHED else [statement.partitions.value]
    reported = f"{statement.kind.value} {', '.join(str(name) if name.table else name.schema for name in names)}"
    return f"{reported}: {', '.join(parts)}" if parts else reported


def _sent(statement: Statement) -> Iterator[str]:
    """A line for each text, with the targets that it is for."""
    texts: dict[str, list[str]] = {}
    for dialect in sorted(Flavour, key=lambda one: one.value):
        try:
            text = rendered(statement, dialect) or "nothing"
        except UnsupportedDdl as error:
            text = "refused: " + error.message.replace(repr(statement.text), "…").replace(dialect.value, "the target")
        texts.setdefault(text, []).append(dialect.value)
    for text, dialects in texts.items():
        yield f"{'SQL' if len(dialects) == len(Flavour) else ' and '.join(dialects):7} {text}"
