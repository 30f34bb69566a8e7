"""The console of the whole product: a dump is started, paused, changed and resumed by clicking in Chromium while the source changes, and
pages show what `dumpquery --json` reports."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from sidecar.control.asker import token_name
from tests.support.chromium import Window, chromium
from tests.tools.rig.rig import CONSOLE_TOKEN, Rig
from tests.tools.rig.sidecar_process import SidecarProcess

pytestmark = [pytest.mark.xdist_group("rig"), pytest.mark.turns(2, "whole product")]

DEADLINE_S = 600.0
PLACES = "[...document.querySelectorAll('data[data-of]')].map((one) => [one.dataset.of, one.value])"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def value_at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value[int(name)] if name.isdecimal() else value[name]
    return value


def await_equal(page: Page, sidecar: SidecarProcess, address: str, *, least: int) -> None:
    """Each number of the page that was the same before the page was opened and after it is that one. Tried again: an answer of the service
    is used for a moment."""
    until_s, different = time.monotonic() + DEADLINE_S, list[Any]()
    while time.monotonic() < until_s:
        before = sidecar.ask("dumpquery")
        page.goto(address)
        shown = page.evaluate(PLACES)
        after = sidecar.ask("dumpquery")
        steady = {place: value_at(after, place) for place, _ in shown if value_at(before, place) == value_at(after, place)}
        pairs = [(place, value, steady[place]) for place, value in shown if place in steady]
        different = [one for one in pairs if (one[1] if isinstance(one[2], str) else json.loads(one[1])) != one[2]]
        if not different and len(steady) >= least:
            return
    raise AssertionError(f"these differ: {different}; {len(steady)} were the same twice")


def await_text(page: Page, selector: str) -> None:
    page.wait_for_selector(selector, timeout=DEADLINE_S * 1000)


def test_a_dump_by_clicks_is_what_the_command_line_reports(browser: Browser, tmp_path: Path) -> None:
    with ExitStack() as stack:
        rig = stack.enter_context(Rig(tmp_path, initial_rows=300))
        config = rig.sidecar_config(sinks=[f"file://{tmp_path}/output?format=jsonl"], log=f"file://{tmp_path}/log")
        sidecar = stack.enter_context(SidecarProcess(config, tmp_path / "sidecar.log"))
        workload = stack.enter_context(rig.workload(writes_per_s=100))
        sidecar.await_status(lambda value: bool(value["sinks"]), timeout_s=DEADLINE_S)
        address = f"http://{tomllib.loads(config.read_text())['console']['listen']}"
        window = stack.enter_context(Window(browser, address))
        page = window.login(CONSOLE_TOKEN).page

        page.click("nav >> text=Dump")
        page.click("text=New dump")
        page.fill("input[name=chunk_rows]", "20")
        page.fill("input[name=rows_per_second]", "40")
        page.click("text=Show what it would do")
        page.click("text=Start this dump")
        page.wait_for_url("**/dump?id=*")
        dump_id = page.url.rpartition("=")[2]
        running = sidecar.await_status(lambda value: sum(table["rows"] for table in value["tables"]) > 0, timeout_s=DEADLINE_S)
        assert (running["dump_id"], running["state"]) == (dump_id, "running")

        page.click("button:text-is('Pause')")
        await_text(page, "button:text-is('Resume')")
        assert sidecar.ask("dumpquery")["state"] == "paused"
        page.click("button:text-is('Resume')")
        await_text(page, "button:text-is('Pause')")
        page.click("summary:text-is('Change its pace')")
        page.fill("input[name=rows_per_second]", "0")
        page.click("button:text-is('Change')")
        await_text(page, "#now >> text=finished")
        workload.stop()
        assert workload.counts.rows > 0
        rig.await_published()

        await_equal(page, sidecar, f"{address}/dump?id={dump_id}", least=30)
        await_equal(page, sidecar, f"{address}/", least=10)

        page.click("nav >> text=History")
        requested = f"{token_name(CONSOLE_TOKEN)} at 127.0.0.1:"
        row = page.locator("tbody tr", has_text=dump_id)
        assert row.inner_text().count(requested) == 4, row.inner_text()  # the start, and three commands
        assert sidecar.ask("dumplist")["operations"][0]["asked_by"]["name"] == token_name(CONSOLE_TOKEN)
        await_files(page, address)
        with page.expect_download() as download:
            page.click(f"a[href='/certificates/{dump_id}.json']")
        assert json.loads(Path(download.value.path()).read_bytes())["dump_id"] == dump_id
        page.click(f"a[href='/reports/{dump_id}.html']")
        assert dump_id in page.inner_text("body")

        page.goto(f"{address}/checks")
        page.click("text=Run the checks")
        await_text(page, "table")
        assert page.inner_text("table").count("a sidecar of this changefeed listens on") == 3
        assert "Nothing failed." in page.inner_text("main")
        assert window.messages == []
        assert "console" in sidecar.log.read_text()
        assert "console: command rejected" not in sidecar.log.read_text()


def await_files(page: Page, address: str) -> None:
    """They are written behind the dump's end."""
    until_s = time.monotonic() + DEADLINE_S
    while page.locator("a[href^='/reports/']").count() == 0 or page.locator("a[href^='/certificates/']").count() == 0:
        assert time.monotonic() < until_s
        page.goto(f"{address}/history")
