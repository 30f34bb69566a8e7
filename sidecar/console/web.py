"""The pages' addresses, and what is the same for all of them: who asks, what an answer forbids a browser, and what commands need.

    GET  /  /dump  /start  /reading  /history  /verification  /rows  /checks  /settings      pages, which are whole without scripts
    GET  /healthz                                                           that it answers, and for which changefeed
    GET  /live/{page}?…                                                     the changes of the page with the same parameters
    GET  /reports/{id}.html  /certificates/{id}.json                        of dumps that are over
    POST /login  /logout  /start  /command/{name}  /check  /rows            forms; a key of a row is in no address

The log has a line for each rejected command.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from http import HTTPStatus
from importlib.resources import files
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sidecar.console import commands
from sidecar.console.access import ConsoleAccess, Visitor
from sidecar.console.connections import CERTIFICATE
from sidecar.console.live import LiveStreams
from sidecar.console.views import ConsoleViews
from sidecar.console.words import with_buttons
from sidecar.control.dump_scope import is_dump_id
from sidecar.control.local_call import CallRejected
from sidecar.report.build import look
from sidecar.shared.errors import RefusedRequest, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.dump_files import CERTIFICATES, REPORTS, DumpFiles
from sidecar.shared.model.nouns import operation_id

FORM_BYTES_MAX = 256 << 10
FIELDS_MAX = 1000
THREADS = 8
"""Requests that are answered at the same time; the others wait."""
WAITING_MAX = 4
"""Of these, those that wait for TiDB; one more is rejected."""
PAGES = {"": "stream"} | {name: name for name in ("dump", "start", "reading", "history", "verification", "rows", "checks", "settings")}
"""By path."""
LIVE = frozenset(PAGES.values()) - {"start", "reading", "rows", "settings"}
"""Pages that change while they are open."""
FORBIDS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
REPORT_POLICY = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"}
"""A report has its style in itself, and no script."""

Note = Callable[[str, Mapping[str, object]], object]


class Guard:
    """Rejects who asks for another host or from another site's page, and puts FORBIDS into every answer. `note`: as of ConsoleWeb."""

    def __init__(self, app: ASGIApp, access: ConsoleAccess, note: Note) -> None:
        self._app, self._access, self._note = app, access, note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in FORBIDS.items() if name.encode() not in there),
                ]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        rejection = self._rejection(scope["method"], headers)
        if rejection is not None and scope["method"] == "POST":
            host, origin = headers.get("host", ""), headers.get("origin", "")
            values = {"path": scope["path"], "from": _address(scope["client"]), "host": host, "origin": origin}
            self._note("console: command rejected", values)
        await (rejection or self._app)(scope, receive, guarded)

    def _rejection(self, method: str, headers: Mapping[str, str]) -> Response | None:
        if not self._access.knows_host(headers.get("host", "")):
            text = "This host name is not the console's: use the address of console.listen or console.advertise.\n"
            return PlainTextResponse(text, 421)
        if self._access.is_foreign(method, headers):
            return PlainTextResponse("Another site's page makes this request: open the console itself.\n", 403)
        return None


class ConsoleWeb:
    """`note`: a line of the log with its values, for what is rejected."""

    def __init__(self, views: ConsoleViews, note: Note) -> None:
        self._views, self._access, self._note = views, views.access, note
        self.streams = LiveStreams()
        self._waiting = BoundedSemaphore(WAITING_MAX)
        self._static = {name: files("sidecar.console").joinpath(f"pages/{name}").read_text() for name in STATIC}
        self._static["console.css"] = look() + self._static["console.css"]

    def app(self) -> ASGIApp:
        routes = [
            *(Route(f"/{path}", self._page) for path in PAGES),
            Route("/healthz", self._health),
            Route("/live/{page}", self._live),
            Route("/static/{name}", self._file),
            Route("/reports/{name}", self._report),
            Route("/certificates/{name}", self._certificate),
            Route("/login", self._login_page),
            Route("/login", self._login, methods=["POST"]),
            Route("/logout", self._logout, methods=["POST"]),
            Route("/start", self._start, methods=["POST"]),
            Route("/check", self._check, methods=["POST"]),
            Route("/rows", self._rows, methods=["POST"]),
            Route("/command/{name}", self._command, methods=["POST"]),
        ]
        pages = Starlette(
            routes=routes,
            exception_handlers={404: self._not_found, ClientDisconnect: self._gone},
            lifespan=self._lifespan,
            max_body_size=FORM_BYTES_MAX,
        )
        return Guard(pages, self._access, self._note)  # outermost: answers to what is too large, and to defects, pass it too

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        yield

    # ---- pages ------------------------------------------------------------------------------------------------------

    def _page(self, request: Request) -> Response:
        visitor = self._visitor(request)
        if not self._access.may_see(visitor):
            return self._to_login(request)
        name, params = PAGES[request.url.path.strip("/")], request.query_params.multi_items()
        try:
            with self._reading_schemas() if name == "reading" or "preview" in request.query_params else nullcontext():
                page = self._views.page(name, params, visitor)
        except TicdcDumpError as error:
            if name != "start":
                return self._message(request, "This cannot be shown", with_buttons(str(error)), 400)
            page = self._views.start_refused(params, visitor, error)
        values = {
            "page": name,
            "title": page.title,
            "sections": page.sections,
            "live": f"/live/{name}?{request.url.query}" if name in LIVE else "",
        }
        return HTMLResponse(self._whole(request, visitor, **values), page.status)

    def _live(self, request: Request) -> Any:
        name = request.path_params["page"]
        if not self._access.may_see(self._visitor(request)):
            return PlainTextResponse("log in first\n", 401)
        if name not in LIVE:
            return PlainTextResponse("there is no such page\n", 404)
        params = request.query_params.multi_items()

        def sections() -> Mapping[str, str]:
            """Of a session that is over, one that the page does not have: it is loaded again, and leads to the login."""
            known = self._visitor(request, renews=False)
            return self._views.page(name, params, known).sections if self._access.may_see(known) else {"login": ""}

        return self.streams.response(sections)

    def _health(self, request: Request) -> Response:
        """The changefeed is only for visitors who may see pages."""
        feed = self._views.changefeed
        is_known = self._access.may_see(self._visitor(request, renews=False))
        return PlainTextResponse(f"console of {feed.namespace}/{feed.id}\n" if is_known else "console\n")

    def _file(self, request: Request) -> Response:
        text = self._static.get(request.path_params["name"])
        if text is None:
            return self._message(request, HTTPStatus.NOT_FOUND.phrase, "There is no such file.", 404)
        return Response(text, media_type=STATIC[request.path_params["name"]])

    def _report(self, request: Request) -> Response:
        return self._of_dump(request, REPORTS, "text/html", REPORT_POLICY)

    def _certificate(self, request: Request) -> Response:
        name = request.path_params["name"]
        return self._of_dump(request, CERTIFICATES, "application/json", {"content-disposition": f'attachment; filename="{quote(name)}"'})

    def _of_dump(self, request: Request, of: DumpFiles, kind: str, headers: Mapping[str, str]) -> Response:
        if not self._access.may_see(self._visitor(request)):
            return self._to_login(request)
        dump_id = request.path_params["name"].removesuffix(of.suffix)
        try:
            data = storage.read_if_there(self._views.parts.log, of.name(operation_id(dump_id))) if is_dump_id(dump_id) else None
        except TicdcDumpError as error:
            return self._message(request, "The log's storage does not answer", error.message, 503)
        if data is None:
            return self._message(request, HTTPStatus.NOT_FOUND.phrase, f"Dump {dump_id} has none, or it was removed.", 404)
        return Response(data, media_type=kind, headers=headers)

    # ---- forms ------------------------------------------------------------------------------------------------------

    def _login_page(self, request: Request) -> Response:
        return self._login_form(request, request.query_params.get("after", "/"), "", 200)

    async def _login(self, request: Request) -> Response:
        form = dict(await self._form(request))
        after = form.get("after", "/")
        if not self._access.has_login:
            return self._login_form(request, after, "", 403)
        if self._access.logins_wait():
            return self._login_form(request, after, "Too many logins have failed: wait a minute.", 429)
        session = self._access.login(form.get("token", ""))
        visitor = self._visitor(request)
        if not session:
            self._note("console: login rejected", {"from": visitor.address})
            return self._login_form(request, after, "This is not the token of console.token_file.", 403)
        answer = RedirectResponse(after if after.startswith("/") and not after.startswith(("//", "/\\")) else "/", 303)
        answer.set_cookie(self._access.cookie, session, httponly=True, samesite="strict", secure=self._access.secure, path="/")
        return answer

    async def _logout(self, request: Request) -> Response:
        await self._form(request)
        self._access.logout(request.cookies.get(self._access.cookie, ""))
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(self._access.cookie, path="/")
        return answer

    async def _start(self, request: Request) -> Response:
        def started(visitor: Visitor, form: list[tuple[str, str]]) -> Response:
            call = self._called(visitor)
            try:
                with self._reading_schemas():
                    status = commands.start(call, self._views.changefeed, form, self._views.tables())
            except (CallRejected, TicdcDumpError) as error:
                page = self._views.start_refused(form, visitor, error)
                values = {"page": "start", "title": page.title, "sections": page.sections, "live": ""}
                return HTMLResponse(self._whole(request, visitor, **values), page.status)
            return RedirectResponse(f"/dump?{urlencode({'id': status.dump_id})}", 303)

        return await self._commanded(request, "start", started)

    async def _command(self, request: Request) -> Response:
        name = request.path_params["name"]
        command = commands.COMMANDS.get(name)
        if command is None:
            return self._message(request, HTTPStatus.NOT_FOUND.phrase, "There is no such command.", 404)

        def done(visitor: Visitor, form: list[tuple[str, str]]) -> Response:
            status = command(self._called(visitor), self._views.changefeed, dict(form).get("dump_id", ""), form)
            return RedirectResponse(f"/dump?{urlencode({'id': status.dump_id})}", 303)

        return await self._commanded(request, name, done)

    async def _check(self, request: Request) -> Response:
        def begun(_: Visitor, __: list[tuple[str, str]]) -> Response:
            self._views.checks.begin()
            return RedirectResponse("/checks", 303)

        return await self._commanded(request, "check", begun)

    async def _rows(self, request: Request) -> Response:
        def shown(visitor: Visitor, form: list[tuple[str, str]]) -> Response:
            page = self._views.rows(form, visitor)
            return HTMLResponse(self._whole(request, visitor, page="rows", title=page.title, sections=page.sections, live=""), page.status)

        return await self._commanded(request, "look at rows", shown)

    async def _commanded(self, request: Request, name: str, command: Callable[[Visitor, list[tuple[str, str]]], Response]) -> Response:
        form, visitor = await self._form(request), self._visitor(request)
        if not self._access.may_command(visitor, dict(form).get("form_key", "")):
            self._note("console: command rejected", {"command": name, "from": visitor.address, "by": visitor.name or "not authenticated"})
            why = "This page's session is over: open the page again." if visitor.name else f"To {name}, {self._access.remedy}."
            return self._message(request, "Not allowed", why, 403)
        try:
            return await run_in_threadpool(command, visitor, form)
        except CallRejected as rejected:
            return self._message(request, f"The sidecar has rejected this ({name})", with_buttons(rejected.details), rejected.http_status)
        except TicdcDumpError as error:
            return self._message(request, f"This cannot be done ({name})", with_buttons(str(error)), 400)
        finally:
            self._views.forget()

    # ---- what they have in common --------------------------------------------------------------------------------------

    async def _form(self, request: Request) -> list[tuple[str, str]]:
        """Of a body that is no form, none."""
        try:
            return parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX)
        except ValueError:
            return []

    @contextmanager
    def _reading_schemas(self) -> Iterator[None]:
        """Bounds the requests that wait for TiDB, so that other pages still have threads. Raises RefusedRequest."""
        if not self._waiting.acquire(blocking=False):
            raise RefusedRequest(f"{WAITING_MAX} others are reading the tables' schemas", hint="ask again in a moment")
        try:
            yield
        finally:
            self._waiting.release()

    def _called(self, visitor: Visitor) -> commands.Call:
        return lambda method, request: self._views.call(method, request, visitor)

    def _visitor(self, request: Request, *, renews: bool = True) -> Visitor:
        certificate, session = request.scope.get(CERTIFICATE, ""), request.cookies.get(self._access.cookie, "")
        return self._access.visitor(_address(request.client), certificate, session, renews=renews)

    def _whole(self, request: Request, visitor: Visitor, **values: Any) -> str:
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        known = self._access.may_see(visitor)
        feed, product = (self._views.changefeed, self._views.parts.product) if known else (None, "")
        return self._views.render("base.html", visitor=visitor, access=self._access, path=path, feed=feed, product=product, **values)

    def _message(self, request: Request, title: str, text: str, status: int) -> Response:
        section = {"message": self._views.render("message.html", title=title, text=text)}
        return HTMLResponse(self._whole(request, self._visitor(request), page="", title=title, sections=section, live=""), status)

    def _login_form(self, request: Request, after: str, error: str, status: int) -> Response:
        values = {"error": error, "after": after, "access": self._access}
        section = {"login": self._views.render("login.html", **values)}
        return HTMLResponse(self._whole(request, Visitor("", ""), page="", title="Log in", sections=section, live=""), status)

    def _to_login(self, request: Request) -> Response:
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?{urlencode({'after': path})}", 303)

    async def _gone(self, _: Request, __: Exception) -> Response:
        """Nobody reads it: the connection has ended amid a form."""
        return Response(status_code=400)

    async def _not_found(self, request: Request, _: Exception) -> Response:
        return self._message(request, HTTPStatus.NOT_FOUND.phrase, "There is no such page.", 404)


def _address(client: tuple[str, int] | None) -> str:
    """host:port."""
    host, port = client or ("", 0)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
