"""What dumpquery asks for and gives to programs: the timeline in the same answer, and only where somebody sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sidecar.cli import query_command
from sidecar.cli.dump_call import DumpOptions
from sidecar.cli.dump_commands import register
from ticdc_dump.v1 import control_pb2 as pb

APP = typer.Typer(rich_markup_mode=None)
register(APP)
TSO = 470000000000000001


@dataclass(slots=True)
class Requested:
    """Stands for the client of a sidecar that gives `statuses`: one to each query, the last one again and again; all to a watch."""

    statuses: Sequence[pb.DumpStatus]
    requests: list[pb.DumpRequest] = field(default_factory=list)

    def __enter__(self) -> Requested:
        return self

    def __exit__(self, *ended: object) -> None:
        return

    def call(self, method: str, request: pb.DumpRequest) -> pb.DumpStatus:
        assert method == "Query"
        self.requests.append(pb.DumpRequest.FromString(request.SerializeToString()))
        return self.statuses[min(len(self.requests), len(self.statuses)) - 1]

    def watch(self, request: pb.DumpRequest) -> Iterator[pb.DumpStatus]:
        self.requests.append(request)
        yield from self.statuses


def status(timeline: pb.Timeline | None, state: pb.DumpState = pb.DUMP_STATE_RUNNING) -> pb.DumpStatus:
    return pb.DumpStatus(dump_id="d" * 16, state=state, timeline=timeline)


def run(
    monkeypatch: pytest.MonkeyPatch, statuses: Sequence[pb.DumpStatus], *given: str, terminal: bool = False, code: int = 0
) -> tuple[Requested, str]:
    client = Requested(statuses)
    monkeypatch.setattr(DumpOptions, "client", lambda *_: client)
    monkeypatch.setattr(query_command, "sleep", lambda _: None)
    result = CliRunner().invoke(APP, ["dumpquery", "-c", "cf", *given], env={"FORCE_COLOR": "1" if terminal else None, "TERM": "xterm"})
    assert result.exit_code == code, result.output
    return client, result.output


SAMPLE, NEXT = (pb.Sample(at_ms=at_ms, epoch=3, rows_per_second=5, waiting_for="[bold]x") for at_ms in (1_000, 3_000))
CHUNK = pb.DumpedChunk(dump_id="d" * 16, schema="shop", table="orders", low_tso=TSO, high_tso=TSO + 2, rows=10, seq=7)


@pytest.mark.parametrize("watch", [(), ("--watch",)], ids=["", "--watch"])
@pytest.mark.parametrize(
    ("terminal", "given", "asks"),
    [
        (True, (), True),
        (False, (), False),
        (False, ("--json",), False),
        (True, ("--json",), False),
        (False, ("--json", "--timeline"), True),
    ],
)
def test_the_timeline_is_requested_with_the_status_where_it_is_shown(
    monkeypatch: pytest.MonkeyPatch, watch: tuple[str, ...], terminal: bool, given: tuple[str, ...], asks: bool
) -> None:
    client, _ = run(monkeypatch, [status(None, pb.DUMP_STATE_FINISHED)], *watch, *given, terminal=terminal)
    (request,) = client.requests
    assert request.HasField("timeline_after_ms") is asks
    assert request.timeline_after_ms == 0


def test_the_json_has_the_timeline_with_every_field_and_a_tso_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out = run(monkeypatch, [status(pb.Timeline(samples=[SAMPLE], chunks=[CHUNK]))], "--json", "--timeline")
    result = json.loads(out)["timeline"]
    assert set(result["samples"][0]) == {one.name for one in pb.Sample.DESCRIPTOR.fields}
    assert (result["samples"][0]["at_ms"], result["samples"][0]["rows_per_second"]) == (1_000, 5.0)
    (chunk,) = result["chunks"]
    assert (chunk["low_tso"], chunk["high_tso"], chunk["dropped"]) == (str(TSO), str(TSO + 2), None)


def test_without_the_option_the_json_has_no_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out = run(monkeypatch, [status(None)], "--json")
    assert set(json.loads(out)) == {one.name for one in pb.DumpStatus.DESCRIPTOR.fields} - {"timeline"}


def test_a_watch_for_programs_gives_with_each_object_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        status(pb.Timeline(samples=[SAMPLE], chunks=[CHUNK])),
        status(pb.Timeline(samples=[SAMPLE, NEXT], chunks=[CHUNK])),
        status(pb.Timeline(chunks=[CHUNK]), pb.DUMP_STATE_FINISHED),
    ]
    _, out = run(monkeypatch, answers, "--watch", "--json", "--timeline")
    results: list[Any] = [json.loads(line)["timeline"] for line in out.splitlines()]
    assert [[one["at_ms"] for one in timeline["samples"]] for timeline in results] == [[1_000], [3_000], []]
    assert [len(timeline["chunks"]) for timeline in results] == [1, 0, 0]


def test_a_watch_in_a_terminal_shows_the_minutes_before_beside_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = pb.Sample(at_ms=600_000, rows_per_second=9_999)
    calm = pb.Sample(at_ms=602_000, rows_per_second=5)
    answers = [status(pb.Timeline(samples=[busy])), status(pb.Timeline(samples=[calm]), pb.DUMP_STATE_FINISHED)]
    _, out = run(monkeypatch, answers, "--watch", terminal=True)
    assert "finished" in out
    assert "now 0, max 9,999 in 10 min" in out.rpartition("finished")[2]


def test_the_option_without_json_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DumpOptions, "client", lambda *_: Requested([]))
    result = CliRunner().invoke(APP, ["dumpquery", "-c", "cf", "--timeline"])
    assert result.exit_code == 2
    assert "--timeline is for --json" in result.output


# ---- --wait --------------------------------------------------------------------------------------------------------------

D = 1_000
LATE, FAST = "lake", "kafka"


def finished(*, delivered: int, since: int = 0, began_seq: int = 0, tables_known: bool = True, **given: Any) -> pb.DumpStatus:
    """A dump of one table, complete at D. `delivered`: of all sinks. `since`, `began_seq`: of LATE; FAST has the table from D on."""
    tables = [(FAST, D, 0), (LATE, since, began_seq)]
    sinks = [
        pb.SinkStatus(
            sink=name,
            began_seq=began,
            tables_known=tables_known,
            tables=[pb.SinkTableStatus(schema="shop", table="orders", complete_since_tso=since_tso)] if tables_known else [],
        )
        for name, since_tso, began in tables
    ]
    table = pb.TableStatus(schema="shop", table="orders", chunks=1, rows=10, complete_at_tso=D)
    known: dict[str, Any] = {"state": pb.DUMP_STATE_FINISHED, "sinks": sinks} | given
    return pb.DumpStatus(dump_id="d" * 16, delivered_tso=delivered, tables=[table], **known)


RUNNING = status(None)
WAIT = "--wait"


@pytest.mark.parametrize(
    ("statuses", "given", "code"),
    [
        ([RUNNING, finished(delivered=D - 1), finished(delivered=D)], (), 0),
        ([RUNNING, finished(delivered=D - 1, since=D)], (), 0),
        ([finished(delivered=D - 1)], ("--sink", FAST), 0),
        ([finished(delivered=D - 1), finished(delivered=D - 1, since=D + 5)], ("--sink", LATE), 0),
        ([finished(delivered=D - 1, dump_sinks=[FAST])], (), 0),
        ([finished(delivered=D, sinks=[]), finished(delivered=D)], (), 0),
        ([RUNNING, status(None, pb.DUMP_STATE_FAILED)], (), 1),
        ([finished(delivered=D)], ("--sink", "nobody"), 3),
        ([finished(delivered=D, dump_sinks=[FAST])], ("--sink", LATE), 3),
        ([finished(delivered=D, began_seq=9)], (), 3),
        ([finished(delivered=D, since=5, began_seq=9)], (), 0),
        ([finished(delivered=D, began_seq=9, tables_known=False), finished(delivered=D, since=D, began_seq=9)], (), 0),
        ([pb.DumpStatus()], (), 3),
        ([RUNNING, status(None, pb.DUMP_STATE_STOPPED)], (), 7),
        ([RUNNING], ("--wait-seconds", "0"), 8),
        ([finished(delivered=D - 1)], ("--wait-seconds", "0"), 8),
    ],
)
@pytest.mark.parametrize("json_or_not", [(), ("--json",)], ids=["", "--json"])
@pytest.mark.parametrize("watch", [(), ("--watch",)], ids=["", "--watch"])
def test_a_wait_ends_when_the_rows_are_in_the_sinks_or_never_will_be(
    monkeypatch: pytest.MonkeyPatch,
    statuses: list[pb.DumpStatus],
    given: tuple[str, ...],
    code: int,
    json_or_not: tuple[str, ...],
    watch: tuple[str, ...],
) -> None:
    client, out = run(monkeypatch, statuses, WAIT, *watch, *given, *json_or_not, code=code)
    assert len(client.requests) == len(statuses)
    assert bool(json_or_not) is all(line.startswith("{") for line in out.splitlines())


def test_a_wait_stays_with_the_dump_that_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    client, out = run(monkeypatch, [RUNNING, finished(delivered=D)], WAIT)
    assert [request.dump_id for request in client.requests] == ["", "d" * 16]
    assert out.splitlines()[-1] == f"dump {'d' * 16} is complete in all sinks that receive it"


def test_what_a_wait_waits_for_is_wrong_usage_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in (("--sink", FAST), ("--wait-seconds", "5")):
        _, out = run(monkeypatch, [RUNNING], *option, code=2)
        assert "give --wait too" in out


# ---- exit codes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("json_or_not", [(), ("--json",)], ids=["", "--json"])
@pytest.mark.parametrize(
    "command",
    [
        ("dumpstart",),
        ("dumpset", "--readers", "2"),
        ("dumppause",),
        ("dumpresume",),
        ("dumprestart",),
        ("dumpstop",),
        ("dumpquery",),
        ("dumpquery", "--watch"),
        ("dumpquery", "--wait"),
    ],
    ids=" ".join,
)
def test_a_command_that_shows_a_failed_dump_fails(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], json_or_not: tuple[str, ...]
) -> None:
    failed = status(None, pb.DUMP_STATE_FAILED)
    client = Requested([failed])
    monkeypatch.setattr(Requested, "call", lambda *_: failed)
    monkeypatch.setattr(DumpOptions, "client", lambda *_: client)
    result = CliRunner().invoke(APP, [*command, "-c", "cf", *json_or_not])
    assert result.exit_code == 1, result.output
    assert "failed" in result.output
    assert f"dump {'d' * 16} is" not in result.output, "it is not told as done"
