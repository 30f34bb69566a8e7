"""A page that stays open in Chromium: what is replaced and what is not, by keyboard alone, over a sidecar's death, and for long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page

from sidecar.console import live, views
from sidecar.control.status import SidecarStatus
from tests.support.chromium import Window
from tests.support.console import ServedConsole, browser_of, console_of
from tests.support.console_shop import DUMP, Shop
from tests.support.eventually import eventually
from tests.unit.control.serving import Owner

pytestmark = pytest.mark.xdist_group("browser")

UPDATES = 300
HEAP_GROWTH_MAX, NODES_GROWTH_MAX = 4 << 20, 500


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.02)
    monkeypatch.setattr(live, "SHARE", 0)
    monkeypatch.setattr(views, "FRESH_S", 0.0)


class Moving:
    """Changes of the status, one with each step of the owner: the stream's and the dump's sections are others each time."""

    def __init__(self, owner: Owner) -> None:
        self.count = 0
        self._changes = owner.changes
        owner.changes = self.changed

    def changed(self, status: SidecarStatus) -> SidecarStatus:
        self.count += 1
        changes = self._changes(status)
        return replace(changes, changes=changes.changes + self.count, rows_per_s=float(self.count), segments=self.count)


@pytest.fixture
def moving(owner: Owner) -> Moving:
    return Moving(owner)


@pytest.fixture
def window(browser: Browser, console: ServedConsole) -> Iterator[Window]:
    with Window(browser, console.address) as result:
        yield result.login()


COUNTED = """id => {
  window.updates = 0;
  new MutationObserver(() => window.updates++).observe(document.getElementById(id), {childList: true});
}"""
HIDDEN = """hidden => {
  Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""
FOCUSED = """name => [...document.querySelectorAll("main a, main button, main summary, main [tabindex]")]
  .find((one) => (one.getAttribute("aria-label") || one.textContent.trim()) === name).focus()"""


def await_updates(window: Window, count: int, section: str = "now") -> None:
    """So many more replacements of the section."""
    window.page.evaluate(COUNTED, section)
    window.until(f"window.updates >= {count}")


def shown(page: Page, place: str) -> int:
    return int(page.get_attribute(f'data[data-of="{place}"]', "value") or -1)


# ---- what is replaced ------------------------------------------------------------------------------------------------


def test_numbers_of_an_open_page_go_on(window: Window, moving: Moving) -> None:
    page = window.open("/")
    first = shown(page, "changes")
    window.until(f"document.querySelector('data[data-of=changes]').value > {first + 20}")
    assert (window.messages, page.inner_text("#connection")) == ([], "")


def test_the_focus_stays_where_it_is(window: Window, moving: Moving) -> None:
    page = window.open("/dump")
    for name in ("Pause", "Change its pace", "How it is read (shop.orders)", "Tables of the dump"):
        page.evaluate(FOCUSED, name)
        await_updates(window, 5)
        assert window.focused() == name


def test_a_focused_button_that_is_gone_gives_the_focus_to_no_other(window: Window, owner: Owner) -> None:
    page = window.open("/dump")
    page.focus("text=Pause")
    with Window(page.context.browser, window.address) as other:  # type: ignore[arg-type]  # a page has one
        other.login().open("/dump").click("text=Pause")
    page.wait_for_selector("text=Resume")
    assert page.evaluate("document.activeElement.id") == "content"


def test_what_is_being_typed_is_not_replaced(window: Window, moving: Moving) -> None:
    page = window.open("/dump")
    page.fill("#tables input[name=q]", "ord")
    page.press("#tables input[name=q]", "e")
    await_updates(window, 10)
    assert page.input_value("#tables input[name=q]") == "orde"
    assert window.focused() == "q"
    page.keyboard.press("Enter")
    page.wait_for_url("**q=orde*")
    assert page.locator("#tables tbody tr").count() == 2


def test_a_change_that_is_filled_in_is_kept_while_the_page_goes_on(window: Window, moving: Moving) -> None:
    page = window.open("/dump")
    page.click("text=Change its pace")
    page.fill("input[name=readers]", "5")
    page.select_option("select[name=strict_bound]", "no")
    page.focus("nav >> text=Dump")
    await_updates(window, 10)
    assert (page.input_value("input[name=readers]"), page.input_value("select[name=strict_bound]")) == ("5", "no")
    page.click("button:text-is('Change')")
    page.wait_for_selector("data[data-of='settings.readers'][value='5']")


def test_a_text_that_is_selected_stays_selected(window: Window, console: ServedConsole, moving: Moving) -> None:
    page = window.open("/dump")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#now code'))")
    other = browser_of(console, logged_in=True)
    other.command("/command/pause")
    page.wait_for_selector("button:text-is('Resume')")  # the sections behind it came
    assert page.evaluate("getSelection().toString()") == DUMP
    page.evaluate("getSelection().removeAllRanges()")
    page.wait_for_selector("#now >> text=paused")


def test_what_is_scrolled_stays_where_it_is(browser: Browser, console: ServedConsole, moving: Moving) -> None:
    with Window(browser, console.address, width=700) as window:
        page = window.login().open("/dump")
        page.evaluate("document.querySelector('#interleaving .scrolls').scrollLeft = -60")
        await_updates(window, 5)
        assert page.evaluate("document.querySelector('#interleaving .scrolls').scrollLeft") == -60


# ---- by keyboard -----------------------------------------------------------------------------------------------------


def test_a_dump_is_started_paused_and_resumed_by_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    shop = Shop()
    with Owner() as owner, console_of(owner, tmp_path, served=shop.served()) as console, Window(browser, console.address) as window:
        owner.changes = lambda status: replace(status, carried=tuple(shop.names), sink_tables=shop.status(status).sink_tables)
        page = window.page
        page.goto(f"{console.address}/login")
        window.tab_to("token")
        page.keyboard.type("a-token-of-sixteen-letters")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{console.address}/")
        window.tab_to("Dump")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=No dump has been started.")
        window.tab_to("New dump …")
        page.keyboard.press("Enter")
        page.wait_for_url("**/start")
        window.tab_to("rules")
        page.keyboard.type("shop.orders")
        window.tab_to("preview")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=It reads 1 table")
        window.tab_to("Start this dump")
        page.keyboard.press("Enter")
        page.wait_for_url("**/dump?id=*")
        for command, follows in (("Pause", "Resume"), ("Resume", "Pause")):
            window.tab_to(command)
            page.keyboard.press("Enter")
            page.wait_for_selector(f"button:text-is('{follows}')")
        assert [type(one).__name__ for one in owner.carried_out] == ["StartDump", "PauseDump", "ResumeDump"]


def test_a_stop_must_be_confirmed(window: Window, owner: Owner) -> None:
    page, requests = window.open("/dump"), list[str]()

    def answer(accepts: bool) -> None:
        def answered(dialog: Dialog) -> None:
            requests.append(dialog.message)
            dialog.accept() if accepts else dialog.dismiss()

        page.once("dialog", answered)

    answer(False)
    page.click("text=Stop for good")
    assert owner.carried_out == []
    answer(True)
    page.click("text=Stop for good")
    page.wait_for_selector("text=stopped")
    assert len(requests) == 2
    assert "cannot be resumed" in requests[0]


# ---- over a death ----------------------------------------------------------------------------------------------------


def test_a_page_says_that_its_sidecar_is_gone_and_continues_when_it_is_back(window: Window, console: ServedConsole, moving: Moving) -> None:
    page = window.open("/")
    await_updates(window, 2)
    console.close()
    page.wait_for_selector("#connection:has-text('No connection to the sidecar since')")
    assert page.evaluate("document.documentElement.classList.contains('stale')")
    last = shown(page, "changes")
    console.serve()
    window.until("document.getElementById('connection').textContent === ''")
    window.until(f"document.querySelector('data[data-of=changes]').value > {last}")
    assert not page.evaluate("document.documentElement.classList.contains('stale')")
    assert page.url == f"{console.address}/"


def test_an_outage_of_the_service_leaves_the_last_values_on_an_open_page(window: Window, console: ServedConsole, moving: Moving) -> None:
    page, service = window.open("/"), console.views.parts.service
    real = service._served
    await_updates(window, 2)
    service._served = replace(real, status=lambda: None, hindered=lambda: "etcd does not answer", owner_address=lambda: None)
    page.wait_for_selector("#outage:has-text('etcd does not answer')")
    last = shown(page, "changes")
    assert last > 0
    assert page.query_selector("#sinks tbody th") is not None
    service._served = real
    page.wait_for_selector("#outage:not(:has-text('etcd'))", state="attached")
    window.until(f"document.querySelector('data[data-of=changes]').value > {last}")


def test_a_session_that_is_over_leads_to_the_login_where_pages_need_one(window: Window, console: ServedConsole, moving: Moving) -> None:
    console.views.access._here = False  # as of an address that others reach
    page = window.open("/dump?q=shop")
    await_updates(window, 2)
    console.close()
    page.wait_for_selector("#connection:has-text('No connection')")
    console.serve()
    console.views.access._here = False
    page.wait_for_url("**/login?after=*")
    page.fill("input[name=token]", console.token)
    page.keyboard.press("Enter")
    page.wait_for_url("**/dump?q=shop")
    assert page.input_value("input[name=q]") == "shop"


def test_a_page_that_is_one_too_many_says_so(window: Window, monkeypatch: pytest.MonkeyPatch, console: ServedConsole) -> None:
    monkeypatch.setattr(live, "STREAMS_MAX", 0)
    page = window.open("/")
    page.wait_for_selector("#connection:has-text('Too many pages are open')")
    assert console.web.streams.open == 0
    monkeypatch.setattr(live, "STREAMS_MAX", 16)
    window.until("document.getElementById('connection').textContent === ''")
    assert console.web.streams.open == 1


def test_a_page_that_nobody_sees_has_no_stream(window: Window, console: ServedConsole) -> None:
    page = window.open("/")
    eventually(lambda: console.web.streams.open == 1)
    page.evaluate(HIDDEN, True)
    eventually(lambda: console.web.streams.open == 0)
    page.evaluate(HIDDEN, False)
    eventually(lambda: console.web.streams.open == 1)
    assert page.inner_text("#connection") == ""


def test_when_the_owner_becomes_a_standby_its_page_says_so(window: Window, owner: Owner, moving: Moving) -> None:
    page = window.open("/dump")
    await_updates(window, 2)
    owner.hold()
    owner.status = None
    page.wait_for_selector("h1:text-is('Standby')")
    assert page.query_selector("#commands") is None, "a standby offers no commands"
    owner.go()
    page.wait_for_selector("h1:text-is('Dump')")
    assert page.query_selector("#commands") is not None


# ---- for long --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/dump"])
def test_a_page_that_is_open_for_long_holds_no_more_than_at_first(window: Window, moving: Moving, path: str) -> None:
    page = window.open(path)
    tools = page.context.new_cdp_session(page)

    def held() -> tuple[float, float]:
        tools.send("HeapProfiler.collectGarbage")
        tools.send("HeapProfiler.collectGarbage")
        result = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
        return result["JSHeapUsedSize"], result["Nodes"]

    tools.send("Performance.enable")
    await_updates(window, 30)
    heap, nodes = held()
    await_updates(window, UPDATES)
    heap_after, nodes_after = held()
    assert heap_after - heap < HEAP_GROWTH_MAX
    assert nodes_after - nodes < NODES_GROWTH_MAX
