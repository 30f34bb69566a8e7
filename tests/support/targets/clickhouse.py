"""The ClickHouse sink: its tables are made by the sink itself, and read back by the sink."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import Manifest
from spark_merge.port.contract import Batch, Head
from spark_merge.sinks.clickhouse.sink import ClickHouseSink
from tests.support.clickhouse_place import uri_of
from tests.support.read_back import read_back
from tests.support.recorded_target import Case
from tests.support.services.clickhouse import ClickHouse
from tests.support.targets.target import Place, RecordedSink, Target, numbers

GONE = "SELECT * REPLACE ({gone} AS _version, 1 AS _is_deleted) FROM"
CAME = "SELECT * REPLACE ({came} AS _version) FROM"
BY_HAND = {
    "truncate partition p2024": [f"INSERT INTO shop.ledger__rows {GONE} shop.ledger__rows FINAL WHERE y < 2025"],
    "exchange partition pmax": [
        "CREATE TABLE shop.aside ENGINE = Memory AS SELECT * FROM shop.swap_me__rows FINAL",
        f"INSERT INTO shop.swap_me__rows {GONE} shop.swap_me__rows FINAL",
        f"INSERT INTO shop.swap_me__rows {CAME} shop.ledger__rows FINAL WHERE y >= 2026",
        f"INSERT INTO shop.ledger__rows {GONE} shop.ledger__rows FINAL WHERE y >= 2026",
        f"INSERT INTO shop.ledger__rows {CAME} shop.aside",
    ],
}
"""What the target cannot follow, by its text, and what an operator does instead."""


@dataclass
class Operator:
    """Does what an error says, each once."""

    server: ClickHouse
    database: str
    parameters: dict[str, str] = field(default_factory=dict)
    mended: set[str] = field(default_factory=set)

    def uri(self) -> str:
        return uri_of(self.server, self.database, **self.parameters)

    def mend(self, error: SinkError) -> str:
        cause = next((one for one in ("dates", *BY_HAND) if one in str(error).lower() and one not in self.mended), None)
        if cause is None:
            raise error
        self.mended.add(cause)
        if cause == "dates":
            assert "add dates=text" in error.hint
            self.parameters["dates"] = "text"
            return self.uri()
        assert "ddl-done" in error.hint
        ((commit_ts),) = re.findall(r"commit_ts (\d+)", error.message)
        self.parameters["ddl_done"] = ",".join(filter(None, (self.parameters.get("ddl_done"), commit_ts)))
        versions = {"gone": 2 * int(commit_ts), "came": 2 * int(commit_ts) + 1}
        self.server.execute(*(query.format(**versions) for query in BY_HAND[cause]))
        return self.uri()

    def check(self, *_: object) -> None:
        """What stopped the sink: the first date that ClickHouse has not, and the DDLs of BY_HAND."""
        assert self.mended == {"dates", *BY_HAND}


@contextmanager
def target(place: Place) -> Iterator[Target]:
    """A database of its own, and what is made there is removed."""
    server: ClickHouse = place.server
    before = {name for (name,) in server.rows("SELECT name FROM system.databases")}
    operator = Operator(server, f"recorded{next(numbers)}")
    rows = lambda schema: read_back(operator.uri())(schema)  # noqa: E731  # by the URI as it is then
    try:
        if place.amid_schema_changes:
            with pytest.MonkeyPatch.context() as patch:
                looks = _where_nobody_wrote_on(patch)
                yield Target(operator.uri(), rows, operator.check, operator.mend, looks)
        else:
            operator.parameters["dates"] = "text"  # there are dates that no calendar has, and the year 9999
            drop = lambda name: server.execute(f"DROP TABLE `{name.schema}`.`{name.table}__rows` SYNC")  # noqa: E731
            yield Target(operator.uri(), rows, drop=drop)
    finally:
        for (name,) in server.rows("SELECT name FROM system.databases"):
            if name not in before:
                server.execute(f"DROP DATABASE `{name}` SYNC")


def _where_nobody_wrote_on(patch: pytest.MonkeyPatch) -> Callable[[Manifest], bool]:
    """After a DDL, which ends a batch, where no worker that died has written more than is accepted: its rows would be seen."""
    farthest, plan = 0, ClickHouseSink.plan

    def planned(sink: ClickHouseSink, heads: Sequence[Head], *, cores: int) -> Batch | None:
        nonlocal farthest
        farthest = max(farthest, heads[-1].seq)
        return plan(sink, heads, cores=cores)

    patch.setattr(ClickHouseSink, "plan", planned)
    return lambda manifest: manifest.seq >= farthest and bool(manifest.ddls)


CLICKHOUSE = RecordedSink("clickhouse", target, still=[Case("demo", "kv", "snapshot", 0)], server="clickhouse", group="clickhouse")
