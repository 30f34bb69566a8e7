"""A table's events as lines: short, whole in one line, and without anything that a terminal carries out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.cli.tail_view import COLUMNS_MAX, event_line, pairs, sink_line, value_text
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from spark_merge.port.contract import DueChunk
from spark_merge.tail.events import EventKind, LiveChange, TailEvent
from spark_merge.tail.shown import ShownValues
from spark_merge.tail.verdict import SinkHas, Verdict

WIDE = TableSchema(TableName("s", "t"), tuple(Column(f"c{at}", "text") for at in range(COLUMNS_MAX + 5)), ("c0",))
EVIL = "\x1b[2J\u202e\x85\r\n\t"
SHOWN = ShownValues(chars_max=40)
DUE = DueChunk(WIDE.name, CommitTs(10), CommitTs(20), Seq(0), Seq(1), 0, "d" * 16, "chunks/1.parquet", 1)


def row(text: str | None) -> tuple[str | None, ...]:
    return ("k", *[text] * (len(WIDE.columns) - 1))


def event(kind: EventKind, **parts: object) -> TailEvent:
    usual = {"schema": WIDE, "op": "insert", "key": ("k",), "after": row("x")}
    return TailEvent(kind, Seq(1), CommitTs(20), WIDE.name, **(usual | parts))  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize("kind", EventKind)
def test_each_kind_is_one_line_without_control_characters(kind: EventKind) -> None:
    """Names, values, reasons and sinks are others'."""
    named = replace(WIDE, columns=(Column("c0", "text"), *(replace(one, name=f"{EVIL}{one.name}") for one in WIDE.columns[1:])))
    for of_row in (True, False):
        parts: dict[str, object] = {"schema": named, "after": row(EVIL * 500), "text": EVIL * 500, "sinks": (f"a{EVIL}",), "chunk": DUE}
        parts |= {} if of_row else {"schema": None, "key": None, "chunk": None}
        line = event_line(event(kind, **parts), SHOWN)
        assert "\x1b" not in line
        assert "\n" not in line
        assert len(line) < 3_000


def test_of_many_columns_the_first_are_shown() -> None:
    line = event_line(event(EventKind.LIVE), SHOWN)
    assert line.endswith("c11 'x', c12 'x', and 4 more columns")
    assert pairs({}) == ""
    update = event(EventKind.LIVE, op="update", before=row("y"))
    assert event_line(update, SHOWN).endswith("c12 'y' → 'x', and 4 more columns")


def test_a_row_that_was_dropped_says_by_what() -> None:
    change = LiveChange(CommitTs(15), "delete", row("y"), None)
    line = event_line(event(EventKind.DROPPED, chunk=DUE, change=change), SHOWN)
    assert "; replaced in its window by the delete at commit-ts 15 (" in line
    assert line.endswith(f"; dump {'d' * 16}, chunk chunks/1.parquet, window (10, 20]")
    assert "by a live change that cannot be read" in event_line(event(EventKind.DROPPED, chunk=DUE), SHOWN)


def test_a_delete_of_a_dump_has_no_values() -> None:
    assert "c0 'k': no row; dump" in event_line(event(EventKind.DUMP, op="delete", after=None, chunk=DUE), SHOWN)


def test_a_sink_that_has_no_row_and_one_that_was_not_read() -> None:
    assert sink_line(SinkHas("a", Verdict.OPEN, "no"), SHOWN) == "sink a: open: no"
    assert sink_line(SinkHas("a", Verdict.EQUAL, "same", Seq(3), None, WIDE), SHOWN) == "sink a, at segment 3: equal: same; it has no row"


def test_null_is_no_text() -> None:
    assert (value_text(None), value_text("NULL"), value_text("")) == ("NULL", "'NULL'", "''")
