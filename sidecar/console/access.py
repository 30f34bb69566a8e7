"""Who asks, and what they may do.

    loopback       pages are open; commands need a login with the token, or a client's certificate
    anywhere else  pages need it, too (the console does not listen there without TLS)

    rows           off unless `console.show_rows`; then who may give commands may look at them, also on loopback

- A session begins with the token and is a cookie of random bytes that no script can read and no other site can send.
- Forms that change something have a text that only a page of this session has.
- A `Host` that is not this console's is rejected, so that no name of another site can be made to point here; so is a request that another
  site's page makes.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from secrets import token_bytes, token_urlsafe
from threading import Lock
from time import monotonic
from urllib.parse import urlsplit

from sidecar.control.asker import token_name
from sidecar.shared.config import ConsoleSection
from sidecar.shared.process.listening import is_loopback

SESSIONS_MAX = 64
SESSION_S = 12 * 3600.0
"""Without a request of it."""
FAILED_LOGINS_MAX, FAILED_LOGINS_S = 10, 60.0
"""Of all who try, within that time: then logins wait."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """`name`: as the history has it, empty for one that has proved nothing. `form_key`: what their forms must have."""

    name: str
    address: str
    form_key: str = ""


class ConsoleAccess:
    """`token`: empty for none. From any thread."""

    def __init__(self, console: ConsoleSection, token: str, *, now_s: Callable[[], float] = monotonic) -> None:
        self._token, self._now_s = token, now_s
        self._token_name = token_name(token)
        self._key = token_bytes(32)
        self._lock = Lock()
        self._sessions: dict[str, float] = {}
        self._failed: list[float] = []
        self._here = is_loopback(console.listen)
        listen = console.listen.rpartition(":")[0].strip("[]")
        self._names = {name.lower() for name in (listen, _name(console.advertise), socket.gethostname()) if name}
        self._any_address = not self._here and _is_unspecified(listen)
        self.cookie = f"ticdc_dump_{console.listen.rpartition(':')[2]}"
        self.secure = bool(console.tls.cert_file)
        self.has_login = bool(token)
        self.shows_rows = console.show_rows
        self.remedy = (
            "log in with the token of console.token_file"
            if token
            else "use the command line, or set console.token_file and restart this sidecar"
        )

    def knows_host(self, host: str) -> bool:
        """Whether a `Host` header is one of this console's."""
        name = _name(host)
        if name in self._names or name == "localhost":
            return True
        try:
            return ip_address(name).is_loopback or self._any_address
        except ValueError:
            return False

    def is_foreign(self, method: str, headers: Mapping[str, str]) -> bool:
        """Whether the page of another site makes the request. A link from there to a page is followed."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            return True
        if site in ("same-origin", "none"):
            return False
        return method != "GET" or headers.get("sec-fetch-mode") != "navigate"

    def visitor(self, address: str, certificate: str, session: str, *, renews: bool = True) -> Visitor:
        """`certificate`: the name in the client's, which TLS has checked; `session`: its cookie. Empty for none. `renews`: a person asks,
        and the session lasts from now on."""
        if certificate:
            return self._proved(f"certificate {certificate}", address, certificate)
        with self._lock:
            now_s = self._now_s()
            if session and now_s - self._sessions.get(session, -SESSION_S) < SESSION_S:
                if renews:
                    self._sessions[session] = now_s
                return self._proved(self._token_name, address, session)
        return Visitor("", address)

    def may_see(self, visitor: Visitor) -> bool:
        return self._here or bool(visitor.name)

    def may_command(self, visitor: Visitor, form_key: str) -> bool:
        return bool(visitor.name) and hmac.compare_digest(form_key.encode(), visitor.form_key.encode())

    def logins_wait(self) -> bool:
        """Whether too many have failed."""
        with self._lock:
            now_s = self._now_s()
            self._failed = [at_s for at_s in self._failed if now_s - at_s < FAILED_LOGINS_S]
            return len(self._failed) >= FAILED_LOGINS_MAX

    def login(self, token: str) -> str:
        """A new session; empty if it is not the token."""
        right = hmac.compare_digest(sha256(token.encode()).digest(), sha256(self._token.encode()).digest())
        with self._lock:
            if not self._token or not right:
                self._failed.append(self._now_s())
                return ""
            while len(self._sessions) >= SESSIONS_MAX:
                del self._sessions[min(self._sessions, key=self._sessions.__getitem__)]
            session = token_urlsafe(32)
            self._sessions[session] = self._now_s()
            return session

    def logout(self, session: str) -> None:
        with self._lock:
            self._sessions.pop(session, None)

    def _proved(self, name: str, address: str, of: str) -> Visitor:
        return Visitor(name, address, hmac.new(self._key, of.encode(), sha256).hexdigest())


def _name(host: str) -> str:
    """Of `name:port` or a URL, without the port."""
    try:
        return (urlsplit(host if "//" in host else f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_unspecified(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
