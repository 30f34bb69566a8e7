"""The buttons, with the real state machine of a dump behind them."""

from __future__ import annotations

import pytest

from sidecar.console.commands import COMMANDS, OFFERED
from sidecar.console.views import new_dump_id
from sidecar.control.dump_scope import is_dump_id
from sidecar.core.dump import NEXT
from sidecar.shared.model.messages import PauseDump, ResumeDump, SetDump, StopDump
from sidecar.shared.model.progress import OVER, DumpState
from tests.support.console import Browser
from tests.support.eventually import eventually
from tests.unit.control.serving import Owner

REQUESTS = {"pause": PauseDump, "resume": ResumeDump, "set": SetDump, "stop": StopDump}


def state(owner: Owner) -> str:
    assert owner.status is not None
    assert owner.status.progress is not None
    return owner.status.progress.state.value


@pytest.mark.parametrize("of", list(DumpState))
def test_a_button_is_offered_where_its_command_can_be_carried_out(of: DumpState) -> None:
    legal = {name for name, request in REQUESTS.items() if of in NEXT[request]}
    useful = {"restart"} if of in OVER or of is DumpState.PAUSED else set()
    assert set(OFFERED[of.value]) == legal | useful
    assert set(OFFERED[of.value]) <= COMMANDS.keys()


def test_a_dump_is_started_paused_changed_resumed_and_stopped(browser: Browser, owner: Owner) -> None:
    dump_id = browser.start(("rules", "shop.orders"), ("chunk_rows", "500"), ("dump_id", "b" * 16))
    assert (dump_id, state(owner)) == ("b" * 16, "running")
    of = ("dump_id", dump_id)
    assert browser.command("/command/pause", of).location == f"/dump?id={dump_id}"
    assert state(owner) == "paused"
    assert browser.command("/command/set", of, ("readers", "3")).status == 303
    assert browser.command("/command/resume", of).status == 303
    assert state(owner) == "running"
    assert browser.command("/command/stop", of).status == 303
    assert state(owner) == "stopped"
    assert [type(request).__name__ for request in owner.carried_out] == ["StartDump", "PauseDump", "SetDump", "ResumeDump", "StopDump"]
    assert all(request.asker.name.startswith("token ") for request in owner.carried_out)
    assert all(request.asker.address.startswith("127.0.0.1:") for request in owner.carried_out)


def test_the_page_behind_a_command_shows_what_it_did(browser: Browser, owner: Owner) -> None:
    page = browser.get("/dump?id=" + browser.start(("rules", "shop.orders")))
    dump_id = page.text.partition('name="dump_id" value="')[2][:16]
    for command, shown in [("pause", "paused"), ("resume", "running")] * 3:
        assert browser.get(browser.command(f"/command/{command}", ("dump_id", dump_id)).location).words.count(f": {shown} ") == 1


def test_a_button_that_is_pressed_twice_starts_one_dump(browser: Browser, owner: Owner) -> None:
    form = ("rules", "shop.orders"), ("dump_id", "c" * 16)
    assert browser.start(*form) == browser.start(*form)
    browser.command("/command/stop", ("dump_id", "c" * 16))
    again = ("dump_id", "c" * 16), ("new_dump_id", "d" * 16)
    first = browser.command("/command/restart", *again).location
    assert first == "/dump?id=" + "d" * 16
    assert [type(one).__name__ for one in owner.carried_out] == ["StartDump", "StopDump", "RestartDump"]


def test_a_page_made_again_has_the_same_restart(browser: Browser, owner: Owner) -> None:
    dump_id = browser.start(("rules", "shop.orders"))
    browser.command("/command/stop", ("dump_id", dump_id))
    eventually(lambda: "Restart" in browser.get("/dump").text)
    visitor = next(iter(owner.carried_out)).asker
    assert visitor.name
    pages = [browser.get("/dump").text for _ in range(2)]
    ids = {page.partition('name="new_dump_id" value="')[2][:16] for page in pages}
    assert len(ids) == 1
    assert all(map(is_dump_id, ids))


def test_the_id_of_a_restart_differs_by_session_and_dump() -> None:
    from sidecar.console.access import Visitor

    ids = {new_dump_id(Visitor("", "", key), dump) for key in ("x", "y") for dump in ("a" * 16, "b" * 16)}
    assert len(ids) == 4


@pytest.mark.parametrize(
    ("path", "form", "status", "text"),
    [
        ("/command/pause", [("dump_id", "f" * 16)], 409, "there is no dump " + "f" * 16),
        ("/command/set", [], 400, "fill in at least one field"),
        ("/command/set", [("readers", "many")], 400, "readers: 'many' is not a whole number from 0 on"),
        ("/command/restart", [("new_dump_id", "no")], 409, "dump id 'no' is not one"),
        ("/start", [("rules", "nothing.*")], 409, "nothing.*"),
        ("/start", [("chunk_rows", "x")], 400, "rows in a chunk: 'x' is not a whole number from 0 on. What to do: correct it"),
        ("/command/dance", [], 404, "There is no such command"),
    ],
)
def test_what_cannot_be_done_says_why(
    browser: Browser, owner: Owner, path: str, form: list[tuple[str, str]], status: int, text: str
) -> None:
    browser.start(("rules", "shop.orders"))
    answer = browser.command(path, *form)
    assert answer.status == status
    assert text in answer.words
    assert len(owner.carried_out) == 1
