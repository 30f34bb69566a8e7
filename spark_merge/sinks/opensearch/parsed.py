"""Documents as rows of canonical text: documents.py the other way round, a column at a time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from sidecar.shared.errors import SinkError
from sidecar.shared.log.float_texts import reprs
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.sinks.opensearch.fields import Form, Forms

YEAR_DIGITS = 4


def rows_of(sources: Sequence[msgspec.Raw], schema: TableSchema, forms: Forms) -> pa.Table:
    """`sources`: of each document, JSON on one line. A field that is absent is NULL. Raises SinkError for a document whose fields have
    other forms."""
    read = {column.name: _type(column, forms) for column in schema.columns if forms.form(column) is not Form.RAW}
    data = b"\n".join(map(bytes, sources))
    try:
        parsed = arrow_json.read_json(
            io.BytesIO(data),
            arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            arrow_json.ParseOptions(explicit_schema=pa.schema(list(read.items())), unexpected_field_behavior="ignore"),
        )
        if parsed.num_rows != len(sources):
            raise pa.ArrowInvalid(f"{parsed.num_rows} rows in {len(sources)} documents")
        raw = _raw(sources, [column.name for column in schema.columns if column.name not in read])
    except (pa.ArrowInvalid, msgspec.MsgspecError) as error:
        raise SinkError(
            f"a document of {schema.name} has other fields than this sink writes: {error}",
            hint="see who else writes to the index, and dump the table again",
        ) from error
    columns = [_text(column, forms, parsed.column(column.name)) if column.name in read else raw[column.name] for column in schema.columns]
    return pa.Table.from_arrays(columns, names=list(schema.column_names()))


def _type(column: Column, forms: Forms) -> pa.DataType:
    match forms.form(column), column.kind:
        case Form.LABELS, _:
            return pa.list_(pa.string())
        case Form.NUMBER, "float" | "double":
            return pa.float64()
        case Form.NUMBER, "uint" | "bit":
            return pa.uint64()
        case ((Form.NUMBER | Form.YEAR), _):
            return pa.int64()
        case _:
            return pa.string()


def _text(column: Column, forms: Forms, values: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    match forms.form(column):
        case Form.NUMBER if column.kind in ("float", "double"):
            return reprs(values)
        case Form.YEAR:
            return pc.utf8_lpad(values.cast(pa.string()), YEAR_DIGITS, "0")
        case Form.LABELS:
            return pc.binary_join(values, ",")
        case _:
            return values.cast(pa.string())


def _raw(sources: Sequence[msgspec.Raw], names: Sequence[str]) -> dict[str, pa.Array]:
    """Their texts as they are in the documents."""
    documents = [_fields.decode(source) for source in sources] if names else []
    texts_by_name = {name: [document.get(name, _NULL) for document in documents] for name in names}
    return {
        name: pa.array([None if text == _NULL else bytes(text) for text in texts], pa.string()) for name, texts in texts_by_name.items()
    }


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class NullsAreNull:
    """`RowForm` of `json=object`: a document has one null for NULL and for a json that is null. `names`: of such columns."""

    names: tuple[str, ...]

    def __call__(self, rows: pa.Table) -> pa.Table:
        for name in self.names:
            texts = rows.column(name)
            place = rows.column_names.index(name)
            rows = rows.set_column(place, name, pc.if_else(pc.equal(pc.utf8_trim_whitespace(texts), "null"), None, texts))
        return rows
