"""Every page with every parameter that any page or form takes, by reflection over the sources: no text is a path, a defect or a change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

import sidecar.console
from sidecar.console.commands import COMMANDS
from sidecar.console.web import PAGES
from tests.support.console import FORM_KEY, ServedConsole, browser_of, console_of
from tests.support.hostile_ids import HOSTILE, all_below, damaged_verification
from tests.unit.run.test_term_verifications import REQUEST

SOURCES = [path.read_text() for path in Path(sidecar.console.__file__).parent.rglob("*") if path.suffix in (".py", ".html")]
PARAMETERS = sorted(
    {name for text in SOURCES for name in re.findall(r'(?:\.get\(|\[|key == |name == )"([a-z_]+)"', text)}
    | {name for text in SOURCES for name in re.findall(r'<(?:input|select|textarea|button)[^>]* name="([a-z_]+)"', text)}
    | {"page", "lanes", "read"}
)

SHARE = 5
"""Each parameter has a fifth of the texts, `id` has all."""


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[ServedConsole]:
    with (
        damaged_verification(tmp_path) as (owner, term),
        console_of(owner, tmp_path / "log", served={"verifications": lambda: term.made}) as console,
    ):
        yield console
        assert not console.ended


def test_the_parameters_are_those_of_ids_and_more() -> None:
    there = {"id", "dump_id", "new_dump_id", "q", "state", "kind", "range", "table", "rules", "where", "sink", "after", "page"}
    assert there <= {*PARAMETERS}


@pytest.mark.parametrize("page", PAGES)
def test_no_parameter_of_a_page_changes_anything_or_is_a_defect(ground: ServedConsole, tmp_path: Path, page: str) -> None:
    browser = browser_of(ground, logged_in=True)
    before = all_below(tmp_path)
    for number, text in enumerate(("", *HOSTILE)):
        for name in ("id", *PARAMETERS[number % SHARE :: SHARE]):
            answer = browser.get(f"/{page}?{urlencode({name: text})}")
            assert answer.status in (200, 303, 400, 409), (name, text, answer.words)
            if name == "id" and page in ("dump", "verification") and text:
                assert answer.status == 400, text
                assert "id: " in answer.words
                assert "expected letters and digits" in answer.words
        assert all_below(tmp_path) == before, repr(text)


def test_a_page_of_a_verification_whose_report_is_damaged_leaves_it(ground: ServedConsole, tmp_path: Path) -> None:
    browser, before = browser_of(ground), all_below(tmp_path)
    for path in ("/verification", f"/verification?id={REQUEST.id}"):
        answer = browser.get(path)
        assert (answer.status, "cannot be read" in answer.words) == (409, True)
        assert all_below(tmp_path) == before


@pytest.mark.parametrize("of", ["reports", "certificates", "static", "live", "command"])
def test_no_path_leads_elsewhere(ground: ServedConsole, tmp_path: Path, of: str) -> None:
    browser, before = browser_of(ground, logged_in=True), all_below(tmp_path)
    for text in HOSTILE:
        for name in (quote(text, safe=""), quote(f"{text}.html", safe=""), quote(f"{text}.json", safe="")):
            answer = browser.get(f"/{of}/{name}")
            assert answer.status in (307, 400, 404, 405), (name, answer.words)
            assert "a stranger's" not in answer.text
    assert all_below(tmp_path) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_with_a_hostile_id_is_wrong_usage(ground: ServedConsole, tmp_path: Path, command: str) -> None:
    browser, before = browser_of(ground, logged_in=True), all_below(tmp_path)
    match = FORM_KEY.search(browser.get("/start").text) or FORM_KEY.search(browser.get("/checks").text)
    assert match is not None
    for text in HOSTILE:
        answer = browser.post(f"/command/{command}", [("form_key", match[1]), ("dump_id", text), ("readers", "1")])
        assert (answer.status, "expected letters and digits" in answer.words) == (400, True), repr(text)
    assert all_below(tmp_path) == before
