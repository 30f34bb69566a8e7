"""The form of a new dump, and the request that it means: the same that `dumpstart` makes of its options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sidecar.control.wire import BRACKETS
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import TableName
from sidecar.shared.ticdc.table_rules import split_rules
from ticdc_dump.v1 import control_pb2 as pb

CHOSEN_MAX = 100
"""Tables that are chosen by clicking: they travel in the page's address."""
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+")
"""A whole number as the pages show it. Of seconds a comma could be a decimal one."""


@dataclass(frozen=True, slots=True)
class StartForm:
    """As it was filled in. `tables`: chosen by clicking, the exact rule of each. `where`: for the one table that is chosen. `brackets`
    empty: the sidecar's settings say."""

    rules: str = ""
    tables: tuple[str, ...] = ()
    where: str = ""
    brackets: str = ""
    sinks: tuple[str, ...] = ()
    exact: bool = False
    strict_bound: bool = False
    numbers: dict[str, str] = field(default_factory=dict)
    """Of `NUMBERS`, texts as they were typed."""

    @property
    def fields(self) -> list[tuple[str, str]]:
        """What leads to the same form."""
        pairs = [("rules", self.rules), *(("table", one) for one in self.tables), ("where", self.where), ("brackets", self.brackets)]
        pairs += [("sink", one) for one in self.sinks]
        pairs += [(name, "yes") for name, is_set in (("exact", self.exact), ("strict_bound", self.strict_bound)) if is_set]
        return [(name, value) for name, value in (*pairs, *self.numbers.items()) if value]


NUMBERS = {
    "chunk_rows": "Rows in a chunk",
    "readers": "Readers",
    "rows_per_second": "Rows per second at most",
    "bytes_per_second": "Bytes per second at most",
    "delivery_bound_seconds": "Bound of live delivery in seconds",
}


def form_of(params: Sequence[tuple[str, str]]) -> StartForm:
    """`params`: of a request. A button named `remove` takes a table out."""
    one, removed = dict(params), {value for name, value in params if name == "remove"}
    chosen = dict.fromkeys(value for name, value in params if name == "table" and value not in removed)
    return StartForm(
        rules=one.get("rules", "").strip(),
        tables=tuple(chosen)[: CHOSEN_MAX + 1],
        where=one.get("where", "").strip(),
        brackets=one.get("brackets", ""),
        sinks=tuple(value for name, value in params if name == "sink"),
        exact="exact" in one,
        strict_bound="strict_bound" in one,
        numbers={name: one[name].strip() for name in NUMBERS if one.get(name, "").strip()},
    )


def start_request(form: StartForm, changefeed: pb.Changefeed, dump_id: str, known: Mapping[str, TableName]) -> pb.StartRequest:
    """`known`: tables by their exact rules. Raises RefusedRequest for what no request can say."""
    if gone := [one for one in form.tables if one not in known]:
        raise RefusedRequest(f"the changefeed has no table {gone[0]} now", hint="take it out of the tables that are chosen")
    tables = [known[one] for one in form.tables]
    if len(tables) > CHOSEN_MAX:
        raise RefusedRequest(f"{len(tables)} tables are chosen, expected {CHOSEN_MAX} at most", hint="write a rule such as shop.* for them")
    if form.where and (len(tables) != 1 or form.rules):
        raise RefusedRequest("a predicate is for one table", hint="choose that table alone, without a rule")
    if form.brackets and form.brackets not in BRACKETS:
        raise RefusedRequest(f"brackets {form.brackets!r} are not known", hint=f"use {' or '.join(BRACKETS)}")
    request = pb.StartRequest(
        changefeed=changefeed,
        dump_id=dump_id,
        table_rules=[*split_rules(form.rules), *form.tables],
        brackets=BRACKETS[Brackets(form.brackets)] if form.brackets else pb.BRACKETS_UNSPECIFIED,
        sinks=form.sinks,
        exact=form.exact,
        strict_bound=form.strict_bound,
    )
    if form.where:
        request.where.add(schema=tables[0].schema, table=tables[0].table, predicate=form.where)
    for name, text in form.numbers.items():
        setattr(request, name, number(name, text))
    return request


def settings_request(params: Sequence[tuple[str, str]], changefeed: pb.Changefeed, dump_id: str) -> pb.SetRequest:
    """What was filled in. Raises RefusedRequest for what is no number, and where nothing was."""
    settings = pb.DumpSettings()
    for name, value in params:
        if name in NUMBERS and value.strip():
            setattr(settings, name, number(name, value.strip()))
    strict = dict(params).get("strict_bound", "")
    if strict in ("yes", "no"):
        settings.strict_bound = strict == "yes"
    if not settings.ListFields():
        raise RefusedRequest("nothing is to be changed", hint="fill in at least one field")
    return pb.SetRequest(changefeed=changefeed, dump_id=dump_id, settings=settings)


def number(name: str, text: str) -> int | float:
    """Raises RefusedRequest."""
    kind = float if name == "delivery_bound_seconds" else int
    top = 1 << (32 if name in ("chunk_rows", "readers") else 63)
    try:
        amount = kind(text.replace(",", "") if kind is int and _GROUPED.fullmatch(text) else text)
    except ValueError:
        amount = -1
    if not 0 <= amount < top:
        what = "seconds" if kind is float else "a whole number"
        raise RefusedRequest(f"{NUMBERS[name].lower()}: {text!r} is not {what} from 0 on", hint="correct it")
    return amount
