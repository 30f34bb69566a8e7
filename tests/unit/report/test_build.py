"""The report of a dump: what it says, that it needs nothing else, and that nothing of a cluster is markup in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from xml.etree.ElementTree import Element

import pytest
from msgspec import structs

from sidecar.history.entry import HistoryEntry, OperationCommand
from sidecar.report import build
from sidecar.report.build import CHUNKS_AT_ONCE, Held, ReportFacts, held, report_html, sink_figures
from sidecar.report.drawing import TimedEvent
from sidecar.shared.log.certificate_parts import Line, SampleLine, ScopeTable, SinkSample
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import OperationId, TableName
from sidecar.shared.model.progress import DumpState
from tests.unit.report.made import (
    BEGIN_MS,
    FACTS,
    ITEMS,
    ORDERS,
    SINK,
    batch_line,
    chunk_line,
    entry,
    sample,
    samples,
    scope_line,
    ten_minutes,
)
from tests.unit.report.parsed import HOSTILE, attributes, page, tags, texts


def made(lines: Iterable[Line], of: HistoryEntry | None = None, facts: ReportFacts = FACTS) -> Element:
    return page(report_html(lines, of or entry(), facts))


def rows(root: Element, title: str) -> list[list[str]]:
    """The cells of the rows of the table of this section."""
    (section,) = (one for one in root.iter("div") if one.get("aria-label") == title and one.find("table") is not None)
    return [["".join(cell.itertext()) for cell in row] for row in section.iterfind("table/tbody/tr")]


def words(root: Element) -> str:
    return re.sub(r"\s+", " ", "".join(root.itertext()))


def pictures(root: Element) -> dict[str, str]:
    """Titles of interleavings: in words, what each shows."""
    result = {}
    for one in root.iter("figure"):
        svg = one.find(".//svg")
        if "interleaving" in one.get("class", "") and svg is not None:
            result["".join(texts(one, ".//strong"))] = svg.get("aria-label", "").partition(": ")[2]
    return result


# ---- alone ----------------------------------------------------------------------------------------------------------------


def test_it_is_one_page_that_runs_nothing_and_refers_to_nothing() -> None:
    html = report_html(ten_minutes(), entry(), FACTS)
    root = page(html)
    assert not tags(root) & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image", "use", "a"}
    assert not {name for name in attributes(root) if name.startswith("on")} | attributes(root) & {"src", "href", "style"}
    assert not re.findall(r"url\(|@import|https?:|//[a-z]", re.sub(r"file:///out", "", html))
    (policy,) = (one.get("content") for one in root.iter("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert len(html) < 200_000


def test_what_came_from_a_cluster_is_text() -> None:
    table = TableName(HOSTILE, HOSTILE)
    lines: list[Line] = [
        scope_line(ScopeTable(*table, HOSTILE, 0, False, None)),
        chunk_line(1, table),
        batch_line(1, 1, {table: 3}, HOSTILE),
        *samples(30, waiting_for=f"{HOSTILE}: {HOSTILE}", sink=HOSTILE),
    ]
    asker = Asker(HOSTILE, HOSTILE, HOSTILE)
    commands = (OperationCommand(HOSTILE, asker, BEGIN_MS),)
    of = replace(entry(DumpState.FAILED, result=HOSTILE, commands=commands), id=OperationId(HOSTILE), asked_by=asker)
    facts = ReportFacts(HOSTILE, HOSTILE, [(HOSTILE, HOSTILE)], {HOSTILE: HOSTILE}, [TimedEvent(BEGIN_MS + 900, HOSTILE)], HOSTILE)
    root = made(lines, of, facts)
    assert not tags(root) & {"script", "img"}
    assert not {name for name in attributes(root) if name.startswith("on")}
    assert len(list(root.iter("body"))) == 1
    assert rows(root, "Tables")[0][0] == f"{HOSTILE}.{HOSTILE} where {HOSTILE}"
    assert [one[1] for one in rows(root, "What happened")][-1] == HOSTILE
    assert rows(root, "What held it back")[0][::2] == [HOSTILE.partition(":")[0], f"{HOSTILE}: {HOSTILE}".partition(":")[2].strip()]
    assert rows(root, "Live delivery while it ran")[0][::6] == [HOSTILE, HOSTILE]
    assert HOSTILE in texts(root, ".//h1")[0]
    assert HOSTILE in texts(root, "head/title")[0]


# ---- what it says ---------------------------------------------------------------------------------------------------------


def test_its_totals_are_those_of_all_chunks() -> None:
    lines: list[Line] = [
        chunk_line(1, rows=100),
        chunk_line(2, ITEMS, rows=20),
        batch_line(1, 2, {ORDERS: 7, ITEMS: 1}),
        chunk_line(3, rows=3),
    ]
    root = made([*lines, batch_line(3, 3, {})], entry(running_s=3.0))
    assert "finished. 123 rows of 2 tables (12.0 KiB) in 3 s, 41 rows/s. Live changes have replaced 8 of them" in words(root)
    assert "the other 115 are delivered" in words(root), "as many as tables have that are compared with the source"
    assert rows(root, "Tables") == [
        ["shop.items", "1", "20", "2.0 KiB", "1", "19"],
        ["shop.orders", "2", "103", "10.1 KiB", "7", "96"],
    ]


def test_what_is_not_known_is_said_to_be_not_known() -> None:
    root = made([chunk_line(1), chunk_line(2, ITEMS), batch_line(1, 2, {ORDERS: None, ITEMS: 1})])
    assert "How many of them live changes have replaced is not known." in words(root)
    assert [one[-2:] for one in rows(root, "Tables")] == [["1", "9"], ["not known", "not known"]]


def test_its_head_says_who_requested_it_when_of_what_and_how_it_ended() -> None:
    of = entry(DumpState.FAILED, result="Table shop.orders is gone")
    root = made([chunk_line(1)], of, replace(FACTS, more=[("TiCDC cluster", "blue")]))
    assert texts(root, ".//h1") == [f"Dump {of.id}"]
    facts = dict(zip(texts(root, ".//dt"), texts(root, ".//dd"), strict=True))
    assert facts == {
        "Changefeed": FACTS.changefeed,
        "Asked by": "certificate alice at 10.0.0.7:1",
        "Started (UTC)": "2026-05-28 20:26:40",
        "Ended (UTC)": "2026-05-28 20:27:40",
        "Sinks": "all",
        "TiCDC cluster": "blue",
    }
    assert "failed: Table shop.orders is gone." in words(root)
    assert f"Written by ticdc-dump {FACTS.product}. {FACTS.certificate}" in words(root)


def test_a_table_of_which_some_rows_were_requested_says_which() -> None:
    scope = scope_line(ScopeTable(*ORDERS, "id < 5", 0, False, None), ScopeTable(*ITEMS, None, 1200, False, None))
    root = made([scope, chunk_line(1), chunk_line(1, ITEMS), chunk_line(1, TableName("shop", "parts"))])
    assert [one[0] for one in rows(root, "Tables")] == ["shop.items 1,200 keys", "shop.orders where id < 5", "shop.parts"]
    assert SINK in texts(root, ".//dd")


def test_commands_takeovers_and_gaps_are_events_in_their_order() -> None:
    commands = (OperationCommand("set readers=2", Asker("bob", "", "at night"), BEGIN_MS + 41_000),)
    lines: list[Line] = [chunk_line(1), *(sample(second) for second in range(0, 30, 2)), *(sample(second) for second in range(90, 120, 2))]
    lines += [sample(second, epoch=2) for second in range(130, 150, 2)]
    root = made(lines, entry(commands=commands), replace(FACTS, events=[TimedEvent(BEGIN_MS + 45_000, "a failure on purpose")]))
    assert [(time[-8:], what) for time, what in rows(root, "What happened")] == [
        ("20:27:21", "set readers=2, by bob (at night)"),
        ("20:27:25", "a failure on purpose"),
        ("20:28:10", "it runs again, after 1 min 2 s"),
        ("20:28:50", "a new owner takes over (epoch 2), 12 s after the last sample of the owner before"),
    ]
    titles = texts(root, ".//title")
    assert titles.count("it runs again, after 1 min 2 s") == 4, "in the charts; the chunk was over before"


def test_samples_of_two_owners_are_taken_in_the_order_of_time() -> None:
    late, early = [sample(second, epoch=2) for second in range(20, 40, 2)], [sample(second) for second in range(0, 20, 2)]
    assert len(rows(made([chunk_line(1), *late, *early]), "What happened")) == 1


def test_of_a_dump_without_events_samples_or_chunks_it_says_so() -> None:
    root = made([], entry(DumpState.STOPPED, running_s=0.0))
    assert "stopped. 0 rows of 0 tables (0 B) in ?. " in words(root)
    assert "No chunk." in words(root)
    assert "Nothing was measured" in words(root)
    assert not [one for one in root.iter("h2") if one.text in ("What happened", "What held it back", "Live delivery while it ran")]


def test_more_events_and_tables_than_are_listed_are_counted() -> None:
    lines: list[Line] = [chunk_line(1, TableName("shop", f"t{number:04}"), rows=1) for number in range(1005)]
    root = made(lines, facts=replace(FACTS, events=[TimedEvent(BEGIN_MS + number, f"event {number}") for number in range(203)]))
    assert (len(rows(root, "Tables")), len(rows(root, "What happened"))) == (1000, 200)
    assert "Tables that are not listed: 5." in words(root)
    assert "Later events that are not listed: 3." in words(root)
    assert "1,005 rows of 1,005 tables" in words(root), "all of them count"


# ---- what held it back, and the sinks -------------------------------------------------------------------------------------


def test_what_held_it_back_is_summed_by_cause_the_longest_first() -> None:
    waits = ["source: away"] + ["sink: 1 s"] * 3 + [""] * 2 + ["sink: 2 s"] + ["lane: one"]
    measured = [sample(2 * place, waiting_for=wait) for place, wait in enumerate(waits)]
    assert held(measured) == [Held("sink", 8.0, "2 s"), Held("source", 2.0, "away")], "nothing is known of the time after the last one"


def test_a_time_without_samples_is_held_back_by_nothing() -> None:
    measured = [sample(second, waiting_for="sink: slow") for second in (0, 2, 4, 6, 600, 602)]
    assert held(measured) == [Held("sink", 8.0, "slow")]
    assert held(measured[:1]) == held([]) == []


def test_the_figures_of_a_sink_are_of_its_own_samples() -> None:
    measured = [
        with_sinks(second, SinkSample("a", 0.1 * second, second, 2.5, 9.0), *([SinkSample("b", 0.1, 0.2, 0.5, 0.6)] if second > 3 else []))
        for second in range(1, 6)
    ]
    first, second = sink_figures(measured, {"a": "all"})
    assert (first.name, round(first.median_s, 3), first.live_s, first.most_s, first.bound_s, first.accepted) == ("a", 0.3, 3, 5, 2.5, "all")
    assert first.above == 3 / 5, "above the bound, though the dump may go up to its limit"
    assert (second.name, second.live_s, second.above, second.accepted) == ("b", 0.2, 0, "")


def with_sinks(second: int, *sinks: SinkSample) -> SampleLine:
    return structs.replace(sample(second), sinks=sinks)


def test_the_report_has_the_sinks_figures() -> None:
    root = made([chunk_line(1), *samples(20, live_s=0.7)])
    assert rows(root, "Live delivery while it ran") == [[SINK, "0.10 s", "0.70 s", "0.70 s", "0.50 s", "100 %", "all up to segment 40"]]


# ---- interleavings --------------------------------------------------------------------------------------------------------


def test_few_chunks_are_in_one_picture() -> None:
    count = 2 * CHUNKS_AT_ONCE
    result = pictures(made([*map(chunk_line, range(count)), *samples(200)]))
    assert result == {"All chunks": f"{count} chunks with {10 * count:,} rows, of which live changes have replaced 0"}


def test_of_many_the_first_the_last_and_those_with_most_replaced_rows_are_shown() -> None:
    lines: list[Line] = [*map(chunk_line, range(500)), batch_line(100, 100, {ORDERS: 2}), batch_line(300, 300, {ORDERS: 9})]
    result = pictures(made(lines))
    assert result == {
        "The first 60 of 500 chunks": "60 chunks with 600 rows, of which live changes have replaced 0",
        "Where live changes have replaced most rows": "60 chunks with 600 rows, of which live changes have replaced 9",
        "The last 60 chunks": "60 chunks with 600 rows, of which live changes have replaced 0",
    }
    nothing = pictures(made(map(chunk_line, range(500))))
    assert list(nothing) == ["The first 60 of 500 chunks", "The last 60 chunks"]
    beside = pictures(made([*map(chunk_line, range(500)), batch_line(3, 3, {ORDERS: 2})]))
    assert list(beside) == ["The first 60 of 500 chunks", "The last 60 chunks"], "the first ones show it"


@pytest.mark.parametrize(("place", "begins"), [(195, 140), (305, 300), (499, 440), (470, 440)])
def test_no_picture_is_over_chunks_that_are_missing_between(monkeypatch: pytest.MonkeyPatch, place: int, begins: int) -> None:
    monkeypatch.setattr(build, "CHUNKS_EACH_MAX", 200)
    lines: list[Line] = [*map(chunk_line, range(500)), batch_line(place, place, {ORDERS: 2})]
    root = made(lines)
    title = "Where live changes have replaced most rows, of the first and the last 200 chunks"
    (figure,) = (
        (one for one in root.iter("figure") if texts(one, ".//strong") == [title]) if begins < 440 else (list(root.iter("figure"))[-1],)
    )
    seqs = [int(text.rpartition(" ")[2].replace(",", "")) for text in texts(figure, ".//g/title") if "segment" in text]
    assert seqs == list(range(begins, begins + 60))
    assert "The first 60 of 500 chunks" in pictures(root)
