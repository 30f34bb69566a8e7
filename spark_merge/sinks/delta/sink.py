"""The Delta sink: the sink over a lake (sinks/lake) on a folder of Delta tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sidecar.shared.model.nouns import TableSchema
from spark_merge.merge.cut import units
from spark_merge.port.contract import Head, Unit
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.sinks.delta.columns import layout_of
from spark_merge.sinks.delta.ddl import DELTA as RULES
from spark_merge.sinks.delta.maintenance import MaintainedDelta
from spark_merge.sinks.delta.reading import DeltaReader
from spark_merge.sinks.delta.tables import DeltaTables
from spark_merge.sinks.delta.uri import PARAMETERS, PARAMETERS_S3, holds_rows, settings_of
from spark_merge.sinks.delta.writer import DeltaWriter, TablePlace
from spark_merge.sinks.folder.layout import CHUNK_PARTS, LIVE_PARTS, FolderIdentity
from spark_merge.sinks.folder.output import OutputFolder, position_of
from spark_merge.sinks.lake.lake_sink import LakeSink, lake_misfits


def _open(uri: SinkUri) -> LakeSink[TablePlace]:
    settings = settings_of(uri)
    folder, mode = settings.folder, settings.mode
    output = OutputFolder(folder, FolderIdentity(uri.log_id, mode, CHUNK_PARTS["parquet"], LIVE_PARTS["parquet"]), parameter="mode")

    def in_parts(heads: Sequence[Head]) -> list[Unit]:
        return units(heads, chunk_parts=output.identity.chunk_parts, live_part_rows=output.identity.live_part_rows)

    tables, writer = DeltaTables(settings, output), partial(DeltaWriter, folder, mode)
    reader = partial(DeltaReader, folder, mode, settings.routes, uri.log_id)
    return LakeSink(settings, position_of(output), tables, in_parts, writer, lambda accepted: reader(accepted).reading)


def _misfits(uri: SinkUri, schemas: Sequence[TableSchema]) -> Iterator[tuple[str, str]]:
    mode = settings_of(uri).mode
    return lake_misfits(schemas, RULES, mode, lambda schema: layout_of(schema, [], mode))


DELTA = SinkKind(_open, PARAMETERS, holds_rows, _misfits, maintained=MaintainedDelta.of)
DELTA_S3 = SinkKind(_open, PARAMETERS_S3, holds_rows, _misfits, maintained=MaintainedDelta.of)
