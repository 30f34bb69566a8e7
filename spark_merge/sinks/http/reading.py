"""Reading a receiver's rows back (spark_merge/port/readable.py), where it gives its lines back as deploy/http/receiver.py does.

    GET with Ticdc-Dump-Read: {…}     the lines' numbers up to a segment; or lines of a kind and table after a number, some at a time

The contract does not ask this of a receiver. One that passes over the header answers with its state, and cannot be read. The rows are those
of the segments up to the position, which is read first: so they are exactly its.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.process.progress import progressed
from spark_merge.ddl.eras import Era, eras
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Reading, RowsRead
from spark_merge.sinks.formats.json_lines import json_rows, split_by_era
from spark_merge.sinks.http.client import Receiver, client_of


def read_back(receiver: Receiver, accepted: Accepted, schema: TableSchema, *, parts: int) -> Reading:
    """Raises SinkError."""
    held: dict[str, Any] = _decoded(receiver, _lines(receiver, {"seq": accepted.seq}))
    first, last = held.get("first"), held.get("last")
    if not isinstance(first, int) or not isinstance(last, int):
        raise SinkError(f"{receiver} has accepted segment {accepted.seq}, and has no lines", hint=_RESTORE)
    ddl_pages = _pages(receiver, {"after": first - 1, "upto": last, "kind": "ddl"})
    table_eras = eras(schema, [_ddl(receiver, line) for page in ddl_pages for line in page.splitlines()])
    edges = sorted({first - 1 + (last - first + 1) * number // parts for number in range(parts + 1)})
    names = dict.fromkeys(era.name for era in table_eras)
    read = (ReceiverPart(receiver, table_eras, name, *edge) for name in names for edge in pairwise(edges))
    return Reading(accepted, True, tuple(read))


@dataclass(frozen=True, slots=True)
class ReceiverPart:
    """Lines of the table `name` after line `after` up to line `upto`."""

    receiver: Receiver
    eras: tuple[Era, ...]
    name: TableName
    after: int
    upto: int

    def __call__(self) -> Iterator[RowsRead]:
        query = {"after": self.after, "upto": self.upto, "kind": "row", "schema": self.name.schema, "table": self.name.table}
        for page in _pages(self.receiver, query):
            for lines, era in split_by_era(page, self.eras):
                if (rows := json_rows(lines, era)) is not None:
                    yield rows


_RESTORE = "restore what the receiver had, or name another output and dump again"


def _lines(receiver: Receiver, query: Mapping[str, object]) -> str:
    lines = client_of(receiver).lines(query)
    if lines is None:
        raise SinkError(
            f"{receiver} cannot be read back: it does not answer GET with Ticdc-Dump-Read",
            hint="let it give its lines back as deploy/http/receiver.py does (deploy/HTTP-SINK.md), or leave this sink out with --sink",
        )
    progressed()
    return lines


def _pages(receiver: Receiver, query: Mapping[str, object]) -> Iterator[bytes]:
    """Lines without their numbers."""
    after = query["after"]
    while text := _lines(receiver, {**query, "after": after}):
        numbered = [line.partition(" ") for line in text.split("\n")[:-1]]
        after = int(numbered[-1][0])
        yield "".join(f"{line}\n" for _, _, line in numbered).encode()


def _ddl(receiver: Receiver, line: bytes) -> DdlRecord:
    ddl = _decoded(receiver, line.decode())
    return DdlRecord(CommitTs(int(ddl["commit_ts"])), ddl["schema"], ddl["table"], ddl["query"])


def _decoded(receiver: Receiver, line: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except ValueError as error:
        raise SinkError(f"{receiver} answers with a line that is none of ours: {error}", hint=_RESTORE) from error
