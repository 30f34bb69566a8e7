"""What a client makes of a server that is busy, and of tokens and requests that no server could take: over TCP on loopback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event

import grpc
import pytest

from sidecar.cli.dump_call import DumpOptions
from sidecar.control import security
from sidecar.control import service as service_module
from sidecar.control.answers import EXIT_REFUSED, EXIT_UNREACHABLE, REQUEST_BYTES_MAX, CallFailed
from sidecar.control.client import Access, ControlClient, _with_port
from sidecar.ports import Caller, SchemaSource
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.nouns import TableName, TableSchema
from tests.support.eventually import PATIENCE_S
from tests.unit.control.serving import Owner, Schemas, Serving
from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import control_pb2_grpc

ASK = pb.DumpRequest(changefeed=pb.Changefeed(id="cf"))


@pytest.fixture
def owner() -> Iterator[Owner]:
    with Owner() as made:
        yield made


def query(address: str, *, patience_s: float = PATIENCE_S) -> pb.DumpStatus:
    with ControlClient(address, Access(patience_s=patience_s)) as client:
        status: pb.DumpStatus = client.call("Query", ASK)
        return status


def test_a_server_that_is_busy_is_queried_again(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """By gRPC's own bound of calls under way, which says RESOURCE_EXHAUSTED."""
    monkeypatch.setattr(security, "CALLS_MAX", 1)
    with Serving(owner.served()) as serving, ThreadPoolExecutor(1) as threads:
        with ControlClient(serving.address, Access()) as other:
            watch = other.watch(ASK)
            next(watch)
            with pytest.raises(CallFailed) as error:
                query(serving.address, patience_s=0.3)
            assert error.value.exit_code == EXIT_UNREACHABLE
            call = threads.submit(query, serving.address)
        assert call.result(PATIENCE_S).owner == "here:1"


def test_a_bound_that_asking_again_does_not_help_is_reported_at_once(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "WATCHERS_MAX", 1)
    with Serving(owner.served()) as serving, ExitStack() as opened:
        first, second = (opened.enter_context(ControlClient(serving.address, Access(patience_s=PATIENCE_S))) for _ in range(2))
        watch = first.watch(ASK)
        next(watch)
        with pytest.raises(CallFailed, match="1 watch this sidecar already") as error:
            next(second.watch(ASK))
        assert error.value.exit_code == EXIT_REFUSED


def test_a_request_that_no_server_takes_is_not_sent() -> None:
    large = pb.StartRequest(table_rules=["x" * REQUEST_BYTES_MAX])
    with (
        ControlClient("127.0.0.1:1", Access(patience_s=PATIENCE_S)) as client,
        pytest.raises(CallFailed, match="more than 16,777,216") as error,
    ):
        client.call("Start", large)
    assert error.value.exit_code == EXIT_REFUSED


@pytest.mark.parametrize("token", ["two\nlines", "zwölf", "x" * 5000])
def test_a_token_of_the_environment_that_no_call_can_carry_is_reported_by_its_name(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("TICDC_DUMP_TOKEN", token)
    with pytest.raises(ConfigError, match=r"the token in TICDC_DUMP_TOKEN ") as error:
        DumpOptions("cf", sidecar="127.0.0.1:1").client(None)
    assert token not in str(error.value)


class Standing(Schemas):
    """A database that says nothing, until whoever asked has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.went = Event(), Event()

    def asked_by(self, caller: Caller) -> SchemaSource:
        assert caller.when_gone(self.went.set)
        self.asked.set()
        return self

    def tables(self) -> Mapping[TableName, TableSchema]:
        assert self.went.wait(PATIENCE_S)
        return super().tables()


def test_a_call_that_ends_is_reported_to_the_caller_who_queries_the_database_for_it(owner: Owner) -> None:
    standing = Standing()
    with Serving(owner.served(schemas=standing)) as serving, grpc.insecure_channel(serving.address) as channel:
        stub = control_pb2_grpc.ControlStub(channel)  # type: ignore[no-untyped-call]  # generated without types
        call = stub.Preview.future(pb.StartRequest(changefeed=ASK.changefeed, dump_id="a" * 16), timeout=PATIENCE_S)
        assert standing.asked.wait(PATIENCE_S), "a call that is gone before it is taken up is told to nobody"
        assert query(serving.address).owner == "here:1"
        call.cancel()
        assert standing.went.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("target", "whole"),
    [("h", "h:8310"), ("h:1", "h:1"), ("10.0.0.1", "10.0.0.1:8310"), ("[::1]", "[::1]:8310"), ("[::1]:7", "[::1]:7")],
)
def test_an_address_without_a_port_has_the_sidecars(target: str, whole: str) -> None:
    """N25: gRPC tried 443."""
    assert _with_port(target) == whole
