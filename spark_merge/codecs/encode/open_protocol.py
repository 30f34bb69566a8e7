"""Rows, resolved marks and DDLs in open-protocol as TiCDC of either architecture writes them (decode/open_protocol.py has the form).

                    classic                                                        new
    columns             sorted by the bytes of their names                             in table order
    key                 ts, scm, tbl, rid, ptn, t; what is empty or 0 is omitted       ts, scm, tbl, t, ptn
    JSON                Go's encoding/json                                             jsoniter (encode/go_json.py)

    a row in a file     "ccl" behind all else                                          "ohk":true,"ohk":false,"ccl" before "ptn"

`ptn` is the id of the row's partition, of partitioned tables. `rid` is the value of an integer primary key that is clustered; TiCDC
writes the hidden `_tidb_rowid` of other tables there, which no column holds: such keys come without it. Of `ohk` twice, readers take the
last one, as Go's do.

TiCDC may put several rows into one message; here each has its own. Values are not compressed: with `large-message-handle-compression=lz4`
each value's JSON would be an lz4 frame of its own inside its length (shared/codecs/compression.py reads them), the same content as Go's and
other bytes.

Columns become JSON, columns are joined to images, images to rows: nothing here touches a single row in Python but for the last list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import ConfigError, SinkError, UnsupportedDdl
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, TableSchema
from sidecar.shared.ticdc.ddl_text import action_of
from spark_merge.codecs.encode import go_json
from spark_merge.codecs.encode.block import Block, image_columns, of_changes
from spark_merge.codecs.encode.handle_key import fields_of, json_object, key_columns
from spark_merge.codecs.encode.local_time import UTC, zone_of
from spark_merge.codecs.encode.messages import Architecture, RowMessage, definition_of
from spark_merge.codecs.encode.open_columns import UNFIT, OpenColumn, json_values, open_columns
from spark_merge.port.contract import CHANGES

_LENGTH_BYTES = 8
_VERSION = (1).to_bytes(_LENGTH_BYTES, "big")
_DDL, _RESOLVED = 2, 3
_TABLES_MAX = 4096
"""Table schemas whose described columns a process keeps."""

_NOT_HERE = {
    "large-message-handle-compression": ("none", "leave it out: Kafka's own compression= makes messages smaller as well"),
    "only-output-updated-columns": ("false", "leave it out: with open-protocol it loses empty old values"),
}
"""TiCDC's settings that change a message in a way that is not done here, each with the value that does not and the way out."""

_BLOCK_BYTES_MAX = 32 << 20
"""Of texts encoded at a time. What comes of them stays below the 2 GiB of an Arrow array, and so does one row alone: TiDB lets it be
120 MiB at most, and an escape is six times its byte."""


@dataclass(frozen=True, slots=True)
class OpenProtocolEncoder:
    """`zone`: the TiCDC server's, in which it writes TIMESTAMPs. `key_of_deleted`: of a deleted row the key's columns alone."""

    architecture: Architecture
    zone: ZoneInfo = UTC
    key_of_deleted: bool = False

    @property
    def _html(self) -> bool:
        return self.architecture == "classic"

    def rows(
        self,
        schema: TableSchema,
        changes: pa.Table,
        physical_ids: Sequence[int] | None,
        *,
        keys_only: bool = False,
        topic: str = "",  # noqa: ARG002  (other protocols' need)
    ) -> list[RowMessage]:
        if keys_only and not self.key_of_deleted:
            return replace(self, key_of_deleted=True).rows(schema, changes, physical_ids)
        messages: list[RowMessage] = []
        ids = None if physical_ids is None else pa.array(physical_ids, pa.int64())
        start = 0
        for batch in _blocks(changes.select(CHANGES.names)):
            block = of_changes(schema, batch.column("seq")[0].as_py(), batch)
            values = framed(self._values(block))  # first: it names the column of a text that does not fit
            keys = self._keys(block, None if ids is None else ids.slice(start, block.rows))
            messages += zip(keys.to_pylist(), values.to_pylist(), strict=True)
            start += block.rows
        return messages

    def location_message(self, whole: RowMessage, schema: TableSchema, location: str) -> RowMessage:
        quoted = partial(go_json.string, html=self._html)
        key, value = (part[at:] for part, at in zip(whole, (2 * _LENGTH_BYTES, _LENGTH_BYTES), strict=True) if part is not None)
        fields, place = fields_of(key), [("ccl", quoted(location).encode())]
        if self.architecture == "new":
            partition = [("ptn", fields.pop("ptn"))] if "ptn" in fields else []
            place = [("ohk", b"true"), ("ohk", b"false"), *place, *partition]
        images = ((name, key_columns(image, schema.key, quoted)) for name, image in fields_of(value).items())
        return _framed_message(json_object([*fields.items(), *place], quoted), json_object(images, quoted))

    def resolved(self, ts: CommitTs) -> RowMessage:
        return _message(f'{{"ts":{ts},"t":{_RESOLVED}}}', "")

    def ddl(self, ddl: DdlRecord, before: TableSchema | None, after: TableSchema | None) -> RowMessage:  # noqa: ARG002  (other protocols' need)
        """The statement as the log has it: behind TiCDC its own wording, behind raw key-values the user's. Raises SinkError for one whose
        kind is not known."""
        html = self._html
        try:
            action = action_of(ddl.query).value
        except UnsupportedDdl as error:
            raise SinkError(
                f"the DDL of {ddl.schema}.{ddl.table} at commit_ts {ddl.commit_ts} has no `t` of open-protocol: {error.message}",
                hint=f"add ddl-done={ddl.commit_ts} to the sink's URI: the sink does not send this DDL, and each consumer must learn of it"
                f" in another way. Also {error.hint}",
            ) from error
        schema = f'"scm":{go_json.string(ddl.schema, html=html)},' if ddl.schema or not html else ""
        table = f'"tbl":{go_json.string(ddl.table, html=html)},' if ddl.table or not html else ""
        key = f'{{"ts":{ddl.commit_ts},{schema}{table}"t":{_DDL}}}'
        return _message(key, f'{{"q":{go_json.string(ddl.query, html=html)},"t":{action}}}')

    # ---- keys -------------------------------------------------------------------------------------------------------

    def _keys(self, block: Block, physical_ids: pa.Array | None) -> pa.Array:
        names = "".join(
            f',"{field}":{go_json.string(name, html=self._html)}' for field, name in zip(("scm", "tbl"), block.schema.name, strict=True)
        )
        pieces: list[object] = ['{"ts":', pc.cast(block.commit_ts, pa.string()), names]
        partition = _numbers(',"ptn":', physical_ids) if _is_partitioned(block.schema, physical_ids) else ""
        if self.architecture == "classic":
            pieces += [_row_ids(block), partition, ',"t":1}']
        else:
            pieces += [',"t":1', partition, "}"]
        return framed(pc.binary_join_element_wise(*pieces, ""), _VERSION)

    # ---- values -----------------------------------------------------------------------------------------------------

    def _values(self, block: Block) -> pa.Array:
        new, old = self._images(block, block.after), self._images(block, block.before)
        if block.before.null_count == block.rows:
            return pc.binary_join_element_wise('{"u":', new, "}", "")
        is_deleted, is_new = block.after.is_null(), block.before.is_null()
        head = pc.if_else(is_deleted, '{"d":', '{"u":')
        between = pc.if_else(pc.or_(is_deleted, is_new), "", ',"p":')
        return pc.binary_join_element_wise(head, new, between, old, "}", "", null_handling="replace", null_replacement="")

    def _images(self, block: Block, images: pa.StructArray) -> pa.Array:
        """The JSON of each image, null where there is none."""
        columns = _written_columns(block.schema, self.architecture)
        if images.null_count == len(images):
            return pa.nulls(len(images), pa.string())
        objects = _objects(columns, self._column_values(columns, block.schema, images), html=self._html)
        if images is block.before and self.key_of_deleted:
            keys = tuple((place, open_column) for place, open_column in columns if open_column.is_key)
            objects = pc.if_else(
                block.after.is_null(), _objects(keys, self._column_values(keys, block.schema, images), html=self._html), objects
            )
        return objects if images.null_count == 0 else pc.if_else(images.is_valid(), objects, pa.scalar(None, pa.string()))

    def _column_values(self, columns: _Columns, schema: TableSchema, images: pa.StructArray) -> Iterator[pa.Array]:
        for place, open_column in columns:
            try:
                yield json_values(open_column, images.field(place), self.zone, html=self._html)
            except UNFIT as error:
                raise SinkError(
                    f"{schema.name}.{open_column.column.name} holds a text that is no {open_column.column.kind}: {error}",
                    hint="the table's schema in the log does not fit its rows: check that no DDL is missing, then report this",
                ) from error


def encoder(*, architecture: Architecture, options: Mapping[str, str]) -> OpenProtocolEncoder:
    """Raises ConfigError for an option's value that cannot be written."""
    for name, (plain, hint) in _NOT_HERE.items():
        if (value := options.get(name, plain)) not in ("", plain):
            raise ConfigError(f"open-protocol cannot be written with {name}={value}", hint=hint)
    deleted = options.get("delete-only-output-handle-key-columns", "false")
    if deleted not in ("true", "false"):
        raise ConfigError(
            f"delete-only-output-handle-key-columns is {deleted!r}", hint="set delete-only-output-handle-key-columns to true or false"
        )
    return OpenProtocolEncoder(architecture, zone_of(options.get("time-zone", "UTC")), deleted == "true")


def as_sent(keys: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The log has rows without their frames. A message of TiCDC may have held several rows; here each has its own."""
    return framed(keys, _VERSION), framed(values)


_Columns: TypeAlias = "tuple[tuple[int, OpenColumn], ...]"
"""Each with its place in the schema."""


@lru_cache(maxsize=_TABLES_MAX)
def _written_columns(schema: TableSchema, architecture: Architecture) -> _Columns:
    """In the order in which they are written."""
    in_table = enumerate(open_columns(schema, architecture))
    return tuple(in_table if architecture == "new" else sorted(in_table, key=lambda one: one[1].column.name.encode()))


def _objects(columns: _Columns, values: Iterable[pa.Array], *, html: bool) -> pa.Array:
    """One JSON object an image."""
    pieces: list[object] = []
    before = "{"
    for (_, open_column), text in zip(columns, values, strict=True):
        pieces += [before + open_column.opening(html=html), text]
        before = "},"
    return pc.binary_join_element_wise(*pieces, "}}", "", null_handling="replace", null_replacement="null")


def _is_partitioned(schema: TableSchema, physical_ids: pa.Array | None) -> bool:
    """Amid some DDLs the definition does not tell the partitions, and the ids do."""
    if not definition_of(schema).partitioning and schema.physical_ids in ((), (schema.table_id,)):
        return False
    if physical_ids is None or physical_ids.null_count:
        raise SinkError(
            f"which partition of {schema.name} a row is in is not known, and open-protocol needs it",
            hint="the partitions of this kind of table cannot be worked out here: leave the table out of the sink, and report it",
        )
    return True


def _row_ids(block: Block) -> pa.Array | str:
    """`rid` of each row: TiDB's handle, as the signed number that it is in the row's key."""
    primary = next((index for index in definition_of(block.schema).indexes if index.primary), None)
    if primary is None or primary.id or not definition_of(block.schema).clustered:
        return ""
    place = block.schema.column_names().index(primary.parts[0].column)
    texts, kind = image_columns(block)[place], block.schema.columns[place].kind
    if kind not in ("int", "uint"):
        return ""
    numbers = pc.cast(texts, pa.uint64()).view(pa.int64()) if kind == "uint" else pc.cast(texts, pa.int64())
    return _numbers(',"rid":', numbers, leave_out_zero=True)


def _numbers(field: str, numbers: pa.Array, *, leave_out_zero: bool = False) -> pa.Array:
    texts = pc.binary_join_element_wise(field, pc.cast(numbers, pa.string()), "")
    return pc.if_else(pc.equal(numbers, 0), "", texts) if leave_out_zero else texts


def _blocks(changes: pa.Table) -> Iterator[pa.RecordBatch]:
    """Halves of halves, until each is small enough or one row."""
    if len(changes) > 1 and changes.nbytes > _BLOCK_BYTES_MAX:
        half = len(changes) // 2
        yield from _blocks(changes.slice(0, half))
        yield from _blocks(changes.slice(half))
    elif len(changes):
        yield from changes.combine_chunks().to_batches()


# ---- frames ---------------------------------------------------------------------------------------------------------


def framed(texts: pa.Array, first: bytes = b"") -> pa.Array:
    """Each behind its length, and that behind `first`."""
    contents = pc.cast(texts, pa.binary())
    lengths = pc.binary_length(contents).to_numpy().astype(">u8")
    headers = pa.Array.from_buffers(pa.binary(8), len(contents), [None, pa.py_buffer(lengths)])
    return pc.binary_join_element_wise(pa.scalar(first), pc.cast(headers, pa.binary()), contents, pa.scalar(b""))


def _message(key: str, value: str) -> RowMessage:
    return _framed_message(key.encode(), value.encode())


def _framed_message(*contents: bytes) -> RowMessage:
    """Of key and value."""
    framed_key, framed_value = (len(content).to_bytes(_LENGTH_BYTES, "big") + content for content in contents)
    return _VERSION + framed_key, framed_value
