"""A storage sink's folder as a place of the contract suite, and as a target of recordings: what a consumer by TiCDC's rules has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from sidecar.shared.log import storage
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import COLUMNS, SEGMENT_TS
from spark_merge.testing.places import Place, Shown
from tests.support.recorded_target import Texts
from tests.support.storage_reader import Ddl, Form, Line, Output, canonical

_OPS = {"I": "insert", "U": "update", "D": "delete"}


def output(uri: str, form: Form) -> Output:
    """All that is there but what readers pass over."""
    folder = open_folder(uri)
    names = [name for name in storage.list_names(folder, deep=True) if not name.startswith("_ticdc_dump/")]
    return Output(storage.read_files(folder, names), form)


def storage_place(uri: str, form: Form) -> Place:
    """Its tables have the columns and key of spark_merge/testing/histories.py, whose commit_ts tell the segment. A look also holds what the
    classic consumer stops at."""

    def rows() -> dict[TableName, list[Shown]]:
        result: dict[TableName, list[Shown]] = {}
        there = output(uri, form)
        there.check_classic()
        for line in there.read():
            assert isinstance(line, Line)
            assert line.commit_ts is not None
            image = tuple(canonical(column, line.values.get(column.name), form) for column in COLUMNS)
            after = None if line.op == "D" else image
            seq = (line.commit_ts - 1) // SEGMENT_TS
            result.setdefault(line.folder.name, []).append((seq, line.commit_ts, _OPS[line.op], image[:2], after))
        return result

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows)


@dataclass(frozen=True)
class Read:
    """An event of one table in reading order, its values canonical."""

    commit_ts: int
    op: str
    values: Mapping[str, str | None]


def rows_read(there: Output, name: TableName, columns: Mapping[str, Column], zone: ZoneInfo | None = None) -> list[Read]:
    """Rows of one table. Those of partitions, which have folders of their own, are put together by commit_ts, deletes first."""
    results = [
        Read(line.commit_ts or 0, line.op, {name: canonical(columns[name], text, there.form, zone) for name, text in line.values.items()})
        for line in there.read()
        if isinstance(line, Line) and line.folder.name == name
    ]
    if any(line.folder.partition for line in there.read() if isinstance(line, Line) and line.folder.name == name):
        results.sort(key=lambda read: (read.commit_ts, read.op != "D"))
    return results


def table_at_end(there: Output, schema: TableSchema) -> list[Texts]:
    """What a consumer's table ends with: rows put and deleted in order, by the handle key."""
    table: dict[Texts, Texts] = {}
    for read in rows_read(there, schema.name, {column.name: column for column in schema.columns}):
        key = tuple(read.values[name] for name in schema.key)
        if read.op == "D":
            table.pop(key, None)
        else:
            table[key] = tuple(read.values[name] for name in schema.column_names())
    return list(table.values())


def ddls_read(there: Output) -> list[Ddl]:
    return [ddl for ddl in there.read() if isinstance(ddl, Ddl)]
