"""The log and the outputs that version 0.1.0 wrote (tests/data/log-0.1.0), and what the slow rule says of any log on a folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.shared.log import storage
from sidecar.shared.log.absent import parted
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.nouns import Seq, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode
from spark_merge.log.read import new_manifests, read_rows, read_schemas
from spark_merge.merge.rule import Image, OutputRow, merged

PREVIOUS = Path(__file__).parents[1] / "data" / "log-0.1.0"
PREVIOUS_LOG_ID = "default/default/orders/2026-11-21T03:36:19.933428409Z"
SEGMENTS, DELIVERED = 6, 4
"""In the log, and of them in the outputs."""
SEGMENTS_MAX = 100_000


def former(name: str, into: Path) -> Folder:
    """A copy of `log`, `jsonl` or `parquet`."""
    return open_folder(str(shutil.copytree(PREVIOUS / name, into / name)))


def output_by_the_rule(log: Folder, *, after: Seq | None = None) -> list[dict[str, Any]]:
    """Every row that a log of one codec gives, as the rows of the JSON lines: by segment, then table, then output order. `after`: no
    window is open there."""
    schemas_at = cache(partial(read_schemas, log))
    changes: list[OutputRow] = []
    results: list[dict[str, Any]] = []
    for manifest in new_manifests(log, after=after, limit=SEGMENTS_MAX):
        schemas = schemas_at(manifest.schemas)
        rows = read_rows(log, manifest)
        rows = rows.append_column("seq", pa.repeat(pa.scalar(manifest.seq, pa.int64()), rows.num_rows))
        changes += [_change(schemas, row) for row in decode(rows, codec=manifest.codec, schemas=schemas).to_pylist()]
        output = merged(manifest, changes, rows_of=partial(_chunk_rows, log, schemas))
        results += [_line(schemas[row.table], row) for row in sorted(output, key=lambda row: row.table)]
    return results


def _key(schema: TableSchema, image: Image) -> Image:
    return tuple(image[schema.column_names().index(name)] for name in schema.key)


def _change(schemas: Mapping[TableName, TableSchema], row: dict[str, Any]) -> OutputRow:
    table = TableName(row["schema"], row["table"])
    before, after = (None if row[name] is None else tuple(row[name]) for name in ("before", "after"))
    key = _key(schemas[table], after if after is not None else before or ())
    return OutputRow(row["seq"], row["commit_ts"], row["rank"], row["ordinal"], table, row["op"], key, before, after)


def _chunk_rows(log: Folder, schemas: Mapping[TableName, TableSchema], chunk: ChunkFile) -> Iterator[tuple[Image, Image | None]]:
    schema = schemas[chunk.table]
    with storage.open_to_read(log, chunk.path) as file:
        absent, rows = (part.select(list(schema.column_names())).to_pylist() for part in parted(pq.read_table(file)))
    yield from ((_key(schema, tuple(row.values())), None) for row in absent)
    yield from ((_key(schema, tuple(row.values())), tuple(row.values())) for row in rows)


def _line(schema: TableSchema, row: OutputRow) -> dict[str, Any]:
    def named(names: tuple[str, ...], image: Image | None) -> dict[str, str | None] | None:
        return None if image is None else dict(zip(names, image, strict=True))

    columns = schema.column_names()
    return {
        "seq": row.seq, "ordinal": row.ordinal, "commit_ts": str(row.commit_ts), "schema": row.table.schema, "table": row.table.table,
        "op": row.op, "key": named(schema.key, row.key), "before": named(columns, row.before), "after": named(columns, row.after),
        "origin": "dump" if row.dump_id else "log", "dump_id": row.dump_id,
    }  # fmt: skip
