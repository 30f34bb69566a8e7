"""Requests to a receiver, and what its answers mean: which errors pass without help, and what the operator does about the others.

    2xx    taken, or there already        409   what the receiver has is not what the request continues: the caller reads what it is
    408, 425, 429, 5xx, no answer         tried again for RETRY_S, with jitter, and no sooner than Retry-After says

A request may be sent again whatever became of it: by its state the receiver knows whether it has it. Redirects are not followed, for they
would take the token elsewhere; proxies of the environment are not used. No text that is shown holds token or password.
"""

from __future__ import annotations

import gzip
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from random import random
from typing import NamedTuple

import msgspec
import stamina
import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader, LocationValueError, SSLError

from sidecar.shared.errors import SinkError
from sidecar.shared.process.kept_secrets import kept
from sidecar.shared.process.patience import patience_s
from sidecar.shared.process.printable import printable
from sidecar.shared.process.progress import may_take
from spark_merge.sinks.kit.options import is_word, option, text, whole_seconds

RETRY_S = 30.0
"""How long an error that passes is tried again here; then the loop of the sink tries again, and reports it."""

HTTP_RETRY_FIRST_S, HTTP_RETRY_MAX_S, JITTER_S = 0.1, 5.0, 0.5
RETRY_AFTER_MAX_S = 60
"""A longer Retry-After is taken for this: who waits for hours cannot be stopped, nor tell why."""

STEPS = 3
"""Of a request, each within the receiver's timeout: to connect, to send, to read the answer."""

ANSWER_BYTES_MAX = 64 << 10
LINES_BYTES_MAX = 1 << 30
"""Of lines that are read back: a receiver gives some at a time, and a row may be as large as TiDB has them."""

REASON_CHARS_MAX = 300
GZIP_LEVEL = 1

SECRET_KIND = "http"
PASSES = frozenset({408, 425, 429})
TOO_LARGE = 413

AFTER, STATE, READ = "Ticdc-Dump-After", "Ticdc-Dump-State", "Ticdc-Dump-Read"
LINES_TYPE = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Receiver:
    """How it is reached. `url` has neither account nor parameters. The password is not here, as it goes to tasks: it is kept
    (shared/process/kept_secrets.py); a token is in its file on each host."""

    url: str
    user: str = ""
    token_file: str = option("token-file", text("a file"), "",
        "A file of one line, the token of `Authorization: Bearer …`. It is read for each request, so it can be replaced.")  # fmt: skip
    ca: str = option("ca", text("a file, PEM"), "",
        "Whose certificates are accepted.", shown="the machine's authorities")  # fmt: skip
    cert: str = option("cert", text("a file, PEM"), "", "The sink's certificate.")
    key: str = option("key", text("a file, PEM"), "", "The key of `cert`. Default: in the same file.")
    timeout_s: int = option("timeout", whole_seconds(), 60,
        "How long a connection or an answer may take. Then the body is sent again, and case 2 answers it.")  # fmt: skip
    gzip: bool = option("compression", is_word("gzip", "none", "gzip"), False,
        "`gzip`: `Content-Encoding: gzip`, for receivers that are far away.")  # fmt: skip

    def __str__(self) -> str:
        return self.url


class Passing(Exception):
    """It may succeed later. `wait_s`: not before, None where the answer does not say."""

    def __init__(self, text: str, wait_s: float | None = None) -> None:
        super().__init__(text)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Conflict:
    """409, with the receiver's reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Body:
    """`key`: names the place in the stream that `data` is of. `what`: what it is, for an error."""

    data: bytes
    key: str
    what: str = "a body"


class Answer(NamedTuple):
    """`text`: of a 409 the reason. `kind`: its Content-Type."""

    status: int
    text: str
    kind: str


class Client:
    """Several threads may use one. Opens connections when they are needed, and keeps them."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def state(self) -> str | None:
        """What the receiver keeps, letter by letter; None: nothing. Raises SinkError."""
        return self._got({}, "asking for its state").text or None

    def lines(self, query: Mapping[str, object]) -> str | None:
        """Lines that the receiver has, as deploy/HTTP-SINK.md says; None: it gives none back. Raises SinkError."""
        answer = self._got({READ: json.dumps(query)}, "asking for its lines", bytes_max=LINES_BYTES_MAX)
        return answer.text if answer.kind == LINES_TYPE else None

    def post(self, body: Body, *, after: str | None, state: str) -> Conflict | None:
        """None: the receiver has the body, and keeps `state`. Raises SinkError."""
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": body.key, STATE: state}
        headers |= {AFTER: after} if after else {}
        data = body.data
        if self.receiver.gzip and data:
            data = gzip.compress(data, GZIP_LEVEL, mtime=0)
            headers["Content-Encoding"] = "gzip"
        answer = self._request("POST", headers, data, f"sending {body.what} of {len(body.data):,} bytes")
        return Conflict(answer.text) if answer.status == 409 else None

    def close(self) -> None:
        """Never raises. A later request connects again."""
        if "_pool" in self.__dict__:
            self._pool.clear()

    # ---- a request -------------------------------------------------------------------------------------------------------

    def _got(self, headers: Mapping[str, str], doing: str, *, bytes_max: int = ANSWER_BYTES_MAX) -> Answer:
        answer = self._request("GET", headers, None, doing, bytes_max=bytes_max)
        if answer.status == 409:
            raise SinkError(f"{self.receiver}: GET is answered with 409: {answer.text}", hint=_CONTRACT)
        return answer

    def _request(
        self, method: str, headers: Mapping[str, str], data: bytes | None, doing: str, *, bytes_max: int = ANSWER_BYTES_MAX
    ) -> Answer:
        """2xx or 409."""
        secrets = self._authorization()
        sent = {"User-Agent": "ticdc-dump", "Accept": "application/json", **secrets, **headers}
        attempts = stamina.retry_context(
            _again,
            attempts=None,
            timeout=patience_s(RETRY_S),
            wait_initial=HTTP_RETRY_FIRST_S,
            wait_max=HTTP_RETRY_MAX_S,
            wait_jitter=JITTER_S,
        )
        try:
            for attempt in attempts:
                with attempt, may_take(STEPS * self.receiver.timeout_s):
                    return self._once(method, sent, data, doing, bytes_max)
        except Passing as error:
            raise SinkError(f"{self.receiver}: {doing}: {error}", hint=_AWAY) from error
        raise AssertionError("it is tried until it is given up")

    def _once(self, method: str, headers: Mapping[str, str], data: bytes | None, doing: str, bytes_max: int) -> Answer:
        try:
            answer = self._pool.request(
                method, self.receiver.url, body=data, headers=headers, retries=False, redirect=False, preload_content=False
            )
            body = answer.read(bytes_max + 1)
            if len(body) > bytes_max:
                answer.close()
            answer.release_conn()
        except LocationValueError as error:
            raise SinkError(f"{self.receiver} is no URL of a receiver: {error}", hint="write https://host:port/path") from error
        except SSLError as error:
            if isinstance(error.args[0] if error.args else None, ssl.SSLCertVerificationError):
                raise SinkError(f"{self.receiver}: {doing}: {error}", hint=_TLS) from error
            raise Passing(_one_line(str(error))) from error
        except HTTPError as error:
            raise Passing(_one_line(f"no answer: {error}")) from error
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return self._checked_answer(Answer(answer.status, body.decode(errors="replace"), kind), answer.headers.get("Retry-After"), doing)

    def _checked_answer(self, answer: Answer, retry_after: str | None, doing: str) -> Answer:
        status, text, _ = answer
        if 200 <= status < 300:
            return answer
        reason = self._without_secrets(_reason(text))
        if status == 409:
            return answer._replace(text=reason)
        what = f"{status}{f': {reason}' if reason else ''}"
        if status in PASSES or status >= 500:
            raise Passing(what, None if retry_after is None else _seconds(retry_after))
        raise SinkError(f"{self.receiver}: {doing}: {what}", hint=_hint(status))

    # ---- how it is reached -----------------------------------------------------------------------------------------------

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        timeout = urllib3.Timeout(connect=self.receiver.timeout_s, read=self.receiver.timeout_s)
        tls = _context(self.receiver) if self.receiver.url.startswith("https:") else None
        return urllib3.PoolManager(maxsize=4, timeout=timeout, ssl_context=tls)

    def _authorization(self) -> dict[str, str]:
        """Read for each request: a token's file may be given a new one."""
        if self.receiver.token_file:
            return {"Authorization": f"Bearer {_token(self.receiver.token_file)}"}
        if not self.receiver.user:
            return {}
        password = kept(SECRET_KIND, secret_of(self.receiver))
        if password is None:
            raise SinkError(
                f"{self.receiver}: its password is not known to this process: what a URI says is not sent to a cluster's tasks",
                hint="put a token into a file on every host and name that by token-file=",
            )
        return urllib3.make_headers(basic_auth=f"{self.receiver.user}:{password}")

    def _without_secrets(self, text: str) -> str:
        """An answer may repeat what was sent."""
        secrets = [value.rpartition(" ")[2] for value in self._authorization().values()]
        secrets += [password] if self.receiver.user and (password := kept(SECRET_KIND, secret_of(self.receiver))) else []
        for secret in secrets:
            text = text.replace(secret, "…")
        return text


def secret_of(receiver: Receiver) -> str:
    """Whose password is kept."""
    return f"{receiver.user}@{receiver.url}"


def client_of(receiver: Receiver) -> Client:
    """This process's, so that its tasks share connections."""
    return _client(os.getpid(), receiver)


@lru_cache(16)
def _client(_: int, receiver: Receiver) -> Client:
    return Client(receiver)


def _again(error: Exception) -> bool | float:
    if not isinstance(error, Passing):
        return False
    return True if error.wait_s is None else error.wait_s + JITTER_S * random()


def _seconds(retry_after: str) -> float | None:
    """Of a number of seconds or a date."""
    try:
        return urllib3.Retry(retry_after_max=RETRY_AFTER_MAX_S).parse_retry_after(retry_after)
    except InvalidHeader:
        return None


def _reason(text: str) -> str:
    """What the answer gives as `reason`, else its text; one bounded line."""
    try:
        content = msgspec.json.decode(text)
    except ValueError:
        return _one_line(text)
    return _one_line(str(content["reason"]) if isinstance(content, dict) and "reason" in content else text)


def _one_line(text: str) -> str:
    line = " ".join(printable(text).split())
    return line if len(line) <= REASON_CHARS_MAX else line[:REASON_CHARS_MAX] + "…"


def _token(path: str) -> str:
    hint = "make it a text file of one line for this user, on every host"
    try:
        with open(path, encoding="ascii") as file:
            token = file.read().strip()
    except (OSError, ValueError) as error:
        raise SinkError(f"token-file {path} cannot be read: {error}", hint=hint) from error
    if not token or len(token.split()) != 1:
        raise SinkError(f"token-file {path} has not one token in it", hint=hint)
    return token


def _context(receiver: Receiver) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=receiver.ca or None)
        if receiver.cert:
            context.load_cert_chain(receiver.cert, receiver.key or None)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SinkError(f"{receiver}: the files of TLS cannot be used: {error}", hint="check ca, cert and key of the sink's URI") from error
    return context


_AWAY = "see that the receiver is up, keeps up and can be reached; the sink continues automatically"
_TLS = "name the authority that signed the receiver's certificate by ca=FILE, and the receiver by the name that is in it"
_CONTRACT = "see deploy/HTTP-SINK.md for what a receiver answers"


def _hint(status: int) -> str:
    if status == TOO_LARGE:
        return (
            "let the receiver, and what is before it, take larger bodies (nginx: client_max_body_size), or set body-bytes= of the"
            " sink's URI lower; a row that is larger than that goes alone"
        )
    if status in (401, 403):
        return "check token-file, or user and password, of the sink's URI, and what the receiver allows"
    if 300 <= status < 400:
        return "name the URL that it leads to: redirects are not followed, for they would take the token elsewhere"
    return f"name the URL of a receiver that takes GET and POST; {_CONTRACT}"
