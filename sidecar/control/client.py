"""The control service as a client sees it: find the sidecar, follow it to the owner, ask until it answers.

    --sidecar | TICDC_DUMP_ADDR      as given: host:port, with https:// or http:// to say whether it is TLS
    --pd                             the owner's address in etcd, where the sidecar wrote it
    else                             127.0.0.1:8310, the default of the sidecar's settings

- Every request is idempotent, so a call without an answer is made again, the same, until `patience_s` is over.
- A standby names the owner: the call is made there, once. A standby that does not know the owner, or a second standby, is a
  takeover under way: the client calls again, from the start.
- A token leaves this machine over TLS only. On loopback it goes in plain text to the process that has the port. While no sidecar has the
  port, that may be a process of any user of this machine: where that counts, TLS is for loopback too.
- A server that is busy (RESOURCE_EXHAUSTED of gRPC's own, or of a bound that others leave soon) is called again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import grpc
import stamina

from sidecar.control.answers import (
    EXIT_NOT_ALLOWED,
    EXIT_NOT_FOUND,
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    FULL_METADATA,
    KEEPALIVE_MS,
    OWNER_METADATA,
    PATIENCE_S,
    REQUEST_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    CallFailed,
)
from sidecar.shared.config import EtcdSection, Tls
from sidecar.shared.errors import ConfigError, parted
from sidecar.shared.process.listening import check_token, is_loopback
from sidecar.shared.process.tls import channel_credentials
from sidecar.shared.ticdc.changefeed import ChangefeedName
from ticdc_dump.v1 import control_pb2_grpc

NO_TLS = Tls()
ADDRESS_DEFAULT = "127.0.0.1:8310"
ANSWER_MAX_S = 30.0
"""For one answer; the service gives up on the pipeline before that."""

_SEE_NAME = "see --changefeed-id, --namespace, --cluster-id and --pd"

OwnerLookup = Callable[[Sequence[str], Tls, ChangefeedName], str | None]
"""The owner's control address by etcd endpoints (host:port), TLS and changefeed; None if nobody owns it."""


def owner_in_etcd(endpoints: Sequence[str], tls: Tls, name: ChangefeedName) -> str | None:
    """`OwnerLookup`. Raises CoordinationLost where etcd is not reachable, ConfigError where it does not let us in, CallFailed for a
    changefeed that is not there, or a name that none can have."""
    from sidecar.adapters.etcd.changefeed import read_changefeed_info
    from sidecar.adapters.etcd.client import EtcdClient
    from sidecar.adapters.etcd.keys import BY_OPTIONS, changefeed_root, check_name
    from sidecar.adapters.etcd.owner import owner, owner_of_any
    from sidecar.shared.ticdc.changefeed_info import changefeed  # what most calls do not need is not loaded for them

    try:
        check_name(name)
    except ConfigError as error:
        raise _not_found(error.message, hint=_SEE_NAME) from error
    if (tls.cert_file or tls.key_file) and not (tls.cert_file and tls.key_file and tls.ca_file):
        raise ConfigError("--cert and --key are not all that --pd needs", hint="give --ca, --cert and --key for mutual TLS to PD")
    client = EtcdClient(EtcdSection(endpoints=tuple(endpoints), tls=tls), named=BY_OPTIONS)
    try:
        try:
            holder = owner(client, changefeed_root(name, changefeed(name, read_changefeed_info(client, name)).incarnation))
            holder = holder or owner_of_any(client, name)  # by a definition in a file, it has another incarnation
        except ConfigError as error:
            holder = owner_of_any(client, name)  # TiDB-Binlog has no changefeed, and another one's definition can be in a file
            if holder is None:
                raise _not_found(error.message, hint=_SEE_NAME) from error
    finally:
        client.close()
    return holder.address if holder is not None else None


def _not_found(message: str, *, hint: str) -> CallFailed:
    return CallFailed(message, hint=hint, exit_code=EXIT_NOT_FOUND, reason="not_found")


class _AskAgain(Exception):
    """Nobody answered yet; `why` for people, and the `hint` of the server that said so."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a sidecar. `tls.ca_file` makes an address without a scheme TLS; certificate and key for mutual TLS. `token_place`:
    where the token was given, for what an operator reads. Raises ConfigError for a token that no call can carry."""

    tls: Tls = NO_TLS
    token: str = ""
    patience_s: float = PATIENCE_S
    token_place: str = "--token-file"

    def __post_init__(self) -> None:
        check_token(self.token, self.token_place)


def find_address(
    given: str, *, endpoints: Sequence[str], tls: Tls, changefeed: ChangefeedName | None, owner_address: OwnerLookup = owner_in_etcd
) -> str:
    """`given`: by flag or environment, empty for neither. Raises CallFailed where etcd names no owner."""
    if given:
        return given
    if not endpoints or changefeed is None:
        return ADDRESS_DEFAULT
    address = owner_address([_without_scheme(endpoint) for endpoint in endpoints], tls, changefeed)
    if address is None:
        raise _not_found(
            f"no sidecar owns changefeed {changefeed} according to etcd at {', '.join(endpoints)}",
            hint="start one with ticdc-dump run, or name it with --sidecar; see --namespace and --cluster-id",
        )
    return address


class ControlClient:
    """`call("Query", request)` and `watch(request)`, against the owner wherever it is."""

    def __init__(self, address: str, access: Access) -> None:
        self._address = address
        self._access = access
        self._channels: dict[str, Any] = {}

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *ended: object) -> None:
        for channel in self._channels.values():
            channel.close()

    def call(self, method: str, request: Any) -> Any:
        """The answer to `request`. Raises CallFailed; ConfigError for TLS files or a token that cannot be used."""
        if (size := request.ByteSize()) > REQUEST_BYTES_MAX:
            raise CallFailed(
                f"the request has {size:,} bytes, more than {REQUEST_BYTES_MAX:,}",
                hint="dump the table in parts: fewer --keys or a shorter --where",
                exit_code=EXIT_REFUSED,
                reason="refused",
            )
        return self._patiently(lambda stub: getattr(stub, method)(request, **self._terms(), timeout=ANSWER_MAX_S))

    def watch(self, request: Any) -> Iterator[Any]:
        """Statuses for as long as anybody gives them: a stream that breaks is opened again, at the owner of that time."""
        while True:
            first, rest = self._patiently(lambda stub: _opened(stub.Watch(request, **self._terms())))
            yield first
            try:
                yield from rest
            except grpc.RpcError as error:
                if not _may_come_back(error):
                    raise _failed(error, self._address) from error

    def stream(self, method: str, request: Any) -> Iterator[Any]:
        """The messages of a stream that ends. Raises as `call`, also amid them."""
        result = self._patiently(lambda stub: _begun(getattr(stub, method)(request, **self._terms())))
        try:
            yield from result
        except grpc.RpcError as error:
            raise _failed(error, self._address) from error

    def _terms(self) -> dict[str, Any]:
        return {"metadata": (("authorization", f"Bearer {self._access.token}"),)} if self._access.token else {}

    def _patiently(self, ask: Callable[[Any], Any]) -> Any:
        try:
            for attempt in stamina.retry_context(
                on=_AskAgain, attempts=None, timeout=self._access.patience_s, wait_initial=0.1, wait_max=1.0, wait_jitter=0.1
            ):
                with attempt:
                    return self._from_owner(ask)
        except _AskAgain as last:
            raise CallFailed(
                f"no answer within {self._access.patience_s:g} s: {last.why}",
                hint=last.hint
                or "see that the sidecar runs (ticdc-dump run) and listens there, and that --ca, --cert and --key fit; name it with"
                " --sidecar HOST:PORT or TICDC_DUMP_ADDR",
                exit_code=EXIT_UNREACHABLE,
                reason="unreachable",
            ) from last
        raise AssertionError("the last attempt raises")

    def _from_owner(self, ask: Callable[[Any], Any]) -> Any:
        address = self._address
        for _ in range(2):
            try:
                return ask(self._stub(address))
            except grpc.RpcError as error:
                owner = _owner_of(error)
                if owner is None:
                    if _may_come_back(error):
                        why, hint = parted(error.details() or "")
                        raise _AskAgain(f"{address}: {why}", hint) from error
                    raise _failed(error, address) from error
                if not owner:
                    raise _AskAgain(f"{address} is a standby and does not know the owner") from error
                address = owner
        raise _AskAgain(f"{address} is a standby too: the changefeed is being taken over")

    def _stub(self, address: str) -> Any:
        if address not in self._channels:
            self._channels[address] = _channel(address, self._access)
        return control_pb2_grpc.ControlStub(self._channels[address])  # type: ignore[no-untyped-call]  # generated without types


def _with_port(target: str) -> str:
    """gRPC's own port for none is 443, where no sidecar is."""
    host, _, port = target.rpartition(":")
    has_port = port.isdigit() and (":" not in host or host.startswith("["))
    return target if has_port else f"{target}:{ADDRESS_DEFAULT.rpartition(':')[2]}"


def _channel(address: str, access: Access) -> Any:
    target = _with_port(_without_scheme(address))
    encrypted = address.startswith("https://") or (bool(access.tls.ca_file) and not address.startswith("http://"))
    options = (
        ("grpc.max_receive_message_length", RESPONSE_BYTES_MAX),
        ("grpc.max_send_message_length", REQUEST_BYTES_MAX),
        ("grpc.enable_http_proxy", 0),  # an http_proxy in the environment is not for machines of one's own
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),  # a frozen sidecar ends a watch
    )
    if encrypted:
        return grpc.secure_channel(target, _credentials(access.tls), options=options)
    if access.token and not is_loopback(target):
        raise ConfigError(
            f"the token would go to {target} unencrypted", hint="give --ca (or an https:// address), so that it goes over TLS"
        )
    return grpc.insecure_channel(target, options=options)


def _credentials(tls: Tls) -> Any:
    if bool(tls.cert_file) != bool(tls.key_file):
        raise ConfigError("--cert and --key are given one without the other", hint="give both for mutual TLS, or neither")
    return channel_credentials(tls)


def _without_scheme(address: str) -> str:
    return address.strip().removeprefix("https://").removeprefix("http://").rstrip("/")


def _opened(stream: Any) -> tuple[Any, Iterator[Any]]:
    """The stream after its first message came: what a standby or nobody would answer comes before that."""
    try:
        return next(stream), stream
    except StopIteration:
        raise _AskAgain("the sidecar is shutting down") from None


def _begun(stream: Any) -> Iterator[Any]:
    """`stream`, whose first message, or end, is there: what a standby or nobody would answer comes before that."""
    return chain(list(islice(stream, 1)), stream)


def _owner_of(error: Any) -> str | None:
    """What a standby reports about the owner; None if this is not a standby's answer."""
    if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
        return None
    return _trailing(error, OWNER_METADATA)


def _trailing(error: Any, name: str) -> str | None:
    return next((value for key, value in error.trailing_metadata() or () if key == name), None)


def _may_come_back(error: Any) -> bool:
    busy = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and _trailing(error, FULL_METADATA) is None
    return busy or _owner_of(error) is not None or error.code() is grpc.StatusCode.UNAVAILABLE


def _failed(error: Any, address: str) -> CallFailed:
    code, text = error.code(), error.details() or ""
    message, hint = parted(text)
    match code:
        case grpc.StatusCode.INVALID_ARGUMENT:
            exit_code, reason = EXIT_USAGE, "usage"
        case grpc.StatusCode.NOT_FOUND:
            exit_code, reason = EXIT_NOT_FOUND, "not_found"
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            exit_code, reason = EXIT_NOT_ALLOWED, "not_allowed"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            exit_code, reason = EXIT_UNREACHABLE, "unreachable"
        case grpc.StatusCode.FAILED_PRECONDITION | grpc.StatusCode.RESOURCE_EXHAUSTED:
            exit_code, reason = EXIT_REFUSED, "refused"
        case _:
            exit_code, reason = EXIT_REFUSED, "error"
            message = f"{address} answered {code.name}: {message}"
    return CallFailed(message, hint=hint or "see the sidecar's log and dumpquery", exit_code=exit_code, reason=reason)
