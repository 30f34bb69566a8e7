"""The key-values of a recording, with updates split here, are the rows that TiCDC sent: table, operation and key at each commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from sidecar.replay.history import RecordedHistory
from sidecar.replay.judge.rows import Row
from sidecar.replay.recorded_line import RowChange
from sidecar.replay.recording import Recording
from sidecar.shared.model.nouns import MARK_TABLE, IndexDefinition, IndexPart, TableDefinition, TableSchema
from spark_merge.codecs.decode.rows import decode
from spark_merge.codecs.encode.split import split
from spark_merge.port.contract import CHANGES
from spark_merge.port.keys import key_text
from tests.lanes import LANE
from tests.support.recordings import recording
from tests.unit.decode.log import logged, recorded_changes

Sent = tuple[int, str, str, str]


def with_indexes(folder: Recording, schema: TableSchema) -> TableSchema:
    info = json.loads((folder.folder / "schema" / str(folder.start_ts) / f"{schema.name}.json").read_bytes())
    indexes = (
        IndexDefinition(
            one["idx_name"]["O"],
            tuple(IndexPart(part["name"]["O"]) for part in one["idx_cols"]),
            one["is_unique"],
            one["is_primary"],
            one["id"],
        )
        for one in info["index_info"] or ()
    )
    return replace(schema, definition=TableDefinition((), tuple(indexes)))


def frame(schema: TableSchema, changes: list[RowChange]) -> pa.Table:
    """As decoded key-values are: an update of another handle key is two rows."""
    keys = zip(keys_of(schema, [change.before for change in changes]), keys_of(schema, [change.after for change in changes]), strict=True)
    rows: list[tuple[object, ...]] = []
    for ordinal, ((ts, _, _, before, after), (old, new)) in enumerate(zip(changes, keys, strict=True)):
        place = (ordinal, *schema.name)
        if old is not None and old != new:
            rows.append((1, ts, 0, *place, "delete", old, before, None))
        if new is not None:
            stayed = before if old == new else None
            rows.append((1, ts, 1, *place, "update" if stayed else "insert", new, stayed, after))
    return pa.table([pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), CHANGES, strict=True)], schema=CHANGES)


def keys_of(schema: TableSchema, images: list[Row | None]) -> list[str | None]:
    places = [schema.column_names().index(name) for name in schema.key]
    texts: list[str] = key_text([pa.array([image[at] if image else "" for image in images]) for at in places]).to_pylist()
    return [text if image else None for text, image in zip(texts, images, strict=True)]


def sent(rows: pa.Table) -> Iterator[Sent]:
    columns = (rows[name].to_pylist() for name in ("commit_ts", "table", "op", "key"))
    return zip(*columns, strict=True)


@pytest.mark.recordings
@pytest.mark.parametrize(("name", "extra"), [("shop", 26), ("shop-new", 21)][: None if LANE.whole else 1])
def test_split_updates_are_those_that_ticdc_split(name: str, extra: int) -> None:
    folder = Recording(recording(name))
    rows = logged(recorded_changes(folder.folder, "open-protocol", codec="open-protocol"), codec="open-protocol")
    decoded = decode(rows, codec="open-protocol", schemas=folder.schemas)
    theirs = {row for row in sent(decoded) if folder.start_ts < row[0] <= folder.end_ts}
    tables: dict[TableSchema, list[RowChange]] = {}
    for change in RecordedHistory(folder).changes:
        if change.table != MARK_TABLE and change.commit_ts > folder.start_ts:
            tables.setdefault(folder.schemas[change.table], []).append(change)
    whole = {schema: frame(schema, changes) for schema, changes in tables.items()}
    ours = {row for schema, changes in whole.items() for row in sent(split(changes, with_indexes(folder, schema)))}
    assert ours == theirs
    assert len(ours) - len({row for changes in whole.values() for row in sent(changes)}) == extra
