"""Recorded streams of real clusters into Iceberg tables: a read of the past at each position that was ever accepted is the source at that
position. What every sink does with recordings is in test_sink_recordings.py.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.model.nouns import Seq
from spark_merge.sinks.iceberg.types import Mode
from tests.lanes import LANE
from tests.support.lake import uri_of
from tests.support.recorded_target import Case, Judge, RecordedLogs, deliver
from tests.support.targets.iceberg import MODES, Reader

pytestmark = [pytest.mark.xdist_group("iceberg"), pytest.mark.recordings]

PAST = [(name, brackets) for name in ("demo", "shop", "restart") for brackets in ("watermark", "snapshot")]


def in_modes(*places: Any) -> list[Any]:
    """Each in both modes in `make matrix`, else by turns from `merge` on."""
    return [(*place, mode) for number, place in enumerate(places) for mode in (MODES if LANE.whole else MODES[1 - number % 2 :][:1])]


@pytest.mark.parametrize(("name", "brackets", "mode"), in_modes(*(PAST if LANE.whole else [("demo", "snapshot")])))
def test_a_read_of_the_past_is_the_source_at_each_position_that_was_accepted(
    tmp_path: Path, recorded_logs: RecordedLogs, name: str, brackets: str, mode: Mode
) -> None:
    made, log = Case(name, "kv", brackets, 3).record(recorded_logs)
    uri, seqs = uri_of(tmp_path / "lake", mode=mode), list[Seq]()
    deliver(log.folder, uri, seed=3, deaths=3, after=seqs.append)
    reader = Reader(uri, mode)
    judge = Judge(made, reader.rows, log)
    for seq in seqs if LANE.whole else [*seqs[:: 1 + len(seqs) // 6], seqs[-1]]:
        judge.read = partial(reader.rows, seq=seq)
        judge.look(seq)
    judge.read = reader.rows
    judge.end()
    assert len(set(seqs)) > 3
    assert judge.whole > len(made.tables)
