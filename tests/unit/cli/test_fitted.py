"""Tables and facts in terminals of 80 to 200 columns: no line is longer, and no value is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from sidecar.cli.dump_view import preview_view
from sidecar.cli.fitted import BAR_WIDTH_MAX, BAR_WIDTH_MIN, FOLDED_MIN, PADDING, Bar, FittedColumn, FittedTable, facts_table
from sidecar.cli.verify_view import report_view
from sidecar.cli.views import ReplayLooks
from sidecar.shared.model.nouns import TableName
from tests.unit.cli.test_verify_view import table, verification
from tests.unit.cli.test_views import PROGRESS, STATUS
from tests.unit.cli.test_widths import LONG, TSO, lines, unfolded
from ticdc_dump.v1 import control_pb2 as pb

COLUMNS = (
    FittedColumn("name", folds=True),
    FittedColumn("bar"),
    FittedColumn("first", number=True, drop_order=1),
    FittedColumn("third", drop_order=3),
    FittedColumn("second", drop_order=2),
    FittedColumn("stays", number=True),
)
ROW = ("n" * 10, Bar(10, 5), "1" * 10, "3" * 10, "2" * 10, "9" * 10)
WITHOUT_BAR = 5 * 10 + 4 * PADDING


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (WITHOUT_BAR + PADDING + BAR_WIDTH_MIN, ["name", "bar", "first", "third", "second", "stays"]),
        (WITHOUT_BAR + PADDING + BAR_WIDTH_MIN - 1, ["name", "first", "third", "second", "stays"]),
        (WITHOUT_BAR, ["name", "first", "third", "second", "stays"]),
        (WITHOUT_BAR - 1, ["name", "third", "second", "stays"]),
        (WITHOUT_BAR - 13, ["name", "third", "stays"]),
        (WITHOUT_BAR - 25, ["name", "stays"]),
        (WITHOUT_BAR - 32, ["name", "stays"]),
    ],
)
def test_the_bar_is_dropped_first_then_the_columns_in_their_order(width: int, headings: list[str]) -> None:
    results = lines(FittedTable(COLUMNS, [ROW]), width)
    assert results[0].split() == headings
    assert max(map(cell_len, results)) <= width
    assert "".join(results[1:]).count("n") == 10, "the name is folded, not cut"


@pytest.mark.parametrize("width", range(8, 60))
def test_no_text_vanishes_however_narrow_the_terminal_is(width: int) -> None:
    """Of what is shown at all: in a table, or in paragraphs."""
    results = lines(FittedTable(COLUMNS, [ROW, ROW]), width)
    assert max(map(cell_len, results)) <= width
    text = "".join("".join(results).split())
    assert [text.count(one * 10) for one in "n9"] == [2, 2]
    assert width < 10 + FOLDED_MIN or results[0].split()[0] == "name"


def test_a_bar_has_a_greatest_width() -> None:
    rows = [(*ROW[:1], Bar(10, 10), *ROW[2:])]
    assert lines(FittedTable(COLUMNS, rows), 10 * WITHOUT_BAR)[1].count("━") == BAR_WIDTH_MAX


@pytest.mark.parametrize(
    ("rows", "estimated", "complete", "bar"),
    [
        (5, 10, False, Bar(10, 5)),
        (5, 10, True, Bar(10, 10)),
        (15, 10, False, Bar(15, 15)),
        (0, 0, False, Bar(1, 0)),
        (0, 0, True, Bar(1, 1)),
    ],
)
def test_the_bar_of_a_table_is_full_when_its_dump_is_complete(rows: int, estimated: int, complete: bool, bar: Bar) -> None:
    assert Bar.of_rows(rows, estimated=estimated, complete=complete) == bar


def test_texts_of_a_table_are_not_markup() -> None:
    assert lines(FittedTable(COLUMNS[:1], [["[red]x[/red]"]]), 80)[1].rstrip() == "[red]x[/red]"


def test_a_table_without_rows_has_its_headings() -> None:
    assert lines(FittedTable(COLUMNS, []), 80)[0].split() == ["name", "bar", "first", "third", "second", "stays"]


def test_facts_are_text_and_fold_below_their_own_beginning() -> None:
    results = lines(facts_table([("short", "[red]x[/red] " * 20), ("longer name", Text("y"))]), 40)
    assert results[0].startswith("short        [red]x[/red]")
    assert results[1].startswith(" " * 13 + "[red]")
    assert max(map(cell_len, results)) <= 40


VERIFIED = verification(
    table("orders", pb.CHECK_STATE_RUNNING, rows=123_456_789, parts=8, parts_done=6, seconds=3.0, moving=4_321, high_tso=TSO),
    table("customers", pb.CHECK_STATE_DIFFERENT, rows=12_345_678, missing=1_234, extra=5_678, different=91_011, seconds=93.5, high_tso=TSO),
    state=pb.CHECK_STATE_RUNNING,
)
PREVIEW = pb.DumpPreview(
    tables=[pb.TablePreview(schema="shop", table=LONG, rows=123_456_789, bytes=1 << 40, read_by="the primary key (id, created_at)")],
    seconds=60,
)
REPLAYED = replace(PROGRESS, tables=(replace(PROGRESS.tables[1], table=TableName("shop", LONG), rows=12_345_678, chunks=1_234),))
SHOWN: dict[str, tuple[RenderableType, list[str]]] = {
    "verification": (
        report_view(VERIFIED),
        ["shop.orders", "running 75%", "123,456,789", "shop.customers", "different", "12,345,678", "1,234", "5,678", "91,011"],
    ),
    "preview": (preview_view(PREVIEW), [f"shop.{LONG}", "123,456,789", "the primary key (id, created_at)"]),
    "replay": (
        ReplayLooks().look(replace(STATUS, progress=REPLAYED)).picture(),
        [f"shop.{LONG}", "12,345,678", "1,234", "complete at 03:35:30.250", "50 % of the recording"],
    ),
}


@pytest.mark.parametrize("width", [30, 40, 60])
@pytest.mark.parametrize("name", SHOWN)
def test_what_matters_is_there_at_any_width(name: str, width: int) -> None:
    picture, values = SHOWN[name]
    results = lines(picture, width)
    assert max(map(cell_len, results)) <= width
    assert not any("…" in line for line in results)
    if width == 30:  # in a wider one two texts fold beside each other
        assert [value for value in values if unfolded(value) not in unfolded("\n".join(results))] == []


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("name", SHOWN)
def test_what_matters_is_whole_at_any_width(name: str, width: int) -> None:
    picture, values = SHOWN[name]
    results = lines(picture, width)
    assert max(map(cell_len, results)) <= width
    assert not any("…" in line for line in results)
    first_column = "".join(line.split(" ")[0] for line in results)
    for value in values:
        assert any(value in line for line in results) or value in first_column, value


def test_a_wide_terminal_shows_of_a_verification_when_and_how_fast_too() -> None:
    heading = next(line.split() for line in lines(report_view(VERIFIED), 200) if line.startswith("sink "))
    assert heading == ["sink", "table", "state", "rows", "missing", "extra", "different", "moving", "rows/s", "time", "as", "of"]
    narrow = next(line.split() for line in lines(report_view(VERIFIED), 80) if line.startswith("sink "))
    assert narrow == ["sink", "table", "state", "rows", "missing", "extra", "different"]
