"""What a pump has removed, told by its /metrics."""

from __future__ import annotations

import pytest

from sidecar.binlog.nodes import ONLINE, Node
from sidecar.feeds.binlog.gaps import check_kept, gc_ms, metrics_of
from sidecar.shared.config import Tls
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs, ts_at
from tests.support.made_pumps import MadePump, MemoryNodes

MS = 1_795_292_044_815
PUMP = Node("pump-a:8250", "127.0.0.1:1", ONLINE, CommitTs(0), CommitTs(0))
REPORTED = "# HELP binlog_pump_storage_gc_ts gc ts\n# TYPE binlog_pump_storage_gc_ts gauge\nbinlog_pump_storage_gc_ts {}\nother 3\n"


@pytest.mark.parametrize(("text", "ms"), [("0", 0), ("1.795292044815e+12", MS), (str(MS), MS)])
def test_the_milliseconds_come_as_prometheus_writes_floats(text: str, ms: int) -> None:
    assert gc_ms(REPORTED.format(text), PUMP) == ms


@pytest.mark.parametrize("metrics", ["", "other 1\n", REPORTED.format("NaN?")])
def test_a_pump_that_does_not_answer_is_queried_again(metrics: str) -> None:
    with pytest.raises(FeedLost, match="has no binlog_pump_storage_gc_ts"):
        gc_ms(metrics, PUMP)


def test_a_pump_that_has_removed_beyond_the_position_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match=r"pump pump-a:8250 .* has removed its binlogs up to 2026-11-21T20:14:04\.815Z"):
        check_kept(lambda host: REPORTED.format(MS), PUMP, ts_at(MS - 1))


def test_of_the_same_millisecond_nobody_knows_which_was_first() -> None:
    with pytest.raises(FeedUnsuitable):
        check_kept(lambda host: REPORTED.format(MS), PUMP, ts_at(MS, 5))


def test_what_is_removed_below_the_position_is_no_gap() -> None:
    check_kept(lambda host: REPORTED.format(MS), PUMP, ts_at(MS + 1))
    check_kept(lambda host: REPORTED.format(0), PUMP, ts_at(1))


def test_it_is_read_at_the_pumps_own_port() -> None:
    pump = MadePump("a", MemoryNodes())
    try:
        pump.gc_ms = MS
        assert gc_ms(metrics_of(Tls())(pump.host), PUMP) == MS
    finally:
        pump.kill()
    with pytest.raises(FeedLost, match="/metrics does not answer"):
        metrics_of(Tls())("127.0.0.1:1")


def test_certificates_that_cannot_be_used_are_named() -> None:
    with pytest.raises(ConfigError, match=r"binlog\.tls"):
        metrics_of(Tls(ca_file="/nowhere.pem"))
