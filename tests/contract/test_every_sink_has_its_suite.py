"""No sink of the registry is without the suite of dumps (spark_merge/testing/dumps_port.py): each kind, in each of its modes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import get_args

import pytest

from spark_merge.sinks import registry
from spark_merge.testing.dumps_port import DumpsPort

_MODES = {
    "delta": get_args(import_module("spark_merge.sinks.delta.columns").Mode),
    "delta+s3": get_args(import_module("spark_merge.sinks.delta.columns").Mode),
    "iceberg": get_args(import_module("spark_merge.sinks.iceberg.types").Mode),
    "file": ("format", "protocol"),
    "s3": ("format", "protocol"),
    "kafka": ("transactions", "at least once"),
}
"""What a kind of several writers has."""

SUITES = {
    "file format": "contract.test_sink_port::TestFiles",
    "file protocol": "contract.test_storage_sink::TestStorage",
    "s3 format": "contract.test_sink_port::TestFiles",
    "s3 protocol": "contract.test_storage_sink::TestStorage",
    "grpc": "contract.test_sink_port::TestSpool",
    "http": "integration.test_http_sink::TestHttp",
    "kafka transactions": "integration.test_kafka_sink::TestKafka",
    "kafka at least once": "integration.test_kafka_sink_at_least_once::TestAtLeastOnce",
    "mysql": "integration.test_sql_sink::TestMysql",
    "sqlite": "contract.test_sqlite_sink::TestSqlite",
    "clickhouse": "integration.test_clickhouse_sink::TestClickHouse",
    "opensearch": "integration.test_opensearch_sink::TestOpenSearch",
    "delta append": "integration.test_delta_sink::TestDelta",
    "delta merge": "integration.test_delta_sink::TestDelta",
    "delta+s3 append": "integration.test_delta_sink::TestDelta",
    "delta+s3 merge": "integration.test_delta_sink::TestDelta",
    "iceberg append": "contract.test_iceberg_sink::TestIceberg",
    "iceberg merge": "contract.test_iceberg_merge::TestDumps",
}
"""Of each kind, by one of its schemes, and mode: where it runs."""

WITHOUT_ROWS = {"console"}
"""What it writes is how many rows there were."""


def test_every_kind_of_sink_runs_the_suite_in_each_mode() -> None:
    assert set(_wanted()) == SUITES.keys(), "a sink has no suite of dumps, or a suite is of no sink"


@pytest.mark.parametrize("place", sorted(set(SUITES.values())))
def test_each_suite_that_is_named_is_one(place: str) -> None:
    module, _, name = place.partition("::")
    suite = getattr(import_module(f"tests.{module}"), name)
    assert issubclass(suite, DumpsPort)
    assert name.startswith("Test"), "pytest collects it"
    assert suite.test_dumps_of_every_kind_end_as_the_rule_says is DumpsPort.test_dumps_of_every_kind_end_as_the_rule_says


def _wanted() -> Iterator[str]:
    kinds = {scheme: registry.ours(scheme) for scheme in registry.KINDS}
    named = {name.partition(" ")[0] for name in SUITES} | WITHOUT_ROWS
    one_of = {kind: scheme for scheme, kind in kinds.items()} | {kind: scheme for scheme, kind in kinds.items() if scheme in named}
    for scheme in set(one_of.values()) - WITHOUT_ROWS:
        yield from (f"{scheme} {mode}" for mode in _MODES[scheme]) if scheme in _MODES else (scheme,)
