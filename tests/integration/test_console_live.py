"""The console of a real sidecar: a dump by clicking beside live changes, numbers as of `dumpquery --json`, links that open."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.rig.rig import CONSOLE_TOKEN, Rig
from tests.rig.sidecar_process import SidecarProcess
from tests.support.chromium import MISSING, PROGRAM, Window, chromium
from tests.support.eventually import eventually

pytestmark = [
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(PROGRAM is None, reason=MISSING),
]

NUMBERS = "[...document.querySelectorAll('data[data-of]')].map(one => [one.dataset.of, one.value])"


@dataclass(frozen=True, slots=True)
class Live:
    rig: Rig
    sidecar: SidecarProcess
    window: Window


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("console")
    with Rig(folder, initial_rows=200) as rig:
        config = rig.sidecar_config(sinks=[f"file://{folder}/output?format=jsonl"], log=f"file://{folder}/log")
        address = f"http://{tomllib.loads(config.read_text())['console']['listen']}"
        with SidecarProcess(config, Path(f"{folder}/sidecar.log")) as sidecar, chromium() as browser:
            sidecar.await_status(lambda found: found["merge_worker"] == "running", timeout_s=300)
            with Window(browser, address) as window:
                yield Live(rig, sidecar, window.login(CONSOLE_TOKEN))


def test_a_dump_is_started_paused_and_resumed_by_clicking_while_changes_go_on(live: Live) -> None:
    page = live.window.page
    with live.rig.workload(writes_per_s=20):
        live.window.open("/dump")
        page.click("text=New dump")
        page.fill("input[name=chunk_rows]", "20")
        page.fill("input[name=rows_per_second]", "100")
        page.click("text=Show what it would do")
        page.click("text=Start this dump")
        page.wait_for_url("**/dump?id=*")
        dump_id = page.url.partition("id=")[2]
        page.click("text=Pause")
        page.wait_for_selector("button:has-text('Resume')")
        assert (found := live.sidecar.ask("dumpquery"))["state"] == "paused"
        assert found["dump_id"] == dump_id
        page.click("text=Resume")
        page.wait_for_selector("button:has-text('Pause')")
        page.click("text=Change its pace")
        page.fill("input[name=rows_per_second]", "0")
        page.click("button:has-text('Change')")
        page.wait_for_selector("strong:has-text('finished')")
    assert live.sidecar.ask("dumpquery")["state"] == "finished"


@pytest.mark.parametrize("path", ["/", "/dump"])
def test_every_number_is_that_of_dumpquery_at_that_moment(live: Live, path: str) -> None:
    """Asked before and after: what is the same in both is what it was between them."""

    def compared() -> int:
        before, page, after = live.sidecar.ask("dumpquery"), live.window.open(path), live.sidecar.ask("dumpquery")
        shown = page.evaluate(NUMBERS)
        pairs = [(of, value, _at(before, of), _at(after, of)) for of, value in shown]
        resting = [(of, value, then) for of, value, then, now in pairs if then == now]
        assert [(of, value) for of, value, then in resting if value != then] == []
        return len(resting) if len(resting) >= len(pairs) * 0.6 else 0

    assert eventually(compared, "most numbers rest for a moment") > 10


def test_the_history_says_who_asked_and_its_links_open(live: Live) -> None:
    page = live.window.open("/history")
    assert "token " in page.inner_text("tbody tr")
    eventually(lambda: live.window.open("/history").query_selector("a:has-text('report')"), "the sink has the last window")
    with page.expect_response("**/reports/*.html") as report:
        page.click("a:has-text('report')")
    assert report.value.status == 200
    assert "12 tables" in page.inner_text("main")
    live.window.open("/history")
    with page.expect_download() as certificate:
        page.click("a:has-text('certificate')")
    assert json.loads(Path(certificate.value.path()).read_text())["dump_id"] == live.sidecar.ask("dumpquery")["dump_id"]


def test_the_checks_run_beside_the_sidecar_and_know_it(live: Live) -> None:
    page = live.window.open("/checks")
    page.click("text=Run the checks")
    page.wait_for_selector("table")
    assert "a sidecar of this changefeed listens on" in page.inner_text("table")
    assert "Nothing failed." in page.inner_text("main")


def _at(status: dict[str, Any], path: str) -> str:
    """As a page has it."""
    value: Any = status
    for name in path.split("."):
        value = value[int(name)] if name.isdecimal() else value[name]
    return value if path.endswith("_tso") else json.dumps(value)
