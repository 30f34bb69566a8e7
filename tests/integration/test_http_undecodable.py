"""A row that cannot be decoded behind segments that a body has brought already: the http: sink takes segments as they come."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.log.storage import open_folder
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import poison, random_history, write_log
from spark_merge.testing.places import Here
from tests.support.scripted_http import scripted


def test_what_precedes_it_is_delivered_and_the_row_is_reported_though_a_part_of_the_batch_was_accepted(tmp_path: Path) -> None:
    history, log = random_history(Random(5)), open_folder(str(tmp_path / "log"))
    poison(history, 5, 3)
    write_log(log, history)
    with scripted() as server:
        sink = open_sink(f"{server.url}?body-rows=1", log_id="log-1")
        delivery = Delivery(sink, JobSettings(log), Here())
        with pytest.raises(FeedUnsuitable, match="segment 5, ordinal 3"):  # noqa: PT012  # it stops there, however often
            while delivery.deliver():
                pass
        result = sink.look()
        assert result is not None
        assert result.seq == 4
        sink.close()
