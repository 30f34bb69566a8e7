"""gh-ost's and pt-online-schema-change's renames, swaps, and tables that come to one place, to their end: each sink follows them,
or its own hints do. Here sinks without a server; tests/integration/test_renamed_tables_servers.py has the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.support.lake import uri_of
from tests.support.renamed_tables import STORIES, RenameStory, any_story, comes_back, one_place

pytestmark = pytest.mark.xdist_group("iceberg")

OUTPUTS: dict[str, Callable[[Path], str]] = {
    "delta append": lambda folder: f"delta://{folder}/out?mode=append",
    "delta merge": lambda folder: f"delta://{folder}/out?mode=merge",
    "iceberg append": lambda folder: uri_of(folder / "lake", mode="append"),
    "iceberg merge": lambda folder: uri_of(folder / "lake", mode="merge"),
    "sqlite": lambda folder: f"sqlite://{folder}/out.db",
    "jsonl": lambda folder: f"file://{folder}/out?format=jsonl",
    "parquet": lambda folder: f"file://{folder}/out?format=parquet",
    "csv": lambda folder: f"file://{folder}/out?protocol=csv&csv.include-commit-ts=true",
    "canal-json in files": lambda folder: f"file://{folder}/out?protocol=canal-json",
}
KEEP_TABLES = ("delta merge", "iceberg merge", "sqlite")


@pytest.mark.parametrize("told", STORIES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_the_rows_at_the_end_are_tidbs(output: str, told: str, tmp_path: Path) -> None:
    """Of each pair of tools that differ by names alone, one's renames come as an event for each table."""
    STORIES[told](RenameStory(tmp_path, OUTPUTS[output](tmp_path), split=told in ("gh_ost", "swap")))


@pytest.mark.parametrize("output", ["delta merge", "iceberg merge", "delta append", "iceberg append"])
def test_a_table_that_comes_to_anothers_place_takes_nothing_of_it(output: str, tmp_path: Path) -> None:
    story = RenameStory(tmp_path, OUTPUTS[output](tmp_path))
    one_place(story)
    assert "s.t and crm.t would both be" in story.hints[0]


@pytest.mark.parametrize("output", KEEP_TABLES)
def test_a_table_that_is_created_has_nothing_of_what_was_in_its_place(output: str, tmp_path: Path) -> None:
    comes_back(RenameStory(tmp_path, OUTPUTS[output](tmp_path)))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("output", KEEP_TABLES)
def test_any_order_of_creates_drops_and_renames_ends_with_tidbs_rows(output: str, seed: int, tmp_path: Path) -> None:
    story = RenameStory(tmp_path, OUTPUTS[output](tmp_path))
    any_story(story, Random(seed), steps=14)
