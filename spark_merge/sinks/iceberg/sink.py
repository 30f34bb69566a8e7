"""The Iceberg sink: the sink over a lake (sinks/lake) on a namespace of a catalog. A table is a change log (codecs/encode/typed.py says
what a row is), or the table as it is (merge.py).

The order of a log's rows is in them: `_commit_ts`, deletes first, `_ordinal`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from sidecar.shared.model.nouns import TableSchema
from spark_merge.merge.cut import LIVE_PART_ROWS, units
from spark_merge.port.contract import Head, Unit
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.sinks.iceberg.evolution import ICEBERG as RULES
from spark_merge.sinks.iceberg.lake import Lake
from spark_merge.sinks.iceberg.maintenance import MaintainedIceberg
from spark_merge.sinks.iceberg.merge import MergeMode
from spark_merge.sinks.iceberg.merge_writer import MergeWriter
from spark_merge.sinks.iceberg.modes import AppendMode
from spark_merge.sinks.iceberg.partitions import check_parted
from spark_merge.sinks.iceberg.position import ANOTHER_NAMESPACE, RecordPositions
from spark_merge.sinks.iceberg.reading import IcebergReader
from spark_merge.sinks.iceberg.tables import IcebergTables
from spark_merge.sinks.iceberg.types import iceberg_schema
from spark_merge.sinks.iceberg.uri import PARAMETERS, RECORD, settings_of
from spark_merge.sinks.iceberg.writer import IcebergWriter, LakeTarget
from spark_merge.sinks.kit.position import PositionKeeper
from spark_merge.sinks.lake.lake_sink import LakeSink, lake_misfits

CHUNK_PARTS = 16
"""A large dump keeps that many cores busy; each has a file of a segment and table."""


def _open(uri: SinkUri) -> LakeSink[LakeTarget]:
    settings, log_id = settings_of(uri), uri.log_id
    lake, merges = Lake(settings), settings.mode == "merge"
    record = RecordPositions(lake)
    tables = IcebergTables(lake, record, MergeMode(settings) if merges else AppendMode(settings), log_id=log_id)
    position = PositionKeeper(record, log_id=log_id, remedy=ANOTHER_NAMESPACE)

    def in_parts(heads: Sequence[Head]) -> list[Unit]:
        return units(heads, chunk_parts=CHUNK_PARTS, live_part_rows=LIVE_PART_ROWS)

    writer, reader = MergeWriter if merges else IcebergWriter, partial(IcebergReader, lake, log_id)
    return LakeSink(settings, position, tables, in_parts, writer, lambda accepted: reader(accepted).reading)


def _misfits(uri: SinkUri, schemas: Sequence[TableSchema]) -> Iterable[tuple[str, str]]:
    settings = settings_of(uri)

    def check(schema: TableSchema) -> None:
        settings.identifier(schema.name)
        spec = settings.partitions.spec(schema, settings.mode)
        if settings.mode == "merge" and schema.key:
            check_parted(spec, iceberg_schema(schema, "merge"), schema)

    return lake_misfits(schemas, RULES, settings.mode, check)


def _leaves(uri: SinkUri) -> str:
    settings = settings_of(uri)
    return f"DROP TABLE {'.'.join(settings.namespace)}.{RECORD}: it holds the position, for a sink that is not to continue"


ICEBERG = SinkKind(_open, PARAMETERS, misfits=_misfits, leaves=_leaves, maintained=MaintainedIceberg.of)
