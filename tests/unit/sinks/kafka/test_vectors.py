"""TiCDC's own event routers on the same rows: topic, partition and refusals (README.md says how the vectors were made)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, IndexPart, TableDefinition, TableName, TableSchema
from sidecar.shared.ticdc.dispatch import Hashing, Router
from spark_merge.port.contract import CHANGES
from spark_merge.sinks.kafka.partitions import partitions, verify

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "vectors.json").read_text())
REFUSED_HERE = {"classic v9.0.0-beta.2": "found virtual generated columns", "new v9.0.0-beta.2": "new architecture of v9.0.0-beta.2"}
"""What that release hashes, though what it finds there is no value of the column; the later ones refuse it, or are right."""


def schema_of(table: dict[str, Any]) -> TableSchema:
    indexes = [
        IndexDefinition(one["name"], tuple(map(IndexPart, one["parts"])), one["unique"], one["primary"], one["id"])
        for one in table["indexes"]
    ]
    if handle := table["handle"]:
        indexes = [IndexDefinition("PRIMARY", (IndexPart(handle),), unique=True, primary=True), *indexes]
    return TableSchema(
        TableName(table["schema"], table["table"]),
        tuple(
            Column(one["name"], one["kind"], scale=one["scale"], elements=tuple(one["elements"]))
            for one in table["columns"]
            if not one["virtual"]
        ),
        key=tuple(part.column for part in next(index for index in indexes if index.primary).parts),
        definition=TableDefinition(tuple(ColumnDefinition(one["name"], "") for one in table["columns"]), tuple(indexes)),
    )


def routed(case: dict[str, Any], schema: TableSchema, hashing: Hashing) -> tuple[str, int]:
    router = Router.of(
        case["dispatchers"],
        default_topic="main",
        protocol=case["protocol"],
        case_sensitive=case.get("case_sensitive", False),
        hashing=hashing,
    )
    before, after = case.get("before"), case.get("after")
    op = "delete" if after is None else "update" if before else "insert"
    row = (1, case["commit_ts"], 1, 0, schema.name.schema, schema.name.table, op, "k", before, after)
    changes = pa.table([pa.array([value], field.type) for value, field in zip(row, CHANGES, strict=True)], schema=CHANGES)
    return router.topic(schema.name), int(partitions(router.partition_rule(schema.name), schema, changes, case["count"])[0])


@pytest.mark.parametrize("release", VECTORS["outcomes"])
def test_rows_go_where_ticdcs_own_router_puts_them(release: str) -> None:
    architecture, version = release.split(" ")
    hashing = Hashing.of("new" if architecture == "new" else "classic", version)
    schemas = [schema_of(table) for table in VECTORS["tables"]]
    for number, (case, outcome) in enumerate(zip(VECTORS["cases"], VECTORS["outcomes"][release], strict=True)):
        schema = schemas[case["table"]]
        try:
            result: object = routed(case, schema, hashing)
        except (ConfigError, SinkError) as error:
            result = error
        if isinstance(result, Exception) and (refused := REFUSED_HERE.get(release)) and refused in str(result):
            continue
        if "error" in outcome:
            assert isinstance(result, ConfigError if outcome["error"].startswith("router") else SinkError), (number, case, outcome)
        else:
            assert result == (outcome["topic"], outcome["partition"]), (number, case, outcome)


@pytest.mark.parametrize("release", [release for release in VECTORS["outcomes"] if release != "new v9.0.0-beta.2"])
def test_a_changefeed_that_ticdc_does_not_start_is_not_started(release: str) -> None:
    """The new architecture of v9.0.0-beta.2 does not look."""
    architecture, version = release.split(" ")
    hashing = Hashing.of("new" if architecture == "new" else "classic", version)
    refused = 0
    for case, outcome in zip(VECTORS["cases"], VECTORS["outcomes"][release], strict=True):
        if "verify" not in outcome:
            continue
        refused += 1
        schema = schema_of(VECTORS["tables"][case["table"]])
        router = Router.of(case["dispatchers"], default_topic="main", protocol=case["protocol"], hashing=hashing)
        with pytest.raises(SinkError):
            verify(router.partition_rule(schema.name), schema)
    assert refused
