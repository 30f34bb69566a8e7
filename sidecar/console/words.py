"""Texts of the service as the console says them: a button where the command line has a command, and a dump by its tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sidecar.shared.errors import parted
from ticdc_dump.v1 import control_pb2 as pb

BUTTONS = {
    "dumpstart --dry-run": "“Show what it would do” of a new dump",
    "dumpstart": "“New dump”",
    "dumppause": "“Pause”",
    "dumpresume": "“Resume”",
    "dumprestart": "“Restart from the beginning”",
    "dumpstop": "“Stop for good”",
    "dumpset": "“Change its pace”",
    "dumpquery": "the page “Dump”",
    "dumplist": "the page “History”",
}
"""By what the command line calls them."""
_COMMAND = re.compile(rf"\b(?:{'|'.join(BUTTONS)})\b(?!,? (?:with )?--)")
"""One with options is left as it is: what it says is for the command line."""


def with_buttons(text: str) -> str:
    """A hint is a sentence of its own."""
    message, hint = parted(text)
    text = f"{message.rstrip('.')}. What to do: {hint}" if hint else text
    return _COMMAND.sub(lambda match: BUTTONS[match[0]], text)


def dump_names(status: pb.DumpStatus, operations: Mapping[str, pb.Operation]) -> dict[str, str]:
    """By id, what each dump of the status reads. `operations`: of the history, by id."""
    names = {one.dump_id: _tables((), one.tables) for one in status.dumps}
    if status.dump_id:
        names[status.dump_id] = _tables([f"{one.schema}.{one.table}" for one in status.tables[:1]], len(status.tables))
    known = [one for one in names if one in operations]
    return names | {one: _tables(operations[one].scope.tables, operations[one].scope.table_count) for one in known}


def _tables(first: Iterable[str], count: int) -> str:
    name = next(iter(first), "")
    if not name:
        return "1 table" if count == 1 else f"{count:,} tables"
    return f"{name} and {count - 1:,} more" if count > 1 else name
