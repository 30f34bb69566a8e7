"""Pictures: what is where, what is left out, and that a name is never markup."""

from __future__ import annotations

from itertools import combinations
from random import Random
from xml.etree.ElementTree import Element

import pytest
from markupsafe import Markup

from sidecar.report.build import look
from sidecar.report.chunks import DumpedChunk
from sidecar.report.drawing import (
    BOX_GAP,
    BOX_HEIGHT,
    CHART_HEIGHT,
    CHART_WIDTH,
    LANES_MAX,
    LEFT,
    NAMES,
    POINTS_MAX,
    RIGHT,
    TABLES_MAX,
    TOP,
    WIDTH,
    Period,
    Series,
    TimedEvent,
    chart,
    interleaving,
)
from sidecar.shared.model.nouns import TableName
from tests.unit.report.made import BEGIN_MS, ITEMS, ORDERS, dumped
from tests.unit.report.parsed import HOSTILE, attributes, figure, numbers, points, tags, texts

SPAN = Period(BEGIN_MS, BEGIN_MS + 100_000)
NONE = Series("changes", "third", [])
BOTTOM = CHART_HEIGHT - 20


def at(second: float) -> float:
    return BEGIN_MS + 1000 * second


def line(*values: float, every_s: float = 10.0) -> Series:
    return Series("rows/s", "first", [(at(number * every_s), value) for number, value in enumerate(values)])


def boxes(drawing: Markup) -> list[tuple[float, float, float]]:
    """Left, right and lane of each."""
    results = numbers(figure(drawing), "chunk", "x", "width", "y")
    return [(x, x + width, (y - TOP) / (BOX_HEIGHT + BOX_GAP)) for x, width, y in results if x == x]


def labels(root: Element) -> list[str]:
    """Texts that always show."""
    return texts(root, "./div/svg/text")


def chunks(*begin_s: float, lasts_s: float = 1.0) -> list[DumpedChunk]:
    return [dumped(number, begins_ms=int(at(second)), lasts_ms=int(lasts_s * 1000)) for number, second in enumerate(begin_s)]


# ---- values over time -----------------------------------------------------------------------------------------------------


def test_a_chart_has_its_values_between_its_edges_and_the_scale_above_them() -> None:
    root = figure(chart("Dump", [line(0, 450, 225, 0, 0, 0, 0, 0, 0, 0, 90)], SPAN, unit=" rows"))
    (drawn,) = points(root, "first")
    assert [x for x, _ in drawn] == [round(LEFT + share / 10 * (CHART_WIDTH - LEFT - RIGHT), 1) for share in range(11)]
    height = BOTTOM - TOP
    assert [round((BOTTOM - y) / height * 500) for _, y in drawn][:3] == [0, 450, 225]
    assert [text for text in labels(root) if "rows" in text] == ["500 rows", "250 rows"]
    assert root.find(".//svg").get("viewBox") == f"0 0 {CHART_WIDTH} {CHART_HEIGHT}"  # type: ignore[union-attr]  # it is there


def test_a_chart_says_in_words_what_it_shows() -> None:
    svg = figure(chart("Lag", [line(1, 3), Series("p99", "second", [])], SPAN, unit=" s")).find(".//svg")
    assert svg is not None
    assert svg.get("aria-label") == "Lag: rows/s 3 s at the end; at most 3 s is shown"
    empty = figure(chart("Lag", [NONE], SPAN, unit=" s")).find(".//svg")
    assert empty is not None
    assert empty.get("aria-label") == "Lag: nothing measured at the end; at most 1 s is shown"


@pytest.mark.parametrize(
    ("most", "top"), [(0.003, "0.01"), (0.3, "0.3"), (0.95, "1"), (5.5, "6"), (99.6, "100"), (1234, "1.5 k"), (700_001, "800 k")]
)
def test_the_scale_is_a_round_number_that_no_value_is_above(most: float, top: str) -> None:
    root = figure(chart("Lag", [line(most)], SPAN, unit=""))
    assert labels(root)[-2] == top
    assert all(y >= TOP for drawn in points(root, "first") for _, y in drawn)


def test_what_is_before_or_after_the_time_that_is_shown_is_not_drawn() -> None:
    root = figure(chart("Dump", [line(9, 1, 1, 9, every_s=50.0)], Period(at(50), at(100)), unit="", events=[TimedEvent(at(20), "before")]))
    assert [len(drawn) for drawn in points(root, "first")] == [2]
    assert "before" not in texts(root, ".//title")
    assert labels(root)[-2] == "1", "nor does it count for the scale"


def test_of_many_values_the_greatest_of_each_part_is_drawn() -> None:
    rng = Random(1)
    values = [rng.random() for _ in range(20_000)]
    values[7777] = 2.0
    root = figure(chart("Dump", [line(*values, every_s=100 / 20_000)], SPAN, unit=""))
    (drawn,) = points(root, "first")
    assert POINTS_MAX / 2 < len(drawn) <= POINTS_MAX + 1
    assert [x for x, _ in drawn] == sorted(x for x, _ in drawn)
    peak = max(drawn, key=lambda one: -one[1])
    assert peak == (round(LEFT + 7777 / 20_000 * (CHART_WIDTH - LEFT - RIGHT), 1), TOP)
    assert sum(BOTTOM - y > 0.9 / 2 * (BOTTOM - TOP) for _, y in drawn) > POINTS_MAX * 0.8, "of 42 random values one is near 1"


def test_there_is_no_line_over_times_in_which_nothing_was_measured() -> None:
    measured = [(at(second), 1.0) for second in (*range(0, 30, 2), *range(60, 90, 2), 99)]
    root = figure(chart("Dump", [Series("rows/s", "first", measured)], SPAN, unit=""))
    assert [len(drawn) for drawn in points(root, "first")] == [15, 15, 2], "a single value is a dot"
    last = points(root, "first")[-1]
    assert last[0] == last[1]


def test_a_spike_is_cut_and_named_and_flattens_nothing() -> None:
    values = [0.3 + number % 5 / 50 for number in range(100)]
    values[1] = 152.0
    root = figure(chart("Lag", [line(*values, every_s=1.0)], SPAN, unit=" s"))
    (drawn,) = points(root, "first")
    assert drawn[1][1] == TOP
    assert BOTTOM - drawn[50][1] > 0.4 * (BOTTOM - TOP), "the others are where they can be told apart"
    assert "▲ 152 s" in texts(root, ".//text")
    svg = root.find(".//svg")
    assert svg is not None
    assert "the greatest was 152 s" in str(svg.get("aria-label"))
    steady = figure(chart("Lag", [line(*([0.3] * 50 + [0.8] * 50), every_s=1.0)], SPAN, unit=" s"))
    assert "▲" not in "".join(texts(steady, ".//text")), "what is usual is no spike"


def test_the_values_of_each_time_are_a_text_under_the_pointer() -> None:
    twice = [line(1, 2, 3), Series("p99", "second", [(at(10), 7.0)])]
    root = figure(chart("Lag", twice, SPAN, unit=" s"))
    shown = texts(root, ".//g[@class='at']/text")
    assert [text.split("  ")[1:] for text in shown] == [["rows/s 1 s"], ["rows/s 2 s", "p99 7 s"], ["rows/s 3 s"]]
    below = figure(interleaving("All", chunks(10), line(5, 6), SPAN))
    assert len(texts(below, ".//g[@class='at']/text")) == 2


def test_a_line_of_an_event_has_a_key_where_there_is_one() -> None:
    for drawn in (chart("Dump", [line(1)], SPAN, unit="", events=[TimedEvent(at(25), "x", is_command=True)]),
                  interleaving("All", chunks(10), NONE, SPAN, events=[TimedEvent(at(25), "x", is_command=True)])):  # fmt: skip
        assert "a command" in "".join(figure(drawn).itertext())
        assert "what happened" not in "".join(figure(drawn).itertext())
    assert "a command" not in "".join(figure(chart("Dump", [line(1)], SPAN, unit="")).itertext())


def test_an_event_is_a_line_with_its_text() -> None:
    root = figure(chart("Dump", [line(1, 2)], SPAN, unit="", events=[TimedEvent(at(25), "it runs again")]))
    assert numbers(root, "event", "x1", "x2") == [(round(LEFT + 0.25 * (CHART_WIDTH - LEFT - RIGHT), 1),) * 2]
    assert "it runs again" in texts(root, ".//title")


# ---- interleaving ---------------------------------------------------------------------------------------------------------


def test_a_chunk_is_a_box_between_its_marks_with_what_it_has() -> None:
    one = dumped(7, begins_ms=int(at(10)), lasts_ms=40_000, dropped=3)
    drawing = interleaving("All chunks", [one], NONE, SPAN)
    wide = WIDTH - LEFT - NAMES
    assert boxes(drawing) == [pytest.approx((LEFT + 0.1 * wide, LEFT + 0.5 * wide, 0), abs=0.2)]
    root = figure(drawing)
    assert texts(root, ".//title") == ["shop.orders", "shop.orders: 10 rows; 3 rows of its batch replaced by live changes; segment 7"]
    assert "−3" in texts(root, ".//text")
    svg = root.find(".//svg")
    assert svg is not None
    assert svg.get("aria-label") == "All chunks: 1 chunks with 10 rows, of which live changes have replaced 3"


@pytest.mark.parametrize(("dropped", "marked"), [(None, False), (0, False), (1, True)])
def test_a_box_is_marked_where_live_changes_have_replaced_rows(dropped: int | None, marked: bool) -> None:
    one = dumped(7, begins_ms=int(at(10)), lasts_ms=5000, dropped=dropped)
    root = figure(interleaving("All", [one], NONE, SPAN))
    assert (len([one for one in root.iter("rect") if "replaced" in str(one.get("class"))]) == 1) is marked
    assert ("−" in "".join(texts(root, ".//text"))) is marked


def test_chunks_at_the_same_time_are_in_lanes_of_their_own_and_later_ones_take_the_first_that_is_free() -> None:
    drawing = interleaving("All", chunks(0, 1, 60, lasts_s=30), NONE, SPAN)
    assert [lane for *_, lane in boxes(drawing)] == [0, 1, 0]


def extents(drawing: Markup) -> list[tuple[float, float, float]]:
    """Begin, end and lane of each box with its text, whose characters are 6 wide at least."""
    result = []
    for group in figure(drawing).iter("g"):
        rect, text = group.find("rect"), group.find("text")
        if rect is None or "chunk" not in rect.get("class", ""):
            continue
        left = float(rect.get("x", "")), float(rect.get("x", "")) + float(rect.get("width", ""))
        if text is not None:
            begins = float(text.get("x", ""))
            left = min(left[0], begins), max(left[1], begins + 6 * len(text.text or ""))
        result.append((*left, float(rect.get("y", ""))))
    return result


@pytest.mark.parametrize("seed", range(5))
def test_no_box_or_text_is_over_another_one_or_outside(seed: int) -> None:
    rng = Random(seed)
    made = [
        dumped(
            number,
            TableName("shop", rng.choice(["orders", "t", "customers_of_the_years_before_2020"])),
            begins_ms=int(at(rng.random() * 99)),
            lasts_ms=rng.randrange(1, 9000),
            dropped=rng.choice([None, 5, 12_345]),
        )
        for number in range(60)
    ]
    drawn = extents(interleaving("All", made, NONE, Period(BEGIN_MS, at(108))))
    assert len(drawn) == 60
    assert not [(one, other) for one, other in combinations(drawn, 2) if one[2] == other[2] and one[0] < other[1] and other[0] < one[1]]
    assert all(begins >= 0 and ends <= WIDTH for begins, ends, _ in drawn)


def test_more_chunks_at_once_than_lanes_are_drawn_over_others() -> None:
    drawing = interleaving("All", chunks(*[10.0] * (LANES_MAX + 5), lasts_s=50), NONE, SPAN)
    lanes = [lane for *_, lane in boxes(drawing)]
    assert len(lanes) == LANES_MAX + 5
    assert set(lanes) == set(range(LANES_MAX))


def test_a_table_is_named_once_beside_its_lanes_however_narrow_its_boxes_are() -> None:
    made = [dumped(number, (ORDERS, ITEMS)[number % 2], begins_ms=int(at(number / 8)), lasts_ms=100) for number in range(760)]
    drawing = interleaving("All", made, NONE, SPAN)
    assert len(boxes(drawing)) == 760
    assert [text for text in texts(figure(drawing), ".//text") if ":" not in text and "/s" not in text] == ["orders", "items"]
    lane_of = {chunk.table: lane for chunk, (*_, lane) in zip([*made[::2], *made[1::2]], boxes(drawing), strict=True)}
    assert lane_of[ORDERS] < lane_of[ITEMS]


def test_tables_of_one_name_have_their_schemas_and_very_many_share_lanes() -> None:
    twins = [dumped(number, TableName(schema, "t"), begins_ms=int(at(number))) for number, schema in enumerate(("a", "b"))]
    assert {"a.t", "b.t"} <= set(texts(figure(interleaving("All", twins, NONE, SPAN)), ".//text"))
    many = [dumped(number, TableName("shop", f"t{number}"), begins_ms=int(at(number))) for number in range(40)]
    drawing = interleaving("All", many, NONE, SPAN)
    named = [text for text in texts(figure(drawing), ".//text") if text.startswith("t") or "more" in text]
    assert (len(named), named[-1]) == (TABLES_MAX, f"{41 - TABLES_MAX} more tables")
    assert len(boxes(drawing)) == 40


def test_a_long_name_is_cut_and_whole_where_the_pointer_is() -> None:
    long = TableName("shop", "customers_of_the_years_before_2020")
    root = figure(interleaving("All", [dumped(1, long, begins_ms=int(at(1)))], NONE, SPAN))
    assert str(long) in texts(root, ".//title")
    assert [text for text in texts(root, ".//text") if text.endswith("…") and long.table.startswith(text[:-1])]


def test_live_changes_are_an_area_below_with_a_gap_where_nothing_was_measured() -> None:
    rate = Series("changes", "third", [(at(second), 20.0) for second in (*range(0, 30, 2), *range(60, 90, 2))])
    root = figure(interleaving("All", chunks(10), rate, SPAN))
    assert [len(area) for area in points(root, "changes")] == [17, 17]
    assert "20/s" in texts(root, ".//text")


def test_chunks_outside_of_the_time_that_is_shown_are_left_out() -> None:
    drawing = interleaving("All", chunks(-50, -0.5, 99.5, 150), NONE, SPAN)
    assert len(boxes(drawing)) == 2
    assert boxes(drawing)[0][0] == LEFT, "one that began before begins at the edge"


def test_a_picture_of_no_time_and_of_nothing_is_one() -> None:
    assert boxes(interleaving("All", chunks(0, 0, lasts_s=0), NONE, Period(BEGIN_MS, BEGIN_MS)))
    assert boxes(interleaving("None", [], NONE, Period(0, 1))) == []


# ---- names ----------------------------------------------------------------------------------------------------------------


def test_a_name_is_text_wherever_it_is() -> None:
    one = dumped(7, TableName("shop", HOSTILE), begins_ms=int(at(10)), lasts_ms=80_000, dropped=3)
    drawings = [
        interleaving(HOSTILE, [one], Series(HOSTILE, "third", [(at(1), 2.0)]), SPAN, events=[TimedEvent(at(20), HOSTILE)]),
        chart(HOSTILE, [Series(HOSTILE, "first", [(at(1), 2.0)])], SPAN, unit=HOSTILE, events=[TimedEvent(at(20), HOSTILE)]),
    ]
    for drawing in drawings:
        root = figure(drawing)
        assert not tags(root) - {
            "figure", "figcaption", "strong", "span", "div", "svg", "g", "title", "rect", "line", "text", "polyline", "polygon",
        }  # fmt: skip
        assert not {name for name in attributes(root) if name.startswith("on") or name in ("href", "src", "style")}
        assert HOSTILE in texts(root, ".//title")
        assert texts(root, ".//strong") == [HOSTILE]
    assert f"shop.{HOSTILE}: 10 rows" in "".join(texts(figure(drawings[0]), ".//title"))


def test_each_class_of_a_picture_has_a_style() -> None:
    both = figure(
        Markup("<div>") + interleaving("All", chunks(10), NONE, SPAN) + chart("Dump", [line(1)], SPAN, unit="") + Markup("</div>")
    )
    used = {name for one in both.iter() for name in one.get("class", "").split()}
    assert not {name for name in used if f".{name}" not in look()}
