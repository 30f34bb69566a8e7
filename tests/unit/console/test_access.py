"""Who asks and what they may do, without a server."""

from __future__ import annotations

import pytest

from sidecar.console.access import FAILED_LOGINS_MAX, FAILED_LOGINS_S, SESSION_S, SESSIONS_MAX, ConsoleAccess, Visitor
from sidecar.control.asker import token_name
from sidecar.shared.config import ConsoleSection, Tls
from tests.support.console import TOKEN

TLS = Tls(cert_file="c", key_file="k", ca_file="a")
NOBODY = Visitor("", "10.0.0.7:41000")


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def access(listen: str = "127.0.0.1:8320", token: str = TOKEN, **section: object) -> ConsoleAccess:
    return ConsoleAccess(ConsoleSection(listen=listen, **section), token, now_s=Clock())  # type: ignore[arg-type]  # fields by name


def visitor(of: ConsoleAccess, session: str = "", certificate: str = "") -> Visitor:
    return of.visitor(NOBODY.address, certificate, session)


# ---- sessions --------------------------------------------------------------------------------------------------------


def test_the_token_begins_a_session_and_nothing_else_does() -> None:
    of = access()
    session = of.login(TOKEN)
    result = visitor(of, session)
    assert (result.name, result.address) == (token_name(TOKEN), NOBODY.address)
    assert TOKEN not in session + result.name + result.form_key
    assert [of.login(wrong) for wrong in ("", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ä")] == [""] * 5
    assert visitor(of, "another") == visitor(of) == NOBODY


def test_without_a_token_nobody_logs_in() -> None:
    of = access(token="")
    assert not of.has_login
    assert of.login("") == of.login("anything") == ""
    assert "console.token_file" in of.remedy


def test_a_session_ends_when_nothing_was_requested_for_long() -> None:
    clock = Clock()
    of = ConsoleAccess(ConsoleSection(), TOKEN, now_s=clock)
    session = of.login(TOKEN)
    clock.now_s += SESSION_S - 1
    assert visitor(of, session).name
    clock.now_s += SESSION_S - 1
    assert visitor(of, session).name, "what was asked meanwhile renews it"
    clock.now_s += SESSION_S
    assert visitor(of, session) == NOBODY


def test_a_page_that_is_only_open_does_not_renew_a_session() -> None:
    clock = Clock()
    of = ConsoleAccess(ConsoleSection(), TOKEN, now_s=clock)
    session = of.login(TOKEN)
    clock.now_s += SESSION_S - 1
    assert of.visitor("", "", session, renews=False).name
    clock.now_s += 1
    assert not of.visitor("", "", session, renews=False).name


def test_a_logout_ends_its_session_alone() -> None:
    of = access()
    one, other = of.login(TOKEN), of.login(TOKEN)
    of.logout(one)
    of.logout("unknown")
    assert visitor(of, one) == NOBODY
    assert visitor(of, other).name


def test_of_many_sessions_the_one_of_longest_ago_gives_way() -> None:
    clock = Clock()
    of = ConsoleAccess(ConsoleSection(), TOKEN, now_s=clock)
    sessions = []
    for _ in range(SESSIONS_MAX):
        clock.now_s += 1
        sessions.append(of.login(TOKEN))
    clock.now_s += 1
    assert visitor(of, sessions[0]).name
    sessions.append(of.login(TOKEN))
    assert [at for at, one in enumerate(sessions) if not visitor(of, one).name] == [1]


def test_logins_wait_after_many_that_failed_and_not_for_ever() -> None:
    clock = Clock()
    of = ConsoleAccess(ConsoleSection(), TOKEN, now_s=clock)
    for _ in range(FAILED_LOGINS_MAX):
        assert not of.logins_wait()
        of.login("wrong")
    assert of.logins_wait()
    clock.now_s += FAILED_LOGINS_S
    assert not of.logins_wait()


# ---- what they may do ------------------------------------------------------------------------------------------------


def test_a_command_needs_the_form_key_of_its_own_session() -> None:
    of = access()
    one, other = visitor(of, of.login(TOKEN)), visitor(of, of.login(TOKEN))
    assert one.form_key != other.form_key
    assert of.may_command(one, one.form_key)
    assert not any(of.may_command(one, key) for key in ("", other.form_key, one.form_key[:-1], "ä"))
    assert not of.may_command(NOBODY, "")


def test_form_keys_of_another_process_are_of_no_use() -> None:
    one, other = access("10.0.0.5:8320", tls=TLS), access("10.0.0.5:8320", tls=TLS)
    assert visitor(one, certificate="alice").form_key != visitor(other, certificate="alice").form_key


def test_a_certificate_proves_a_name_before_any_session_does() -> None:
    of = access("10.0.0.5:8320", tls=TLS)
    alice, bob = visitor(of, of.login(TOKEN), certificate="alice"), visitor(of, certificate="bob")
    assert (alice.name, bob.name) == ("certificate alice", "certificate bob")
    assert alice.form_key != bob.form_key
    assert of.may_see(bob)


@pytest.mark.parametrize(("listen", "open_to_all"), [("127.0.0.1:1", True), ("[::1]:1", True), ("localhost:1", True), ("0.0.0.0:1", False)])
def test_beyond_loopback_pages_need_a_login(listen: str, open_to_all: bool) -> None:
    of = access(listen, tls=TLS)
    assert of.may_see(NOBODY) is open_to_all
    assert of.may_see(visitor(of, of.login(TOKEN)))


# ---- hosts and origins -----------------------------------------------------------------------------------------------

FOREIGN = ("", "evil.example", "evil.example:8320", "localhost.evil.example", "127.0.0.1.evil.example", "[", "2130706433", "a b")


@pytest.mark.parametrize(
    ("listen", "advertise", "known", "unknown"),
    [
        ("127.0.0.1:8320", "", ["127.0.0.1", "127.0.0.1:8320", "LOCALHOST:8320", "[::1]:8320", "127.0.0.2"], ["10.0.0.5", *FOREIGN]),
        ("[::1]:8320", "", ["[::1]:8320", "localhost", "127.0.0.1:1"], ["[2001:db8::1]:8320", *FOREIGN]),
        ("127.0.0.1:8320", "console.example:443", ["console.example", "Console.Example:443", "127.0.0.1"], ["example", *FOREIGN]),
        ("10.0.0.5:8320", "", ["10.0.0.5:8320", "127.0.0.1:8320"], ["10.0.0.6:8320", *FOREIGN]),
        ("0.0.0.0:8320", "", ["10.0.0.5:8320", "[2001:db8::1]:8320", "192.0.2.1"], FOREIGN),
        ("[::]:8320", "console.example:8320", ["10.0.0.5", "[2001:db8::1]:8320", "console.example:8320"], FOREIGN),
        ("db.example:8320", "", ["db.example:8320", "DB.EXAMPLE"], FOREIGN),
    ],
)
def test_a_host_is_known_by_the_settings_alone(listen: str, advertise: str, known: list[str], unknown: list[str]) -> None:
    of = access(listen, advertise=advertise, tls=TLS)
    assert {host: of.knows_host(host) for host in (*known, *unknown)} == dict.fromkeys(known, True) | dict.fromkeys(unknown, False)


HOST = {"host": "127.0.0.1:8320"}


@pytest.mark.parametrize(
    ("method", "headers", "foreign"),
    [
        ("POST", {}, False),  # no browser of today
        ("POST", {"origin": "http://127.0.0.1:8320"}, False),
        ("POST", {"origin": "http://127.0.0.1:8320", "sec-fetch-site": "same-origin"}, False),
        ("POST", {"origin": "http://127.0.0.1:3000"}, True),
        ("POST", {"origin": "http://evil.example"}, True),
        ("POST", {"origin": "null"}, True),
        ("POST", {"origin": ""}, True),
        ("POST", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, True),
        ("POST", {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"}, True),
        ("GET", {"sec-fetch-site": "none"}, False),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, False),  # a link
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, True),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, True),
        ("GET", {"origin": "http://evil.example"}, True),
    ],
)
def test_what_another_sites_page_asks_is_foreign_but_a_link(method: str, headers: dict[str, str], foreign: bool) -> None:
    assert access().is_foreign(method, HOST | headers) is foreign
