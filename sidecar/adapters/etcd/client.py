"""TiCDC's own etcd (PD's), through the messages and stubs of the package etcd3.

- Writes go below ROOT only, or to the one key that a client is made for, checked where a transaction is built: an unknown key under
  /tidb/cdc stops TiCDC, and an entry of TiDB-Binlog is its node's own.
- Every call ends within `timeout_s`, over all endpoints: one that is unreachable or silent is left for the next.
- So a call may be carried out more than once. Nothing here breaks by it: a lease that nobody uses runs out, and the compares of a
  transaction show it. A caller that compares must recognize its own write.
- The gRPC status code says which error it is. There is no watch. A caller that reads an old revision gets an error when it is compacted.
  So compaction does no harm: a caller that waits reads again.
- etcd3's own client is not used: it knows one host, gives authentication over plain text to a gRPC that refuses it, and turns
  status codes into exceptions without text.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from typing import Any

import grpc

from sidecar.adapters.etcd.keys import BY_SETTINGS, ROOT, Compare, Delete, EtcdNamed, KeyEntry, Put, Transaction, after
from sidecar.adapters.etcd.messages import etcd_messages
from sidecar.shared.config import EtcdSection
from sidecar.shared.config_files import read_secret
from sidecar.shared.errors import Compacted, ConfigError, CoordinationError, CoordinationLost, OwnershipLost, StorageFull, TicdcDumpError
from sidecar.shared.process.tls import section_credentials

OPERATIONS_MAX = 120
"""Of one transaction; etcd's own default is 128, compares and all."""

TRANSACTION_BYTES_MAX = 1 << 20
"""Of one transaction; etcd's own default is 1.5 MiB."""

ANSWER_BYTES_MAX = 256 << 20
"""gRPC's own 4 MiB is less than the progress of 10,000 tables."""

RECONNECT_MS = 200, 1000
"""gRPC waits up to two minutes before it tries a lost endpoint again: longer than any lease."""

PING_MS = 10_000
"""A connection that died silently is noticed after this; etcd refuses pings more often than every 5 s."""

_AWAY = frozenset(
    getattr(grpc.StatusCode, name) for name in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "CANCELLED", "ABORTED")
)
"""The last four are what is left of etcd's own troubles while it elects or stops (UNKNOWN: "raft proposal dropped"). Asking again
is safe, as every call may be carried out twice."""

_TOKEN = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED)
"""What etcd answers to a token that has run out or is older than the last change of users and roles."""


class EtcdClient:
    """Safe to share between threads. Opens its connections when they are needed; `close` ends them.

    Every call raises CoordinationLost (no endpoint answered in time), ConfigError (user, password, certificates),
    StorageFull, or CoordinationError for anything else that etcd says.
    """

    def __init__(self, section: EtcdSection, *, root: str = ROOT, named: EtcdNamed = BY_SETTINGS) -> None:
        """`root`: what may be written: all below it where it ends in a slash, else this key alone. Raises ConfigError for endpoints or
        files that cannot be used; does not connect."""
        self.section, self.named = section, named
        self._root = root
        self._rpc = etcd_messages()
        self._lock = threading.Lock()
        self._password = read_secret(section.password_file)
        self._token = ""
        credentials = section_credentials("etcd.tls", section.tls)
        self._channels = [(endpoint, _channel(endpoint, credentials, named)) for endpoint in section.endpoints]
        self._first = 0
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for _, channel in self._channels:
            channel.close()

    def get(self, key: str, *, revision: int = 0) -> KeyEntry | None:
        """As it is, or as it was when etcd was at `revision`. Raises Compacted for one that is too long ago."""
        entries = self._range(self._rpc.RangeRequest(key=key.encode(), revision=revision), None)
        return entries[0] if entries else None

    def get_prefix(self, prefix: str, *, keys_only: bool = False) -> list[KeyEntry]:
        """Everything that begins with `prefix`, of one revision, in the order of the keys."""
        return self._range(self._rpc.RangeRequest(key=prefix.encode(), range_end=after(prefix), keys_only=keys_only), None)

    def members(self) -> tuple[str, ...]:
        """The client addresses, host:port, that the members advertise."""
        members = self._call("Cluster", "MemberList", self._rpc.MemberListRequest(), None).members
        return tuple(url.rpartition("://")[2].rstrip("/") for member in members for url in member.clientURLs)

    def transact(
        self,
        compares: Sequence[Compare],
        writes: Sequence[Put | Delete],
        *,
        otherwise: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Transaction:
        """Carry out all `writes` if all `compares` hold, else none, and read the keys `otherwise`. At most OPERATIONS_MAX and
        TRANSACTION_BYTES_MAX. Raises OwnershipLost when a put's lease has run out."""
        request = self._rpc.TxnRequest(
            compare=[self._compare(compare) for compare in compares],
            success=[self._write(write) for write in writes],
            failure=[self._rpc.RequestOp(request_range=self._rpc.RangeRequest(key=key.encode())) for key in otherwise],
        )
        answer = self._call("KV", "Txn", request, timeout_s)
        entries = () if answer.succeeded else tuple(_first_entry(response.response_range) for response in answer.responses)
        return Transaction(answer.succeeded, answer.header.revision, entries)

    def grant(self, ttl_s: int) -> int:
        """A new lease's number; it lives for `ttl_s` or more, from when this was called or later."""
        return int(self._call("Lease", "LeaseGrant", self._rpc.LeaseGrantRequest(TTL=ttl_s), None).ID)

    def keep_alive(self, lease: int, *, timeout_s: float | None = None) -> bool:
        """Let the lease begin again. False: it has run out, and there is nothing to keep."""
        answers = self._call("Lease", "LeaseKeepAlive", self._rpc.LeaseKeepAliveRequest(ID=lease), timeout_s)
        return bool(answers and answers[0].TTL > 0)

    def revoke(self, lease: int, *, timeout_s: float | None = None) -> None:
        """End the lease, and its keys with it. Nothing to do when it has run out."""
        self._call("Lease", "LeaseRevoke", self._rpc.LeaseRevokeRequest(ID=lease), timeout_s, gone_is_fine=True)

    def _range(self, request: Any, timeout_s: float | None) -> list[KeyEntry]:
        return [_entry(item) for item in self._call("KV", "Range", request, timeout_s).kvs]

    def _compare(self, compare: Compare) -> Any:
        made = self._rpc.Compare(key=compare.key.encode(), result=self._rpc.Compare.EQUAL)
        match compare.what:
            case "created":
                made.target, made.create_revision = self._rpc.Compare.CREATE, compare.revision
            case "modified":
                made.target, made.mod_revision = self._rpc.Compare.MOD, compare.revision
        return made

    def _write(self, write: Put | Delete) -> Any:
        """The only place where a write is made."""
        key = write.key if isinstance(write, Put) else write.prefix
        below = self._root.endswith("/") and key.startswith(self._root) and len(key) > len(self._root)
        is_own = not self._root.endswith("/") and isinstance(write, Put) and key == self._root
        if not (below or is_own):
            raise CoordinationError(f"etcd key {key} is not ours to write", hint=f"report this: only {self._root} is, or what is below it")
        if isinstance(write, Put):
            return self._rpc.RequestOp(request_put=self._rpc.PutRequest(key=key.encode(), value=write.value, lease=write.lease))
        return self._rpc.RequestOp(request_delete_range=self._rpc.DeleteRangeRequest(key=key.encode(), range_end=after(key)))

    def _call(self, service: str, method: str, request: Any, timeout_s: float | None, *, gone_is_fine: bool = False) -> Any:
        """Ask the endpoints in turn, beginning with the one that answered last. What is left of the time is shared out among
        the endpoints that are left, so that a silent one cannot use up all of it."""
        if self._closed:
            raise CoordinationError(
                f"etcd was called ({method}) after its client was closed", hint="report this: what uses a client ends before it"
            )
        deadline = time.monotonic() + min(timeout_s or self.section.timeout_s, self.section.timeout_s)
        count, lost = len(self._channels), []
        for turn in range(count):
            at = (self._first + turn) % count
            endpoint, channel = self._channels[at]
            until = time.monotonic() + (deadline - time.monotonic()) / (count - turn)
            try:
                answer = self._ask(channel, service, method, request, until)
            except grpc.RpcError as error:
                if gone_is_fine and error.code() == grpc.StatusCode.NOT_FOUND:
                    return None
                if error.code() not in _AWAY:
                    raise self._translated(error, endpoint, method) from error
                lost.append(f"{endpoint}: {error.code().name}, {error.details()}")
            else:
                self._first = at
                return answer
        raise CoordinationLost(
            f"etcd does not answer ({method}): {'; '.join(lost)}",
            hint=f"see that PD runs, and check {self.named.endpoints} and {self.named.tls}",
        )

    def _ask(self, channel: grpc.Channel, service: str, method: str, request: Any, until: float) -> Any:
        """One endpoint, with a fresh token if etcd wants one."""
        if not self.section.user:
            return self._send(channel, service, method, request, until, "")
        token = self._token or self._login(channel, until, refused="")
        try:
            return self._send(channel, service, method, request, until, token)
        except grpc.RpcError as error:
            if error.code() not in _TOKEN:
                raise
        return self._send(channel, service, method, request, until, self._login(channel, until, refused=token))

    def _login(self, channel: grpc.Channel, until: float, *, refused: str) -> str:
        """A token for the user; empty if etcd has authentication off, as its own clients do."""
        with self._lock:
            if self._token and self._token != refused:
                return self._token  # another thread was faster
            request = self._rpc.AuthenticateRequest(name=self.section.user, password=self._password)
            try:
                self._token = self._send(channel, "Auth", "Authenticate", request, until, "").token
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                    raise ConfigError(
                        f"etcd does not know user {self.section.user!r} with this password: {error.details()}",
                        hint="check etcd.user and etcd.password_file",
                    ) from error
                if error.code() != grpc.StatusCode.FAILED_PRECONDITION:
                    raise
                self._token = ""
            return self._token

    def _send(self, channel: grpc.Channel, service: str, method: str, request: Any, until: float, token: str) -> Any:
        stub = getattr(getattr(self._rpc, f"{service}Stub")(channel), method)
        options = {"timeout": max(until - time.monotonic(), 0.001), "metadata": (("token", token),) if token else None}
        if method == "LeaseKeepAlive":
            return list(stub(iter((request,)), **options))
        return stub(request, **options)

    def _translated(self, error: Any, endpoint: str, method: str) -> TicdcDumpError:
        said = f"etcd at {endpoint} ({method}): {error.details()}"
        user = f"user {self.section.user!r}" if self.section.user else "no user"
        reads = "/tidb/cdc/" if self._root == ROOT else "/tidb-binlog/ and /tidb/server/info/"
        match error.code():
            case grpc.StatusCode.PERMISSION_DENIED:
                return ConfigError(
                    f"{said}; the user was {user}",
                    hint=f"grant the user of etcd.user read on {reads} and readwrite on {self._root} (by prefix)",
                )
            case grpc.StatusCode.UNAUTHENTICATED:
                return ConfigError(f"{said}; the user was {user}", hint=self.named.login)
            case grpc.StatusCode.INVALID_ARGUMENT if not self.section.user:
                return ConfigError(f"{said}; the user was {user}", hint=f"if etcd has authentication on: {self.named.login}")
            case grpc.StatusCode.RESOURCE_EXHAUSTED:
                return StorageFull(said, hint="if etcd's space is used up: compact and defragment it, then disarm its NOSPACE alarm")
            case grpc.StatusCode.OUT_OF_RANGE:
                return Compacted(said, hint="ask for the present: etcd (PD) keeps an hour of its history")
            case grpc.StatusCode.NOT_FOUND:
                return OwnershipLost(said, hint="the lease has run out; acquire ownership again")
        return CoordinationError(f"{said} ({error.code().name})", hint="look into the log of etcd (PD)")


def _entry(value: Any) -> KeyEntry:
    return KeyEntry(value.key.decode(), value.value, value.create_revision, value.mod_revision, value.lease)


def _first_entry(value: Any) -> KeyEntry | None:
    return _entry(value.kvs[0]) if value.kvs else None


def _channel(endpoint: str, credentials: grpc.ChannelCredentials | None, named: EtcdNamed) -> grpc.Channel:
    if not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s/:]+):\d{1,5}", endpoint):
        raise ConfigError(
            f"etcd endpoint {endpoint!r} is not host:port", hint=f"set {named.endpoints} to PD's client addresses, without a scheme"
        )
    first_ms, most_ms = RECONNECT_MS
    options = [
        ("grpc.initial_reconnect_backoff_ms", first_ms),
        ("grpc.min_reconnect_backoff_ms", most_ms),
        ("grpc.max_reconnect_backoff_ms", most_ms),
        ("grpc.keepalive_time_ms", PING_MS),
        ("grpc.keepalive_timeout_ms", PING_MS // 2),
        ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
        ("grpc.enable_http_proxy", 0),
    ]
    return grpc.insecure_channel(endpoint, options) if credentials is None else grpc.secure_channel(endpoint, credentials, options)
