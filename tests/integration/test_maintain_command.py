"""`ticdc-dump maintain` as an operator meets it, on a Delta sink."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli.maintain import MIB, line
from sidecar.shared.errors import SparkLost
from sidecar.shared.model.nouns import TableName
from spark_merge.port.maintained import FileTotals
from spark_merge.sinks.delta.maintenance import MaintainedDelta
from spark_merge.sinks.lake.maintenance import TableUpkeep, UpkeepState
from spark_merge.testing import histories
from spark_merge.testing.story import Story
from spark_merge.testing.true_histories import true_history
from tests.support.delta_place import history_place
from tests.support.merge_command import MergeSettings
from tests.unit.cli.test_cli import run

Said = pytest.CaptureFixture[str]


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(histories, "TABLES", 2)
    monkeypatch.setattr(histories, "random_history", true_history)
    story = Story(tmp_path, history_place(f"delta://{tmp_path}/out?mode=append&name=lake", tables=2), seed=5)
    story.finish(segments_max=1)
    return story


def config_of(story: Story, folder: Path, *sinks: str) -> str:
    path = folder / "sidecar.toml"
    path.write_text(MergeSettings(str(folder / "log"), sinks or (story.place.uri, "console:"), "local[1]").toml())
    return str(path)


def test_it_compacts_what_a_dry_run_counts(monkeypatch: pytest.MonkeyPatch, capsys: Said, story: Story, tmp_path: Path) -> None:
    config = config_of(story, tmp_path)

    def said(*options: str) -> tuple[int, dict[str, list[Any]]]:
        code = run(monkeypatch, "maintain", "--config", config, "--json", *options)
        (sink,) = json.loads(capsys.readouterr().out)["sinks"]
        assert sink["sink"] == "lake"
        return code, {one["table"]: [one["before"]["files"], one["after"]["files"], one["state"]] for one in sink["tables"]}

    code, before = said("--dry-run")
    assert (code, {state for _, _, state in before.values()}) == (0, {"look"})
    assert said("--dry-run") == (code, before)
    assert said("--tables", "s.t0", "--min-files", "2") == (0, {"s.t0": [before["s.t0"][0], 1, "done"]})
    assert said("--tables", "s.t0", "--dry-run") == (0, {"s.t0": [1, 1, "look"]})
    story.check_end()


def test_people_get_a_line_for_each_table(monkeypatch: pytest.MonkeyPatch, capsys: Said, story: Story, tmp_path: Path) -> None:
    assert run(monkeypatch, "maintain", "--config", config_of(story, tmp_path), "--sink", "lake", "--min-files", "2") == 0
    first, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("lake: s.t0: ")
    assert " files, " in first
    assert " -> 1 files, " in first


@pytest.mark.parametrize(
    ("options", "sinks", "code", "text"),
    [
        (["--sink", "other"], (), 3, "other is no Delta or Iceberg sink"),
        ([], ("console:",), 3, "the settings have no Delta or Iceberg sink"),
        (["--tables", "other.*"], (), 3, "matches no table of the log"),
        (["--keep-hours", "23"], (), 2, "keep-hours"),
        (["--min-files", "1"], (), 2, "min-files"),
        (["--file-mib", "5000"], (), 2, "file-mib"),
    ],
)
def test_wrong_usage_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
    capsys: Said,
    story: Story,
    tmp_path: Path,
    options: Sequence[str],
    sinks: Sequence[str],
    code: int,
    text: str,
) -> None:
    assert run(monkeypatch, "maintain", "--config", config_of(story, tmp_path, *sinks), *options) == code
    assert text in capsys.readouterr().err


def test_a_table_that_fails_is_exit_code_3_and_the_others_are_done(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, story: Story, tmp_path: Path
) -> None:
    (log,) = (tmp_path / "out" / "s" / "t0" / "_delta_log").glob("00000000000000000001.json")
    log.write_text("no JSON\n")
    assert run(monkeypatch, "maintain", "--config", config_of(story, tmp_path), "--json", "--min-files", "2") == 3
    answer = json.loads(capsys.readouterr().out)
    assert not answer["ok"]
    assert [one["state"] for one in answer["sinks"][0]["tables"]] == ["failed", "done"]


def test_a_dry_run_says_each_table_that_fails(monkeypatch: pytest.MonkeyPatch, capsys: Said, story: Story, tmp_path: Path) -> None:
    (log,) = (tmp_path / "out" / "s" / "t0" / "_delta_log").glob("00000000000000000001.json")
    log.write_text("no JSON\n")
    assert run(monkeypatch, "maintain", "--config", config_of(story, tmp_path), "--json", "--dry-run") == 3
    answer = json.loads(capsys.readouterr().out)
    assert [one["state"] for one in answer["sinks"][0]["tables"]] == ["failed", "look"]


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--tables", "shop.*"]])
def test_a_log_without_a_segment_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, story: Story, tmp_path: Path, options: Sequence[str]
) -> None:
    path = tmp_path / "other.toml"
    path.write_text(MergeSettings(str(tmp_path / "no" / "log"), (story.place.uri,), "local[1]").toml())
    assert run(monkeypatch, "maintain", "--config", str(path), *options) == 3
    assert "has no segment yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (SparkLost("Spark is gone", hint="run it again"), 3, "error"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ConnectionRefusedError("a defect"), 1, None),
    ],
)
def test_whatever_ends_a_run_the_object_says_what_was_done(
    monkeypatch: pytest.MonkeyPatch,
    capsys: Said,
    story: Story,
    tmp_path: Path,
    error: BaseException,
    code: int,
    reason: str | None,
) -> None:
    compact = MaintainedDelta.compact

    def ending(lake: MaintainedDelta, name: TableName, *more: Any) -> None:
        if name.table != "t0":
            raise error
        compact(lake, name, *more)

    monkeypatch.setattr(MaintainedDelta, "compact", ending)
    command = ("maintain", "--config", config_of(story, tmp_path), "--json", "--min-files", "2")
    if code == 1:
        with pytest.raises(type(error)):
            run(monkeypatch, *command)
    else:
        assert run(monkeypatch, *command) == code
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer.get("exit_reason")) == (False, reason)
    assert [(one["table"], one["state"]) for one in answer["sinks"][0]["tables"]] == [("s.t0", "done")]


TABLE, MANY = TableName("shop", "orders"), FileTotals(2000, 3 * MIB)


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (TableUpkeep(TABLE, UpkeepState.NONE), "shop.orders: no files"),
        (TableUpkeep(TABLE, UpkeepState.LOOK, MANY, MANY), "shop.orders: 2,000 files, 3.0 MiB"),
        (TableUpkeep(TABLE, UpkeepState.DUMP, MANY, MANY, 4, 1.25), "4 old files removed; not compacted: "),
        (TableUpkeep(TABLE, UpkeepState.OVERTAKEN, MANY, MANY), "try again later"),
        (TableUpkeep(TABLE, UpkeepState.FAILED, error="it is away"), "shop.orders: it is away"),
    ],
)
def test_each_state_has_its_words(one: TableUpkeep, text: str) -> None:
    assert text in line(one)
