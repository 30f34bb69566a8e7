"""What options that several commands have say: tables, keys and predicates."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer

from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.nouns import TableName
from ticdc_dump.v1 import control_pb2 as pb

Rules = Annotated[
    str,
    typer.Option(
        help="Tables, as TiCDC's table rules: shop.*,!shop.event_* (default: all of the changefeed). At most 10,000 rules,"
        " 1,000 of them with wildcards or regexes."
    ),
]

DeleteAtMost = Annotated[
    int | None,
    typer.Option(
        "--delete-at-most",
        metavar="ROWS",
        min=0,
        max=(1 << 63) - 1,
        help="Of a repair: how many rows of each table in a sink it deletes without a question (default: 1 % of the table, at least 1,000)."
        " With --id and --repair: the answer to the question.",
    ),
]


def check_bound(delete_at_most: int | None, *, repairs: bool, option: str) -> None:
    """Raises BadParameter for a bound of a repair that nobody asks for. `option`: what asks for one."""
    if delete_at_most is not None and not repairs:
        raise typer.BadParameter(f"it bounds a repair: give {option} too", param_hint="--delete-at-most")


def table_rules(text: str) -> list[str]:
    from sidecar.shared.ticdc.table_rules import TableRules, split_rules

    rules = split_rules(text)
    try:
        TableRules.of(rules)
    except RefusedRequest as refused:
        raise typer.BadParameter(str(refused), param_hint="--tables") from refused
    return rules


def parse_where(text: str) -> pb.TablePredicate:
    """`schema.table:predicate`. Raises BadParameter."""
    table, predicate = _of_table(text, "--where", "'shop.orders:amount > 5'")
    return pb.TablePredicate(schema=table.schema, table=table.table, predicate=predicate)


def parse_keys(text: str) -> pb.TableKeys:
    """`schema.table:[key, …]`, a key being a value, or an array of values if the handle key has several columns. Numbers are
    kept as they are written. Raises BadParameter."""
    example = '\'shop.orders:[1,2,["a","b"]]\''
    table, keys_text = _of_table(text, "--keys", example)
    try:
        keys = json.loads(keys_text, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError as error:
        raise typer.BadParameter(f"{keys_text}: {error}; expected a JSON array, as in {example}", param_hint="--keys") from error
    rows = [key if isinstance(key, list) else [key] for key in keys] if isinstance(keys, list) else []
    if not rows or not all(row and all(isinstance(value, str) for value in row) for row in rows):
        raise typer.BadParameter(
            f"{keys_text}: expected an array of texts, numbers, or arrays of them, as in {example}", param_hint="--keys"
        )
    return pb.TableKeys(schema=table.schema, table=table.table, keys=[pb.Key(values=row) for row in rows])


def _of_table(text: str, option: str, example: str) -> tuple[TableName, str]:
    """A table and what follows the colon after it. A name with a dot or a colon in it is quoted, as in a table rule."""
    name = r'(?:`((?:``|[^`])+)`|"((?:""|[^"])+)"|([^.:`"]+))'
    match = re.match(rf"\s*{name}\.{name}\s*:(.*)", text, re.DOTALL)
    if match is None:
        raise typer.BadParameter(f"{text}: expected schema.table and a colon, as in {example}", param_hint=option)
    ticks, quotes, plain, table_ticks, table_quotes, table_plain, rest = (part or "" for part in match.groups())
    schema = ticks.replace("``", "`") or quotes.replace('""', '"') or plain
    table = table_ticks.replace("``", "`") or table_quotes.replace('""', '"') or table_plain.rstrip()
    return TableName(schema, table), rest.strip()
