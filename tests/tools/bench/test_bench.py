"""The measurements that need no Spark run, and what is printed is whole. Not how fast: that is no test's business."""

from __future__ import annotations

import json
import os

import pytest

from sidecar.shared.model.nouns import Change
from tests.tools.bench.__main__ import main
from tests.tools.bench.bench import Bench
from tests.tools.bench.feed import FIRST_TS, PROTOCOLS, Shape, batches, codec_of
from tests.tools.bench.figures import TICKS_A_SECOND, percentile, tree_ticks


@pytest.mark.parametrize("name", ["order", "transaction"])
def test_a_measurement_gives_figures_for_both_protocols(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--json", "--only", name])
    figures = json.loads(capsys.readouterr().out)
    assert all(any(figure["name"].startswith(protocol) for figure in figures) for protocol in PROTOCOLS)
    assert all(figure["value"] > 0 and figure["unit"] and figure["limit"] for figure in figures)


@pytest.mark.parametrize("name", ["source", "kv", "binlog", "push", "tikv", "cli"])
def test_a_measurement_is_beside_another_of_the_same_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--json", "--only", name])
    figures = json.loads(capsys.readouterr().out)
    assert figures
    assert all(figure["value"] > 0 and figure["unit"] and figure["limit"] for figure in figures)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("one_commit", [False, True])
def test_generated_messages_are_what_the_codec_reads(protocol: str, *, one_commit: bool) -> None:
    shape, codec = Shape(protocol, rows=1_000, lanes=5, batch_rows=400, one_commit=one_commit), codec_of(protocol)
    envelopes = [e for batch in batches(shape) for message in batch.messages for e in codec.envelopes(message)]
    changes = [e for e in envelopes if isinstance(e, Change)]
    assert len(changes) == len({codec.identity(change) for change in changes}) == 1_000
    assert {change.commit_ts for change in changes} == {FIRST_TS} or not one_commit


def test_folders_go_away() -> None:
    bench = Bench()
    bench.new_folder("any")
    bench.close()
    assert not bench.root.exists()


def test_the_cpu_of_the_tree_holds_that_of_this_process() -> None:
    assert tree_ticks()[os.getpid()] / TICKS_A_SECOND >= sum(os.times()[:2]) - 0.1


def test_a_percentile_is_the_smallest_value_that_the_part_does_not_exceed() -> None:
    assert (percentile([3.0, 1.0, 2.0, 4.0], 0.5), percentile([3.0, 1.0, 2.0, 4.0], 0.99)) == (2.0, 4.0)
