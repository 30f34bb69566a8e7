"""Why it is slow: one cause, the first going down the stream, and only past its threshold."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from sidecar.control.status import Measured, SidecarStatus, above_bound, stream_waiting_for, waiting_for
from sidecar.pace.controller import SinkState
from sidecar.shared.errors import with_hint
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import Lane, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from sidecar.shared.ticdc.changefeed import ChangefeedName

LANE = Lane("kafka/orders/2")
RUNNING = Measured(dump=DumpState.RUNNING)
SLOW = SinkState("file:///out", 0.6, 0.5, 0.04, 75_000, holds=True, lag_s=0.7, error="no leader")


def test_a_stream_that_is_up_to_date_waits_for_nothing() -> None:
    assert waiting_for(Measured()) == ""
    assert waiting_for(RUNNING) == ""


@pytest.mark.parametrize(
    ("measured", "text"),
    [
        (Measured(unjoined=(LANE,)), "lane: kafka/orders/2 without a resolved mark yet"),
        (Measured(unjoined=(LANE, Lane("kafka/orders/3"))), "lane: kafka/orders/2 and 1 more without a resolved mark yet"),
        (Measured(stillest=LANE, still_s=34.2), "lane: kafka/orders/2 has not moved for 34 s"),
        (
            Measured(stillest=LANE, still_s=34.2, still_because="waits for a lock of transaction 5"),
            "lane: kafka/orders/2 has not moved for 34 s (waits for a lock of transaction 5)",
        ),
        (Measured(ticdc_lag_s=12), "TiCDC: what it resolved is 12 s old"),
        (Measured(sequence_lag_s=17), "sequencing: the log is 17 s behind what TiCDC resolved"),
        (Measured(delivery_lag_s=9, merge_worker="starting"), "Spark: the merge worker is starting, delivery is 9 s behind"),
        (Measured(delivery_lag_s=9, batch_s=4, batch_sink_s=1), "Spark: delivery is 9 s behind"),
        (Measured(delivery_lag_s=9, batch_s=4, batch_sink_s=3), "sink: 3.0 s of the last batch's 4.0 s, delivery is 9 s behind"),
        (Measured(delivery_lag_s=9, merge_worker="external"), "Spark: delivery is 9 s behind"),
        (Measured(dump=DumpState.PAUSED), "paused: dumpresume continues"),
        (
            replace(RUNNING, source_still_s=8, source_doing="a SELECT of shop.orders"),
            "source: a SELECT of shop.orders has been running for 8 s",
        ),
        (
            replace(RUNNING, source_away_s=84, source_still_s=8, source_said="u@h:4000: Lost connection"),
            "source: away for 84 s and queried again and again: u@h:4000: Lost connection",
        ),
        (replace(RUNNING, windows_full=True), "TiCDC: open windows wait for their marks to come back"),
        (replace(RUNNING, throttled=True), "throttled: by the pace that dumpstart or dumpset set"),
        (replace(RUNNING, held_by=SLOW, spark_starting=True), "Spark: it has not started yet, and the dump waits for it"),
        (replace(RUNNING, held_by=SLOW), "held back by delivery: 0.6 s, bound 0.5 s, file:///out"),
    ],
)
def test_each_cause_is_named(measured: Measured, text: str) -> None:
    assert stream_waiting_for(measured) == waiting_for(replace(measured, dump=None)), "it is the stream's if it is there without a dump"
    assert waiting_for(measured) == text


@pytest.mark.parametrize(
    "measured",
    [
        Measured(stillest=LANE, still_s=10),
        Measured(ticdc_lag_s=10),
        Measured(sequence_lag_s=5),
        Measured(delivery_lag_s=5),
        Measured(delivery_lag_s=60, delivery_limit_s=72),
        replace(RUNNING, source_still_s=5),
        Measured(dump=DumpState.FINISHED, source_still_s=100, throttled=True, windows_full=True),
    ],
)
def test_a_threshold_itself_is_still_fine_and_a_dump_that_is_over_waits_for_nothing(measured: Measured) -> None:
    assert waiting_for(measured) == ""


ERROR = with_hint("mysql: access denied", "correct the password")
FAILS: dict[str, list[dict[str, Any]]] = {
    "sink": [{"stopped": {"mysql": ERROR}}, {"stopped": {"mysql": ERROR, "lake": "no room"}}],
    "Spark": [{"merge_worker": "stopped", "delivery_lag_s": 60.0}],
    "source": [{"dump": DumpState.RUNNING, "source_away_s": 84.0, "source_said": "lost"}],
}
WAITS: list[dict[str, Any]] = [
    {"unjoined": (LANE,)},
    {"stillest": LANE, "still_s": 60.0},
    {"ticdc_lag_s": 60.0},
    {"sequence_lag_s": 60.0},
    {"delivery_lag_s": 60.0},
    {"delivery_lag_s": 60.0, "batch_s": 4.0, "batch_sink_s": 3.0},
    {"source_still_s": 60.0},
    {"windows_full": True},
    {"throttled": True},
    {"held_by": SLOW},
    {"held_by": SLOW, "spark_starting": True},
]


@pytest.mark.parametrize("dump", [None, *DumpState])
def test_a_part_that_fails_is_named_before_each_part_that_waits(dump: DumpState | None) -> None:
    """N2: "waiting for Spark" while MySQL was away. What waits earlier in the stream does not do so because of it, and stands beside it."""
    for cause, fails in FAILS.items():
        for failing, waiting, more in product(fails, WAITS, [{}, *WAITS]):
            waits = replace(Measured(dump=dump), **(more | waiting))
            alone, measured = stream_waiting_for(waits), replace(waits, **failing)
            text = waiting_for(measured)
            assert text.startswith(f"{cause}: "), (failing, waiting, more)
            if alone.partition(":")[0] in ("lane", "TiCDC", "sequencing"):
                assert text.endswith(f"; also {alone}")
            if cause != "source":
                assert stream_waiting_for(measured) == text


def test_a_sink_that_has_stopped_is_named_with_its_error_and_without_the_hint() -> None:
    assert waiting_for(Measured(stopped={"mysql": ERROR})) == "sink: mysql has stopped: mysql: access denied"
    two = Measured(stopped={"mysql": ERROR, "lake": "no room"}, dump=DumpState.RUNNING, source_away_s=84, source_said="lost")
    assert waiting_for(two).startswith("sink: mysql and 1 more have stopped: mysql: access denied; also source: away for 84 s")


@pytest.mark.parametrize("worker", ["starting", "stopped"])
def test_what_a_sink_failed_with_before_its_worker_ended_is_past(worker: str) -> None:
    assert waiting_for(Measured(merge_worker=worker, stopped={"mysql": ERROR})) == ""


def test_the_earliest_cause_is_blamed_for_what_follows_from_it() -> None:
    everything = Measured(
        dump=DumpState.PAUSED, stillest=LANE, still_s=60, ticdc_lag_s=60, sequence_lag_s=60, delivery_lag_s=60, merge_worker="starting"
    )
    causes = []
    for calm in ({"still_s": 0.0}, {"ticdc_lag_s": 0.0}, {"sequence_lag_s": 0.0}, {"delivery_lag_s": 0.0}, {"dump": None}):
        causes.append(waiting_for(everything).partition(":")[0])
        everything = replace(everything, **calm)
    assert causes == ["lane", "TiCDC", "sequencing", "Spark", "paused"]
    assert waiting_for(everything) == ""


def dump(number: int, state: DumpState, table: str = "orders") -> Progress:
    tables = (TableProgress(TableName("shop", table)),)
    return Progress(f"{number}" * 16, state, Brackets.WATERMARK, 10, 1, number, Seq(4), tables, number=number)


def test_a_sink_whose_live_changes_alone_exceed_the_bound_is_said_to_be_overloaded() -> None:
    """N3: "bound 98.68 s (82.23 s without a dump)"."""
    assert above_bound(SLOW) == ""
    text = "live delivery takes 82.2 s without a dump: the merge worker or the sink is saturated; bound 30.0 s"
    assert above_bound(replace(SLOW, without_s=82.2, bound_s=30.0, limit_s=30.0, overloaded=True)) == text
    both = above_bound(replace(SLOW, without_s=82.2, bound_s=30.0, limit_s=90.0, fixed_s=20.0, overloaded=True))
    assert both.startswith("live delivery takes 82.2 s without a dump")
    assert "; it takes up to 90.0 s while a dump runs: each batch with dump rows takes 20.00 s here" in both


def test_what_holds_the_dump_that_runs_holds_no_other_one() -> None:
    held, feed = "held back by delivery: 0.6 s, bound 0.5 s, lake", ChangefeedName("default", "default", "cf")
    running, paused = dump(1, DumpState.RUNNING), dump(2, DumpState.PAUSED, "parts")
    behind, free = dump(3, DumpState.QUEUED), dump(4, DumpState.QUEUED, "other")
    over = [dump(number, state) for number, state in ((5, DumpState.FINISHED), (6, DumpState.FAILED), (7, DumpState.STOPPED))]
    status = SidecarStatus(feed, 1, "here:1", dumps=(running, paused, behind, free, *over), waiting_for=held)
    assert [status.dump_waiting_for(one) for one in status.dumps] == [
        held,
        "paused: dumpresume continues",
        f"queued: it begins after {running.dump_id}",
        "queued: it begins after others, as no more may run at once",
        "",
        "",
        "",
    ]
    stopped = replace(status, waiting_for="source: away; also TiCDC: old", stream_waiting_for="TiCDC: old")
    held_too = [stopped.dump_waiting_for(one) for one in stopped.dumps]
    assert held_too == ["source: away; also TiCDC: old", *["TiCDC: old"] * 6], "what holds the stream holds each of them"
