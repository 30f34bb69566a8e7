"""What people see of a verification: how far it is, what differs, and what was not compared."""

from __future__ import annotations

import pytest

from sidecar.cli.verify_view import EXAMPLES_SHOWN, TABLES_SHOWN, VALUE_CHARS_MAX, is_over, look, plain_line, report_view
from sidecar.control.wire import is_looked_for
from tests.unit.cli.test_dump_view import shown
from ticdc_dump.v1 import control_pb2 as pb

TSO = 470000000000000000


def table(name: str, state: pb.CheckState, **given: object) -> pb.CheckedTable:
    return pb.CheckedTable(sink="copy", schema="shop", table=name, state=state, **given)  # type: ignore[arg-type]  # fields by name


def verification(*tables: pb.CheckedTable, state: pb.CheckState, **given: object) -> pb.Verification:
    known: dict[str, object] = {"id": "a" * 16, "sample": 1.0}
    return pb.Verification(state=state, tables=tables, **(known | given))  # type: ignore[arg-type]  # fields by name


def picture(value: pb.Verification) -> str:
    return shown(report_view(value), width=240)


def line_of(text: str, name: str) -> list[str]:
    return next(line for line in text.splitlines() if f"shop.{name}" in line).split()


RUNNING = verification(
    table("orders", pb.CHECK_STATE_RUNNING, rows=1500, parts=8, parts_done=6, seconds=3.0, moving=4),
    table("item", pb.CHECK_STATE_WAITING, rows_estimated=70_000),
    table("done", pb.CHECK_STATE_EQUAL, rows=2, equal=2, seconds=0.5, high_tso=TSO),
    state=pb.CHECK_STATE_RUNNING,
    rows_per_second=500.0,
    remaining_s=90.0,
)


def test_one_that_runs_shows_how_far_each_table_is() -> None:
    text = picture(RUNNING)
    assert line_of(text, "orders")[:9] == ["copy", "shop.orders", "running", "75%", "1,500", "0", "0", "0", "4"]
    assert line_of(text, "item")[:4] == ["copy", "shop.item", "waiting", "70,000"]
    assert line_of(text, "done")[2:9] == ["equal", "2", "0", "0", "0", "0", "4"]
    assert "keys changed" not in text, "they are looked at again"
    line = f"verification {'a' * 16} running  1/3 tables  1,502 rows  orders in copy: 75%"
    assert plain_line(RUNNING) == f"{line}  500 rows/s, about 1 min 30 s left"
    assert "500 rows/s, about 1 min 30 s left" in text
    unknown = pb.Verification()
    unknown.CopyFrom(RUNNING)
    unknown.remaining_s = 0
    assert "time left not known yet" in picture(unknown)
    assert not is_over(RUNNING)


def test_a_second_look_shows_which_at_how_many_keys_and_since_when() -> None:
    looks = table("orders", pb.CHECK_STATE_RUNNING, rows=1500, parts=8, parts_done=8, look=3, pending=1200, look_ms=1_800_000_000_000)
    result = verification(looks, state=pb.CHECK_STATE_RUNNING)
    for text in (picture(result), plain_line(result)):
        assert "look 3 at 1,200 keys since 2027-01-15 08:00:00" in text
        assert "100%" not in text


def test_a_brief_answer_counts_the_tables_that_it_does_not_show() -> None:
    result = verification(
        table("orders", pb.CHECK_STATE_DIFFERENT, missing=2),
        state=pb.CHECK_STATE_RUNNING,
        table_count=90_000,
        tables_done=1_000,
        rows=5_000,
        differences=2,
    )
    assert "running  1,000/90,000 tables  5,000 rows" in plain_line(result)
    assert "2 differences" in plain_line(result)
    assert "89,999 more tables" in picture(result)
    more = pb.Verification()
    more.CopyFrom(result)
    more.tables_done += 1
    assert look(result).kind != look(more).kind


def test_one_that_waits_says_for_what() -> None:
    result = verification(state=pb.CHECK_STATE_WAITING, waiting_for="the merge worker, which has not begun with it")
    for text in (picture(result), plain_line(result)):
        assert "waiting" in text
        assert "the merge worker, which has not begun with it" in text
    assert not is_over(result)


def test_without_any_there_is_nothing_else_to_see() -> None:
    assert picture(pb.Verification()).split() == ["state", "there", "is", "no", "verification"]


DIFFERENT = table(
    "orders", pb.CHECK_STATE_DIFFERENT, rows=9, missing=1, extra=1, different=30, high_tso=TSO,
    columns=[pb.ColumnDifferences(column="amount", rows=1200)],
    examples=[
        pb.RowDifference(kind="missing", key=["1", "x y"]),
        pb.RowDifference(
            kind="different",
            key=["k" * 500],
            cells=[
                pb.CellDifference(column="amount", sink=""),
                pb.CellDifference(column="note", source="[bold]n" * 100, sink="7"),
                pb.CellDifference(column="gone", source="'"),
            ],
        ),
        *[pb.RowDifference(kind="extra", key=[f"more-{number}"]) for number in range(20)],
    ],
)  # fmt: skip


def test_differences_are_shown_value_by_value_with_nulls_and_the_beginnings_of_long_ones() -> None:
    text = picture(verification(DIFFERENT, state=pb.CHECK_STATE_DIFFERENT))
    joined = " ".join(text.split())
    assert line_of(text, "orders")[2:8] == ["different", "9", "1", "1", "30", "0"]
    assert "differing columns: amount (1,200 rows)" in joined
    assert "missing (1, x y)" in joined
    assert "amount: source NULL, sink ''; note: source '[bold]n" in joined, "an empty text is no NULL, and no text is markup"
    assert 'gone: source "\'", sink NULL' in joined
    assert f"different ({'k' * VALUE_CHARS_MAX}…)" in joined
    assert f"extra (more-{EXAMPLES_SHOWN - 3})" in joined
    assert f"more-{EXAMPLES_SHOWN - 2}" not in joined
    assert f"and {32 - EXAMPLES_SHOWN} more: dumpverify --id {'a' * 16} --differences" in joined


def test_a_line_counts_the_differences_and_one_that_is_over_is_so() -> None:
    result = verification(DIFFERENT, state=pb.CHECK_STATE_DIFFERENT)
    assert plain_line(result) == f"verification {'a' * 16} different  1/1 tables  9 rows  32 differences"
    assert is_over(result)
    assert [is_over(verification(state=state)) for state in (pb.CHECK_STATE_EQUAL, pb.CHECK_STATE_FAILED, pb.CHECK_STATE_STOPPED)] == [
        True, True, True,
    ]  # fmt: skip


def test_a_repair_is_shown_and_it_is_not_over_before_that_is() -> None:
    repair = pb.Repair(state=pb.REPAIR_STATE_RUNNING, keys=1200, dumps=["d1", "d2"], waiting_for="the dump that is there")
    result = verification(DIFFERENT, state=pb.CHECK_STATE_DIFFERENT, repair=repair)
    words = "running: 1,200 keys in 2 dumps, waiting for the dump that is there"
    assert words in picture(result)
    assert plain_line(result).endswith(f"repair {words}")
    assert not is_over(result)
    result.repair.CopyFrom(pb.Repair(state=pb.REPAIR_STATE_FINISHED, keys=1, dumps=["d1"], followed_by="b" * 16))
    assert f"followed by verification {'b' * 16}" in picture(result)
    assert is_over(result)
    result.repair.CopyFrom(pb.Repair(state=pb.REPAIR_STATE_FAILED, error="the source is away"))
    assert "failed: 0 keys in 0 dumps: the source is away" in picture(result)
    assert is_over(result)


def test_of_many_tables_the_worst_are_shown_first_and_the_rest_counted() -> None:
    equal = [table(f"t{number:03d}", pb.CHECK_STATE_EQUAL) for number in range(TABLES_SHOWN + 5)]
    others = [table("failed", pb.CHECK_STATE_FAILED), table("skipped", pb.CHECK_STATE_SKIPPED), table("orders", pb.CHECK_STATE_DIFFERENT)]
    text = picture(verification(*equal, *others, state=pb.CHECK_STATE_DIFFERENT))
    order = [text.index(f"shop.{name} ") for name in ("orders", "failed", "skipped", "t000", f"t{TABLES_SHOWN - 4:03d}")]
    assert order == sorted(order)
    assert f"t{TABLES_SHOWN - 3:03d}" not in text
    assert "… 8 more tables; --json shows all" in text


def test_what_was_not_compared_has_its_reason() -> None:
    why = "the server is away: " + "no route to host, " * 20
    result = verification(
        table("orders", pb.CHECK_STATE_FAILED, why=why),
        state=pb.CHECK_STATE_FAILED,
        left_out=[pb.LeftOutSink(sink="lake", why="it keeps nothing")],
        sample=0.01,
    )
    text = " ".join(picture(result).split())
    assert f"shop.orders in copy: {why.strip()}" in text
    assert "omitted lake: it keeps nothing" in text
    assert "0.01 of each table; extra rows were not looked for" in text


@pytest.mark.parametrize(("partial", "extra"), [(True, "-"), (False, "0")])
def test_extra_rows_that_were_not_looked_for_are_no_zero(partial: bool, extra: str) -> None:
    text = picture(verification(table("orders", pb.CHECK_STATE_EQUAL, rows=3, partial=partial), state=pb.CHECK_STATE_EQUAL))
    assert line_of(text, "orders")[3:7] == ["3", "0", extra, "0"]


def test_what_is_less_sure_is_reported() -> None:
    result = table("orders", pb.CHECK_STATE_DIFFERENT, missing=200_000, unlooked=100_000, moving=3)
    text = " ".join(picture(verification(result, state=pb.CHECK_STATE_DIFFERENT)).split())
    assert "100,000 of these were seen once only: there are too many to look at each again" in text
    assert "shop.orders in copy: 3 keys changed each time that they were looked at" in text


def test_a_watch_reports_again_what_has_another_state() -> None:
    seen = look(RUNNING)
    other = pb.Verification()
    other.CopyFrom(RUNNING)
    other.tables[0].rows += 1
    assert look(other).kind == seen.kind
    other.tables[0].state = pb.CHECK_STATE_EQUAL
    assert look(other).kind != seen.kind
    assert seen.line() == plain_line(RUNNING)
    assert shown(seen.picture(), width=240) == picture(RUNNING)


def test_what_is_not_judged_is_no_zero_and_has_its_reason() -> None:
    why = "filter.event-filters number 1, ignore-event, omits deletes"
    hidden = [pb.UnjudgedKinds(kinds=["extra"], why=why)]
    result = table("orders", pb.CHECK_STATE_EQUAL, rows=3, expected=1200, unjudged=hidden)
    text = picture(verification(result, state=pb.CHECK_STATE_EQUAL))
    assert line_of(text, "orders")[2:8] == ["equal", "3", "0", "-", "0", "0"]
    assert f"shop.orders in copy: extra rows can be right and are not judged: {why}" in text
    assert "shop.orders in copy: 1,200 rows differ and are not judged" in text


def test_keys_in_several_rows_are_differences() -> None:
    result = verification(table("orders", pb.CHECK_STATE_DIFFERENT, duplicate=2), state=pb.CHECK_STATE_DIFFERENT)
    assert "shop.orders in copy: 2 keys are there in several rows" in picture(result)
    assert "2 differences" in plain_line(result)


def test_a_repair_that_asks_is_over_and_shows_what_it_would_delete() -> None:
    deletes = [pb.RowsToDelete(sink="copy", schema="shop", table="orders", rows=1200, at_most=1000)]
    repair = pb.Repair(state=pb.REPAIR_STATE_ASKS, waiting_for="an answer", deletes=deletes)
    result = verification(DIFFERENT, state=pb.CHECK_STATE_DIFFERENT, repair=repair)
    assert "asks: 0 keys in 0 dumps, 1,200 rows to delete, waiting for an answer" in picture(result)
    assert is_over(result), "nothing happens before somebody answers"


@pytest.mark.parametrize("kind", ["missing", "extra", "different"])
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("unjudged", [(), ("missing",), ("extra", "different")])
def test_what_was_not_looked_for_has_no_number(kind: str, partial: bool, unjudged: tuple[str, ...]) -> None:
    """In the console, too."""
    one = table("orders", pb.CHECK_STATE_EQUAL, partial=partial, unjudged=[pb.UnjudgedKinds(kinds=unjudged, why="hidden")])
    assert is_looked_for(one, kind) == (kind not in unjudged and not (partial and kind == "extra"))
    cells = line_of(picture(verification(one, state=pb.CHECK_STATE_EQUAL)), "orders")
    assert cells[4:7][("missing", "extra", "different").index(kind)] == ("0" if is_looked_for(one, kind) else "-")
