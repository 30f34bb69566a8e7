"""A dump in terminals of 80, 120 and 200 columns: no line is longer, and what matters is there in full; the same without colours."""

from __future__ import annotations

import io
import os
import re
import sys

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from sidecar.cli import terminal
from sidecar.cli.dump_view import TABLES_SHOWN, look, plain_line, status_view
from sidecar.cli.history_view import HISTORY_WIDTH_MIN, history_view
from sidecar.cli.terminal import View, console_for
from ticdc_dump.v1 import control_pb2 as pb

TSO = 470000000000000000
URI = "kafka://broker-1:9092,broker-2:9092,broker-3:9092/orders?protocol=open-protocol&partition-by=key"
REASON = "SELECT command denied to user 'dump'@'10.0.0.7' for table 'secrets' (1142)"
LONG = "a_table_of_the_longest_name_that_tidb_takes_which_is_sixty_four__"
TABLES = [
    pb.TableStatus(schema="shop", table="orders", chunks=1_234, rows=12_345_678, rows_estimated=45_678_901),
    pb.TableStatus(schema="shop", table="customers", chunks=12, rows=345_678, rows_estimated=450_678, complete_at_tso=TSO),
]
SAMPLES = [
    pb.Sample(
        at_ms=1_700_000_000_000 + 2_000 * index,
        rows_per_second=150_000 + index,
        changes_per_second=500,
        sinks=[pb.SinkSample(sink="lake", live_s=0.7 if index % 50 == 0 else 0.3, bound_s=0.5), pb.SinkSample(sink=URI, live_s=0.2)],
    )
    for index in range(1_800)
]
VALUES = [
    *("default/orders", "k3j5h2g8s9d0f1a2", "running", "1 of 2 tables", "12,691,356 rows", "151,799 rows/s", "23.0 MiB/s"),
    *("eta 4 min 35 s", "source: a SELECT takes long", "lag 0.4 s", "lag 0.6 s", "p50 0.21 s, p99 0.61 s, bound 0.50 s"),
    *("above the bound in 6 of 300 samples", "room for 75,000 rows of the dump", URI, REASON, "sidecar-0.svc:4711"),
    *("now 151,799, max 151,799 in 10 min", "now 500, max 500 in 10 min", "now 0.61 s, max 0.70 s in 10 min"),
    *("shop.orders", "12,345,678", "1,234", "shop.customers", "complete at 05:55:14.843"),
]


def status(*, samples: int = len(SAMPLES), tables: list[pb.TableStatus] | None = None) -> pb.DumpStatus:
    return pb.DumpStatus(
        changefeed=pb.Changefeed(namespace="default", id="orders"),
        dump_id="k3j5h2g8s9d0f1a2",
        state=pb.DUMP_STATE_RUNNING,
        tables=TABLES if tables is None else tables,
        resolved_tso=TSO,
        delivered_tso=TSO,
        resolved_lag_s=0.4,
        delivery_lag_s=0.6,
        rows_per_second=151_799,
        bytes_per_second=23 << 20,
        eta_s=275,
        waiting_for="source: a SELECT takes long",
        sinks=[
            pb.SinkStatus(sink="lake", median_s=0.21, live_s=0.61, bound_s=0.5, rows_allowed=75_000, holds=True),
            pb.SinkStatus(sink=URI, median_s=0.1, live_s=0.2),
        ],
        dumps=[pb.DumpSummary(dump_id="b" * 16, state=pb.DUMP_STATE_FAILED, tables=2, reason=REASON)],
        owner="sidecar-0.svc:4711",
        timeline=pb.Timeline(samples=SAMPLES[len(SAMPLES) - samples :]),
    )


def lines(renderable: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=50)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def unfolded(text: str) -> str:
    """Without what folding adds, between words or amid a long one, and without colours."""
    return re.sub(r"\x1b\[[0-9;]*m|\s+", "", text)


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("samples", [1, 1_800])
def test_no_line_is_longer_than_the_terminal_and_every_value_is_there_in_full(width: int, samples: int) -> None:
    results = lines(status_view(status(samples=samples)), width)
    assert max(map(cell_len, results)) <= width
    assert not any("…" in line for line in results)
    values = VALUES if samples > 1 else [value for value in VALUES if " in " not in value]
    for value in values:
        assert unfolded(value) in unfolded("\n".join(results)), value


def test_facts_fold_below_their_own_beginning() -> None:
    results = lines(status_view(status(tables=[])), 80)
    (at,) = [index for index, line in enumerate(results) if "failed, 0 of 2 tables" in line]
    assert results[at].startswith("other dump ")
    assert re.match(r" {15}\S", results[at + 1])


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (70, ["table", "rows", "chunks"]),
        (80, ["table", "rows", "of", "about", "chunks"]),
        (120, ["table", "dump", "rows", "of", "about", "chunks"]),
    ],
)
def test_a_narrow_terminal_drops_the_bar_and_then_the_estimate(width: int, headings: list[str]) -> None:
    (heading,) = [line.split() for line in lines(status_view(status()), width) if line.startswith("table ")]
    assert heading == headings


def test_the_bar_takes_what_a_wide_terminal_leaves() -> None:
    bars = [max(line.count("━") for line in lines(status_view(status()), width)) for width in (100, 120, 200)]
    assert bars == sorted(set(bars))


def test_long_names_of_tables_are_folded_and_their_values_stay_whole() -> None:
    table = pb.TableStatus(schema=LONG, table=LONG, rows=123_456_789, chunks=1_234, complete_at_tso=TSO)
    results = lines(status_view(status(tables=[table])), 80)
    assert max(map(len, results)) <= 80
    at = next(index for index, line in enumerate(results) if line.startswith("table "))
    assert re.search(r"123,456,789 +1,234 +complete at 05:55:14\.843$", results[at + 1].rstrip())
    assert "".join(line.split()[0] for line in results[at + 1 :]) == f"{LONG}.{LONG}"


def test_of_a_timeline_of_a_moment_ago_and_of_none_the_rest_is_the_same() -> None:
    without = lines(status_view(status(samples=0)), 120)
    assert "now " not in "\n".join(without)
    one = "\n".join(lines(status_view(status(samples=1)), 120))
    assert re.search(r"dump rows/s +█  now 151,799, max 151,799 in 10 min", one)
    assert set(without) - set(one.splitlines()) == set()


def test_names_of_others_are_text_beside_the_lines_too() -> None:
    evil = "[red]\x1b[31mlake[/red]"
    dump_status = pb.DumpStatus(
        sinks=[pb.SinkStatus(sink=evil)], timeline=pb.Timeline(samples=[pb.Sample(sinks=[pb.SinkSample(sink=evil)])])
    )
    console = terminal._Printing(file=io.StringIO(), width=80)
    console.print(status_view(dump_status))
    assert isinstance(console.file, io.StringIO)
    assert "[red][31mlake[/red]: not measured" in console.file.getvalue()


def test_a_log_line_is_one_line_with_a_timeline_too() -> None:
    assert plain_line(status()) == plain_line(status(samples=0))
    assert "\n" not in plain_line(status())


def in_terminal(monkeypatch: pytest.MonkeyPatch, **given: str) -> io.BytesIO:
    """What a terminal of 80 columns is sent. `given`: of the environment."""
    file = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(file, encoding="utf-8", write_through=True))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **given}.items():
        monkeypatch.setenv(name, value)
    return file


@pytest.mark.parametrize(("columns", "width"), [("", 200), ("x", 200), ("0", 200), ("-5", 200), ("40", 40), ("120", 120), ("300", 300)])
def test_without_a_terminal_a_line_is_as_long_as_columns_says(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    in_terminal(monkeypatch, COLUMNS=columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert console_for(as_json=False).width == width


@pytest.mark.parametrize("given", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}], ids=str)
def test_without_colours_nothing_is_sent_but_text(monkeypatch: pytest.MonkeyPatch, given: dict[str, str]) -> None:
    output = in_terminal(monkeypatch, **given)
    console_for(as_json=False).print(status_view(status()))
    text = output.getvalue().decode()
    assert ("\x1b" in text) is (not given)
    for word in ("holds the dump", "failed", "above the bound in 6 of 300 samples"):
        assert unfolded(word) in unfolded(text), "what a colour says a word says as well"


def test_a_watch_without_colours_moves_the_cursor_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    output = in_terminal(monkeypatch, NO_COLOR="1")
    with View(console_for(as_json=False)) as view:
        view.show(look(status()))
    assert "\x1b[" in output.getvalue().decode()
    assert not re.search(rb"\x1b\[[0-9;]*m", output.getvalue())


def test_a_watch_in_a_dumb_terminal_is_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    output = in_terminal(monkeypatch, TERM="dumb")
    with View(console_for(as_json=False)) as view:
        view.show(look(status()))
        assert output.getvalue().decode() == plain_line(status()) + os.linesep


def test_a_watch_shows_so_many_tables_as_the_terminal_is_high(monkeypatch: pytest.MonkeyPatch) -> None:
    many = status(tables=[*TABLES, *(pb.TableStatus(schema="shop", table=f"t{index}") for index in range(40))])
    shown = {}
    for height in (26, 32, 80):
        output = in_terminal(monkeypatch, LINES=str(height))
        with View(console_for(as_json=False)) as view:
            view.show(look(many))
        *_, last = output.getvalue().decode().split("\x1b[1A\x1b[2K")  # the picture when it was drawn last
        assert last.count("\n") <= height
        shown[height] = len(re.findall(r"^shop\.", last, re.MULTILINE))
        assert f"… {42 - shown[height]} more tables" in last
    assert shown[26] < shown[32] < shown[80] == TABLES_SHOWN


def test_what_the_terminal_has_no_character_for_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(file, encoding="ascii", write_through=True))
    many = [pb.TableStatus(schema="shop", table="表", chunks=1), *(pb.TableStatus(schema="s", table=f"t{n}") for n in range(40))]
    console_for(as_json=False).print(status_view(status(tables=many)))
    text = file.getvalue().decode("ascii")
    assert "shop.? " in text
    assert re.search(r"dump rows/s +[.:\-=+*#@]{100,}  now 151,799", text)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_history_is_whole_in_every_terminal(width: int) -> None:
    one = pb.Operation(
        id="k3j5h2g8s9d0f1a2",
        kind=pb.OPERATION_KIND_DUMP,
        scope=pb.OperationScope(tables=["shop.orders", "shop.customers"], table_count=2, sinks=[URI]),
        asked_by=pb.Asker(name="certificate alice", address="10.0.0.7:41000"),
        started_ms=1_700_000_000_000,
        state=pb.DUMP_STATE_FAILED,
        result=REASON,
        rows=12_345_678,
        seconds=61.2,
    )
    results = lines(history_view([one]), width)
    assert max(map(cell_len, results)) <= width
    for value in ("2023-11-14 22:13:20", "k3j5h2g8s9d0f1a2", "12,345,678", "1 min 1 s"):
        assert any(value in line for line in results), value
    assert not any("…" in line for line in results)
    for word in f"{REASON} shop.orders, shop.customers certificate alice at 10.0.0.7:41000".split():
        assert any(word in line for line in results), word
    assert width >= HISTORY_WIDTH_MIN or unfolded(URI) in unfolded("\n".join(results))
