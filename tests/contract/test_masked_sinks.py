"""The view of masked columns over a sink of each kind: whatever dies, the output is what the rules make of the one without them. And no
byte of a masked value is in any file of an output."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sidecar.shared.log import rows_file
from spark_merge.masks.sink import Masking, masked
from spark_merge.sinks.memory.committing import CommittingSink
from spark_merge.sinks.memory.hidden import HiddenSink
from spark_merge.sinks.memory.versioned import VersionedSink
from spark_merge.sinks.registry import open_sink
from spark_merge.testing import histories
from spark_merge.testing.dumps_port import DumpsPort
from spark_merge.testing.places import Here, Place
from spark_merge.testing.story import TABLES, Died, Mortal, Story, WorkerLife
from tests.support.masked import masked_story, masking, salt_file
from tests.support.sinks import memory_place

numbers = itertools.count()

RULES = {
    "each table its own": {"leave_out": "s.t0.v", "hash": "s.t1.*v*", "constant": "*.t2.v=>'c'"},
    "all hashes": {"hash": "*.*.v"},
    "nothing but keys": {"leave_out": "s.*.v"},
    "constants, NULL too": {"constant": "s.t0.v=>NULL,s.*.v=>''"},
}


class TestMaskedTwins(DumpsPort):
    """Tasks run as pickles of themselves."""

    @pytest.fixture(params=RULES)
    def rules(self, request: pytest.FixtureRequest, tmp_path: Path) -> Masking:
        return masking(tmp_path, **RULES[request.param])

    @pytest.fixture(params=[HiddenSink, CommittingSink, VersionedSink])
    def place(self, request: pytest.FixtureRequest, rules: Masking) -> Place:
        name, kind = f"masked-{next(numbers)}", request.param
        return memory_place(name, lambda log_id: masked(kind(name, log_id=log_id), rules), versioned=kind is VersionedSink)

    @pytest.fixture
    def dumps(self, tmp_path: Path, place: Place, rules: Masking, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Story]:
        monkeypatch.setattr(histories, "TABLES", TABLES)
        monkeypatch.setattr(rows_file, "ROW_GROUP_ROWS_MAX", 3)
        return lambda seed: masked_story(tmp_path, place, rules.rules, seed, monkeypatch)

    def test_a_death_between_any_two_steps_changes_nothing_in_the_end(self, dumps: Callable[[int], Story]) -> None:
        story = dumps(20)
        for lived in range(1, 200):
            life = WorkerLife(lived)
            try:
                tasks = Here(before=life.step)
                delivery = story.delivery(Mortal(story.place.sink(), life), segments_max=story.random.choice([1, 2]), tasks=tasks)
                while delivery.deliver():
                    pass
                break
            except Died:
                story.check_beginning()
        else:
            pytest.fail("it never came to its end")
        story.check_end()


# ---- files --------------------------------------------------------------------------------------------------------------

MARKED = "MARKED-b0b@example.com"
OUTPUTS = {
    "json lines": "file://{}?format=jsonl",
    "parquet": "file://{}?format=parquet",
    "csv": "file://{}?protocol=csv",
    "canal-json": "file://{}?protocol=canal-json",
    "spool": "grpc://{}?",
    "sqlite": "sqlite://{}/out.db?",
    "delta": "delta://{}?mode=append&commit-interval=0s",
    "delta tables": "delta://{}?mode=merge&commit-interval=0s",
}


def holds(path: Path) -> bool:
    """Whether a marked value is in the file, also where Parquet has packed it."""
    text = path.read_bytes()
    if path.suffix == ".parquet":
        text += repr(pq.read_table(path).to_pydict()).encode()
    return MARKED.encode() in text


def delivered(folder: Path, output: str, parameters: str, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of an output, by a worker that dies once. Every value beside the keys is marked."""
    (out := folder / "out").mkdir(parents=True)
    uri = f"{OUTPUTS[output].format(out)}{parameters}".replace("?&", "?")
    with monkeypatch.context() as patch:
        image = histories.image
        patch.setattr(histories, "image", lambda rng: (*image(rng)[:2], f"{MARKED}-{rng.randrange(9)}"))
        patch.setattr(histories, "TABLES", TABLES)
        story = Story(folder, Place(uri, lambda log_id: open_sink(uri, log_id=log_id), dict), seed=7)
        story.begin_and_die()
        story.finish()
    return [path for path in out.rglob("*") if path.is_file()]


@pytest.mark.parametrize("output", OUTPUTS)
def test_no_byte_of_a_masked_value_is_in_any_file(tmp_path: Path, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(map(holds, delivered(tmp_path / "plain", output, "", monkeypatch))), "it would be seen"
    for number, rule in enumerate(("leave-out=s.*.v", f"hash=s.*.v&salt-file={salt_file(tmp_path)}", "constant=s.*.v=>'none'")):
        files = delivered(tmp_path / str(number), output, f"&{rule}", monkeypatch)
        assert files
        assert not [path for path in files if holds(path)], rule
