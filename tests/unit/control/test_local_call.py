"""Calls of the control service from within the process: what a handler asks of gRPC's context, and how a call ends."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from sidecar.control import local_call
from sidecar.control.asker import asker_of
from sidecar.control.local_call import CallRejected, LocalCall
from sidecar.control.service import ControlService
from sidecar.shared.model.messages import Asker
from tests.unit.control.serving import Owner, standby
from ticdc_dump.v1 import control_pb2 as pb

FEED = pb.Changefeed(id="cf")
HERE = "127.0.0.1:41000"


@pytest.fixture
def owner() -> Iterator[Owner]:
    with Owner() as made:
        yield made


def rejected(service: ControlService, method: str, request: object) -> CallRejected:
    with pytest.raises(CallRejected) as result:
        getattr(service, method)(request, LocalCall("", HERE))
    return result.value


def test_an_answer_is_that_of_the_service(owner: Owner) -> None:
    service = ControlService(owner.served())
    status = service.Query(pb.DumpRequest(changefeed=FEED), LocalCall("", HERE))
    assert (status.changefeed.id, status.segments) == ("cf", 7)


def test_the_name_that_the_console_proved_is_who_asks() -> None:
    assert asker_of(LocalCall("token 1f0c22ab", HERE), token="token of the service") == Asker("token 1f0c22ab", HERE)
    assert asker_of(LocalCall("certificate alice", "[::1]:41000"), token="") == Asker("certificate alice", "[::1]:41000")


def test_one_that_has_proved_nothing_is_not_taken_for_the_services_own_token() -> None:
    assert asker_of(LocalCall("", HERE), token="token 1f0c22ab") == Asker("not authenticated", HERE)


def test_a_rejection_has_code_and_text(owner: Owner) -> None:
    service = ControlService(owner.served())
    result = rejected(service, "Query", pb.DumpRequest(changefeed=FEED, dump_id="f" * 16))
    assert result.code is grpc.StatusCode.FAILED_PRECONDITION
    assert "there is no dump" in result.details
    assert "what to do: " in result.details
    assert (result.owner, result.may_come_back) == (None, False)
    other = rejected(service, "Query", pb.DumpRequest(changefeed=pb.Changefeed(id="other")))
    assert (other.code, other.may_come_back) == (grpc.StatusCode.NOT_FOUND, False)


@pytest.mark.parametrize("address", ["10.0.0.9:8310", None])
def test_a_standby_names_the_owner(address: str | None) -> None:
    result = rejected(ControlService(standby(lambda: address)), "Query", pb.DumpRequest(changefeed=FEED))
    assert (result.owner, result.may_come_back) == (address or "", True)


def test_what_ends_by_itself_may_come_back(owner: Owner) -> None:
    service = ControlService(owner.served(status=lambda: None, hindered=lambda: "etcd does not answer"))
    result = rejected(service, "List", pb.ListRequest())
    assert (result.code, result.owner, result.may_come_back) == (grpc.StatusCode.UNAVAILABLE, None, True)


def test_a_call_has_as_long_as_a_caller_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(local_call, "monotonic", lambda: now_s)
    call = LocalCall("", HERE, wait_s=5.0)
    assert (call.time_remaining(), call.is_active(), call.add_callback(lambda: None)) == (5.0, True, True)
    now_s += 5.0
    assert (call.time_remaining(), call.is_active()) == (0.0, False)
