"""Messages of TiCDC's protocols: lines of a file (canal-json of the storage sink), and back to rows, those of the Kafka sink too.

The log's own decoders read them (spark_merge/codecs/decode). An update that changes the handle key is one message there, and two rows here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.codecs.registry import codec_for
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import FeedError, SinkError
from sidecar.shared.model.nouns import Change, Column, Lane, Message, Rank, TableSchema
from spark_merge.codecs.decode.rows import decode
from spark_merge.codecs.encode.block import image_columns, of_changes
from spark_merge.codecs.encode.debezium_dates import in_no_calendar
from spark_merge.codecs.encode.local_time import UTC, local_texts, zone_of
from spark_merge.codecs.encode.messages import Encoder
from spark_merge.codecs.protocols import DecoderModule
from spark_merge.ddl.eras import WAY_OUT, Era
from spark_merge.port.readable import RowForm, RowsRead, Versions
from spark_merge.sinks.formats.json_lines import line_blocks
from spark_merge.sinks.kit.row_versions import ranks, rows_read


def message_lines(encoder: Encoder, schema: TableSchema, changes: pa.Table, end: bytes, *, keys_only: bool) -> bytes:
    """A message of each row of `changes` (contract.CHANGES), each with its `end`. Raises SinkError."""
    return b"".join((value or b"") + end for _, value in encoder.rows(schema, changes, None, keys_only=keys_only))


def message_file_rows(file: IO[bytes], era: Era, *, protocol: str, time_zone: str, end: bytes) -> Iterator[RowsRead]:
    """All rows of a file of such lines, which are of `era`. Raises SinkError, FeedError."""
    codec = codec_for(protocol, tidb_extension=True, compression="")
    for lines in line_blocks(file, end):
        messages = (Message(Lane("file"), number, None, line) for number, line in enumerate(lines.split(end)[:-1]))
        changes = [StoredChange(one) for message in messages for one in codec.envelopes(message) if isinstance(one, Change)]
        yield from message_rows(changes, era, protocol=protocol, time_zone=time_zone)


class StoredChange(NamedTuple):
    change: Change
    from_dump: bool = False


def message_rows(
    changes: Sequence[StoredChange], era: Era, *, protocol: str, time_zone: str, decoder: DecoderModule | None = None
) -> Iterator[RowsRead]:
    """`changes`: all of `era`. `time_zone`: in which TIMESTAMPs were written. `decoder`: where the protocol's name does not say it. Raises
    SinkError."""
    if not changes:
        return
    schema = era.previous_schema()
    try:
        rows = decode(
            _as_logged([one.change for one in changes], era),
            codec=protocol,
            schemas={era.name: schema},
            server_tz=ServerZone(time_zone, "first"),
            whole=False,
            module=decoder,
        )
    except FeedError as error:
        raise SinkError(f"{era.schema.name} cannot be read back: {error.message}", hint=WAY_OUT) from error
    from_dump = pa.array([one.from_dump for one in changes])
    for batch in rows.combine_chunks().to_batches():
        block = of_changes(schema, 0, batch)
        gone = pc.equal(block.op, "delete")
        columns = dict(zip(schema.column_names(), image_columns(block), strict=True))
        versions = Versions(block.commit_ts, ranks(gone, from_dump.take(block.ordinal)), gone)
        yield rows_read(era, columns, versions, types=era.present_types)


def _as_logged(changes: Sequence[Change], era: Era) -> pa.Table:
    """As codecs/decode/rows.py takes them; of `ordinal` the place in `changes`. The table has the era's name, whatever its case in a
    message."""
    count = len(changes)
    return pa.table(
        {
            "seq": pa.nulls(count, pa.int64()),
            "commit_ts": pa.array([change.commit_ts for change in changes], pa.int64()),
            "op": pa.array(["delete" if change.rank is Rank.DELETE else "put" for change in changes], pa.string()),
            "schema": pa.repeat(era.name.schema, count),
            "table": pa.repeat(era.name.table, count),
            "key": pa.array([change.key for change in changes], pa.binary()),
            "value": pa.array([change.value for change in changes], pa.binary()),
            "lane": pa.array([change.lane for change in changes], pa.string()),
            "position": pa.array([change.position for change in changes], pa.int64()),
            "ordinal": pa.array(range(count), pa.int64()),
        }
    )


class MessageForm(NamedTuple):
    """`RowForm`. TIMESTAMPs are texts in a time zone: of the hour that its clocks have twice, the first one counts. `unsigned_zeros`:
    floating-point columns whose -0.0 is 0.0, as JSON's number -0 has no sign. `dates`: columns in which a date that no calendar has is
    another value, with that one."""

    time_zone: str
    times: tuple[str, ...]
    unsigned_zeros: tuple[str, ...] = ()
    dates: tuple[tuple[str, str | None], ...] = ()

    def __call__(self, rows: pa.Table) -> pa.Table:
        for name, replacement in self.dates:
            column = rows.column(name).combine_chunks()
            made = pc.if_else(in_no_calendar(column), pa.scalar(replacement, pa.string()), column)
            rows = rows.set_column(rows.schema.get_field_index(name), name, made)
        for name in self.unsigned_zeros:
            column = rows.column(name)
            zeros = pc.if_else(pc.equal(column, "-0.0"), "0.0", column)
            rows = rows.set_column(rows.schema.get_field_index(name), name, zeros)
        zone, back = zone_of(self.time_zone), ServerZone(self.time_zone, "first")
        for name in self.times:
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, name, back.utc_texts(local_texts(rows.column(name).combine_chunks(), zone)))
        return rows


def form_of(
    columns: Sequence[Column], time_zone: str, *, unsigned_zeros: bool = False, dates: Sequence[tuple[str, str | None]] = ()
) -> RowForm | None:
    """`dates`: as of MessageForm. None where the texts hold every value."""
    times = tuple(column.name for column in columns if column.kind == "timestamp" and time_zone != UTC.key)
    zeros = tuple(column.name for column in columns if column.kind in ("float", "double") and unsigned_zeros)
    return MessageForm(time_zone, times, zeros, tuple(dates)) if times or zeros or dates else None
