"""Each page in Chromium: at phones' and at wide windows, light and dark, whole without scripts, and without what axe objects to."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser

from sidecar.console.checking import SettingsChecks
from sidecar.console.pictures import RANGES
from sidecar.console.row_lookup import RowLookups
from sidecar.shared.config import ConsoleSection
from sidecar.shared.model.progress import DumpState
from tests.support.chromium import Window
from tests.support.console import HERE, ServedConsole, Shown, console_of
from tests.support.console_shop import DONE, Shop
from tests.support.eventually import eventually
from tests.unit.control.serving import standby

pytestmark = pytest.mark.xdist_group("browser")

PAGES = ["/", "/dump", "/start", "/start?preview=1", "/reading?table=shop.orders", "/history", "/verification", "/rows"]
PAGES += ["/checks", "/settings"]
LONG = "a_name_as_long_as_tidb_takes_one_for_a_table_or_for_a_column_64_"
REPORT = {
    "ok": False,
    "counts": {"ok": 1, "warning": 0, "failed": 1, "skipped": 0},
    "checks": [
        {"name": "source", "status": "ok", "findings": [{"status": "ok", "what": "TiDB answers", "setting": "", "hint": ""}]},
        {"name": "sink", "status": "failed", "findings": [{"status": "failed", "what": LONG * 4, "setting": "sinks", "hint": LONG}]},
    ],
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    """With long names, many pages of each list, an error, and a check that has been run."""
    result = Shop(mark=lambda text: f"{text}_{LONG}", tables=300, lanes=120, operations=120, last_error="source: no route to host")
    with result.owner() as owner, result.console(owner, tmp_path_factory.mktemp("shop")) as console:
        console.views.checks = SettingsChecks(Path("x"), command=(sys.executable, "-c", f"print({json.dumps(REPORT)!r})"))
        console.views.checks.begin()
        eventually(lambda: not console.views.checks.running)
        yield console


@pytest.mark.turns(3)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280, 1920])
def test_pages_fit_and_axe_has_no_objection(browser: Browser, shop: ServedConsole, width: int, scheme: str) -> None:
    with Window(browser, shop.address, width=width, scheme=scheme) as window:
        window.login()
        wide, wrong = {}, {}
        for path in (*PAGES, "/login", "/start?preview=1&readers=x", "/nothing", "/dump?id=" + "f" * 16):
            window.open(path)
            if (over := window.overflow()) > 0:
                wide[path] = over
            if violations := window.violations():
                wrong[path] = violations
        assert wide == {}
        assert wrong == {}
        assert [text for text in window.messages if "status of 4" not in text] == []


OUTSIDE = """query => [...document.querySelectorAll(query)].filter((one) => {
  const box = one.getBoundingClientRect();
  return box.width === 0 || box.left < 0 || box.right > document.documentElement.clientWidth;
}).length"""


@pytest.mark.parametrize("width", [400, 800, 1001, 1280])
@pytest.mark.parametrize(
    ("path", "query", "least"),
    [
        ("/", "#sinks td.state", 3),
        ("/", "#lanes td.state", 50),
        ("/dump", "#tables td.state", 100),
        ("/history", "td.state", 50),
        ("/verification", "td.state", 7),
        ("/checks", "td.state, td.text", 4),
        ("/settings", "main section > .scrolls td", 8),
    ],
)
def test_state_and_result_are_in_the_window(browser: Browser, shop: ServedConsole, path: str, query: str, least: int, width: int) -> None:
    """Long names, too: without scrolling to the side."""
    with Window(browser, shop.address, width=width) as window:
        page = window.login().open(path)
        assert page.locator(query).count() >= least
        assert page.evaluate(OUTSIDE, query) == 0


def test_a_narrow_window_shows_the_newest_chunks_and_their_tables(browser: Browser, console: ServedConsole) -> None:
    with Window(browser, console.address, width=400) as window:
        page = window.login().open("/dump")
        assert page.evaluate(OUTSIDE, "#interleaving g:last-of-type > rect.chunk, #interleaving text.name:not(rect + text)") == 0


OVERLAPPING = """query => {
  const boxes = [...document.querySelectorAll(query)].map(one => one.getBoundingClientRect()).filter(box => box.width);
  const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return [boxes.length, boxes.filter((one, at) => boxes.slice(at + 1).some(other => meets(one, other))).length];
}"""


@pytest.mark.parametrize("width", [400, 640, 641, 1280])
@pytest.mark.parametrize("chosen", RANGES)
def test_the_texts_of_a_chart_do_not_overlap(browser: Browser, console: ServedConsole, width: int, chosen: str) -> None:
    with Window(browser, console.address, width=width) as window:
        page = window.login().open(f"/?{urlencode({'range': chosen})}")
        count, overlapping = page.evaluate(OVERLAPPING, "#charts .chart:first-of-type svg > text.label:not(.away)")
        assert count >= 5
        assert overlapping == 0


FIELDS = """() => [...document.querySelectorAll(".fields label")].map(one => {
  const [text, field] = [one.getBoundingClientRect(), one.querySelector("input, select").getBoundingClientRect()];
  return [text.left, text.width, field.left, field.width, field.bottom].map(Math.round);
}).filter(one => one[1])"""


@pytest.mark.parametrize("width", [400, 800, 1280])
@pytest.mark.parametrize("path", ["/start", "/dump"])
def test_the_fields_of_a_form_are_in_columns(browser: Browser, console: ServedConsole, path: str, width: int) -> None:
    """N33: all as wide as one another, and those of a line on one height."""
    with Window(browser, console.address, width=width) as window:
        page = window.login().open(path)
        page.evaluate("() => document.querySelectorAll('details').forEach(one => one.open = true)")
        fields = page.evaluate(FIELDS)
        assert len(fields) >= 4
        assert len({wide for _, wide, _, _, _ in fields}) == 1
        assert {(left, wide) for left, wide, _, _, _ in fields} == {(left, wide) for _, _, left, wide, _ in fields}
        columns = len({left for left, *_ in fields})
        assert len({bottom for *_, bottom in fields}) == -(-len(fields) // columns)


def test_the_values_of_a_time_show_under_the_pointer(browser: Browser, console: ServedConsole) -> None:
    with Window(browser, console.address) as window:
        page = window.login().open("/")
        part = page.locator("#charts .chart >> nth=3").locator("g.at >> nth=30")
        assert not part.locator("text").is_visible()
        part.locator("rect").hover()
        part.locator("text").wait_for()
        assert "p99" in part.locator("text").inner_html()


@pytest.mark.parametrize("state", [DumpState.PAUSED, DumpState.FAILED, DumpState.FINISHED, DumpState.STOPPED])
def test_a_dump_in_each_state_is_shown_as_well(browser: Browser, tmp_path: Path, state: DumpState) -> None:
    shop = Shop()
    with shop.owner() as owner, shop.console(owner, tmp_path) as console, Window(browser, console.address, width=400) as window:
        owner.finish(state, reason="the source is gone" if state is DumpState.FAILED else None)
        window.login()
        page = window.open("/dump")
        assert state.value in page.inner_text("#now")
        assert (window.overflow(), window.violations(), window.messages) == (0, [], [])


def test_a_report_opens_without_scripts_and_with_its_style(browser: Browser, shop: ServedConsole) -> None:
    with Window(browser, shop.address) as window:
        page = window.open(f"/reports/{DONE}.html")
        assert page.inner_text("h1") == f"Report of {DONE}"
        assert window.messages == []


def test_pages_are_whole_without_scripts(browser: Browser, console: ServedConsole) -> None:
    with Window(browser, console.address, java_script_enabled=False) as window:
        window.login()
        page = window.open("/")
        for text in ("Behind the source", "The last hour", "kafka/shop-cdc/0"):
            assert page.locator("main", has_text=text).count() == 1
        page.click("nav >> text=Dump")
        assert page.locator("#tables").inner_text().count("shop.") >= 7
        page.click("text=Pause")
        page.wait_for_selector("text=Resume")
        page.click("text=New dump")
        page.click("text=+ shop.reviews")
        page.fill("input[name=readers]", "3")
        page.click("text=Show what it would do")
        assert page.locator("text=It reads 1 table").count() == 1
        page.click("text=Start this dump")
        page.wait_for_url("**/dump?id=*")
        page.click("nav >> text=History")
        assert page.locator("main").inner_text().count("token ") >= 1
        for name in ("Checks", "Settings"):
            page.click(f"nav >> text={name}")
            assert page.inner_text("h1") == name
        page.click("text=Log out")
        assert page.locator("text=Log in").count() == 1


def test_a_standbys_page_leads_to_the_owners_console(browser: Browser, console: ServedConsole, tmp_path: Path) -> None:
    shown = Shown(owner_console=console.address)
    with (
        ServedConsole(standby(lambda: "10.0.0.9:8310"), tmp_path / "standby", shown=shown) as other,
        Window(browser, other.address) as window,
    ):
        page = window.open("/")
        assert page.inner_text("h1") == "Standby"
        assert (window.overflow(), window.violations()) == (0, [])
        page.click(f"text={console.address}")
        page.wait_for_selector("text=Behind the source")
        assert page.url == f"{console.address}/"


def test_the_rows_of_a_key_are_whole_without_scripts_and_by_the_keyboard(browser: Browser, tmp_path: Path) -> None:
    """In a narrow window too, with values as long as they are shown."""
    image = {"id": "a", LONG: "<i>" + "x" * 200}
    place = {"id": "d" * 16, "chunk": "chunks/1.parquet", "low_ts": "470000000000000000", "high_ts": "470000000000000001"}
    change = {"commit_ts": "470000000000000001", "time": "2026-10-25T05:55:14.843Z", "op": "update", "before": image, "after": image}
    row = {"commit_ts": "470000000000000000", "time": "2026-10-25T05:55:14.843Z", "key": {"id": "a"}, "op": "update"}
    events = [
        {"kind": "live", **row, "before": {"id": "a", LONG: None}, "after": image},
        {"kind": "dropped", **row, "op": "insert", "after": image, "dump": place, "replaced_by": change},
        {"kind": "sink", "sink": LONG, "verdict": "different", "text": "different from the log's version", "row": image},
    ]
    text = "\n".join(map(json.dumps, events))
    section = ConsoleSection(listen=HERE, show_rows=True)
    with Shop().owner() as owner, console_of(owner, tmp_path / "rows", console=section) as console:
        console.views.lookups = RowLookups(Path("x"), command=(sys.executable, "-c", f"print({text!r})"))
        for width, scheme, scripts in ((400, "light", True), (1280, "dark", True), (400, "light", False)):
            with Window(browser, console.address, width=width, scheme=scheme, java_script_enabled=scripts) as window:
                page = window.login().page
                page.click("nav >> text=Rows")
                window.tab_to("table")
                page.keyboard.type("shop.orders")
                window.tab_to("key")
                page.keyboard.type("a")
                page.keyboard.press("Enter")
                page.wait_for_selector("text=Replaced in its window by the update")
                assert page.locator("main tbody tr").count() == 3
                assert page.locator("main i").count() == 0
                assert (window.overflow(), window.messages) == (0, [])
                assert not scripts or window.violations() == []  # axe is a script
