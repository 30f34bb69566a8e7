"""simple as TiCDC writes it, row by row (pingcap/ticdc pkg/sink/codec/simple/message.go): what spark_merge/codecs/decode/simple.py reads.

The product does not write this protocol.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sidecar.shared.codecs.simple import encode_resolved
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from spark_merge.codecs.encode.messages import RowMessage

BUILT_MS = 1_795_231_963_612


class SimpleEncoder:
    """As Encoder. `location`: what TiCDC calls the zone of its TIMESTAMPs, whose texts are UTC's here."""

    def __init__(self, location: str = "Etc/UTC") -> None:
        self.location = location

    def rows(
        self,
        schema: TableSchema,
        changes: pa.Table,
        physical_ids: Sequence[int] | None,
        *,
        keys_only: bool = False,
        topic: str = "",
    ) -> list[RowMessage]:
        assert physical_ids is None
        assert not keys_only
        return [(b"", as_json(self._row(schema, change))) for change in changes.to_pylist()]

    def resolved(self, ts: CommitTs) -> RowMessage:
        return encode_resolved(ts, BUILT_MS)

    def ddl(self, ddl: DdlRecord, before: TableSchema | None, after: TableSchema | None) -> RowMessage:
        tables = {
            name: {"schema": schema.name.schema, "table": schema.name.table, "tableID": 1, "version": 5, "columns": [], "indexes": []}
            for name, schema in (("tableSchema", after), ("preTableSchema", before))
            if schema is not None
        }
        return None, as_json({"version": 1, "type": "ALTER", "sql": ddl.query, "commitTs": ddl.commit_ts, "buildTs": BUILT_MS, **tables})

    def location_message(self, whole: RowMessage, schema: TableSchema, location: str) -> RowMessage:
        raise AssertionError("no sink writes simple")

    def _row(self, schema: TableSchema, change: dict[str, Any]) -> dict[str, Any]:
        before, after = change["before"], change["after"]
        head = row_head(schema.name, change["op"].upper(), change["commit_ts"])
        images = {name: self._image(schema, texts) for name, texts in (("data", after), ("old", before)) if texts is not None}
        return head | images

    def _image(self, schema: TableSchema, texts: Sequence[str | None]) -> dict[str, Any]:
        cells = {column.name: self.cell(column, text) for column, text in zip(schema.columns, texts, strict=True)}
        return dict(sorted(cells.items(), key=lambda one: one[0].encode()))

    def cell(self, column: Column, text: str | None) -> Any:
        if text is None:
            return None
        match column.kind:
            case "enum":
                return str(column.elements.index(text) + 1 if text else 0)
            case "set":
                return str(sum(1 << column.elements.index(label) for label in text.split(",")) if text else 0)
            case "year":
                return str(int(text))
            case "float" | "double":
                return f"{Decimal(text):f}"
            case "binary":
                return base64.b64encode(bytes.fromhex(text)).decode()
            case "timestamp":
                return {"location": self.location, "value": text}
            case _:
                return text


def row_head(table: TableName, type_: str, commit_ts: int) -> dict[str, Any]:
    head = {"version": 1, "database": table.schema, "table": table.table, "tableID": 505, "type": type_}
    return head | {"commitTs": commit_ts, "buildTs": BUILT_MS, "schemaVersion": 470609277317808153}


def as_json(message: dict[str, Any]) -> bytes:
    """Go escapes these in texts."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode()
