"""The control service, call by call, without a network (grpcio-testing): idempotent, named refusals, redirects, watches.

grpcio-testing drops the trailing metadata of an aborted call: that is tested over TCP, in tests/integration.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import grpc
import grpc_testing
import pytest

from sidecar.control import service as service_module
from sidecar.control.served import Served
from sidecar.control.service import ASKING_MAX, DETAILS_MAX, WATCHERS_MAX, ControlService
from sidecar.control.wire import preview_json, scope_text, status_json
from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope, entry_from_json, of_dump
from sidecar.ports import Caller, SchemaSource, SlowReads
from sidecar.shared.config import DumpSection
from sidecar.shared.errors import CoordinationLost, SourceError
from sidecar.shared.model.messages import NOT_RECORDED, Brackets, PauseDump, StartDump
from sidecar.shared.model.nouns import OperationId, TableName
from sidecar.shared.model.progress import DumpState
from tests.support.eventually import PATIENCE_S
from tests.unit.control.serving import ALICE, FLOATS, ITEM, ORDERS, TABLES, Filter, Owner, Schemas, schema, standby
from ticdc_dump.v1 import control_pb2 as pb

SERVICE = pb.DESCRIPTOR.services_by_name["Control"]
FEED = pb.Changefeed(id="cf")
FIRST, SECOND = "a" * 16, "b" * 16


class Calls:
    """The service behind gRPC's own test server. A call returns (answer, code, details)."""

    def __init__(self, served: Served) -> None:
        self.service = ControlService(served)
        self.server = grpc_testing.server_from_dictionary({SERVICE: self.service}, grpc_testing.strict_real_time())

    def __call__(self, method: str, request: Any) -> tuple[Any, grpc.StatusCode, str]:
        rpc = self.server.invoke_unary_unary(SERVICE.methods_by_name[method], (), request, 30)
        answer, _, code, details = rpc.termination()
        return answer, code, details

    def ok(self, method: str, request: Any) -> Any:
        answer, code, details = self(method, request)
        assert code is grpc.StatusCode.OK, details
        return answer

    def refused(self, method: str, request: Any) -> str:
        _, code, details = self(method, request)
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        return details

    def watch(self) -> Any:
        return self.server.invoke_unary_stream(SERVICE.methods_by_name["Watch"], (), pb.DumpRequest(changefeed=FEED), None)


@pytest.fixture
def owner() -> Iterator[Owner]:
    with Owner() as made:
        yield made


@pytest.fixture
def calls(owner: Owner) -> Calls:
    return Calls(owner.served())


def start(dump_id: str = FIRST, /, **given: Any) -> pb.StartRequest:
    return pb.StartRequest(changefeed=FEED, dump_id=dump_id, **given)


ASK = pb.DumpRequest(changefeed=FEED)


def asks(method: str) -> Any:
    return pb.ResumeRequest(changefeed=FEED) if method == "Resume" else ASK


def test_a_start_is_answered_with_the_status_that_shows_it(owner: Owner, calls: Calls) -> None:
    status = calls.ok("Start", start(table_rules=["shop.orders"], chunk_rows=50))
    assert (status.dump_id, status.state, status.brackets) == (FIRST, pb.DUMP_STATE_RUNNING, pb.BRACKETS_WATERMARK)
    assert [(t.schema, t.table, t.rows_estimated) for t in status.tables] == [("shop", "orders", 1000)]
    assert (status.changefeed.namespace, status.changefeed.id, status.owner, status.epoch) == ("default", "cf", "here:1", 3)
    assert [(lane.lane, lane.resolved_tso) for lane in status.lanes] == [("kafka/t/0", 470000000000000000), ("kafka/t/1", 0)]
    assert owner.carried_out == [StartDump(FIRST, (ORDERS,), Brackets.WATERMARK, 50)]


def test_a_start_made_again_starts_nothing(owner: Owner, calls: Calls) -> None:
    calls.ok("Start", start())
    assert calls.ok("Start", start()).dump_id == FIRST
    owner.finish(DumpState.FINISHED)
    assert calls.ok("Start", start()).dump_id == FIRST
    assert len(owner.carried_out) == 1


def test_another_start_of_the_same_tables_waits_for_the_dump_that_runs(calls: Calls) -> None:
    first = calls.ok("Start", start())
    again = calls.ok("Start", start(SECOND))
    assert (again.dump_id, again.state) == (SECOND, pb.DUMP_STATE_QUEUED)
    assert [(dump.dump_id, list(dump.waits_for)) for dump in again.dumps] == [(first.dump_id, []), (SECOND, [first.dump_id])]
    assert calls.ok("Query", ASK).dump_id == first.dump_id, "one that runs is shown first"
    assert list(calls.ok("Preview", start("3" * 16)).waits_for) == [first.dump_id, SECOND]


def test_a_request_with_an_id_is_for_that_dump_and_one_without_for_the_only_one(owner: Owner, calls: Calls) -> None:
    first = calls.ok("Start", start(table_rules=["shop.orders"])).dump_id
    calls.ok("Start", start(SECOND, table_rules=["shop.item"]))
    assert "several dumps" in calls.refused("Pause", ASK)
    of_second = pb.DumpRequest(changefeed=ASK.changefeed, dump_id=SECOND)
    paused = calls.ok("Pause", of_second)
    assert (paused.dump_id, paused.state) == (SECOND, pb.DUMP_STATE_PAUSED)
    assert calls.ok("Pause", of_second).dump_id == SECOND, "made again it changes nothing"
    assert len(owner.carried_out) == 3
    assert calls.ok("Query", of_second).dump_id == SECOND
    assert calls.ok("Pause", ASK).dump_id == first, "the only one that it can be for"
    unknown = pb.DumpRequest(changefeed=ASK.changefeed, dump_id="9" * 16)
    for method in ("Query", "Pause", "Stop"):
        assert "there is no dump 9999999999999999" in calls.refused(method, unknown)


def test_a_resume_that_is_made_again_does_not_resume_another_dump_that_has_failed(owner: Owner, calls: Calls) -> None:
    calls.ok("Start", start(table_rules=["shop.orders"]))
    owner.finish(DumpState.FAILED, reason="denied")
    calls.ok("Start", start(SECOND, table_rules=["shop.item"]))
    calls.ok("Pause", ASK)
    for _ in range(2):
        assert calls.ok("Resume", pb.ResumeRequest(changefeed=ASK.changefeed)).dump_id == SECOND
    assert [dump.state for dump in calls.ok("Query", ASK).dumps] == [pb.DUMP_STATE_FAILED, pb.DUMP_STATE_RUNNING]


def test_a_start_after_the_end_of_a_dump_is_another_dump(owner: Owner, calls: Calls) -> None:
    calls.ok("Start", start())
    calls.ok("Stop", ASK)
    assert calls.ok("Start", start(SECOND)).dump_id == SECOND


def test_pausing_resuming_and_stopping_twice_is_as_once(owner: Owner, calls: Calls) -> None:
    calls.ok("Start", start())
    for method, state in (("Pause", pb.DUMP_STATE_PAUSED), ("Resume", pb.DUMP_STATE_RUNNING), ("Stop", pb.DUMP_STATE_STOPPED)):
        assert calls.ok(method, asks(method)).state == state
        assert calls.ok(method, asks(method)).state == state
    assert len(owner.carried_out) == 4


@pytest.mark.parametrize("method", ["Pause", "Resume", "Stop"])
def test_moves_are_refused_without_a_dump_and_after_its_end(owner: Owner, calls: Calls, method: str) -> None:
    assert "no dump has been started" in calls.refused(method, asks(method))
    calls.ok("Start", start())
    owner.finish(DumpState.FINISHED)
    assert "the dump is finished" in calls.refused(method, asks(method))


def settings(**given: Any) -> pb.SetRequest:
    return pb.SetRequest(changefeed=FEED, settings=pb.DumpSettings(**given))


def test_a_dump_is_set_while_it_runs_or_is_paused_and_twice_is_as_once(owner: Owner, calls: Calls) -> None:
    calls.ok("Start", start(readers=5))
    for _ in range(2):
        reported = calls.ok("Set", settings(chunk_rows=7, delivery_bound_seconds=2.5)).settings
        assert (reported.chunk_rows, reported.readers, reported.delivery_bound_seconds) == (7, 5, 2.5)
    calls.ok("Pause", ASK)
    assert calls.ok("Set", settings(chunk_rows=0, readers=3)).settings.chunk_rows == DumpSection().chunk_rows
    resumed = calls.ok("Resume", pb.ResumeRequest(changefeed=FEED, settings=pb.DumpSettings(rows_per_second=9)))
    assert (resumed.state, resumed.settings.readers, resumed.settings.rows_per_second) == (pb.DUMP_STATE_RUNNING, 3, 9)
    assert len(owner.carried_out) == 5


def test_a_set_is_refused_without_a_dump_after_its_end_and_for_what_cannot_be(owner: Owner, calls: Calls) -> None:
    assert "no dump has been started" in calls.refused("Set", settings(readers=2))
    calls.ok("Start", start(readers=2))
    assert "65 readers" in calls.refused("Set", settings(readers=65))
    assert "a delivery bound of nan s" in calls.refused("Set", settings(delivery_bound_seconds=float("nan")))
    owner.finish(DumpState.FINISHED)
    assert "the dump is finished" in calls.refused("Set", settings(readers=2))


def test_a_restart_is_one_new_dump_however_often_it_is_requested(owner: Owner, calls: Calls) -> None:
    calls.ok("Start", start())
    restart = pb.RestartRequest(changefeed=FEED, new_dump_id=SECOND)
    assert [calls.ok("Restart", restart).dump_id for _ in range(2)] == [SECOND, SECOND]
    assert len(owner.carried_out) == 2
    assert "give 16" in calls.refused("Restart", pb.RestartRequest(changefeed=FEED, new_dump_id="x"))


def test_a_dump_for_a_sink_that_is_not_there_is_refused_with_the_names_of_those_that_are(owner: Owner) -> None:
    calls = Calls(owner.served(sinks={"lake": "", "search": ""}))
    reported = calls.refused("Start", start(sinks=["lake", "laek"]))
    assert "no sink is called laek, did you mean lake? the sinks are lake, search" in reported
    preview = calls.ok("Preview", start(sinks=["laek"]))
    assert [*preview.sinks] == ["laek"]
    assert any("laek" in refusal for refusal in preview.refusals)
    assert [*calls.ok("Start", start(sinks=["lake", "lake"])).dump_sinks] == ["lake"]


def test_a_restart_is_for_the_same_sinks_and_refused_where_one_is_there_no_more(owner: Owner) -> None:
    lake, other = Calls(owner.served(sinks={"lake": ""})), Calls(owner.served(sinks={"other": ""}))
    lake.ok("Start", start(sinks=["lake"]))
    restart = pb.RestartRequest(changefeed=FEED, new_dump_id=SECOND)
    assert "no sink is called lake" in other.refused("Restart", restart)
    assert [*lake.ok("Restart", restart).dump_sinks] == ["lake"]


def test_a_dump_for_a_ddl_is_shown_as_one_and_its_stop_says_what_that_leaves(owner: Owner) -> None:
    calls = Calls(owner.served(sinks={"lake": ""}))
    started = calls.ok("Start", start(sinks=["lake"], table_rules=["shop.orders"], for_ddl=7))
    [summary] = started.dumps
    assert (started.for_ddl_tso, summary.for_ddl_tso, status_json(started)["for_ddl_tso"]) == (7, 7, "7")
    entry = of_dump(owner.dump.records[0], now_ms=1)
    assert entry_from_json(json.loads(json.dumps(entry.to_json()))) == entry
    owner.history.record(entry)
    [operation] = calls.ok("List", pb.ListRequest()).operations
    assert "for the DDL at commit_ts 7" in scope_text(operation.scope)
    assert "lack the values of the DDL at commit_ts 7" in calls.ok("Stop", pb.DumpRequest(changefeed=FEED)).reason
    restart = pb.RestartRequest(changefeed=FEED, new_dump_id=SECOND)
    assert calls.ok("Restart", restart).for_ddl_tso == 7


def test_a_restart_without_a_dump_is_refused(calls: Calls) -> None:
    assert "no dump to restart" in calls.refused("Restart", pb.RestartRequest(changefeed=FEED, new_dump_id=SECOND))


def test_a_refusal_counts_only_if_a_newer_status_does_not_show_what_was_requested(owner: Owner, calls: Calls) -> None:
    """The answer to a pause was lost, and the client asks again before the status has caught up with it."""
    calls.ok("Start", start())
    owner.hold()
    stale, before = owner.status, owner.dump.progress
    owner.dump.request(PauseDump())
    assert owner.status is stale
    assert before is not owner.dump.progress
    answers: list[Any] = []
    asking = Thread(target=lambda: answers.append(calls.ok("Pause", ASK)))
    asking.start()
    while not owner.requests._waiting:
        pass
    owner.go()
    asking.join()
    assert answers[0].state == pb.DUMP_STATE_PAUSED
    assert len(owner.refusals) == 1


def test_another_changefeed_is_not_found_and_the_served_one_named(calls: Calls) -> None:
    for changefeed in (pb.Changefeed(id="other"), pb.Changefeed(namespace="n", id="cf"), pb.Changefeed()):
        for method, request in (("Query", pb.DumpRequest(changefeed=changefeed)), ("Start", pb.StartRequest(changefeed=changefeed))):
            _, code, details = calls(method, request)
            assert code is grpc.StatusCode.NOT_FOUND
            assert "default/cf" in details


@pytest.mark.parametrize("address", ["10.0.0.7:8310", None])
def test_a_standby_answers_every_call_with_the_owners_address(address: str | None) -> None:
    calls = Calls(standby(lambda: address))
    every_method = list(of_every_method(calls))
    assert len(every_method) == 16
    for code, details in every_method:
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert details == f"this sidecar is a standby; the owner is {address or 'not known yet'}"


def test_a_standby_that_could_not_take_over_says_so_in_each_answer() -> None:
    calls = Calls(replace(standby(lambda: "here:8310"), against_takeover=lambda: ("tidb: denied", "sinks: away")))
    for _, details in of_every_method(calls):
        assert details.endswith("here:8310; it could not take over: tidb: denied; it could not take over: sinks: away")


def of_every_method(calls: Calls) -> Iterator[tuple[grpc.StatusCode, str]]:
    for method in SERVICE.methods:
        request = method.input_type._concrete_class()
        stream = method.name in ("Watch", "Subscribe", "Differences")
        termination = calls.server.invoke_unary_stream(method, (), request, None).termination() if stream else calls(method.name, request)
        yield termination[-2], termination[-1]


def test_a_process_whose_terms_fail_says_why_and_is_reported_from_a_standby() -> None:
    calls = Calls(replace(standby(lambda: "here:8310"), hindered=lambda: "no room left on /log"))
    for code, details in of_every_method(calls):
        assert code is grpc.StatusCode.UNAVAILABLE
        assert details == "this sidecar does not serve its changefeed now: no room left on /log"


def test_a_standby_that_cannot_ask_etcd_says_so_to_every_call() -> None:
    def away() -> str:
        raise CoordinationLost("etcd does not answer", hint="see that it runs")

    for code, details in of_every_method(Calls(standby(away))):
        assert code is grpc.StatusCode.UNAVAILABLE
        assert details.startswith("etcd does not answer")


def test_query_of_a_changefeed_without_a_dump_reports_the_stream(calls: Calls) -> None:
    status = calls.ok("Query", ASK)
    assert (status.dump_id, status.state, len(status.tables)) == ("", pb.DUMP_STATE_UNSPECIFIED, 0)
    assert status.resolved_tso == 470000000000000000


def test_query_reports_why_a_dump_failed(owner: Owner, calls: Calls) -> None:
    calls.ok("Start", start())
    owner.finish(DumpState.FAILED, reason="SELECT of shop.orders: denied")
    owner.changes = lambda status: replace(status, last_error="denied", waiting_for="source: x", stream_waiting_for="source: x", eta_s=5.0)
    calls.ok("Query", ASK)
    while not (status := calls.ok("Query", ASK)).last_error:
        pass
    assert (status.state, status.reason) == (pb.DUMP_STATE_FAILED, "SELECT of shop.orders: denied")
    assert (status.waiting_for, status.eta_s) == ("source: x", 5.0)


def test_a_dump_that_has_failed_is_resumed(owner: Owner, calls: Calls) -> None:
    calls.ok("Start", start())
    owner.finish(DumpState.FAILED, reason="denied")
    resumed = calls.ok("Resume", pb.ResumeRequest(changefeed=FEED, settings=pb.DumpSettings(readers=2)))
    assert (resumed.dump_id, resumed.state, resumed.reason, resumed.settings.readers) == (FIRST, pb.DUMP_STATE_RUNNING, "", 2)


def recorded(owner: Owner, dump_id: str = FIRST, kind: OperationKind = OperationKind.DUMP) -> HistoryEntry:
    entry = HistoryEntry(OperationId(dump_id), kind, OperationScope(("shop.orders",), 1), ALICE, 1_000, running_since_ms=1_000)
    owner.history.record(entry)
    return entry


def test_list_is_of_the_changefeed_and_the_namespace(owner: Owner, calls: Calls) -> None:
    recorded(owner)
    for namespace, changefeed_id in (("", ""), ("default", ""), ("", "cf"), ("default", "cf")):
        result = calls.ok("List", pb.ListRequest(namespace=namespace, changefeed_id=changefeed_id))
        assert [one.id for one in result.operations] == [FIRST]
        assert len(result.dumps) == 1, "of a command line of an older version"
    other = calls.ok("List", pb.ListRequest(namespace="other"))
    assert (len(other.operations), len(other.dumps), other.changefeed.id) == (0, 0, "cf")
    for request in (pb.ListRequest(changefeed_id="other"), pb.ListRequest(namespace="other", changefeed_id="cf")):
        assert calls("List", request)[1] is grpc.StatusCode.NOT_FOUND


def test_list_has_the_newest_of_the_kind_that_is_requested(owner: Owner, calls: Calls) -> None:
    for number in range(4):
        recorded(owner, str(number) * 16, list(OperationKind)[number % 2])

    def listed(**given: Any) -> str:
        return "".join(one.id[0] for one in calls.ok("List", pb.ListRequest(**given)).operations)

    assert (listed(), listed(limit=3), listed(limit=9)) == ("3210", "321", "3210")
    assert (listed(kind=pb.OPERATION_KIND_VERIFICATION), listed(kind=pb.OPERATION_KIND_DUMP, limit=1)) == ("31", "2")


def test_list_has_the_dump_that_runs_as_far_as_it_is(owner: Owner, calls: Calls) -> None:
    calls.ok("Start", start())
    recorded(owner)
    recorded(owner, SECOND)
    owner.finish(DumpState.FAILED, reason="a SELECT was denied")
    second, first = calls.ok("List", pb.ListRequest()).operations
    assert (first.state, first.result, first.scope.table_count) == (pb.DUMP_STATE_FAILED, "a SELECT was denied", 2)
    assert (second.state, second.result) == (pb.DUMP_STATE_RUNNING, "")
    assert first.seconds > 0


def test_a_history_that_cannot_be_read_is_unavailable(owner: Owner) -> None:
    def away() -> list[HistoryEntry]:
        raise CoordinationLost("etcd does not answer", hint="see that it runs")

    _, code, details = Calls(owner.served(history=away))("List", pb.ListRequest())
    assert code is grpc.StatusCode.UNAVAILABLE
    assert details.startswith("etcd does not answer")


@pytest.mark.parametrize("method", ["Start", "Pause", "Resume", "Set", "Stop", "Restart"])
def test_each_request_says_who_makes_it(owner: Owner, calls: Calls, method: str) -> None:
    requests = {
        "Start": start(SECOND),
        "Resume": pb.ResumeRequest(changefeed=FEED),
        "Set": settings(readers=3),
        "Restart": pb.RestartRequest(changefeed=FEED, new_dump_id=SECOND),
    }
    if method != "Start":
        calls.ok("Start", start())
    if method == "Resume":
        calls.ok("Pause", ASK)
    calls.ok(method, requests.get(method, ASK))
    assert {request.asker for request in owner.carried_out} == {ALICE}


def test_the_filters_predicate_and_the_keys_reach_the_dump(owner: Owner) -> None:
    calls = Calls(owner.served(feed_scope=Filter({ITEM: "f"})))
    calls.ok("Start", start(keys=[pb.TableKeys(schema="shop", table="orders", keys=[pb.Key(values=["5"])])]))
    (carried_out,) = owner.carried_out
    assert isinstance(carried_out, StartDump)
    assert (dict(carried_out.where), dict(carried_out.keys)) == ({ITEM: "(f)"}, {ORDERS: (("5",),)})
    assert carried_out.narrowed == (ORDERS,)
    assert carried_out.chunk_rows == 10_000


def test_a_source_that_fails_changes_nothing_and_is_reported(owner: Owner) -> None:
    calls = Calls(owner.served(schemas=Schemas(failing=SourceError("TiDB is gone", hint="see TiDB"))))
    assert "TiDB is gone" in calls.refused("Start", start())
    assert not owner.carried_out


def test_the_text_of_a_refusal_fits_into_a_header(owner: Owner) -> None:
    tables = [TableName("s" * 60, "表" * 60 + str(number)) for number in range(1000)]
    schemas = Schemas(found={t: schema(t) for t in tables}, refused=dict.fromkeys(tables, "because " * 50))
    details = Calls(owner.served(schemas=schemas)).refused("Start", start())
    assert len(details) < DETAILS_MAX + 50
    assert "characters more" in details


def test_a_pipeline_that_does_not_answer_is_unavailable(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "REQUEST_TIMEOUT_S", 0.05)
    owner.hold()
    _, code, details = Calls(owner.served())("Start", start())
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "ask again" in details
    owner.go()


def test_losing_the_changefeed_while_a_request_waits_is_unavailable(owner: Owner, calls: Calls) -> None:
    owner.hold()
    answers: list[Any] = []
    asking = Thread(target=lambda: answers.append(calls("Start", start())))
    asking.start()
    while not owner.requests._waiting:
        pass
    owner.requests.abandon("the lease is lost")
    asking.join()
    assert answers[0][1] is grpc.StatusCode.UNAVAILABLE
    owner.go()


# ---- preview ---------------------------------------------------------------------------------------------------------------


def test_a_preview_reports_tables_estimates_and_time_and_starts_nothing(owner: Owner) -> None:
    calls = Calls(owner.served())
    owner.history.record(former(rows=10_000, running_s=100.0))
    result = calls.ok("Preview", start())
    assert [(t.table, t.rows, t.bytes, t.read_by) for t in result.tables if not t.refused] == [
        ("orders", 1000, 50_000, "clustered primary key (id)"),
        ("item", 1000, 50_000, "clustered primary key (id)"),
    ]
    assert {t.table for t in result.tables if t.refused} == {"logs"}
    assert result.outside == 1
    assert result.seconds == pytest.approx(20)
    assert not result.refusals
    assert not owner.carried_out


KEYS, FILTERED = OperationScope(("shop.orders",), 1, by_keys=1), OperationScope(("shop.orders",), 1, filtered=1)


def former(**given: Any) -> HistoryEntry:
    """A dump that is over."""
    known: dict[str, Any] = {"id": SECOND, "kind": OperationKind.DUMP, "scope": OperationScope(("shop.orders",), 1)}
    known |= {"asked_by": NOT_RECORDED, "started_ms": 1, "state": DumpState.FINISHED}
    return HistoryEntry(**known | given)


@pytest.mark.parametrize(
    ("before", "seconds"),
    [
        ([], 0),
        ([former(rows=1, running_s=10.0)], 0),
        ([former(rows=9_999, running_s=1.0)], 0),
        ([former(rows=10_000, running_s=10.0, scope=KEYS)], 0),
        ([former(rows=10_000, running_s=10.0, scope=FILTERED)], 0),
        ([former(rows=10_000, running_s=10.0, kind=OperationKind.VERIFICATION)], 0),
        ([former(rows=10_000, running_s=10.0, state=DumpState.STOPPED)], 2),
        ([former(rows=1, running_s=10.0), former(rows=10_000, running_s=10.0), former(rows=10_000, running_s=1.0)], 2),
    ],
)
def test_the_time_is_by_a_dump_that_reports_how_fast_one_reads_tables_or_not_known(
    owner: Owner, before: list[HistoryEntry], seconds: float
) -> None:
    result = Calls(owner.served(history=lambda: before)).ok("Preview", start())
    assert result.seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [({}, 0), ({"rows_per_second": 10}, 200), ({"bytes_per_second": 100}, 1000), ({"rows_per_second": 10, "bytes_per_second": 100}, 1000)],
)
def test_the_time_is_that_of_the_slowest_bound(calls: Calls, given: dict[str, Any], seconds: float) -> None:
    assert calls.ok("Preview", start(**given)).seconds == pytest.approx(seconds)


def test_a_preview_leaves_out_how_many_rows_there_are_where_the_statistics_do_not_say(owner: Owner) -> None:
    result = Calls(owner.served(schemas=Schemas(analyzed=False))).ok("Preview", start())
    assert result.tables
    assert not any(table.HasField("rows") for table in result.tables)
    assert {table["rows"] for table in preview_json(result)["tables"]} == {None}


def test_a_preview_reports_which_tables_are_read_slowly_with_the_predicate_that_they_would_have(owner: Owner) -> None:
    requests: list[Mapping[TableName, str]] = []

    def slow_reads(tables: Mapping[TableName, str]) -> SlowReads:
        requests.append(tables)
        return SlowReads({ORDERS: "each chunk reads the table from its first row"}, unasked=7)

    calls = Calls(owner.served(slow_reads=slow_reads, feed_scope=Filter({ITEM: "f"})))
    result = calls.ok("Preview", start())
    assert requests == [{ORDERS: "", ITEM: "(f)"}]
    assert {t.table: t.slow for t in result.tables if t.slow} == {"orders": "each chunk reads the table from its first row"}
    assert result.unasked == 7
    assert not result.refusals


def test_a_preview_reports_everything_that_would_refuse_a_start(owner: Owner) -> None:
    calls = Calls(owner.served(schemas=Schemas(found=TABLES)))
    refusals = calls.ok("Preview", start(SECOND, table_rules=["shop.*", "nope.*"])).refusals
    assert len(refusals) == 2
    assert all(any(part in refusal for refusal in refusals) for part in ("nope.*", str(FLOATS)))


# ---- watch -----------------------------------------------------------------------------------------------------------------


def test_a_watch_gives_the_status_now_and_when_it_changes_and_ends_at_shutdown(
    owner: Owner, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "WATCH_EVERY_S", 0.01)
    rpc = calls.watch()
    assert rpc.take_response().state == pb.DUMP_STATE_UNSPECIFIED
    calls.ok("Start", start())
    assert rpc.take_response().state == pb.DUMP_STATE_RUNNING
    calls.ok("Pause", ASK)
    assert rpc.take_response().state == pb.DUMP_STATE_PAUSED
    calls.service.close()
    assert rpc.termination()[1] is grpc.StatusCode.OK


def test_a_watch_of_a_sidecar_that_loses_the_changefeed_names_the_next_owner(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "WATCH_EVERY_S", 0.01)
    calls = Calls(owner.served(owner_address=lambda: "10.0.0.7:8310"))
    rpc = calls.watch()
    rpc.take_response()
    owner.changes = lambda status: None  # type: ignore[assignment,return-value]  # as the app does at the end of a term
    _, code, details = rpc.termination()
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "10.0.0.7:8310" in details


def test_watchers_are_bounded_and_leave_their_place(owner: Owner, calls: Calls) -> None:
    watches = [calls.watch() for _ in range(WATCHERS_MAX)]
    for rpc in watches:
        rpc.take_response()
    assert calls.watch().termination()[1] is grpc.StatusCode.RESOURCE_EXHAUSTED
    calls.service.close()
    for rpc in watches:
        assert rpc.termination()[1] is grpc.StatusCode.OK
    assert not calls.service._wakes


# ---- a database that stands, and callers that go -----------------------------------------------------------------------------


class Standing(Schemas):
    """Answers nobody before `answers` is set or its caller goes; `asking`: how many wait."""

    def __init__(self) -> None:
        super().__init__()
        self.answers, self.asking = Event(), 0

    def asked_by(self, caller: Caller) -> SchemaSource:
        self.callers = [*getattr(self, "callers", ()), caller]
        caller.when_gone(self.answers.set)
        return self

    def tables(self) -> Any:
        self.asking += 1
        self.answers.wait(PATIENCE_S)
        self.asking -= 1
        return super().tables()


def test_while_the_database_is_stuck_a_few_wait_for_it_and_all_else_is_answered(owner: Owner) -> None:
    standing = Standing()
    calls = Calls(owner.served(schemas=standing))
    preview = SERVICE.methods_by_name["Preview"]
    waiting = [calls.server.invoke_unary_unary(preview, (), start(), PATIENCE_S) for _ in range(ASKING_MAX)]
    while standing.asking < ASKING_MAX:
        pass
    for method in ("Preview", "Start"):
        assert calls(method, start())[1] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert calls.ok("Query", ASK).owner == "here:1"
    assert "no dump has been started" in calls.refused("Stop", ASK)
    standing.answers.set()
    assert [rpc.termination()[2] for rpc in waiting] == [grpc.StatusCode.OK] * ASKING_MAX
    assert calls.ok("Preview", start()).tables


def test_the_source_is_queried_for_as_long_as_the_caller_waits(owner: Owner) -> None:
    standing = Standing()
    calls = Calls(owner.served(schemas=standing))
    rpc = calls.server.invoke_unary_unary(SERVICE.methods_by_name["Preview"], (), start(), PATIENCE_S)
    while not standing.asking:
        pass
    (caller,) = standing.callers
    assert 0 < caller.left_s() <= PATIENCE_S
    assert not caller.gone()
    rpc.cancel()
    assert standing.answers.wait(PATIENCE_S), "it is told that its caller has gone"
    while standing.asking:
        pass
    assert caller.gone()
    assert not owner.carried_out
