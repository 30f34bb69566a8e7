"""The control service for real: over TCP, with TLS, mutual TLS and tokens, redirects, lost answers, and its command line.

The owner's pipeline is a thread with the real state machine of a dump (tests/unit/control/serving.py); tables and filter are in
memory. etcd is real.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.keys import changefeed_root
from sidecar.adapters.etcd.owner import EtcdOwner, OwnerHolder
from sidecar.cli import dump_commands
from sidecar.control.answers import EXIT_NOT_FOUND, EXIT_USAGE, CallFailed
from sidecar.control.asker import asker_of, token_name
from sidecar.control.client import ADDRESS_DEFAULT, Access, ControlClient, find_address, owner_in_etcd
from sidecar.control.security import CALLS_MAX, HEALTH_PREFIX, HEALTH_WATCHERS_MAX, SERVICE_NAME, serve
from sidecar.control.service import ControlService
from sidecar.control.wire import STATE_NAMES
from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope
from sidecar.shared.config import ControlSection, EtcdSection, Tls
from sidecar.shared.errors import ConfigError, with_hint
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import OperationId, TableName
from sidecar.shared.model.progress import DumpState
from sidecar.shared.process.listening import read_token
from sidecar.shared.ticdc.changefeed_info import BINLOG
from tests.support.commands_page import commands
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.services.etcd import Etcd
from tests.support.services.ports import free_port
from tests.support.services.tls import Authority, Signed
from tests.unit.control.serving import ALICE, NAME, Owner, Schemas, Serving, schema, standby
from ticdc_dump.v1 import control_pb2 as pb

pytestmark = pytest.mark.xdist_group("control")

FEED = pb.Changefeed(id="cf")
ASK = pb.DumpRequest(changefeed=FEED)
FIRST, SECOND = "a" * 16, "b" * 16
TOKEN = "correct horse battery staple"
TWO = ("orders", "item")
SHORT_S = 0.5
"""Patience where nobody is going to answer."""


@pytest.fixture
def owner() -> Iterator[Owner]:
    with Owner() as made:
        yield made


@pytest.fixture
def serving(owner: Owner) -> Iterator[Serving]:
    with Serving(owner.served()) as made:
        yield made


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def signed(authority: Authority) -> Signed:
    return authority.sign("sidecar")


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


def start(dump_id: str = FIRST) -> pb.StartRequest:
    return pb.StartRequest(changefeed=FEED, dump_id=dump_id)


def query(address: str, **access: Any) -> pb.DumpStatus:
    with ControlClient(address, Access(**{"patience_s": SHORT_S} | access)) as client:
        status: pb.DumpStatus = client.call("Query", ASK)
        return status


def fails(address: str, **access: Any) -> CallFailed:
    with pytest.raises(CallFailed) as error:
        query(address, **access)
    return error.value


# ---- who may listen ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("control", "wrong"),
    [
        (ControlSection(listen="0.0.0.0:0"), "control.listen is 0.0.0.0:0, beyond this machine"),
        (ControlSection(listen="127.0.0.1:0", token_file="/nowhere/token"), "cannot be read"),
        (ControlSection(listen="127.0.0.1:0", tls=Tls(cert_file="/nowhere/c", key_file="/nowhere/k")), "cannot be read"),
    ],
)
def test_what_is_unsafe_or_unreadable_is_not_listened_with(control: ControlSection, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        serve(ControlService(standby(lambda: None)), control)


def test_a_port_that_another_sidecar_has_is_refused(serving: Serving) -> None:
    with pytest.raises(ConfigError, match="cannot be listened on"):
        serve(ControlService(standby(lambda: None)), ControlSection(listen=serving.address))


# ---- who may ask ---------------------------------------------------------------------------------------------------------


def server_tls(signed: Signed, ca_file: Path | None = None) -> Tls:
    return Tls(ca_file=str(ca_file or ""), cert_file=str(signed.cert_file), key_file=str(signed.key_file))


def test_with_tls_the_client_checks_the_sidecar(owner: Owner, authority: Authority, signed: Signed, tmp_path: Path) -> None:
    ca = Tls(ca_file=str(authority.ca_file))
    with Serving(owner.served(), ControlSection(listen="127.0.0.1:0", tls=server_tls(signed))) as serving:
        assert query(serving.address, tls=ca).owner == "here:1"
        assert query(f"https://{serving.address}", tls=ca).owner == "here:1"
        assert fails(serving.address).exit_code == 5
        other = Authority(tmp_path, "other")
        assert fails(serving.address, tls=Tls(ca_file=str(other.ca_file))).exit_code == 5


def test_an_address_says_by_its_scheme_that_it_is_not_tls(serving: Serving, authority: Authority) -> None:
    ca = Tls(ca_file=str(authority.ca_file))
    assert query(f"http://{serving.address}", tls=ca).owner == "here:1"
    assert fails(serving.address, tls=ca).exit_code == 5


def test_with_mutual_tls_a_client_needs_a_certificate_of_the_authority(
    owner: Owner, authority: Authority, signed: Signed, tmp_path: Path
) -> None:
    control = ControlSection(listen="127.0.0.1:0", tls=server_tls(signed, authority.ca_file))
    with Serving(owner.served(), control) as serving:
        client, stranger = authority.sign("operator"), Authority(tmp_path, "stranger").sign("stranger")
        assert query(serving.address, tls=server_tls(client, authority.ca_file)).owner == "here:1"
        assert fails(serving.address, tls=Tls(ca_file=str(authority.ca_file))).exit_code == 5
        assert fails(serving.address, tls=server_tls(stranger, authority.ca_file)).exit_code == 5
        with pytest.raises(ConfigError, match="--cert and --key"):
            query(serving.address, tls=Tls(ca_file=str(authority.ca_file), cert_file=str(client.cert_file)))


def test_with_a_token_every_call_needs_it(owner: Owner, token_file: Path) -> None:
    with Serving(owner.served(), ControlSection(listen="127.0.0.1:0", token_file=str(token_file))) as serving:
        assert query(serving.address, token=TOKEN).owner == "here:1"
        for token in ("", "wrong", TOKEN[:-1], TOKEN + "x"):
            failed = fails(serving.address, token=token)
            assert (failed.exit_code, failed.reason) == (6, "not_allowed")
            with ControlClient(serving.address, Access(token=token)) as client, pytest.raises(CallFailed) as error:
                next(client.watch(ASK))
            assert error.value.exit_code == 6


def test_with_a_token_health_answers_without_it_and_reflection_does_not(owner: Owner, token_file: Path) -> None:
    control = ControlSection(listen="127.0.0.1:0", token_file=str(token_file))
    with Serving(owner.served(), control) as serving, grpc.insecure_channel(serving.address) as channel:
        checks = health_pb2_grpc.HealthStub(channel)
        assert checks.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as error:
            reflected(channel)
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_beyond_this_machine_with_tls_and_token(owner: Owner, authority: Authority, signed: Signed, token_file: Path) -> None:
    control = ControlSection(listen="0.0.0.0:0", tls=server_tls(signed), token_file=str(token_file))
    with Serving(owner.served(), control) as serving:
        ca = Tls(ca_file=str(authority.ca_file))
        assert query(serving.address, tls=ca, token=TOKEN).owner == "here:1"
        assert fails(serving.address, tls=ca).exit_code == 6


def test_a_token_does_not_leave_this_machine_unencrypted() -> None:
    with pytest.raises(ConfigError, match="unencrypted"):
        query("10.255.255.1:8310", token=TOKEN)


def asked_by(owner: Owner, control: ControlSection, **access: Any) -> Asker:
    """As the sidecar has it of a start."""
    name = token_name(read_token("control", control))
    served = owner.served(asker=partial(asker_of, token=name))
    with Serving(served, control) as serving, ControlClient(serving.address, Access(patience_s=SHORT_S, **access)) as client:
        client.call("Start", start())
    return owner.carried_out[-1].asker


def test_a_request_says_who_made_it_by_certificate_token_and_address(
    owner: Owner, authority: Authority, signed: Signed, token_file: Path
) -> None:
    listen = "127.0.0.1:0"
    tls, client = server_tls(signed, authority.ca_file), server_tls(authority.sign("operator"), authority.ca_file)
    asker = asked_by(owner, ControlSection(listen=listen, tls=tls, token_file=str(token_file)), tls=client, token=TOKEN)
    assert asker.name == "certificate operator"
    host, _, port = asker.address.rpartition(":")
    assert (host, port.isdecimal()) == ("127.0.0.1", True)


def test_a_request_with_the_token_alone_is_by_its_fingerprint(owner: Owner, token_file: Path) -> None:
    asker = asked_by(owner, ControlSection(listen="127.0.0.1:0", token_file=str(token_file)), token=TOKEN)
    assert asker.name == token_name(TOKEN)
    assert TOKEN not in asker.name


def test_a_token_that_nobody_requires_names_nobody(owner: Owner) -> None:
    assert asked_by(owner, ControlSection(listen="127.0.0.1:0"), token=TOKEN).name == "not authenticated"


# ---- health and reflection -------------------------------------------------------------------------------------------------


def reflected(channel: grpc.Channel) -> list[str]:
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    (result,) = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]))
    return [service.name for service in result.list_services_response.service]


def test_health_reports_whether_this_process_owns_the_changefeed(serving: Serving) -> None:
    with grpc.insecure_channel(serving.address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        request, status = health_pb2.HealthCheckRequest(service=SERVICE_NAME), health_pb2.HealthCheckResponse
        assert check(request).status == status.NOT_SERVING
        serving.server.owner(owns=True)
        assert check(request).status == status.SERVING
        serving.server.owner(owns=False)
        assert check(request).status == status.NOT_SERVING
        assert check(health_pb2.HealthCheckRequest()).status == status.SERVING
    assert HEALTH_PREFIX == "/grpc.health.v1.Health/"


def _is_served(watch: Any) -> bool:
    try:
        next(watch)
    except grpc.RpcError:
        assert watch.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        return False
    return True


def test_watches_of_health_take_no_places_of_calls(serving: Serving) -> None:
    """They need no token, and end when their callers like."""
    ask = health_pb2.HealthCheckRequest()
    with grpc.insecure_channel(serving.address) as channel:
        watches = [health_pb2_grpc.HealthStub(channel).Watch(ask) for _ in range(CALLS_MAX + 1)]
        assert sum(map(_is_served, watches)) == HEALTH_WATCHERS_MAX
        assert query(serving.address, patience_s=20.0).owner == "here:1"
        for watch in watches:
            watch.cancel()
    with grpc.insecure_channel(serving.address) as channel:
        assert next(health_pb2_grpc.HealthStub(channel).Watch(ask)).status == health_pb2.HealthCheckResponse.SERVING


def test_reflection_shows_the_services(serving: Serving) -> None:
    with grpc.insecure_channel(serving.address) as channel:
        assert set(reflected(channel)) == {SERVICE_NAME, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}


# ---- finding and following the owner ---------------------------------------------------------------------------------------


def test_a_standby_sends_the_client_to_the_owner(serving: Serving) -> None:
    with Serving(standby(lambda: serving.address)) as other:
        assert query(other.address).owner == "here:1"


def test_two_standbys_that_name_each_other_are_not_followed_for_ever() -> None:
    names: list[str] = []
    with Serving(standby(lambda: names[1])) as first, Serving(standby(lambda: names[0])) as second:
        names += [first.address, second.address]
        failed = fails(first.address)
        assert failed.exit_code == 5
        assert "being taken over" in str(failed)


def test_a_standby_that_does_not_know_the_owner_is_queried_again_until_it_does(serving: Serving) -> None:
    answers = iter([None, None])
    with Serving(standby(lambda: next(answers, serving.address))) as other:
        assert query(other.address, patience_s=20.0).owner == "here:1"


def test_an_owner_whose_terms_fail_says_why_and_what_to_do() -> None:
    why = with_hint("/log has no room left", "make room")
    with Serving(replace(standby(lambda: "127.0.0.1:1"), hindered=lambda: why)) as hindered:
        failed = fails(hindered.address)
    assert (failed.exit_code, failed.hint) == (5, "make room")
    assert "/log has no room left" in failed.message
    assert "standby" not in failed.message


def test_nobody_there_is_reported_with_the_way_out() -> None:
    failed = fails("127.0.0.1:1")
    assert (failed.exit_code, failed.reason) == (5, "unreachable")
    assert "--sidecar" in str(failed)


def test_the_address_is_the_given_one_else_etcds_else_the_default() -> None:
    address = find_address("a:1", endpoints=["pd:2379"], tls=Tls(), changefeed=NAME)
    assert address == "a:1"
    requests: list[object] = []

    def lookup(endpoints: object, tls: object, name: object) -> str:
        requests.extend((endpoints, name))
        return "b:2"

    endpoints = ["http://pd1:2379", "https://pd2:2379/"]
    assert find_address("", endpoints=endpoints, tls=Tls(), changefeed=NAME, owner_address=lookup) == "b:2"
    assert requests == [["pd1:2379", "pd2:2379"], NAME]
    assert find_address("", endpoints=[], tls=Tls(), changefeed=NAME) == ADDRESS_DEFAULT
    with pytest.raises(CallFailed) as error:
        find_address("", endpoints=["pd:2379"], tls=Tls(), changefeed=NAME, owner_address=lambda *_: None)
    assert error.value.exit_code == 4


@pytest.mark.xdist_group("etcd")
def test_pd_leads_to_the_owner(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Etcd(tmp_path) as etcd:
        info = {"sink-uri": "kafka://h/t?protocol=open-protocol", "create-time": "2026-11-21T03:36:19.64Z", "start-ts": 7, "config": {}}
        etcd.put("/tidb/cdc/default/default/changefeed/info/cf", json.dumps(info))
        assert owner_in_etcd(etcd.endpoints, Tls(), NAME) is None
        client = EtcdClient(EtcdSection(endpoints=etcd.endpoints))
        (incarnation,) = incarnations(info)
        ownership = EtcdOwner(client, changefeed_root(NAME, incarnation), lease_s=10, holder=OwnerHolder("here", 1, serving.address))
        try:
            assert ownership.acquire(timeout_s=PATIENCE_S) is not None
            pd = f"http://{etcd.endpoints[0]}"
            assert run(capsys, "dumpquery", "-c", "cf", "--pd", pd)[0] == 0
            code, _, error = run(capsys, "dumpquery", "-c", "other", "--pd", pd)
            assert code == 4
            assert "default/default/cf" in error
            etcd.kill()
            assert run(capsys, "dumpquery", "-c", "cf", "--pd", pd)[0] == 5
        finally:
            etcd.start()
            ownership.release()
            client.close()


@pytest.mark.xdist_group("etcd")
@pytest.mark.parametrize("incarnation", [BINLOG, "file-7"])
def test_pd_leads_to_the_owner_where_no_changefeed_is(
    serving: Serving, tmp_path: Path, incarnation: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of TiDB-Binlog, where the name is the sidecar's own; and of one whose definition is in a file, with an etcd of its operator's."""
    with Etcd(tmp_path) as etcd, closing(EtcdClient(EtcdSection(endpoints=etcd.endpoints))) as client:
        pd = f"http://{etcd.endpoints[0]}"
        ownership = EtcdOwner(client, changefeed_root(NAME, incarnation), lease_s=10, holder=OwnerHolder("here", 1, serving.address))
        assert ownership.acquire(timeout_s=PATIENCE_S) is not None
        assert run(capsys, "dumpquery", "-c", "cf", "--pd", pd)[0] == 0
        ownership.release()
        for name, expected in (("cf", EXIT_NOT_FOUND), ("no name", EXIT_USAGE)):
            code, _, error = run(capsys, "dumpquery", "-c", name, "--pd", pd)
            assert code == expected
            assert name in error
        etcd.enable_auth("secret")
        code, _, error = run(capsys, "dumpquery", "-c", "cf", "--pd", pd)
        assert "etcd" in error
        assert code not in (0, EXIT_NOT_FOUND), "whether it is there was not told"


def incarnations(info: dict[str, Any]) -> list[str]:
    from sidecar.shared.ticdc.changefeed_info import changefeed

    return [changefeed(NAME, json.dumps(info).encode()).incarnation]


# ---- lost answers, many at once ----------------------------------------------------------------------------------------------


class Forgetful(ControlService):
    """Carries the first start out and loses the answer."""

    forgot = False

    def Start(self, request: pb.StartRequest, context: grpc.ServicerContext) -> pb.DumpStatus:  # noqa: N802
        answer = super().Start(request, context)
        if not self.forgot:
            self.forgot = True
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
        return answer


def test_a_start_whose_answer_was_lost_is_made_again_and_starts_one_dump(owner: Owner) -> None:
    server = serve(Forgetful(owner.served()), ControlSection(listen="127.0.0.1:0"))
    try:
        with ControlClient(f"127.0.0.1:{server.port}", Access()) as client:
            assert client.call("Start", start()).dump_id == FIRST
    finally:
        server.close(grace_s=1.0)
    assert server.service.forgot  # type: ignore[attr-defined]  # it is a Forgetful
    assert len(owner.carried_out) == 1


def test_a_sidecar_that_comes_back_answers_the_call_that_found_nobody(owner: Owner) -> None:
    at = f"127.0.0.1:{free_port()}"
    with ThreadPoolExecutor() as threads:
        call = threads.submit(query, at, patience_s=PATIENCE_S)
        with Serving(owner.served(), ControlSection(listen=at)):
            assert call.result(PATIENCE_S).owner == "here:1"


def test_many_clients_with_one_request_start_one_dump(owner: Owner, serving: Serving) -> None:
    def ask(_: int) -> str:
        with ControlClient(serving.address, Access()) as client:
            return str(client.call("Start", start()).dump_id)

    with ThreadPoolExecutor(20) as threads:
        assert set(threads.map(ask, range(20))) == {FIRST}
    assert len(owner.carried_out) == 1


def test_of_many_clients_with_requests_of_their_own_one_dump_runs_and_some_wait_and_the_rest_are_refused(
    owner: Owner, serving: Serving
) -> None:
    def ask(number: int) -> str:
        with ControlClient(serving.address, Access()) as client:
            try:
                return f"0 {STATE_NAMES[client.call('Start', start(f'{number:016d}')).state]}"
            except CallFailed as failed:
                return f"{failed.exit_code} {str(failed).splitlines()[0]}"

    with ThreadPoolExecutor(20) as threads:
        results = sorted(threads.map(ask, range(20)))
    assert results == [*["0 queued"] * 15, "0 running", *["3 16 dumps run or wait already"] * 4]
    assert len(owner.carried_out) == 16


def test_the_status_of_ten_thousand_tables_with_long_names_passes(owner: Owner) -> None:
    tables = [TableName("表" * 64, f"{number:06d}" + "名" * 58) for number in range(10_000)]
    with Serving(owner.served(schemas=Schemas(found={t: schema(t) for t in tables}))) as serving:
        with ControlClient(serving.address, Access()) as client:
            assert len(client.call("Start", start()).tables) == 10_000
        assert len(query(serving.address, patience_s=5.0).tables) == 10_000


# ---- watch ---------------------------------------------------------------------------------------------------------------


def test_a_client_that_leaves_gives_its_watch_back(serving: Serving) -> None:
    with grpc.insecure_channel(serving.address) as channel:
        watch = channel.unary_stream(
            f"/{SERVICE_NAME}/Watch", request_serializer=pb.DumpRequest.SerializeToString, response_deserializer=pb.DumpStatus.FromString
        )(ASK)
        assert next(watch).changefeed.id == "cf"
        assert len(serving.server.service._wakes) == 1
        watch.cancel()
        eventually(lambda: not serving.server.service._wakes)


def test_a_watch_follows_the_changefeed_to_its_next_owner(owner: Owner) -> None:
    with Owner() as second, Serving(second.served()) as after, Serving(owner.served(owner_address=lambda: after.address)) as before:
        second.changes = lambda status: status.__class__(**{**{f: getattr(status, f) for f in status.__slots__}, "epoch": 4})
        with ControlClient(before.address, Access()) as client:
            watch = client.watch(ASK)
            assert next(watch).epoch == 3
            owner.changes = lambda status: None  # type: ignore[assignment,return-value]  # as the app does at the end of a term
            assert next(status.epoch for status in watch if status.epoch != 3) == 4


def test_closing_the_server_ends_watches_at_once(owner: Owner) -> None:
    serving = Serving(owner.served())
    with ControlClient(serving.address, Access(patience_s=SHORT_S)) as client:
        watch = client.watch(ASK)
        next(watch)
        serving.server.close(grace_s=60.0)
        with pytest.raises(CallFailed) as error:
            next(watch)
        assert error.value.exit_code == 5


# ---- the command line ------------------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        dump_commands.run(list(arguments), program="ticdc-dump")
    out, error = capsys.readouterr()
    assert ended.value.code is None or isinstance(ended.value.code, int)
    return ended.value.code or 0, out, error


@pytest.fixture
def at(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TICDC_DUMP_ADDR", serving.address)
    return serving.address


def test_a_dump_from_start_to_stop(at: str, owner: Owner, capsys: pytest.CaptureFixture[str]) -> None:
    for command, state in (("dumpstart", "running"), ("dumppause", "paused"), ("dumpresume", "running"), ("dumprestart", "running")):
        code, out, _ = run(capsys, command, "--changefeed-id=cf")
        assert code == 0
        assert f"state          {state}" in out or f"state         {state}" in out
    code, out, _ = run(capsys, "dumpstop", "-c", "cf", "-n", "default")
    assert code == 0
    assert "the dump is stopped" in out
    assert len(owner.carried_out) == 5


def test_json_has_every_field_and_tsos_as_text(at: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "dumpstart", "-c", "cf", "--tables", "shop.orders", "--json")
    result = json.loads(out)
    assert code == 0
    assert set(result) == {field.name for field in pb.DumpStatus.DESCRIPTOR.fields} - {"timeline"}
    assert (result["state"], result["brackets"], result["resolved_tso"]) == ("running", "watermark", "470000000000000000")
    (table,) = result["tables"]
    assert (table["schema"], table["table"], table["rows_estimated"], table["complete_at_tso"]) == ("shop", "orders", 1000, "0")


def test_the_options_of_dumpstart_reach_the_dump(at: str, owner: Owner, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--brackets", "snapshot", "--chunk-rows", "7", "--readers", "3", "--rows-per-second", "11", "--bytes-per-second", "13"]
    assert run(capsys, "dumpstart", "-c", "cf", "--tables", "shop.*,!shop.item", *options)[0] == 0
    (started,) = owner.carried_out
    assert started.brackets == "snapshot"  # type: ignore[union-attr]  # it is a StartDump
    assert (started.chunk_rows, started.pace.readers, started.pace.rows_per_s, started.pace.bytes_per_s) == (7, 3, 11, 13)  # type: ignore[union-attr]
    assert [str(table) for table in started.tables] == ["shop.orders"]  # type: ignore[union-attr]


def test_a_dump_is_changed_as_it_runs(at: str, owner: Owner, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "dumpset", "-c", "cf", "--readers", "3")[0] == 3
    assert run(capsys, "dumpstart", "-c", "cf")[0] == 0
    assert run(capsys, "dumpset", "-c", "cf")[0] == 2
    options = [
        "--chunk-rows",
        "7",
        "--readers",
        "3",
        "--rows-per-second",
        "11",
        "--bytes-per-second",
        "13",
        "--delivery-bound-seconds",
        "2.5",
    ]
    code, out, _ = run(capsys, "dumpset", "-c", "cf", *options)
    assert code == 0
    assert "chunks of 7 rows, 3 readers, 11 rows/s at most" in out
    assert run(capsys, "dumppause", "-c", "cf")[0] == 0
    code, out, _ = run(capsys, "dumpresume", "-c", "cf", "--rows-per-second", "0", "--json")
    reported = json.loads(out)["settings"]
    assert (reported["chunk_rows"], reported["readers"], reported["rows_per_second"], reported["delivery_bound_seconds"]) == (7, 3, 0, 2.5)


def test_keys_and_predicates_without_rules_dump_their_tables_only(at: str, owner: Owner, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "dumpstart", "-c", "cf", "--keys", 'shop.orders:[1,"2"]', "--where", "`shop`.item:amount > 5")[0] == 0
    (started,) = owner.carried_out
    assert dict(started.where) == {TableName("shop", "item"): "(`t`.`amount` > 5)"}  # type: ignore[union-attr]  # it is a StartDump
    assert dict(started.keys) == {TableName("shop", "orders"): (("1",), ("2",))}  # type: ignore[union-attr]
    assert len(started.tables) == 2  # type: ignore[union-attr]


def test_last_is_the_dump_that_was_requested_last_for_every_command_that_takes_an_id(
    at: str, owner: Owner, capsys: pytest.CaptureFixture[str]
) -> None:
    taking = {name for name, command in commands().items() if any(param.name == "dump_id" for param in command.params)}
    in_turn = ["dumpquery", "dumpset", "dumppause", "dumpresume", "dumpstop", "dumprestart"]
    assert taking == set(in_turn)
    code, _, error = run(capsys, "dumpquery", "-c", "cf", "--id", "last")
    assert (code, "the history has no dump" in error) == (3, True)
    older, last = (json.loads(run(capsys, "dumpstart", "-c", "cf", "--tables", f"shop.{one}", "--json")[1])["dump_id"] for one in TWO)
    kinds = [(older, OperationKind.DUMP), (last, OperationKind.DUMP), ("c" * 16, OperationKind.VERIFICATION)]
    owner.history.record(*(HistoryEntry(OperationId(one), kind, OperationScope(), ALICE, 1) for one, kind in kinds))
    for name in in_turn:
        code, out, error = run(capsys, name, "-c", "cf", "--id", "last", "--json", *(["--readers", "2"] if name == "dumpset" else []))
        assert code == 0, (name, error)
        assert (json.loads(out)["dump_id"] == last) is (name != "dumprestart")
    assert {one.dump_id for one in owner.carried_out[2:]} == {last}


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("dumppause", "-c", "cf"), 3, "no dump has been started"),
        (("dumpstart", "-c", "cf", "--tables", "nope.*"), 3, "no table of the changefeed matches nope.*"),
        (("dumpquery", "-c", "other"), 4, "default/cf is"),
        (("dumpquery", "-c", "cf", "-n", "other"), 4, "other/cf is not served here"),
        (("dumpstart", "-c", "cf", "--tables", "nope"), 2, "column 5"),
        (("dumpstart", "-c", "cf", "--where", "orders"), 2, "expected schema.table and a colon"),
        (("dumpstart",), 2, "--changefeed-id"),
        (("dumpstart", "-c", "cf", "--bogus"), 2, "--bogus"),
        (("dumpquery", "-c", "cf", "--sidecar", "127.0.0.1:1", "--timeout", "0.2"), 5, "--sidecar HOST:PORT"),
        (("dumpquery", "-c", "cf", "--token-file", "absent"), 3, "absent cannot be read"),
    ],
)
def test_exit_codes_and_what_is_said(at: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, text: str) -> None:
    number, out, error = run(capsys, *arguments)
    assert (number, out) == (code, "")
    assert text in error


def test_errors_are_json_when_json_is_requested(at: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code, reason in (
        (("dumppause", "-c", "cf"), 3, "refused"),
        (("dumppause", "-c", "x"), 4, "not_found"),
        (("dumppause", "-c", "cf", "--sidecar", "127.0.0.1:1", "--timeout", "0.2"), 5, "unreachable"),
    ):
        number, out, error = run(capsys, *arguments, "--json")
        answer = json.loads(out)
        assert (number, answer["ok"], answer["exit_reason"], error) == (code, False, reason, "")
        assert "what to do" in answer["error"]


def test_a_wrong_token_is_exit_code_6(
    owner: Owner, token_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Serving(owner.served(), ControlSection(listen="127.0.0.1:0", token_file=str(token_file))) as serving:
        query_it = ("dumpquery", "-c", "cf", "--sidecar", serving.address)
        assert run(capsys, *query_it)[0] == 6
        assert run(capsys, *query_it, "--token-file", str(token_file))[0] == 0
        monkeypatch.setenv("TICDC_DUMP_TOKEN", TOKEN)
        assert run(capsys, *query_it)[0] == 0


def test_ticdcs_tls_flags_are_the_clients(owner: Owner, authority: Authority, signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    control = ControlSection(listen="127.0.0.1:0", tls=server_tls(signed, authority.ca_file))
    with Serving(owner.served(), control) as serving:
        flags = ["--ca", str(authority.ca_file), "--cert", str(signed.cert_file), "--key", str(signed.key_file)]
        assert run(capsys, "dumpquery", "-c", "cf", "--sidecar", serving.address, *flags)[0] == 0


def test_a_dry_run_shows_what_would_be_and_starts_nothing(at: str, owner: Owner, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "dumpstart", "-c", "cf", "--dry-run", "--rows-per-second", "100")
    assert code == 0
    assert "2 tables, about 2,000 rows, 97.7 KiB, about 20 s" in out
    assert "excluded: shop.logs: it has no primary key" in out
    code, out, _ = run(capsys, "dumpstart", "-c", "cf", "--dry-run", "--tables", "nope.*", "--json")
    assert code == 3
    assert "no table of the changefeed matches nope.*" in json.loads(out)["refusals"][0]
    assert not owner.carried_out


def test_a_failed_dump_is_exit_code_1_for_a_query(at: str, owner: Owner, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "dumpstart", "-c", "cf")
    owner.finish(DumpState.FAILED, reason="a SELECT was denied")
    code, out, _ = run(capsys, "dumpquery", "-c", "cf")
    assert code == 1
    assert "a SELECT was denied" in out


@pytest.mark.parametrize(("end", "code"), [(DumpState.FINISHED, 0), (DumpState.FAILED, 1), (DumpState.STOPPED, 0)])
def test_a_watch_ends_with_the_dump(at: str, owner: Owner, capsys: pytest.CaptureFixture[str], end: DumpState, code: int) -> None:
    run(capsys, "dumpstart", "-c", "cf")
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(run, capsys, "dumpquery", "-c", "cf", "--watch", "--json")
        owner.finish(end, reason="why")
        number, out, _ = ended.result(PATIENCE_S)
    assert number == code
    assert json.loads(out.splitlines()[-1])["state"] == end.value


def test_a_watch_without_a_terminal_is_plain_lines(at: str, owner: Owner, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "dumpstart", "-c", "cf")
    owner.finish(DumpState.FINISHED)
    code, out, _ = run(capsys, "dumpquery", "-c", "cf", "--watch")
    (line,) = out.splitlines()
    assert code == 0
    assert line.startswith("default/cf  dump ")
    assert "finished  100 %  2/2 tables" in line


def test_a_watch_of_a_changefeed_without_a_dump_ends_at_once(at: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "dumpquery", "-c", "cf", "--watch")[0] == 0


def record(owner: Owner, *kinds: OperationKind) -> None:
    for number, kind in enumerate(kinds):
        scope = OperationScope(("shop.orders",), 1)
        owner.history.record(
            HistoryEntry(OperationId(str(number) * 16), kind, scope, ALICE, 1_700_000_000_000, DumpState.FAILED, result="denied", rows=5)
        )


def test_the_list_shows_the_history_newest_first(at: str, owner: Owner, capsys: pytest.CaptureFixture[str]) -> None:
    record(owner, OperationKind.DUMP, OperationKind.VERIFICATION, OperationKind.DUMP)
    code, out, _ = run(capsys, "dumplist")
    assert code == 0
    assert [line.split()[2:5] for line in out.splitlines()[1:]] == [
        ["dump", "2" * 16, "failed:"],
        ["verification", "1" * 16, "failed:"],
        ["dump", "0" * 16, "failed:"],
    ]
    assert "2023-11-14 22:13:20" in out
    assert "certificate alice at 10.0.0.7:41000" in out
    result = json.loads(run(capsys, "dumplist", "-c", "cf", "--json", "--kind", "dump", "--limit", "1")[1])
    assert result["changefeed"] == {"namespace": "default", "id": "cf"}
    assert [(one["id"], one["rows"], one["asked_by"]["name"]) for one in result["operations"]] == [("2" * 16, 5, "certificate alice")]
    assert json.loads(run(capsys, "dumplist", "--json", "-n", "other")[1])["operations"] == []
    assert run(capsys, "dumplist", "-c", "other")[0] == 4


@pytest.mark.parametrize("wrong", [["--limit", "0"], ["--limit", "1001"], ["--kind", "backup"]])
def test_a_list_of_what_there_is_not_is_a_wrong_usage(at: str, capsys: pytest.CaptureFixture[str], wrong: list[str]) -> None:
    assert run(capsys, "dumplist", *wrong)[0] == 2


def test_a_list_requested_of_a_standby_is_the_owners(
    serving: Serving, owner: Owner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record(owner, OperationKind.DUMP)
    with Serving(standby(lambda: serving.address)) as other:
        code, out, _ = run(capsys, "dumplist", "--json", "--sidecar", other.address)
    assert code == 0
    assert len(json.loads(out)["operations"]) == 1


def test_a_sidecar_of_before_the_history_is_named_as_such(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ControlService, "List", lambda *_: pb.ListResponse(dumps=[pb.DumpStatus(dump_id=FIRST)]))
    with Serving(owner.served()) as serving:
        code, _, error = run(capsys, "dumplist", "--sidecar", serving.address)
    assert code == 3
    assert "keeps no history" in error


def test_ticdcs_flags_that_mean_nothing_here_are_taken(at: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--server", "http://127.0.0.1:8300", "--user", "u", "--password", "p", "--log-level", "debug", "-k", "default"]
    assert run(capsys, "dumpquery", "-c", "cf", *flags)[0] == 0


PROGRAMS = {
    "cdc": ["-c", "from sidecar.cli.cdc import main; main()", "cli", "changefeed"],
    "ticdc-dump": ["-c", "from sidecar.cli.main import main; main()"],
}
"""What Python is started with: as the scripts that an installer makes."""


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_program_itself_prints_json_and_nothing_else(at: str, program: list[str]) -> None:
    command = [sys.executable, *program, "dumpstart", "-c", "cf", "--json"]
    done = subprocess.run(
        command, env=os.environ | {"TICDC_DUMP_ADDR": at}, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["state"] == "running"


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_an_interrupt_ends_a_watch_without_a_trace(at: str, owner: Owner, capsys: pytest.CaptureFixture[str], program: list[str]) -> None:
    run(capsys, "dumpstart", "-c", "cf")
    command = [sys.executable, *program, "dumpquery", "-c", "cf", "--watch", "--json"]
    with subprocess.Popen(command, env=os.environ | {"TICDC_DUMP_ADDR": at}, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["state"] == "running"
        watching.send_signal(signal.SIGINT)
        _, error = watching.communicate(timeout=PATIENCE_S)
    assert (watching.returncode, error) == (130, b"")
    assert owner.carried_out
