"""What every sink keeps of dumps, of whatever kind: a part of SinkPort (sink_port.py), and a suite of its own.

The logs are of tables that are really there (true_histories.py): dumps of keys and exact ones, whose deletes come between rows; dumps for
this sink alone, and for another; two dumps side by side, with chunks of both in one segment; tables that are read again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sidecar.shared.log import rows_file
from spark_merge.testing import histories
from spark_merge.testing.places import Place
from spark_merge.testing.story import TABLES, Story
from spark_merge.testing.true_histories import MINE, true_history

PASSES = 2

SEEDS = (20, 39, 65)
"""The logs of which have all of it (tests/unit/merge/test_true_histories.py)."""


class DumpsPort:
    """Subclasses give a fixture `place` for each output to try, new for each test."""

    @pytest.fixture
    def dumps(self, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Story]:
        monkeypatch.setattr(histories, "TABLES", TABLES)
        monkeypatch.setattr(rows_file, "ROW_GROUP_ROWS_MAX", 3)
        return lambda seed: Story(tmp_path, place, seed=seed, made=partial(true_history, passes=PASSES), name=MINE)

    @pytest.mark.parametrize(("seed", "segments_max"), [*zip(SEEDS, (1, 2, 100), strict=True)])
    def test_dumps_of_every_kind_end_as_the_rule_says(self, dumps: Callable[[int], Story], seed: int, segments_max: int) -> None:
        """The first batch is done twice, and a reader looks between batches."""
        story = dumps(seed)
        story.begin_and_die()
        delivery = story.delivery(segments_max=segments_max)
        while delivery.deliver():
            story.check_beginning()
        delivery.sink.close()
        story.check_end()
        story.check_read_back(end=True)
