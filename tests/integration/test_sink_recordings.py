"""Recorded streams of real clusters into every sink, whatever the schedule, whoever dies when: recording x schedule x sink.

- Without schema changes: the target ends as the truth.
- Amid them: after each schema change, which ends a batch, the target is what the source was at that moment, as far as the sink can follow;
  what stops it is mended as its error says.

What each sink promises besides is in its adapter (tests/support/targets). The slow rule judges each schedule once, for all sinks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import MARK_TABLE, Seq
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.merge.cut import BatchLimits
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Here
from tests.lanes import LANE
from tests.support.recorded_target import Case, Judge, RecordedLog, RecordedLogs, cases, deliver, differences
from tests.support.services.http_receiver import HttpReceiver
from tests.support.targets.clickhouse import CLICKHOUSE
from tests.support.targets.delta import DELTA
from tests.support.targets.http import HTTP
from tests.support.targets.iceberg import ICEBERG, ICEBERG_LOGGED, ICEBERG_MERGED
from tests.support.targets.kafka import KAFKA
from tests.support.targets.opensearch import OPENSEARCH
from tests.support.targets.sql import SQL
from tests.support.targets.storage import STORAGE
from tests.support.targets.target import Place, RecordedSink, Target

pytestmark = [pytest.mark.recordings, pytest.mark.turns(3)]

SINKS = (SQL, CLICKHOUSE, DELTA, ICEBERG, ICEBERG_MERGED, ICEBERG_LOGGED, HTTP, OPENSEARCH, STORAGE, KAFKA)
DEATHS = 5


def _param(sink: RecordedSink, case: Case) -> object:
    return pytest.param(sink, case, id=f"{sink.name}-{case}", marks=[pytest.mark.xdist_group(sink.group)] if sink.group else [])


STILL = [_param(sink, case) for sink in SINKS if sink.still for case in cases(*sink.still)]
AMID = [_param(sink, case) for sink in SINKS for case in (sink.ddl_cases() if LANE.whole else sink.amid)]


@pytest.fixture(scope="module")
def http_receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpReceiver]:
    with HttpReceiver(tmp_path_factory.mktemp("receiver")) as running:
        yield running


def place(request: pytest.FixtureRequest, folder: Path, log: RecordedLog, sink: RecordedSink, case: Case) -> Place:
    return Place(request.getfixturevalue(sink.server) if sink.server else None, folder, log, case)


def delivery(log: RecordedLog, uri: str, *, segments_max: int) -> Delivery:
    settings = JobSettings(open_folder(str(log.folder)), limits=BatchLimits(segments_max=segments_max))
    return Delivery(open_sink(uri, log_id="recorded"), settings, Here())


@pytest.mark.parametrize(("sink", "case"), STILL)
def test_the_target_ends_as_the_truth(
    request: pytest.FixtureRequest, tmp_path: Path, recorded_logs: RecordedLogs, sink: RecordedSink, case: Case
) -> None:
    made, log = case.record(recorded_logs)
    with sink.target(place(request, tmp_path, log, sink, case)) as target:
        assert deliver(log.folder, target.uri, seed=case.seed, deaths=DEATHS) > 0
        assert not differences(made, target.rows)
        target.check(made, log)
        assert delivery(log, target.uri, segments_max=200).deliver() is None


@pytest.mark.parametrize(("sink", "case"), AMID)
def test_after_each_schema_change_the_target_is_the_source(
    request: pytest.FixtureRequest, tmp_path: Path, recorded_logs: RecordedLogs, sink: RecordedSink, case: Case
) -> None:
    """From the beginning of the recording to its end."""
    made, log = case.record(recorded_logs)
    with sink.target(place(request, tmp_path, log, sink, case)) as target:
        judge = Judge(made, target.rows, log, target.judged)
        assert delivered(log, target, judge, seed=case.seed) > 0
        target.check(made, log)
        if target.looks is not None:
            judge.end()
            assert judge.whole > len(made.tables)
            assert len(judge.ddls) > 10


def delivered(log: RecordedLog, target: Target, judge: Judge, *, seed: int) -> int:
    """By workers that die, and an operator who mends what stops them; how many died."""

    def look(seq: Seq) -> None:
        if target.looks is not None and target.looks(log.manifests[seq]):
            judge.look(seq)

    while True:
        try:
            return deliver(log.folder, target.uri, seed=seed, deaths=DEATHS, after=look)
        except SinkError as error:
            target.uri = target.mended(error)


@pytest.mark.parametrize("sink", [pytest.param(one, id=one.name, marks=pytest.mark.xdist_group(one.group)) for one in (SQL, CLICKHOUSE)])
def test_a_table_that_somebody_dropped_is_not_made_again_empty(
    request: pytest.FixtureRequest, tmp_path: Path, recorded_logs: RecordedLogs, sink: RecordedSink
) -> None:
    """Tables are made while nothing is accepted. After that one would lack the rows that it had."""
    case = Case("demo", "kv", "snapshot", 0)
    made, log = case.record(recorded_logs)
    with sink.target(place(request, tmp_path, log, sink, case)) as target:
        assert delivery(log, target.uri, segments_max=1).deliver()
        for table in made.tables:
            if table != MARK_TABLE:
                target.drop(table)
        again = delivery(log, target.uri, segments_max=1)
        with pytest.raises(SinkError, match="is not at the target") as refused:  # noqa: PT012  # until it meets one
            while again.deliver():
                pass
        assert re.search("create.table", refused.value.hint, re.IGNORECASE)
