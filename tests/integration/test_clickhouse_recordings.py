"""Recorded streams of real clusters into ClickHouse's engine: whatever the schedule, whoever dies when, its views end as the truth; and
after each schema change among them they are what the source was at that moment, as far as the target can follow.

The tables are made by the sink itself, and read back as the source's own reader spells them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from sidecar.core.model import MARK_TABLE, Seq
from sidecar.errors import SinkError
from sidecar.log.storage import open_folder
from spark_merge.contract import Batch, Head
from spark_merge.cut import BatchLimits
from spark_merge.delivery import Delivery, JobSettings
from spark_merge.sinks.clickhouse.sink import ClickHouseSink
from spark_merge.sinks.registry import open_sink
from tests.lanes import LANE
from tests.support.clickhouse_place import rows_of, uri_of
from tests.support.recorded_target import Case, Judge, cases, deliver, differences, recorded
from tests.support.replaying import Run, stage
from tests.support.services.clickhouse import ClickHouse
from tests.support.sinks import Here

pytestmark = [pytest.mark.xdist_group("clickhouse"), pytest.mark.recordings]

numbers = itertools.count()

CASES = cases(Case("demo", "kv", "snapshot", 0))

SYSTEM = ("system", "information_schema", "INFORMATION_SCHEMA", "default")


@pytest.fixture
def target(clickhouse: ClickHouse) -> Iterator[tuple[ClickHouse, str]]:
    """A position of its own, and what is made there goes again."""
    before = {name for (name,) in clickhouse.rows("SELECT name FROM system.databases")}
    yield clickhouse, f"ours{next(numbers)}"
    for (name,) in clickhouse.rows("SELECT name FROM system.databases"):
        if name not in before:
            clickhouse.execute(f"DROP DATABASE `{name}` SYNC")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_views_end_as_the_truth(target: tuple[ClickHouse, str], tmp_path: Path, case: Case) -> None:
    """They have dates that no calendar has, and the year 9999."""
    server, position = target
    made, _, _ = case.record(tmp_path)
    uri = uri_of(server, position, dates="text")
    assert deliver(tmp_path, uri, seed=case.seed, deaths=5) > 0
    assert not differences(made, partial(rows_of, server))
    assert open_sink(uri, log_id="recorded").look() is not None


def test_a_table_that_somebody_dropped_is_not_made_again_empty(target: tuple[ClickHouse, str], tmp_path: Path) -> None:
    """Tables are made while nothing is accepted. After that one would lack the rows that it had."""
    server, position = target
    made = stage("demo", "kv")
    recorded(tmp_path, made, Run("snapshot", 0))

    def delivery() -> Delivery:
        settings = JobSettings(open_folder(str(tmp_path)), limits=BatchLimits(segments_max=1))
        return Delivery(open_sink(uri_of(server, position), log_id="recorded"), settings, Here())

    assert delivery().deliver()
    for table in made.tables:
        if table != MARK_TABLE:
            server.execute(f"DROP TABLE `{table.schema}`.`{table.table}__rows` SYNC")
    again = delivery()
    with pytest.raises(SinkError, match="is not at the target") as told:  # noqa: PT012  # until it meets one
        while again.deliver():
            pass
    assert "CREATE TABLE" in told.value.hint


# ---- among schema changes --------------------------------------------------------------------------------------------------------------

DDL_CASES = [*itertools.product(["ddl", "ddl-new"], ["watermark", "snapshot"], range(5))]

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


class Operator:
    """Does what an error says, each once."""

    def __init__(self, server: ClickHouse) -> None:
        self._server = server
        self.parameters: dict[str, str] = {}
        self.mended: set[str] = set()

    def mend(self, error: SinkError) -> None:
        cause = next((one for one in ("dates", *BY_HAND) if one in str(error).lower() and one not in self.mended), None)
        if cause is None:
            raise error
        self.mended.add(cause)
        if cause == "dates":
            assert "add dates=text" in error.hint
            self.parameters["dates"] = "text"
            return
        assert "ddl-done" in error.hint
        ((commit_ts),) = re.findall(r"commit_ts (\d+)", error.message)
        self.parameters["ddl_done"] = ",".join(filter(None, (self.parameters.get("ddl_done"), commit_ts)))
        versions = {"gone": 2 * int(commit_ts), "came": 2 * int(commit_ts) + 1}
        self._server.execute(*(query.format(**versions) for query in BY_HAND[cause]))


if LANE.whole:  # half a minute each; test_clickhouse_ddl.py has every kind of DDL by itself

    @pytest.mark.parametrize(("name", "brackets", "seed"), DDL_CASES)
    def test_after_each_schema_change_the_views_are_the_sources(
        target: tuple[ClickHouse, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, brackets: str, seed: int
    ) -> None:
        """A dump that begins at any of them, in every other one; from the beginning of the recording to its end. What stops the sink is
        mended as its error says: the first date that ClickHouse has not, and the DDLs of BY_HAND. It is looked at after each DDL: that
        ends a batch, so no worker that died has written more than is accepted."""
        server, position = target
        made = stage(name, "kv")
        run = Run(brackets, seed, chunk_rows=(1000, 20)[seed % 2], after_part=seed % 10 / 11)
        log, manifests = recorded(tmp_path, made, run)
        judge = Judge(made, partial(rows_of, server), log, manifests)
        operator = Operator(server)
        died = farthest = 0
        plan = ClickHouseSink.plan

        def planned(self: ClickHouseSink, heads: Sequence[Head], *, cores: int) -> Batch | None:
            nonlocal farthest
            farthest = max(farthest, heads[-1].seq)
            return plan(self, heads, cores=cores)

        def look(seq: Seq) -> None:
            if seq >= farthest and manifests[seq].ddls:
                judge.look(seq)

        monkeypatch.setattr(ClickHouseSink, "plan", planned)
        while True:
            try:
                died += deliver(tmp_path, uri_of(server, position, **operator.parameters), seed=seed, deaths=3, after=look)
                break
            except SinkError as error:
                operator.mend(error)
        assert died > 0
        assert operator.mended == {"dates", *BY_HAND}
        judge.end()
        assert judge.whole > len(made.tables)
        assert len(judge.ddls) > 10
