"""What anybody may send to the console, over HTTP: nothing is carried out that should not be, and no answer lets a browser run what is
not ours."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sidecar.console.access import FAILED_LOGINS_MAX
from sidecar.console.web import FIELDS_MAX, FORM_BYTES_MAX, WAITING_MAX
from sidecar.shared.config import ConsoleSection, Tls
from sidecar.shared.log import storage
from sidecar.shared.log.storage import open_folder
from tests.support.console import HERE, TOKEN, Browser, ServedConsole, browser_of, console_of
from tests.support.console_shop import DONE, Shop
from tests.support.services.tls import Authority
from tests.unit.control.serving import Owner

PAGES = ["/", "/dump", "/start", "/start?preview=1", "/history", "/verification", "/rows", "/checks", "/settings"]
OTHERS = ["/login", "/nothing", "/static/console.css", "/static/console.js", "/static/icon.svg", "/static/none", "/reports/none.html"]
OTHERS += ["/certificates/none.json", "/healthz", "/live/none", "/dump?id=" + "f" * 16]
COMMANDS = ["/start", "/check", "/rows", "/command/pause", "/command/resume", "/command/stop", "/command/restart", "/command/set"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    result = Shop()
    with result.owner() as owner, result.console(owner, tmp_path_factory.mktemp("shop")) as console:
        yield console


@dataclass(slots=True)
class Untouched:
    """A console with a session, of which nothing is carried out."""

    console: ServedConsole
    owner: Owner
    browser: Browser


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Untouched]:
    with Owner() as owner, console_of(owner, tmp_path_factory.mktemp("untouched")) as console:
        yield Untouched(console, owner, browser_of(console, logged_in=True))


def is_safe(policy: str) -> bool:
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    scripts = rules.get("script-src", rules["default-src"]).split()
    return rules["default-src"] == "'none'" and scripts in (["'none'"], ["'self'"]) and rules["frame-ancestors"] == "'none'"


# ---- answers ---------------------------------------------------------------------------------------------------------


def test_every_answer_forbids_what_is_not_ours(shop: ServedConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError

    browser = browser_of(shop, logged_in=True)
    answers = {path: browser.get(path) for path in (*PAGES, *OTHERS, f"/reports/{DONE}.html", f"/certificates/{DONE}.json")}
    answers |= {
        "421": browser.get("/", host="evil.example"),
        "403": browser.post("/start"),
        "403 foreign": browser.post("/start", origin="http://evil.example"),
        "405": browser.ask("DELETE", "/"),
        "413": browser.post("/login", [("token", "x" * FORM_BYTES_MAX)]),
        "303": browser.login(),
        "409": browser.command("/command/pause", ("dump_id", "f" * 16)),
        "HEAD": browser.ask("HEAD", "/"),
    }
    shop.views.page = broken  # type: ignore[method-assign,assignment]
    answers["500"] = browser.get("/")
    assert [answers[name].status for name in ("421", "403", "403 foreign", "405", "413", "303", "409", "500")] == [
        421, 403, 403, 405, 413, 303, 409, 500,
    ]  # fmt: skip
    unsafe = {name: one.headers.get("content-security-policy") for name, one in answers.items()}
    assert not {name: policy for name, policy in unsafe.items() if policy is None or not is_safe(policy)}
    for header, value in (("x-content-type-options", "nosniff"), ("x-frame-options", "DENY"), ("cache-control", "no-store")):
        assert not [name for name, one in answers.items() if one.headers.get(header) != value]
    assert not [name for name, one in answers.items() if "server" in one.headers]


def test_no_page_has_a_script_or_a_style_in_itself(shop: ServedConsole) -> None:
    browser = browser_of(shop, logged_in=True)
    for path in (*PAGES, *OTHERS):
        text = browser.get(path).text
        assert re.findall(r"<script[^>]*>(?!</script>)", text) == []
        assert not re.search(r"\s(?:on[a-z]+|style)=|javascript:|<style", text)


MARKUP = "<img src=x onerror=alert(1)>'\"&amp;<script>alert(1)</script>"


def test_what_would_be_markup_is_text_on_every_page(tmp_path: Path) -> None:
    shop = Shop(mark=lambda text: f"{text}{MARKUP}", last_error="broken")
    config = ConsoleSection(listen=HERE)
    with shop.owner() as owner, shop.console(owner, tmp_path, console=config) as console:
        browser = browser_of(console, logged_in=True)
        seen = 0
        query = "q=%3Cimg%20src%3Dx%3E&where=%3Cimg%3E&rules=%3Cimg%3E&state=%3Cimg%3E&kind=%22%3E%3Cimg%3E&id=&page=%3Cimg%3E"
        pages = [*PAGES, *(f"{path}?{query}" for path in ("/dump", "/start", "/history")), "/login?after=%22%3E%3Cimg%3E", "/<img>"]
        for path in [*pages, "/dump?id=%3Cimg%3E", "/verification?id=%3Cimg%3E", "/reports/%3Cimg%3E.html"]:
            page = browser.get(path)
            assert page.status in (200, 400, 404, 409), (path, page.words)
            assert "<img" not in page.text, path
            assert "<script>" not in page.text, path
            seen += page.words.count(MARKUP) > 0
        rejected = browser.command("/command/pause", ("dump_id", MARKUP)), browser.command("/start", ("rules", MARKUP), ("readers", MARKUP))
        for page in rejected:
            assert "<img" not in page.text
            assert page.status in (400, 409)
        assert seen >= 5, "the markup was on these pages"


# ---- commands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", COMMANDS)
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (lambda browser, path: Browser(browser.port).post(path), 403),
        (lambda browser, path: Browser(browser.port).post(path, [("form_key", browser.form_key())]), 403),
        (lambda browser, path: browser.post(path), 403),
        (lambda browser, path: browser.post(path, [("form_key", browser.form_key()[:-1])]), 403),
        (lambda browser, path: browser.post(path, [("form_key", browser.form_key()), ("form_key", "x")]), 403),
        (lambda browser, path: browser.post(path, [("form_key", browser.form_key())], origin="http://evil.example"), 403),
        (lambda browser, path: browser.post(path, [("form_key", browser.form_key())], origin="null"), 403),
        (lambda browser, path: browser.post(path, [("form_key", browser.form_key())], sec_fetch_site="cross-site"), 403),
        (lambda browser, path: browser.post(path, [("form_key", browser.form_key())], sec_fetch_site="same-site"), 403),
        (lambda browser, path: browser.post(path, [("form_key", browser.form_key())], host="evil.example"), 421),
        (lambda browser, path: browser.get(f"{path}?form_key={browser.form_key()}") if path not in PAGES else browser.post(path), None),
    ],
    ids=["nobody", "stolen key", "no key", "wrong key", "two keys", "origin", "null", "cross-site", "same-site", "host", "GET"],
)
def test_a_command_that_is_not_from_a_page_of_a_session_is_not_carried_out(
    untouched: Untouched, path: str, sent: Callable[[Browser, str], Any], status: int | None
) -> None:
    console = untouched.console
    console.notes.clear()
    answer = sent(untouched.browser, path)
    assert answer.status == status if status else answer.status in (403, 405)
    assert untouched.owner.carried_out == []
    assert not console.views.checks.running
    if answer.status != 405:
        assert [event for event, _ in console.notes] == ["console: command rejected"]
        assert str(console.notes[0][1]["from"]).startswith("127.0.0.1:")


def test_the_same_command_with_its_key_is(browser: Browser, owner: Owner, console: ServedConsole) -> None:
    """Else the test above would show nothing."""
    assert browser.command("/start", ("rules", "shop.orders")).status == 303
    assert len(owner.carried_out) == 1
    assert console.notes == []


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"{}", b"form_key", b"&" * FIELDS_MAX * 2, b"a=b&" * FIELDS_MAX * 2, b"--x\r\nContent-Disposition: form-data"],
)
def test_a_body_that_is_no_form_has_no_key(untouched: Untouched, body: bytes) -> None:
    assert untouched.browser.ask("POST", "/start", body).status == 403
    assert untouched.owner.carried_out == []


def test_a_body_above_the_limit_is_rejected(untouched: Untouched) -> None:
    browser, key = untouched.browser, untouched.browser.form_key()
    assert browser.post("/start", [("form_key", key), ("rules", "x" * FORM_BYTES_MAX)]).status == 413
    chunked = browser.ask("POST", "/start", iter([b"x" * 65_536] * 5))
    assert chunked.status == 413
    assert untouched.owner.carried_out == []
    assert browser.post("/start", [("form_key", key), ("rules", "x" * (FORM_BYTES_MAX // 2))]).status == 409


# ---- logins ----------------------------------------------------------------------------------------------------------


def test_the_cookie_is_for_this_console_alone(console: ServedConsole) -> None:
    cookie = browser_of(console).login().headers["set-cookie"]
    assert cookie.startswith("ticdc_dump_")
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {"httponly", "path=/", "samesite=strict"}


def test_a_login_that_fails_is_reported_without_the_token(console: ServedConsole) -> None:
    browser = browser_of(console)
    answer = browser.post("/login", [("token", "wrong-secret-token"), ("after", "/history")])
    assert (answer.status, "This is not the token" in answer.words) == (403, True)
    assert 'name="after" value="/history"' in answer.text
    assert console.notes[0][0] == "console: login rejected"
    assert "wrong-secret-token" not in f"{answer.text}{console.notes}"
    assert not browser.cookies


def test_after_many_failed_logins_the_right_token_waits_too(console: ServedConsole) -> None:
    browser = browser_of(console)
    for _ in range(FAILED_LOGINS_MAX):
        assert browser.login("wrong").status == 403
    assert browser.login().status == 429
    assert len(console.notes) == FAILED_LOGINS_MAX


@pytest.mark.parametrize(
    ("after", "place"),
    [
        ("/dump?id=x&q=y", "/dump?id=x&q=y"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("evil.example", "/"),
        ("", "/"),
        ("\\\\evil.example", "/"),
        (" //evil.example", "/"),
    ],
)
def test_a_login_leads_nowhere_else(untouched: Untouched, after: str, place: str) -> None:
    assert browser_of(untouched.console).post("/login", [("token", TOKEN), ("after", after)]).location == place


@pytest.mark.parametrize("letter", ["\t", "\n", "\r", "\0", "\x0b"])
def test_no_letter_that_browsers_drop_leads_elsewhere(untouched: Untouched, letter: str) -> None:
    place = browser_of(untouched.console).post("/login", [("token", TOKEN), ("after", f"/{letter}/evil.example")]).location
    assert place == "/" or not re.sub(r"[\t\n\r\0\x0b]", "", place).startswith("//")


def test_a_logout_ends_the_session(console: ServedConsole, browser: Browser) -> None:
    key = browser.form_key()
    session = dict(browser.cookies)
    assert browser.post("/logout").status == 303
    browser.cookies = session
    assert browser.post("/check", [("form_key", key)]).status == 403


# ---- files -----------------------------------------------------------------------------------------------------------


def test_reports_and_certificates_are_those_of_dumps(shop: ServedConsole) -> None:
    browser = browser_of(shop)
    report, certificate = browser.get(f"/reports/{DONE}.html"), browser.get(f"/certificates/{DONE}.json")
    assert (report.status, report.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert "sandbox" in report.headers["content-security-policy"]
    assert "script-src" not in report.headers["content-security-policy"]
    assert (certificate.status, certificate.headers["content-disposition"]) == (200, f'attachment; filename="{DONE}.json"')


@pytest.mark.parametrize("of", ["reports", "certificates"])
@pytest.mark.parametrize(
    "name",
    [
        "../secret", "..%2fsecret", "..%252fsecret", "%2e%2e/secret", "..%5csecret", "secret", "secret.html", "/etc/passwd",
        "%2fetc%2fpasswd", "", ".", "..", "%00", f"{DONE}.html%00", f"{DONE}/../../secret", "%c3%a4" * 16, "A" * 200,
    ],
)  # fmt: skip
def test_no_other_file_is_read(shop: ServedConsole, of: str, name: str) -> None:
    log = open_folder(str(shop.folder))
    for path in ("secret", "secret.html", "secret.json", "reports/secret", "reports/secret.html", "certificates/secret.json"):
        storage.write_atomically(log, path, b"a secret")
    answer = browser_of(shop).get(f"/{of}/{name}")
    assert answer.status in (400, 404)
    assert "a secret" not in answer.text


def test_a_storage_that_does_not_answer_is_reported(shop: ServedConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> bytes:
        raise storage.log_error("log", "", storage.Unreachable("no route"))

    monkeypatch.setattr(storage, "read_if_there", unreachable)
    answer = browser_of(shop).get(f"/reports/{DONE}.html")
    assert (answer.status, "does not answer" in answer.words) == (503, True)


# ---- beyond loopback -------------------------------------------------------------------------------------------------


@contextmanager
def beyond(owner: Owner, folder: Path, *, mutual: bool) -> Iterator[tuple[ServedConsole, Authority]]:
    """A console that listens for other machines, too: with clients' certificates, or with the token."""
    authority = Authority(folder / "tls")
    signed = authority.sign("console")
    tls = Tls(cert_file=str(signed.cert_file), key_file=str(signed.key_file), ca_file=str(authority.ca_file) if mutual else "")
    with console_of(owner, folder, console=ConsoleSection(listen="0.0.0.0:0", tls=tls), token="" if mutual else TOKEN) as console:
        yield console, authority


def context(authority: Authority, name: str = "") -> ssl.SSLContext:
    default_context = ssl.create_default_context(cafile=str(authority.ca_file))
    if name:
        signed = authority.sign(name)
        default_context.load_cert_chain(signed.cert_file, signed.key_file)
    return default_context


def test_beyond_loopback_every_page_needs_a_login(owner: Owner, tmp_path: Path) -> None:
    with beyond(owner, tmp_path, mutual=False) as (console, authority):
        browser = Browser(console.port, context=context(authority))
        for path in (*PAGES, f"/reports/{DONE}.html", f"/certificates/{DONE}.json"):
            answer = browser.get(path)
            assert (answer.status, answer.location.partition("=")[0]) == (303, "/login?after"), path
        assert browser.get("/live/dump").status == 401
        assert browser.get("/healthz").text == "console\n"
        assert "default/cf" not in browser.get("/login").text
        assert browser.post("/start").status == 403
        assert "Secure" in browser.login().headers["set-cookie"]
        assert {browser.get(path).status for path in PAGES if path != "/verification"} == {200}
        assert browser.start(("rules", "shop.orders"))
        assert owner.carried_out[0].asker.name.startswith("token ")


def test_without_tls_nobody_is_answered(owner: Owner, tmp_path: Path) -> None:
    with beyond(owner, tmp_path, mutual=False) as (console, _), pytest.raises(ConnectionError):
        Browser(console.port).get("/login")


def test_a_clients_certificate_is_who_asks(owner: Owner, tmp_path: Path) -> None:
    with beyond(owner, tmp_path, mutual=True) as (console, authority):
        alice = Browser(console.port, context=context(authority, "alice"))
        assert "certificate alice" in alice.get("/").words
        alice.start(("rules", "shop.orders"))
        assert owner.carried_out[0].asker.name == "certificate alice"
        bob = Browser(console.port, context=context(authority, "bob"))
        assert bob.post("/command/stop", [("form_key", alice.form_key())]).status == 403, "the form is another's"


def test_without_a_certificate_of_the_authority_there_is_no_connection(owner: Owner, tmp_path: Path) -> None:
    with beyond(owner, tmp_path, mutual=True) as (console, authority):
        other = Authority(tmp_path / "other", "other-ca")
        foreign = context(authority)
        signed = other.sign("mallory")
        foreign.load_cert_chain(signed.cert_file, signed.key_file)
        for stranger in (context(authority), foreign):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                Browser(console.port, context=stranger).get("/")


def test_a_console_without_token_and_certificates_only_shows(owner: Owner, tmp_path: Path) -> None:
    with console_of(owner, tmp_path, token="") as console:
        browser = browser_of(console)
        assert "read-only" in browser.get("/").words
        assert "This console has no token" in browser.get("/login").words
        assert browser.login("").status == browser.login(TOKEN).status == 403
        assert "use the command line" in browser.get("/start?preview=1").words
        assert browser.post("/start", [("form_key", "")]).status == 403


def test_what_waits_for_tidb_leaves_threads_to_the_rest(console: ServedConsole, browser: Browser) -> None:
    for _ in range(WAITING_MAX):
        assert console.web._waiting.acquire(blocking=False)
    rejected = browser.get("/start?preview=1")
    assert rejected.status == 400
    assert "ask again in a moment" in rejected.words
    assert "ask again in a moment" in browser.get("/reading?table=shop.orders").words
    assert browser.get("/dump").status == 200
    console.web._waiting.release()
    assert [browser.get("/start?preview=1").status for _ in range(2)] == [200, 200], "a place that was taken is given back"
