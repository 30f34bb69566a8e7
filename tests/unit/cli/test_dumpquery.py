"""What dumpquery asks for and gives to programs: the timeline in the same answer, and only where somebody sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sidecar.cli.dump_call import DumpOptions
from sidecar.cli.dump_commands import register
from ticdc_dump.v1 import control_pb2 as pb

APP = typer.Typer(rich_markup_mode=None)
register(APP)
TSO = 470000000000000001


@dataclass(slots=True)
class Asked:
    """Stands for the client of a sidecar that gives `statuses`: the first to a query, all to a watch."""

    statuses: Sequence[pb.DumpStatus]
    requests: list[pb.DumpRequest] = field(default_factory=list)

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *ended: object) -> None:
        return

    def call(self, method: str, request: pb.DumpRequest) -> pb.DumpStatus:
        assert method == "Query"
        self.requests.append(request)
        return self.statuses[0]

    def watch(self, request: pb.DumpRequest) -> Iterator[pb.DumpStatus]:
        self.requests.append(request)
        yield from self.statuses


def status(timeline: pb.Timeline | None, state: pb.DumpState = pb.DUMP_STATE_RUNNING) -> pb.DumpStatus:
    return pb.DumpStatus(dump_id="d" * 16, state=state, timeline=timeline)


def run(monkeypatch: pytest.MonkeyPatch, statuses: Sequence[pb.DumpStatus], *given: str, terminal: bool = False) -> tuple[Asked, str]:
    client = Asked(statuses)
    monkeypatch.setattr(DumpOptions, "client", lambda *_: client)
    found = CliRunner().invoke(APP, ["dumpquery", "-c", "cf", *given], env={"FORCE_COLOR": "1" if terminal else None, "TERM": "xterm"})
    assert found.exit_code == 0, found.output
    return client, found.output


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
def test_the_timeline_is_asked_for_with_the_status_where_it_is_shown(
    monkeypatch: pytest.MonkeyPatch, watch: tuple[str, ...], terminal: bool, given: tuple[str, ...], asks: bool
) -> None:
    client, _ = run(monkeypatch, [status(None, pb.DUMP_STATE_FINISHED)], *watch, *given, terminal=terminal)
    (request,) = client.requests
    assert request.HasField("timeline_after_ms") is asks
    assert request.timeline_after_ms == 0


def test_the_json_has_the_timeline_with_every_field_and_a_tso_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out = run(monkeypatch, [status(pb.Timeline(samples=[SAMPLE], chunks=[CHUNK]))], "--json", "--timeline")
    found = json.loads(out)["timeline"]
    assert set(found["samples"][0]) == {one.name for one in pb.Sample.DESCRIPTOR.fields}
    assert (found["samples"][0]["at_ms"], found["samples"][0]["rows_per_second"]) == (1_000, 5.0)
    (chunk,) = found["chunks"]
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
    found: list[Any] = [json.loads(line)["timeline"] for line in out.splitlines()]
    assert [[one["at_ms"] for one in timeline["samples"]] for timeline in found] == [[1_000], [3_000], []]
    assert [len(timeline["chunks"]) for timeline in found] == [1, 0, 0]


def test_a_watch_in_a_terminal_shows_the_minutes_before_beside_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = pb.Sample(at_ms=600_000, rows_per_second=9_999)
    calm = pb.Sample(at_ms=602_000, rows_per_second=5)
    answers = [status(pb.Timeline(samples=[busy])), status(pb.Timeline(samples=[calm]), pb.DUMP_STATE_FINISHED)]
    _, out = run(monkeypatch, answers, "--watch", terminal=True)
    assert "finished" in out
    assert "now 0, max 9,999 in 10 min" in out.rpartition("finished")[2]


def test_the_option_without_json_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DumpOptions, "client", lambda *_: Asked([]))
    found = CliRunner().invoke(APP, ["dumpquery", "-c", "cf", "--timeline"])
    assert found.exit_code == 2
    assert "--timeline is for --json" in found.output
