"""What Delta's log says of a table's files beside their rows: statistics, by which readers and a MERGE skip files.

    the table's property names columns  ─►  each file has statistics of each of them  ─►  nobody reads other ones

- Only whole numbers have statistics. delta-rs puts the least and greatest decimal of a file through a double or an int64, so the file's own
  values can lie outside (a BIGINT UNSIGNED above 2^63, a DECIMAL of more than 15 digits): a reader that filters would lose rows.
- delta-rs takes the property as the list of what every file has. `to_pyarrow_dataset` compares a column without statistics with null, so
  each filter on it loses the file. So the property is set where a table is made, and is extended only for rows that are then rewritten.
- A file without a column, which the source has dropped, or has added later, has only nulls in it, and its statistics say so.
- A table of an earlier version gets both once: the property, with the whole numbers of which all its files have statistics, and its files
  again, with these statistics alone. That changes no row: the log's last word on a path counts (Delta's protocol, "Add File").
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from spark_merge.sinks.delta.columns import DeltaColumn

PROPERTY = "delta.dataSkippingStatsColumns"

DONE = "ticdc-dump statistics"
"""A transaction of the table: its files have only statistics that are right."""

READER_FEATURES = frozenset({"timestampNtz"})
"""Of tables that this sink makes."""

_WRITER_FEATURES = READER_FEATURES | {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}
"""Of tables whose files have no more in the log than an AddAction can say: no deletion vector, no row ids."""

File = Mapping[str, Any]
"""A row of `DeltaTable.get_add_actions(flatten=True)`."""


def exact(kind: pa.DataType) -> bool:
    """Whether statistics of such a column are right in any program's form of them."""
    return bool(pa.types.is_integer(kind))


def properties(names: Iterable[str]) -> dict[str, str]:
    return {PROPERTY: ",".join(f"`{name}`" for name in names)}


def named(table: DeltaTable) -> list[str] | None:
    """None where the property is not set."""
    text = table.metadata().configuration.get(PROPERTY)
    return None if text is None else [name.strip().strip("`") for name in text.split(",") if name.strip()]


def naming(table: DeltaTable, names: Iterable[str]) -> bytes:
    """A commit that sets the property of the table as it is, and nothing else; each call makes another one. delta-rs's own (SET
    TBLPROPERTIES, 1.6.6) also gives a table that has features, as each with a DATETIME has, the feature `variantType`, and other readers
    refuse it then.

    Source: Delta's protocol, "Change Metadata"."""
    about, set_now = table.metadata(), properties(names)
    reported = {"operation": "SET TBLPROPERTIES", "operationParameters": {"properties": _json(set_now)}, "ticdc-dump": secrets.token_hex(8)}
    metadata = {
        "id": about.id, "name": about.name, "description": about.description, "format": {"provider": "parquet", "options": {}},
        "schemaString": table.schema().to_json(), "partitionColumns": about.partition_columns, "createdTime": about.created_time,
        "configuration": about.configuration | set_now,
    }  # fmt: skip
    now_ms = time.time_ns() // 1_000_000
    return f"{_json({'commitInfo': {'timestamp': now_ms, **reported}})}\n{_json({'metaData': metadata})}\n".encode()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def completed(stats: str, names: Iterable[str]) -> str:
    """Of a file without some of these columns."""
    result = json.loads(stats)
    result["nullCount"] = dict.fromkeys(names, result["numRecords"]) | result["nullCount"]
    return _json(result)


# ---- a table of an earlier version ----------------------------------------------------------------------------------


def files_of(table: DeltaTable) -> list[File]:
    files: list[File] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return files


def had_by_all(files: Sequence[File], columns: Iterable[DeltaColumn]) -> list[str]:
    return [column.name for column in columns if exact(column.kind) and all(_has(file, column.name) for file in files)]


def _has(file: File, name: str) -> bool:
    nulls = file.get(f"null_count.{name}")
    bounded = file.get(f"min.{name}") is not None and file.get(f"max.{name}") is not None
    return nulls is not None and (bounded or nulls == file["num_records"])


def with_others(files: Iterable[File], names: Iterable[str]) -> list[File]:
    """Those that have bounds of another column, too."""
    known = {f"{what}.{name}" for name in names for what in ("min", "max")}
    return [file for file in files if any(_is_bound(key) and key not in known and value is not None for key, value in file.items())]


def _is_bound(key: str) -> bool:
    return key.startswith(("min.", "max."))


def corrected(table: DeltaTable, files: Iterable[File], names: Sequence[str]) -> Iterator[AddAction]:
    """These files once more, with statistics of these columns; not those that have none, or lie elsewhere. None of a table with features of
    somebody else: delta-rs cannot say again what such a file has in the log."""
    protocol = table.protocol()
    if set(protocol.reader_features or ()) - READER_FEATURES or set(protocol.writer_features or ()) - _WRITER_FEATURES:
        return
    for file in files:
        path = file["path"]
        if file["num_records"] is not None and unquote(path) == path and ":" not in path:
            yield AddAction(path, file["size_bytes"], {}, file["modification_time"], data_change=False, stats=_stats(file, names))


def _stats(file: File, names: Sequence[str]) -> str:
    def reported(what: str) -> dict[str, Any]:
        return {name: value for name in names if (value := file.get(f"{what}.{name}")) is not None}

    result = {
        "numRecords": file["num_records"],
        "minValues": reported("min"),
        "maxValues": reported("max"),
        "nullCount": reported("null_count"),
    }
    return _json(result)
