"""Rows' partitions over recorded schema changes: as TiCDC's messages name them, and as the keys of raw key-values do."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pytest

from sidecar.shared.model.nouns import Change, TableName, TableSchema
from sidecar.shared.partition.ids import is_partitioned, partition_ids
from spark_merge.codecs.decode.rows import decode
from tests.integration.test_schema_history_recordings import Recorded
from tests.unit.decode.log import logged, recorded_changes

pytestmark = pytest.mark.recordings


def by_version(recorded: Recorded, changes: Iterable[Change]) -> dict[TableSchema, list[tuple[int, Change]]]:
    """The rows of partitioned tables with the physical id that each names, by the table as it was then."""
    history, _ = recorded.replayed()
    result: dict[TableSchema, list[tuple[int, Change]]] = defaultdict(list)
    for change in changes:
        physical_id = json.loads(change.key or b"{}").get("ptn")
        version = history.table_at(physical_id, change.commit_ts - 1) if physical_id is not None else None
        if version is not None:
            schema = replace(version.description.schema, name=version.name, physical_ids=version.physical_ids)
            result[schema].append((physical_id, change))
    return result


@pytest.mark.parametrize("name", ["ddl", "ddl-new"])
def test_over_schema_changes_each_row_is_in_the_partition_that_ticdc_says(name: str) -> None:
    """Partitions are truncated, dropped and exchanged on the way."""
    recorded = Recorded(name)
    seen: Counter[str] = Counter()
    partitionings = set()
    for schema, rows in by_version(recorded, recorded_changes(recorded.folder, "open-protocol", codec="open-protocol")).items():
        assert is_partitioned(schema)
        known: dict[TableName, TableSchema] = {schema.name: schema}
        changes = [change for _, change in rows]
        decoded = decode(logged(changes, codec="open-protocol"), codec="open-protocol", schemas=known).to_pylist()
        images = [row["after"] or row["before"] for row in decoded]
        result = partition_ids(schema, [pa.array(column, pa.string()) for column in zip(*images, strict=True)])
        assert result is not None
        reported = [rows[row["ordinal"]][0] for row in decoded]
        assert [int(one) for one in result] == reported, schema
        seen[schema.name.table] += len(reported)
        partitionings.add((schema.name.table, schema.physical_ids))
    assert seen["event_log"] > 300
    assert seen["ledger"] > 400
    assert len(partitionings) > 3
