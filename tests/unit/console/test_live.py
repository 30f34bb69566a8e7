"""Streams of changes: what they send, when, and to how many. Over an ASGI application's two functions, and over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import pytest

from sidecar.console import connections, live
from sidecar.console.access import Visitor
from sidecar.console.live import EVERY_S, SHARE, STREAMS_MAX, LiveStreams
from tests.support.console import Browser, ServedConsole, is_ended, raw
from tests.support.eventually import PATIENCE_S, eventually


class Listener:
    """A browser that reads until it has `wanted` messages, and then goes."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.sent = wanted, list[dict[str, Any]]()
        self.gone = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if len(self.sent) >= self.wanted:
            self.gone.set()

    @property
    def texts(self) -> list[str]:
        return [one["body"].decode() for one in self.sent if one.get("body")]

    @property
    def sections(self) -> list[list[str]]:
        """The ids in each event."""
        events = (text.partition("data: ")[2] for text in self.texts if text.startswith("event: sections\n"))
        return [[one["id"] for one in json.loads(event)] for event in events]


def listen(streams: LiveStreams, sections: Callable[[], Mapping[str, str]], *, messages: int = 1000) -> Listener:
    """Until it has so many, or the stream has ended."""

    async def run() -> Listener:
        listener = Listener(messages)
        await asyncio.wait_for(streams.response(sections)({"type": "http"}, listener.receive, listener.send), PATIENCE_S)
        return listener

    return asyncio.run(run())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.0)
    monkeypatch.setattr(live, "SHARE", 0)


@pytest.mark.usefixtures("quick")
def test_only_sections_that_changed_are_sent() -> None:
    pages = iter([{"a": "1", "b": "1"}, {"a": "1", "b": "2"}, {"a": "1", "b": "2"}, {"a": "3", "b": "3"}, {"a": "3", "c": "1"}])
    last = {"a": "3", "c": "1"}
    listener = listen(LiveStreams(), lambda: next(pages, last), messages=6)
    assert listener.sections == [["a", "b"], ["b"], ["a", "b"], ["c"]]
    assert listener.texts[0].startswith("retry: ")


@pytest.mark.usefixtures("quick")
def test_any_text_is_one_event() -> None:
    html = "line\none\r\n\n\ndata: x\u2028<b>"
    listener = listen(LiveStreams(), lambda: {"a": html}, messages=3)
    event = listener.texts[1]
    assert event.count("\n\n") == 1
    assert event.endswith("\n\n")
    assert json.loads(event.partition("data: ")[2]) == [{"id": "a", "html": html}]


def test_a_page_that_does_not_change_says_that_it_is_there(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    monkeypatch.setattr(live, "STILL_MAX_S", 0.0)
    assert listen(LiveStreams(), lambda: {"a": "1"}, messages=5).texts[-1] == ": still here\n\n"


@pytest.mark.parametrize(("took_s", "open_streams"), [(0.0, 1), (0.01, 1), (0.1, 1), (0.1, 4)])
def test_a_pause_is_fifty_times_what_making_the_page_took(monkeypatch: pytest.MonkeyPatch, took_s: float, open_streams: int) -> None:
    now_s, waited = 0.0, list[float]()

    async def sleep(wait_s: float) -> None:
        nonlocal now_s
        now_s += wait_s
        waited.append(wait_s)

    def sections() -> Mapping[str, str]:
        nonlocal now_s
        now_s += took_s
        streams.ending = bool(waited)
        return {"a": "1"}

    monkeypatch.setattr(live, "monotonic", lambda: now_s)
    monkeypatch.setattr("sidecar.console.live.anyio.sleep", sleep)
    streams = LiveStreams()
    streams.open = open_streams - 1
    listen(streams, sections)
    assert sum(waited) == pytest.approx(max(EVERY_S, SHARE * took_s * open_streams))


def test_a_stream_ends_when_the_console_does(quick: None) -> None:
    streams = LiveStreams()

    def sections() -> Mapping[str, str]:
        streams.ending = True
        return {"a": "1"}

    assert listen(streams, sections).sent[-1] == {"type": "http.response.body", "body": b""}, "the answer is whole"
    assert streams.open == 0


def test_a_stream_that_breaks_is_not_counted_any_more(quick: None) -> None:
    streams = LiveStreams()

    def broken() -> Mapping[str, str]:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        listen(streams, broken)
    assert streams.open == 0


# ---- over HTTP -------------------------------------------------------------------------------------------------------


class Stream:
    def __init__(self, browser: Browser, path: str) -> None:
        self.connection = browser.connection()
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        self.connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        self.answer = self.connection.getresponse()

    def sections(self) -> dict[str, str]:
        """Of the next event."""
        until_s = monotonic() + PATIENCE_S
        while True:
            line = self.answer.readline().decode()
            assert line, "the stream has ended"
            assert monotonic() < until_s, "no section has changed"
            if line.startswith("data: "):
                return {one["id"]: one["html"] for one in json.loads(line.removeprefix("data: "))}

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


def test_an_open_page_has_what_the_page_has_and_then_what_changes(browser: Browser, quick: None) -> None:
    stream = Stream(browser, "/live/dump?id=")
    assert stream.answer.headers["content-type"].startswith("text/event-stream")
    first = stream.sections()
    page = browser.get("/dump").text
    assert set(first) == {"outage", "now", "commands", "interleaving", "tables"}
    assert all(html in page for html in first.values())
    browser.start(("rules", "shop.orders"))
    changed = stream.sections()
    while "running" not in changed.get("now", ""):
        changed = stream.sections()
    assert "Pause" in changed["commands"]
    stream.close()


@pytest.mark.parametrize("page", ["", "start", "settings", "nothing", "..%2fdump"])
def test_pages_that_do_not_change_have_no_stream(browser: Browser, page: str) -> None:
    assert browser.get(f"/live/{page}").status == 404


def test_as_many_streams_as_there_may_be_and_no_more(console: ServedConsole, browser: Browser) -> None:
    streams = [Stream(browser, "/live/stream") for _ in range(STREAMS_MAX)]
    eventually(lambda: console.web.streams.open == STREAMS_MAX)
    one_more = Stream(browser, "/live/stream")
    assert one_more.answer.status == 503  # nothing is read of a stream that has no end
    assert b"too many pages are open" in one_more.answer.read()
    assert browser.get("/").status == 200, "pages are still answered"
    streams.pop().close()
    eventually(lambda: console.web.streams.open == STREAMS_MAX - 1)
    streams.append(Stream(browser, "/live/stream"))
    assert streams[-1].answer.status == 200
    for stream in streams:
        stream.close()
    eventually(lambda: console.web.streams.open == 0)


def test_a_browser_that_does_not_read_is_left(console: ServedConsole, monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    monkeypatch.setattr(connections, "UNREAD_S", 0.05)
    large = iter(range(1 << 60))
    page = console.views.page
    console.views.page = lambda *given: type(page(*given))("x", {"a": f"{next(large)}" + "x" * (1 << 20)})  # type: ignore[method-assign]
    reads_nothing = raw(console.port, b"GET /live/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    eventually(lambda: console.web.streams.open == 1)
    eventually(lambda: console.web.streams.open == 0, "it is still open")
    assert is_ended(reads_nothing)


def test_after_a_logout_an_open_page_has_no_buttons(console: ServedConsole, browser: Browser, quick: None) -> None:
    browser.start(("rules", "shop.orders"))
    stream = Stream(browser, "/live/dump")
    assert "Pause</button>" in stream.sections()["commands"]
    browser.post("/logout")
    while "To pause, resume or stop it, log in" not in (changed := stream.sections()).get("commands", ""):
        assert "form_key" not in changed.get("commands", "")
    stream.close()


def test_beyond_loopback_an_open_page_ends_with_its_session(console: ServedConsole, browser: Browser, quick: None) -> None:
    console.views.access._here = False  # as of an address that others reach
    stream = Stream(browser, "/live/dump")
    stream.sections()
    browser.post("/logout")
    while "login" not in (changed := stream.sections()):
        assert changed
    assert changed == {"login": ""}, "a section that the page does not have: it is loaded again, and leads to the login"
    assert browser.get("/live/dump").status == 401
    stream.close()


def test_an_open_page_keeps_no_session_alive(console: ServedConsole, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = []
    visitor = console.views.access.visitor

    def noted(*given: str, renews: bool = True) -> Visitor:
        requests.append(renews)
        return visitor(*given, renews=renews)

    console.views.access.visitor = noted  # type: ignore[method-assign,assignment]
    stream = Stream(browser, "/live/stream")
    stream.sections()
    assert requests == [True, False]
    stream.close()
