"""Changes of an open page, as server-sent events: a section that is not as before is sent whole.

A page is made again after a second, or after 50 times as long as making it takes: so all open pages together cost a fiftieth of a core.
There are STREAMS_MAX at most. Sending waits for a browser that does not read; connections.py ends its connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from time import monotonic

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

STREAMS_MAX = 16
EVERY_S = 1.0
SHARE = 50
STILL_MAX_S = 15.0
"""A stream that has nothing new says so, by which both sides know that the other one is there."""
AGAIN_MS = 2_000
"""After which a browser that lost its stream asks again."""
ENDING_LOOK_S = 0.2
"""How often a stream that waits looks whether the console ends."""


class LiveStreams:
    def __init__(self) -> None:
        self.open = 0
        self.ending = False

    def response(self, sections: Callable[[], Mapping[str, str]]) -> LiveResponse:
        """`sections`: HTML by id. Called in another thread."""
        return LiveResponse(self, sections)


class LiveResponse:
    """An ASGI response."""

    def __init__(self, streams: LiveStreams, sections: Callable[[], Mapping[str, str]]) -> None:
        self._streams, self._sections = streams, sections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._streams.open >= STREAMS_MAX:
            await PlainTextResponse("too many pages are open: reload this one now and then\n", 503)(scope, receive, send)
            return
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        self._streams.open += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async with anyio.create_task_group() as group:
                group.start_soon(self._until_gone, receive, group.cancel_scope.cancel)
                await self._events(send)
                group.cancel_scope.cancel()
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._streams.open -= 1

    async def _events(self, send: Send) -> None:
        sent: dict[str, str] = {}
        await self._body(send, f"retry: {AGAIN_MS}\n\n")
        sent_s = monotonic()
        while not self._streams.ending:
            began_s = monotonic()
            sections = await run_in_threadpool(self._sections)
            took_s = monotonic() - began_s
            new = [{"id": name, "html": html} for name, html in sections.items() if sent.get(name) != html]
            if new:
                await self._body(send, f"event: sections\ndata: {json.dumps(new)}\n\n")
                sent, sent_s = dict(sections), monotonic()
            elif monotonic() - sent_s > STILL_MAX_S:
                await self._body(send, ": still here\n\n")
                sent_s = monotonic()
            await self._pause(max(EVERY_S, SHARE * took_s * self._streams.open))

    async def _pause(self, wait_s: float) -> None:
        """Until then, or until the console ends."""
        until_s = monotonic() + wait_s
        while not self._streams.ending and (left_s := until_s - monotonic()) > 0:
            await anyio.sleep(min(left_s, ENDING_LOOK_S))

    async def _body(self, send: Send, text: str) -> None:
        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

    async def _until_gone(self, receive: Receive, gone: Callable[[], object]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone()
