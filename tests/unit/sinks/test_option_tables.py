"""The tables of parameters in deploy/: as the sinks declare them, and none is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_merge.sinks import registry
from spark_merge.sinks.kit.options import names_of
from tests.support.option_tables import DEPLOY, TABLES, names_in, with_tables

PAGES = [path for path in sorted(DEPLOY.glob("*.md")) if names_in(path.read_text())]
HEADINGS = [
    "Set up", "Parameters", "What a reader sees", "Types", "Schema changes", "When a process dies", "Dumps and verification",
    "What it costs", "Troubleshooting", "What it cannot do",
]  # fmt: skip
"""Of a sink's page, in this order; SINKS.md has what holds for all sinks."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_committed_table_is_as_the_sink_declares_it(page: Path) -> None:
    assert page.read_text() == with_tables(page.read_text()), f"{page.name} differs from the declarations: run `make pages`"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "SINKS.md"], ids=lambda page: page.name)
def test_each_sinks_page_has_the_same_headings_in_the_same_order(page: Path) -> None:
    assert re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE) == HEADINGS


def test_each_table_is_on_one_page() -> None:
    assert sorted(name for page in PAGES for name in names_in(page.read_text())) == sorted(TABLES)


def test_every_parameter_that_a_sink_accepts_is_in_a_table() -> None:
    kinds = {scheme: registry.ours(scheme) for scheme in registry.KINDS}
    accepted = {name for kind in kinds.values() if kind is not None for name in kind.parameters}
    assert accepted | registry.COMMON_PARAMETERS == names_of(*(declared for declarations in TABLES.values() for declared in declarations))


def test_a_cell_does_not_break_its_row() -> None:
    for name in TABLES:
        page = with_tables(f"<!-- options: {name} -->\n<!-- /options -->\n")
        assert {line.count("|") for line in page.splitlines() if line.startswith("|")} == {4}, name
