"""`dumpverify` against a service that listens: what is asked of the merge worker, what is shown, exit codes, and a repair's dumps.

The worker's place is taken by reports that the tests write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from typer.testing import CliRunner, Result

from sidecar.cli import verify_command
from sidecar.cli.dump_commands import register
from sidecar.control.exact import exact_id
from sidecar.control.verification_messages import answer_of
from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope
from sidecar.run import repairing
from sidecar.run.awaited_dumps import AwaitedDumps
from sidecar.run.continuous import ContinuousVerification, ServedSlices
from sidecar.run.repairing import KeyDump, start_key_dump
from sidecar.run.term_verifications import TermVerifications
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log import storage
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.log.verification import (
    CellDifference,
    CheckState,
    RowDifference,
    TableReport,
    VerifyReport,
    differences_name,
    report_name,
)
from sidecar.shared.log.verification_files import read_request, read_waiting, remove_files, request_ids, write_report
from sidecar.shared.model.messages import StartDump
from sidecar.shared.model.nouns import OperationId
from sidecar.shared.model.progress import DumpState
from sidecar.shared.ticdc.hidden_changes import Explanation
from tests.unit.control.serving import ITEM, ORDERS, Filter, Owner, Serving
from ticdc_dump.v1 import control_pb2 as pb

pytestmark = pytest.mark.xdist_group("control")

SINKS = {"copy": "", "lake": "", "shown": "it keeps nothing that could be read back"}
SPOILT = [
    RowDifference("missing", ("1",)),
    RowDifference("extra", ("2",)),
    RowDifference("different", ("3",), (CellDifference("amount", None, "x" * 500),)),
]
Worker = Callable[[OperationId], VerifyReport]


class Service:
    """`worker`: what becomes of each verification."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        self.made: TermVerifications
        self.log, self.owner = open_folder(str(folder)), owner
        self.worker: Worker = lambda operation_id: VerifyReport(operation_id, CheckState.EQUAL, 1, 2)
        self.served = owner.served(sinks=SINKS, verifications=lambda: self.made)
        owner_log = OwnedLog(self.log, 1)
        continuous = ContinuousVerification(owner_log, 0.0, lambda: 1000, ServedSlices(lambda: self.served), lambda _: None)
        self.made = TermVerifications(
            owner_log,
            AwaitedDumps(owner.history),
            lambda: 1000,
            start_dump=self.start,
            continuous=continuous,
            log_line=lambda _: None,
        )
        self.serving = Serving(self.served)
        self.ends = DumpState.FINISHED

    def start(self, dump: KeyDump) -> KeyDump:
        """It is over at once."""
        dump = start_key_dump(self.served, dump)
        why = "the source is away" if self.ends is DumpState.FAILED else ""
        self.owner.finish(self.ends, reason=why)
        self.owner.history.record(HistoryEntry(dump.dump_id, OperationKind.DUMP, OperationScope(), dump.asker, 1, self.ends, result=why))
        return dump

    def work(self, _: float = 0) -> None:
        """In the place of each wait of the command."""
        for operation_id in request_ids(self.log):
            if not storage.exists(self.log, report_name(operation_id)):
                self._report(self.worker(operation_id))
        self.made.follow()

    def _report(self, report: VerifyReport) -> None:
        for number, table in enumerate(report.tables):
            lines = b"".join(msgspec.json.encode(one) + b"\n" for one in (SPOILT if table.differences else ()))
            storage.write_atomically(self.log, differences_name(report.id, number), lines)
        storage.write_atomically(self.log, report_name(report.id), report.to_json())

    def run(self, *arguments: str) -> Result:
        return self.run_command("dumpverify", *arguments)

    def run_command(self, command: str, *arguments: str) -> Result:
        app = typer.Typer()
        register(app)
        return CliRunner().invoke(app, [command, "-c", "cf", *arguments], env={"TICDC_DUMP_ADDR": self.serving.address})

    def asked(self, *arguments: str) -> dict[str, Any]:
        """The last object that was printed."""
        done = self.run("--json", *arguments)
        assert done.exit_code in (0, 1, 3), done.output
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with Owner() as owner:
        made = Service(tmp_path, owner)
        monkeypatch.setattr(verify_command, "sleep", made.work)
        with made.serving:
            yield made


def different(operation_id: OperationId) -> VerifyReport:
    example = [one.shortened() for one in SPOILT]
    orders = TableReport("copy", *ORDERS, CheckState.DIFFERENT, rows=5, missing=1, extra=1, different=1)
    orders.columns, orders.examples = {"amount": 1}, example
    return VerifyReport(operation_id, CheckState.DIFFERENT, 1, 2, tables=[orders, TableReport("lake", *ORDERS, CheckState.EQUAL, rows=5)])


def test_rows_that_a_sink_has_not_received_yet_end_with_9_and_are_not_repaired(service: Service) -> None:
    def incomplete(operation_id: OperationId) -> VerifyReport:
        orders = TableReport("copy", *ORDERS, CheckState.INCOMPLETE, rows=5, expected=2, why="a dump brings them")
        return VerifyReport(operation_id, CheckState.INCOMPLETE, 1, 2, tables=[orders, TableReport("lake", *ORDERS, CheckState.EQUAL)])

    service.worker = incomplete
    done = service.run("--repair")
    assert (done.exit_code, "incomplete" in done.output, "a dump brings them" in done.output) == (9, True, True)
    assert service.owner.carried_out == []
    [entry] = service.owner.history.entries()
    assert (entry.state, entry.result) == (DumpState.FINISHED, "incomplete: copy has not received all rows of shop.orders yet")


def test_it_asks_for_the_carried_tables_in_all_sinks_that_can_be_read(service: Service) -> None:
    done = service.run("--where", "shop.orders:amount > 5", "--tables", "shop.*", "--sample", "10%")
    assert done.exit_code == 0, done.output
    [operation_id] = request_ids(service.log)
    request = read_request(service.log, operation_id)
    assert request is not None
    assert (request.sinks, request.left_out, request.sample) == (("copy", "lake"), {"shown": SINKS["shown"]}, 0.1)
    assert {table.name: table.where for table in request.tables} == {ORDERS: "(`t`.`amount` > 5)", ITEM: ""}
    assert "omitted" in done.output
    assert SINKS["shown"] in done.output


def test_differences_are_shown_and_end_with_1(service: Service) -> None:
    service.worker = different
    done = service.run("--watch")
    assert done.exit_code == 1
    assert "missing (1)" in done.output
    assert "amount: source NULL, sink 'xxx" in done.output
    assert "differing columns: amount (1 rows)" in done.output
    result = service.asked("--id", "last")
    assert (result["state"], result["tables"][0]["state"], result["tables"][0]["missing"]) == ("different", "different", 1)
    [cell] = result["tables"][0]["examples"][2]["cells"]
    assert cell["source"] is None
    assert len(cell["sink"]) < 300, "an answer of many examples must fit"
    lines = [json.loads(line) for line in service.run("--differences").stdout.splitlines()]
    assert [(one["sink"], one["table"], one["row"]["kind"], one["row"]["key"]) for one in lines] == [
        ("copy", "orders", "missing", ["1"]), ("copy", "orders", "extra", ["2"]), ("copy", "orders", "different", ["3"]),
    ]  # fmt: skip
    assert lines[2]["row"]["cells"][0]["sink"] == "x" * 500


def test_a_repair_dumps_the_keys_to_the_sink_that_differs_and_compares_again(service: Service) -> None:
    reports = iter([different, service.worker])
    service.worker = lambda operation_id: next(reports)(operation_id)
    done = service.run("--repair")
    assert done.exit_code == 0, done.output
    [start] = [one for one in service.owner.carried_out if isinstance(one, StartDump)]
    assert (start.sinks, dict(start.keys)) == (("copy",), {ORDERS: (("1",), ("2",), ("3",))})
    requested = [request for one in request_ids(service.log) if (request := read_request(service.log, one)) is not None]
    assert sorted((request.sinks, tuple(table.name for table in request.tables)) for request in requested) == [
        (("copy",), (ORDERS,)), (("copy", "lake"), (ORDERS, ITEM)),
    ]  # fmt: skip
    assert "finished: 3 keys in 1 dumps, followed by verification" in done.output


def test_a_repair_says_what_it_deletes_and_asks_where_that_is_too_much(service: Service) -> None:
    reports = iter([different, service.worker])
    service.worker = lambda operation_id: next(reports)(operation_id)
    done = service.run("--repair", "--delete-at-most", "0")
    assert done.exit_code == 3, done.output
    text = " ".join(done.output.split())
    [operation_id] = request_ids(service.log)
    assert "1 rows of shop.orders in sink copy are to be deleted, more than 0" in text
    assert f"dumpverify --id {operation_id} --repair --delete-at-most 1" in text
    assert [one for one in service.owner.carried_out if isinstance(one, StartDump)] == []
    refused = service.run("--id", "last", "--repair", "--delete-at-most", "0")
    assert (refused.exit_code, "more than 0" in refused.output) == (3, True)
    shown, error = map(json.loads, service.run("--json", "--id", operation_id).stdout.splitlines())
    assert shown["repair"]["state"] == "asks"
    assert shown["repair"]["deletes"] == [{"sink": "copy", "schema": "shop", "table": "orders", "rows": 1, "at_most": 0}]
    assert error["exit_reason"] == "asks"
    done = service.run("--id", operation_id, "--repair", "--delete-at-most", "1")
    assert done.exit_code == 0, done.output
    assert "the repair deletes 1 rows of shop.orders in sink copy" in done.output
    assert len([one for one in service.owner.carried_out if isinstance(one, StartDump)]) == 1


def test_one_without_a_repair_takes_no_answer(service: Service) -> None:
    service.worker = different
    assert service.run().exit_code == 1
    done = service.run("--id", "last", "--repair")
    assert (done.exit_code, "has no repair" in done.output) == (3, True)


@pytest.mark.parametrize("command", [("dumpverify", "--repair"), ("dumpstart", "--exact"), ("dumpstart", "--exact", "--dry-run")])
def test_where_the_filter_explains_a_difference_nothing_is_repaired(service: Service, command: tuple[str, ...]) -> None:
    hides = Filter(explained={ORDERS: [Explanation("deletes are hidden", frozenset({"extra"}))]})
    with Serving(replace(service.served, feed_scope=hides)) as serving:
        service.serving = serving
        done = service.run_command(*command)
        assert done.exit_code == 3
        assert "shop.orders in copy: extra rows can be right, since deletes are hidden" in " ".join(done.output.split())
        assert request_ids(service.log) == []
        assert service.owner.carried_out == []
        shown = service.asked("--dry-run")
        assert {one["table"]: one["unjudged"] for one in shown["tables"]} == {
            "orders": [{"kinds": ["extra"], "why": "deletes are hidden"}], "item": [],
        }  # fmt: skip


def test_a_repair_of_many_keys_is_several_dumps(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    monkeypatch.setattr(repairing, "KEYS_BYTES_MAX", 6)
    reports = iter([different, service.worker])
    service.worker = lambda operation_id: next(reports)(operation_id)
    assert service.run("--repair").exit_code == 0
    keys = [dict(one.keys)[ORDERS] for one in service.owner.carried_out if isinstance(one, StartDump)]
    assert keys == [(("1",), ("2",)), (("3",),)]


def test_a_repair_whose_dump_has_failed_says_so(service: Service) -> None:
    service.worker, service.ends = different, DumpState.FAILED
    done = service.run("--repair")
    assert done.exit_code == 3
    assert "is failed: the source is away" in done.output


def test_an_exact_dump_is_followed_by_a_verification_that_repairs(service: Service) -> None:
    done = service.run_command("dumpstart", "--tables", "shop.orders", "--exact", "--json")
    assert done.exit_code == 0, done.output
    dump_id = json.loads(done.stdout)["dump_id"]
    result = service.asked("--id", "last", "--detach")
    assert (result["id"], result["state"]) == (exact_id(dump_id), "waiting")
    assert result["waiting_for"].startswith(f"dump {dump_id}")
    request = read_waiting(service.log, result["id"])
    assert request is not None
    assert (request.after_dump, request.sinks, request.repair) == (dump_id, ("copy", "lake"), True)
    assert [table.name for table in request.tables] == [ORDERS]


@pytest.mark.parametrize("state", list(DumpState))
def test_the_restart_of_an_exact_dump_is_exact(service: Service, state: DumpState) -> None:
    """Whatever became of the dump, and of the comparison after it; with the same bound of deletions. So is the restart of the restart."""
    done = service.run_command("dumpstart", "--tables", "shop.orders", "--exact", "--delete-at-most", "7", "--json")
    dump_id = json.loads(done.stdout)["dump_id"]
    service.owner.finish(state)
    service.work()
    for _ in range(2):
        done = service.run_command("dumprestart", "--json")
        assert done.exit_code == 0, done.output
        before, dump_id = dump_id, json.loads(done.stdout)["dump_id"]
        assert dump_id != before
        request = read_waiting(service.log, exact_id(dump_id))
        assert request is not None
        assert (request.after_dump, request.sinks, request.delete_at_most, request.repair) == (dump_id, ("copy", "lake"), 7, True)
        assert [table.name for table in request.tables] == [ORDERS]
        assert service.asked("--id", "last", "--detach")["id"] == exact_id(dump_id)


def test_the_restart_of_an_exact_dump_is_exact_where_the_history_has_lost_its_entries(service: Service) -> None:
    service.run_command("dumpstart", "--tables", "shop.orders", "--exact")
    service.served = replace(service.served, history=list)
    with Serving(service.served) as serving:
        service.serving = serving
        done = service.run_command("dumprestart", "--json")
    assert done.exit_code == 0, done.output
    dump_id = json.loads(done.stdout)["dump_id"]
    request = read_waiting(service.log, exact_id(dump_id))
    assert request is not None
    assert (request.after_dump, request.repair) == (dump_id, True)


def test_the_restart_of_another_dump_is_not_exact(service: Service) -> None:
    for command in (["dumpstart", "--tables", "shop.orders"], ["dumprestart"]):
        assert service.run_command(*command).exit_code == 0
    assert service.made.last_id() is None


def test_a_restart_that_could_not_be_exact_is_rejected(service: Service) -> None:
    done = service.run_command("dumpstart", "--tables", "shop.orders", "--exact", "--json")
    dump_id = json.loads(done.stdout)["dump_id"]
    remove_files(OwnedLog(service.log, 1), exact_id(dump_id))
    done = service.run_command("dumprestart")
    assert (done.exit_code, "the request of its comparison" in done.output) == (3, True), done.output
    assert len(service.owner.carried_out) == 1


@pytest.mark.parametrize("command", [["dumpstart", "--tables", "shop.orders", "--exact"], ["dumprestart"]], ids=["start", "restart"])
def test_an_exact_dump_that_is_rejected_leaves_no_verification_that_waits(
    service: Service, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    if command == ["dumprestart"]:
        service.run_command("dumpstart", "--tables", "shop.orders", "--exact")

    def rejected(*_: object) -> None:
        raise RefusedRequest("no more dumps can wait", hint="wait")

    monkeypatch.setattr(type(service.owner.dump), "request", rejected)
    done = service.run_command(*command, "--json")
    assert done.exit_code == 3, done.output
    entry = service.owner.history.entries()[0]
    assert (entry.kind, entry.state) == (OperationKind.VERIFICATION, DumpState.STOPPED)
    assert read_waiting(service.log, entry.id) is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--keys", "shop.orders:[1]"], "an exact dump is of whole tables"),
        (["--where", "shop.orders:amount > 5"], "an exact dump is of whole tables"),
        (["--sink", "shown"], "sink shown cannot be read back"),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["started", "dry"])
def test_a_dump_that_cannot_be_exact_is_refused(service: Service, arguments: list[str], says: str, dry: list[str]) -> None:
    done = service.run_command("dumpstart", "--exact", *arguments, *dry)
    assert (done.exit_code, says in " ".join(done.output.split())) == (3, True), done.output
    assert not service.owner.carried_out
    assert service.made.last_id() is None


def test_what_could_not_be_compared_is_not_equal(service: Service) -> None:
    failed = TableReport("copy", *ORDERS, CheckState.FAILED, why="the server is away")
    service.worker = lambda operation_id: VerifyReport(operation_id, CheckState.FAILED, 1, 2, tables=[failed])
    done = service.run()
    assert done.exit_code == 3
    assert "the server is away" in done.output


def test_one_that_is_detached_runs_on_and_can_be_ended(service: Service) -> None:
    result = service.asked("--detach")
    assert (result["state"], result["waiting_for"]) == ("waiting", "the merge worker, which has not begun with it")
    assert service.run("--stop").exit_code == 0
    service.worker = lambda operation_id: VerifyReport(operation_id, CheckState.STOPPED, 1, 2)
    assert service.asked("--id", result["id"])["state"] == "stopped"
    operations = json.loads(service.run("--list", "--json").stdout)["operations"]
    assert [(one["id"], one["state"], one["commands"][0]["command"]) for one in operations] == [(result["id"], "stopped", "stop")]


def test_a_dry_run_starts_nothing(service: Service) -> None:
    result = service.asked("--dry-run", "--sink", "copy")
    assert [(table["sink"], table["table"], table["rows_estimated"]) for table in result["tables"]] == [
        ("copy", "orders", 1000), ("copy", "item", 1000),
    ]  # fmt: skip
    assert (result["id"], result["waiting_for"], result["state"]) == ("", "", "none")
    text = service.run("--dry-run", "--sink", "copy").output
    assert "nothing was started" in text
    assert "not started" in text
    assert "waiting" not in text
    assert request_ids(service.log) == []


def test_it_shows_how_far_it_is_also_without_being_watched(service: Service) -> None:
    done = service.run()
    assert f"verification {service.made.last_id()} waiting" in done.output
    assert service.run("--json").stdout.count("\n") == 1, "programs get the report alone"


def test_a_look_at_one_that_runs_is_brief_and_a_status_has_it(service: Service) -> None:
    """Which look, at how many keys, since when."""
    service.worker = lambda operation_id: VerifyReport(operation_id, CheckState.RUNNING, 1, 2, tables=tables)
    tables = [
        TableReport("copy", *ORDERS, CheckState.RUNNING, rows=5, look=2, pending=7, look_ms=9, examples=[SPOILT[0]]),
        *(TableReport("lake", *ORDERS, CheckState.EQUAL, rows=1) for _ in range(100)),
    ]
    started = service.asked("--detach")
    service.work()
    known = service.made.look(OperationId(started["id"]))
    assert known is not None
    write_report(service.log, VerifyReport(OperationId(started["id"]), CheckState.RUNNING, 1, 2, tables=tables), known[0].request)
    service.made.follow()
    request = pb.VerificationRequest(changefeed=pb.Changefeed(id="cf"), id=started["id"], brief=True)
    brief = answer_of(service.made, request, is_brief=True)
    [table] = brief.tables
    assert (table.table, table.look, table.pending, table.look_ms, len(table.examples)) == (ORDERS.table, 2, 7, 9, 0)
    assert (brief.table_count, brief.tables_done, brief.rows) == (101, 100, 105)
    whole = service.asked("--id", started["id"], "--detach")
    assert (len(whole["tables"]), len(whole["tables"][0]["examples"])) == (101, 1)
    status = json.loads(service.run_command("dumpquery", "--json").stdout)
    assert status["verification"]["tables"][0]["pending"] == 7
    assert "look 2 at 7 keys" in service.run_command("dumpquery").stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--sink", "shown"], 3, "sink shown cannot be read back: it keeps nothing"),
        (["--sink", "nobody"], 3, "no sink is called nobody"),
        (["--tables", "shop.nothing"], 3, "no table of the changefeed matches"),
        (["--where", "shop.orders:nothing = 1"], 3, "nothing"),
        (["--sample", "2"], 2, "above 0 and at most 1"),
        (["--sample", "some"], 2, "above 0 and at most 1"),
        (["--id", "nobody"], 3, "there is no verification nobody"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(service: Service, arguments: list[str], code: int, says: str) -> None:
    done = service.run(*arguments)
    assert done.exit_code == code, done.output
    assert says in " ".join(done.output.split())
    assert request_ids(service.log) == []


def test_without_any_verification_it_says_so(service: Service) -> None:
    done = service.run("--id", "last")
    assert (done.exit_code, "there is no verification" in done.output) == (3, True)
