"""`ticdc-dump tail` run from the page of rows: for whom, of what, and how much of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from sidecar.console import row_lookup
from sidecar.console.row_lookup import NICE, RowLookup, RowLookups
from sidecar.shared.config import ConsoleSection
from sidecar.shared.errors import RefusedRequest
from spark_merge.tail.shown import ShownValues, event_json
from spark_merge.tail.verdict import SinkHas, Verdict, sink_json
from tests.support.console import HERE, Browser, ServedConsole, browser_of, console_of
from tests.support.eventually import eventually
from tests.unit.control.serving import Owner
from tests.unit.tail.logs import ORDERS, WrittenLog, events_of, put, window
from tests.unit.tail.test_segment import chunk_of

MARKUP = "<b>bold</b>\x1b[2J\u202e"


def printing(text: str, *, code: int = 0) -> tuple[str, ...]:
    return (sys.executable, "-c", f"import sys; sys.stdout.write({text!r}); sys.exit({code})")


def lookups(text: str, *, code: int = 0, max_s: float = 60.0) -> RowLookups:
    return RowLookups(Path("x"), command=printing(text, code=code), max_s=max_s)


@pytest.fixture
def lines(tmp_path: Path) -> str:
    """As the command prints them: each kind of row, and two sinks."""
    from sidecar.shared.log.storage import open_folder

    log = open_folder(str(tmp_path / "log"))
    to = WrittenLog(log, {ORDERS: 1})
    chunk = chunk_of(log, ("a", "1", MARKUP), ("b", "1", "kept"))
    to.segment(put(ORDERS, 10, "a", "new", old=MARKUP), windows=[window(5, 50, 0, chunk)], ddl=f"ALTER TABLE orders COMMENT '{MARKUP}'")
    shown = ShownValues()
    (table,) = to.log.read_schemas(to.manifests[0].schemas).values()
    has = SinkHas("copy", Verdict.DIFFERENT, "different", to.manifests[0].seq, {"id": "a", "part": "1", "v": None}, table)
    sinks = [sink_json(has, shown), sink_json(SinkHas("lake", Verdict.OPEN, "it cannot find a row"), shown)]
    return "\n".join(json.dumps(one) for one in [*(event_json(event, shown) for event in events_of(log)), *sinks])


def test_the_command_is_that_of_these_settings_and_a_text_is_never_an_option() -> None:
    program = "import sys, json; print(json.dumps({'kind': 'ddl', 'text': json.dumps(sys.argv[1:])}))"
    looks = RowLookups(Path("/etc/x y.toml"), command=(sys.executable, "-c", program))
    (event,) = looks.look("--config", "--sink=x").events
    usual = ["tail", "--config", "/etc/x y.toml", "--json", "--limit", "100", "--value-chars", "200"]
    assert json.loads(event.text) == [*usual, "--key=--sink=x", "--", "--config"]
    (event,) = looks.look("shop.orders", "").events
    assert json.loads(event.text) == [*usual, "--", "shop.orders"]


def test_events_and_sinks_are_those_that_the_command_prints(lines: str) -> None:
    lookup = lookups(lines, code=1).look("shop.orders", "a,1")
    assert lookup.error == ""
    assert [one.kind for one in lookup.events] == ["live", "dump", "dropped", "ddl"]
    assert lookup.events[0].changes == [("v", MARKUP, "new")]
    assert lookup.events[1].changes == []
    dropped = lookup.events[2]
    assert dropped.replaced_by is not None
    assert dropped.dump is not None
    assert (dropped.replaced_by.commit_ts, dropped.dump.high_ts) == ("10", "50")
    assert [(one.sink, one.verdict, one.row is None) for one in lookup.sinks] == [("copy", "different", False), ("lake", "open", True)]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (json.dumps({"ok": False, "exit_reason": "error", "error": "no such table"}), "no such table"),
        (json.dumps({"kind": "live"}) + "\n" + json.dumps({"ok": False, "error": "the log is gone"}), "the log is gone"),
        ("", "it ended with exit code 3, and its output is no list of events"),
        ("not json", "it ended with exit code 3, and its output is no list of events"),
        ('{"kind": 1}', "it ended with exit code 3, and its output is no list of events"),
    ],
)
def test_what_is_no_list_of_events_is_an_error(text: str, error: str) -> None:
    assert lookups(text, code=3).look("t", "k") == RowLookup(error=error)


def test_a_command_that_cannot_be_started_is_an_error() -> None:
    assert RowLookups(Path("x"), command=("/nowhere/ticdc-dump",)).look("t", "").error.startswith("it could not be started: ")
    assert lookups("").look("t", "a\0b").error.startswith("it could not be started: ")


def test_what_takes_too_long_or_says_too_much_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = (sys.executable, "-c", "import sys; sys.stdin = None; __import__('threading').Event().wait()")
    assert "had not ended after 0 s" in RowLookups(Path("x"), command=waiting, max_s=0.3).look("t", "").error
    monkeypatch.setattr(row_lookup, "OUTPUT_BYTES_MAX", 1 << 20)
    endless = (sys.executable, "-c", "while True: print('x' * 65_536)")
    assert "more than 1 MiB" in RowLookups(Path("x"), command=endless).look("t", "").error


def test_one_at_a_time_and_with_the_lowest_priority(tmp_path: Path) -> None:
    program = f"""
import os, pathlib, json, time
there = pathlib.Path({str(tmp_path)!r})
(there / "began").touch()
while not (there / "end").exists() or os.getpriority(os.PRIO_PROCESS, 0) != {NICE}: time.sleep(0.01)
print(json.dumps({{"kind": "ddl"}}))
"""
    looks, lookup = RowLookups(Path("x"), command=(sys.executable, "-c", program)), list[RowLookup]()
    first = Thread(target=lambda: lookup.append(looks.look("t", "")))
    first.start()
    eventually((tmp_path / "began").exists)
    with pytest.raises(RefusedRequest, match="somebody else looks at rows now"):
        looks.look("t", "")
    (tmp_path / "end").touch()
    first.join()
    assert [one.error for one in lookup] == [""]
    assert looks.look("t", "").error == ""


# ---- the page ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path: Path, lines: str) -> Iterator[ServedConsole]:
    """A console that shows rows."""
    with Owner() as owner, console_of(owner, tmp_path / "console", console=ConsoleSection(listen=HERE, show_rows=True)) as console:
        console.views.lookups = lookups(lines, code=1)
        yield console


def test_a_visitor_who_may_command_sees_the_row_its_events_and_the_sinks(rows: ServedConsole) -> None:
    browser = browser_of(rows, logged_in=True)
    assert ">Rows</a>" in browser.get("/").text
    answer = browser.command("/rows", ("table", "shop.orders"), ("key", "a,1"))
    assert answer.status == 200
    assert "id 'a' , part '1' : v" in answer.words
    assert "Replaced in its window by the update at commit-ts 10" in answer.words
    assert "copy different different id 'a'" in answer.words
    assert "<b>" not in answer.text
    assert not {"\x1b", "\u202e"} & set(answer.text)
    assert 'value="a,1"' in answer.text
    assert answer.headers["cache-control"] == "no-store"


def test_without_a_login_nothing_is_looked_up(rows: ServedConsole) -> None:
    browser = browser_of(rows)
    rows.views.lookups.look = None  # type: ignore[method-assign,assignment]
    page = browser.get("/rows?table=shop.orders&key=1")
    assert (page.status, "To look at rows, log in with the token" in page.words, "<form method" in page.text) == (200, True, False)
    assert browser.post("/rows", [("table", "shop.orders")]).status == 403
    assert rows.notes[-1][1]["command"] == "look at rows"


def test_a_key_in_the_address_is_not_looked_up(rows: ServedConsole) -> None:
    """Addresses are kept by browsers, and other sites can lead to one."""
    rows.views.lookups.look = None  # type: ignore[method-assign,assignment]
    page = browser_of(rows, logged_in=True).get("/rows?table=shop.orders&key=1")
    assert page.status == 200
    assert 'name="key" value=""' in page.text


def test_a_console_shows_no_rows_unless_it_is_said(console: ServedConsole, browser: Browser) -> None:
    assert not ConsoleSection().show_rows
    console.views.lookups.look = None  # type: ignore[method-assign,assignment]
    assert ">Rows</a>" not in browser.get("/").text
    page = browser.get("/rows")
    assert "set console.show_rows = true" in page.words
    assert '<form method="post" action="/rows"' not in page.text
    answer = browser.command("/rows", ("table", "shop.orders"), ("key", "1"))
    assert (answer.status, "this console shows no rows" in answer.words) == (400, True)


def test_an_error_of_the_command_is_shown_with_the_form(rows: ServedConsole) -> None:
    rows.views.lookups = lookups(json.dumps({"ok": False, "error": "no table shop.order"}), code=3)
    answer = browser_of(rows, logged_in=True).command("/rows", ("table", "shop.order"), ("key", ""))
    assert "no table shop.order" in answer.words
    assert 'value="shop.order"' in answer.text


def test_a_table_that_is_not_named_runs_nothing(rows: ServedConsole) -> None:
    rows.views.lookups.look = None  # type: ignore[method-assign,assignment]
    assert browser_of(rows, logged_in=True).command("/rows", ("table", "  "), ("key", "1")).status == 200
