"""Rules that the model has and the product does not keep yet: what each exploration shows is what the product does on that schedule. A gap
that is closed in the product is moved to mistakes.py."""

from __future__ import annotations

from dataclasses import replace

from tests.model.mistakes import COMMITTING, FROZEN_TWICE, HIDDEN, RESTORED, Mistake
from tests.model.state import Left

GAPS = [
    Mistake(
        "a worker that froze between its look and its write puts an old record over its successor's",
        "spark_merge/delivery/sink_record.py::SinkRecord.passed",
        "looks_long_before",
        lambda _: True,
        replace(HIDDEN, changes=3),
        "record",
    ),
    Mistake(
        "a worker that froze before its first batch puts an empty record over its successor's",
        "spark_merge/delivery/sink_record.py::SinkRecord.begin",
        "may_begin_record",
        lambda *_: True,
        COMMITTING,
        "record",
    ),
    Mistake(
        "the next owner stops where an earlier one that woke has had the feed forget what it logged meanwhile",
        "sidecar/feeds/push/messages.py::MessageFeed.seek",
        "looks_behind_a_gap",
        lambda _: False,
        FROZEN_TWICE,
        "stopped",
    ),
    Mistake(
        "a log that is put back under a worker after it opened its sink completes the batch that another one began",
        "spark_merge/delivery/batches.py::Delivery._next",
        "is_still_begun",
        lambda *_: True,
        replace(RESTORED, faults=Left(freezes=1, deaths=1, log_restores=1), under_workers=True),
        "begun",
    ),
]
