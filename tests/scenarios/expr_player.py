"""What a corpus of expressions over one table may say, a line each:

    EXPRESSION                          of s.t(id, u uint, amount decimal(10,2), d double, f float, name text, status enum, …)
    EXPRESSION with name='x' id='2'     … and its truth for a row: the other columns are NULL; `with NULLs`: all are

What comes out, of each of the three who read such an expression: the SQL of an operator's predicate and of a changefeed's value expression
within the dump's SELECT, and whether the evaluation in place of TiCDC's takes it; each with its reason where it refuses. Then its truth for
the row. `␊` and the other pictures of control characters stand for these.
"""

from __future__ import annotations

import re

from sidecar.control.predicate import predicate
from sidecar.shared.errors import FeedUnsuitable, RefusedRequest
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.ticdc.event_filter import ValueExpr
from sidecar.shared.ticdc.expression import FilterExpression, NotAnExpression
from sidecar.shared.ticdc.value_expr import ExprColumns, check_form, compiled_test

SCHEMA = TableSchema(
    TableName("shop", "orders"),
    (
        Column("id", "int"), Column("u", "uint"), Column("amount", "decimal", scale=2), Column("d", "double"),
        Column("f", "float"), Column("name", "text"), Column("status", "enum", elements=("new", "back")),
        Column("gift", "bit", length=1), Column("at", "datetime"), Column("b", "binary"), Column("tags", "set"), Column("y", "year"),
        Column("doc", "json"),
        Column("j", "json"), Column("Be tween`s", "int"), Column("we;ird)", "int"), Column("left", "int"), Column("g", "text"),
        Column("late", "int"),
    ),
    ("id",),
)  # fmt: skip
COLUMNS = ExprColumns(SCHEMA, {one.name for one in SCHEMA.columns} - {"late"}, {"name": "utf8mb4_general_ci", "g": "gbk_chinese_ci"})
_PICTURES = {0x2400 + char: char for char in range(32)}
_SHOWN = {char: picture for picture, char in _PICTURES.items()}
_ROW = re.compile(r" with (NULLs$|(?:\S+='(?:[^']|'')*'(?: |$))+)")
_VALUE = re.compile(r"(\S+)='((?:[^']|'')*)'")


class ExprPlayer:
    def play(self, line: str) -> list[str]:
        row = _ROW.search(line)
        text = (line[: row.start()] if row else line).translate(_PICTURES)
        results = [f"predicate  {_predicate(text)}", f"filter     {_filter(text)}"]
        given = {name: value.replace("''", "'") for name, value in _VALUE.findall(row[1])} if row else None
        results.append(f"value      {_value(text, given)}")
        return [one.translate(_SHOWN) for one in results]


def _predicate(text: str) -> str:
    try:
        return predicate(text, SCHEMA)
    except RefusedRequest as error:
        return "refused: it " + error.message.removeprefix("the predicate of shop.orders ")


def _filter(text: str) -> str:
    try:
        return FilterExpression.of(text, SCHEMA).rewritten(lambda column: f"<{column.name}>", "<shop.orders>")
    except NotAnExpression as error:
        return f"refused: it {error}"


def _value(text: str, given: dict[str, str] | None) -> str:
    expr, refused = ValueExpr("", text, old=False), "refused"
    try:
        check_form(expr)
        refused = "refused for this table"
        test = compiled_test(expr, COLUMNS)
    except FeedUnsuitable as error:
        return f"{refused}: it {error.message.partition(' as TiCDC does: it ')[2]}"
    if given is None:
        return "taken"
    truth = test([given.get(one.name.replace(" ", "_")) for one in SCHEMA.columns])
    return "neither true nor false" if truth is None else str(truth).lower()
