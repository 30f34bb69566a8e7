"""What the worker makes of logged rows, held against the slow readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, TableSchema
from spark_merge.codecs.decode.rows import decode
from tests.tools.fuzz.slow_values import Row, Texts, changes, rows_of
from tests.tools.fuzz.verdict import Refused, differ, fault, ours, slow
from tests.unit.decode.log import logged


class Taken(NamedTuple):
    """A change that its slow decoder takes, and its images as that reads them."""

    change: Change
    before: Texts | None
    after: Texts | None


def agrees(schema: TableSchema, taken: Sequence[Taken], *, codec: str) -> None:
    """All rows at once; those whose key is NULL it must refuse. Raises Fault."""
    name, whole_rows = schema.name, []
    if not schema.key:
        return  # TiCDC does not replicate it, and the worker takes none of its rows
    for result, before, after in taken:
        change = result._replace(schema=name.schema, table=name.table, commit_ts=CommitTs(result.commit_ts % (1 << 63)))
        expected = slow(lambda b=before, a=after: changes(b, a, schema))  # type: ignore[misc]  # defaults that bind
        if not isinstance(expected, Refused):
            whole_rows.append((change, expected))
            continue
        read = ours(lambda one=change: _decoded([one], schema, codec), f"decode of {name}", change.key, change.value)  # type: ignore[misc]  # a default that binds
        if not isinstance(read, TicdcDumpError):
            raise differ(f"decode of {name}", read, expected, change.key, change.value)
    if name == MARK_TABLE or not whole_rows:
        return
    inputs = [part for change, _ in whole_rows for part in (change.key, change.value)]
    read = ours(lambda: _decoded([change for change, _ in whole_rows], schema, codec), f"decode of {name}", *inputs)
    if isinstance(read, TicdcDumpError):
        raise fault(f"decode of {name}: refused, though no row was: {read}", *inputs)
    for number, (change, expected) in enumerate(whole_rows):
        if read.get(number) != expected:
            raise differ(f"decode of {name}", read.get(number), expected, change.key, change.value)


def _decoded(taken: Sequence[Change], schema: TableSchema, codec: str) -> dict[int, list[Row]]:
    return rows_of(decode(logged(taken, codec=codec), codec=codec, schemas={schema.name: schema}))
