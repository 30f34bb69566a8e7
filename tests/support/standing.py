"""A sink that goes away under its merge worker and comes back: the worker stays one process, says what it waits for, and continues.

The worker is the real one, minded as a sidecar does it; what Spark would do it does itself, and its patience with a sink is short.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Timer
from time import monotonic, sleep
from typing import Any

import pytest

from sidecar.run.merge_process import Death, MergeProcess
from sidecar.shared.log.deliveries import LogDeliveries
from sidecar.shared.log.delivery_report import DeliveryReport
from sidecar.shared.log.storage import open_folder
from spark_merge.sinks.kafka import client
from spark_merge.testing.histories import SEGMENTS, expected, random_history, written
from spark_merge.testing.places import Place
from spark_merge.testing.story import Story, newest
from tests.support.services.kafka import KafkaBroker

DEADLINE_S = 600.0
"""A broker starts again on a loaded machine."""

FROZEN_S = 12.0
"""Longer than a request to a broker waits, so that calls are made again."""

WORKER = """
import sys
from spark_merge.sinks.http import client as http
from spark_merge.sinks.kafka import client
from spark_merge.sinks.mysql import server
from spark_merge.delivery import loop

client.OUTAGE_MAX_S, client.REQUEST_TIMEOUT_S, server.RETRY_S, http.RETRY_S = 1.0, 5.0, 0.5, 0.5
loop.RETRY_FIRST_S, loop.RETRY_MAX_S = 0.1, 0.5

from sidecar.shared.log.storage import open_folder
from spark_merge.worker import worker
from spark_merge.delivery.batches import JobSettings

class Here:
    ready, begun, job_s, error = True, True, 0.0, None
    def __init__(self, begin, when_needed, idle_s): pass
    def want(self): pass
    def end_if_idle(self): pass
    def check(self): pass
    def limits(self, most): return most

    def cores(self, heads): return 2
    def run(self, work): return [one.carry_out() for one in work]

worker.SparkTasks = Here
log, uri = sys.argv[1:]
merging = worker.Worker(worker.WorkerSettings(JobSettings(open_folder(log)), (uri,), "log-1", "local[1]", "1g"))
worker.end_with_stdin(merging)
merging.run()
"""


def check_a_worker_waits(folder: Path, place: Place, *, stop: Callable[[], object], start: Callable[[], object]) -> None:
    """`stop` and `start`: of what is behind the sink. Raises AssertionError."""
    history, log = random_history(Random(7)), open_folder(str(folder / "log"))
    segments = written(log, history)
    manifests = [next(segments), next(segments)]
    deliveries, noticed = LogDeliveries(log), list[Death]()
    process = MergeProcess([sys.executable, "-c", WORKER, log.root, place.uri], noticed.append)

    def wait_for(what: Callable[[DeliveryReport], bool]) -> DeliveryReport:
        until_s = monotonic() + DEADLINE_S
        while True:
            deliveries._read()
            report = deliveries.report
            assert not noticed, (noticed, report)
            if report is not None and what(report):
                return report
            assert monotonic() < until_s, report
            sleep(0.02)  # a report is of one moment

    process.start()
    try:
        wait_for(lambda report: report.seq == 1)
        pid = process.pid()
        stop()
        try:
            manifests += segments
            away = wait_for(lambda report: bool(report.sinks[0].error))
            assert "what to do" in away.sinks[0].error
            assert (away.pid, away.state, away.seq, away.sinks[0].accepted) == (pid, "running", 1, 1), "not delivered, and nothing ended"
        finally:
            start()
        back = wait_for(lambda report: report.seq == SEGMENTS - 1)
        assert (back.pid, back.sinks[0].error, process.pid()) == (pid, "", pid)
    finally:
        process.close(at_once=False)
    shown = place.rows()
    for table in {row.table for row in history.rows}:
        rows = shown.get(table, [])
        truth: list[Any] = [(seq, ts, op, key, after) for seq, ts, op, key, _, after, _ in expected(history, manifests, table)]
        assert newest(rows) == newest(truth) if place.newest else rows == truth, table


def check_a_freeze_costs_time_only(story: Story, broker: KafkaBroker) -> None:
    """Of what is behind the sink, amid a delivery."""
    delivery = story.delivery(segments_max=1)
    assert delivery.deliver()
    thawing = Timer(FROZEN_S, broker.thaw)
    broker.freeze()
    thawing.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "OUTAGE_MAX_S", DEADLINE_S)
        try:
            while delivery.deliver():
                pass
        finally:
            thawing.join()
    story.check_end()
