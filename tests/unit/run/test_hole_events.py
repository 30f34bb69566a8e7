"""Lines of holes: each is noticed once, and what ended it has a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.control.status import SidecarStatus
from sidecar.run.hole_events import HoleEvents
from sidecar.run.log_event import LogEvent
from sidecar.shared.log.filled import FilledWord
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, ts_at
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from sidecar.shared.model.sink_delivery import SinkTables
from sidecar.shared.ticdc.changefeed import ChangefeedName

A, B = TableName("shop", "a"), TableName("shop", "b")
SINCE = ts_at(1_763_800_000_000)
BASE = SidecarStatus(ChangefeedName("default", "default", "orders"), 3, "host:1")
NOTICED = LogEvent(
    "hole noticed",
    {
        "tables": "shop.a, shop.b",
        "since": "2025-11-22T08:26:40.000Z",
        "cause": "import",
        "text": "IMPORT INTO",
        "segment": 5,
        "hint": "dumpstart --holes fills it",
    },
    "warning",
)


def hole(seq: int = 5, *, vanished: bool = False, complete: int | None = None) -> OpenHole:
    return OpenHole(HoleCause.IMPORT, SINCE, Seq(seq), vanished, "IMPORT INTO", None if complete is None else CommitTs(complete))


def status(**holes: Mapping[TableName, OpenHole]) -> SidecarStatus:
    """By sink."""
    tables = {sink: SinkTables(sink, "", Seq(0), None, Seq(6), None, holes=each) for sink, each in holes.items()}
    return replace(BASE, sink_tables=tables)


def test_a_hole_is_noticed_once_whatever_number_of_sinks_gets_to_it() -> None:
    events = HoleEvents()
    assert list(events.lines(status(lake={}, copy={}))) == []
    assert list(events.lines(status(lake={B: hole(), A: hole()}, copy={}))) == [NOTICED]
    assert list(events.lines(both := status(lake={B: hole(), A: hole()}, copy={A: hole(), B: hole()}))) == []
    assert list(events.lines(both)) == []
    [again] = events.lines(status(lake={B: hole(), A: hole(8, vanished=True)}, copy={A: hole(), B: hole()}))
    assert (again.values["tables"], again.values["segment"]) == ("shop.a", 8)
    assert again.values["hint"] == "rows may be gone in TiDB: dumpstart --holes removes them too, where the sink can be read back"
    assert [line.event for line in HoleEvents().lines(both)] == ["hole noticed"], "each owner says what is open when it begins"


DONE = Progress(
    "d" * 16, DumpState.FINISHED, Brackets.WATERMARK, 10, 1, 1, Seq(9), (TableProgress(A, (), complete_at=CommitTs(900)),)
)  # fmt: skip
WORD = FilledWord("lake", 0, A, 0, Seq(5), "alice@db1", "restored by hand", 1)


@pytest.mark.parametrize(
    ("before", "complete", "words", "by"),
    [
        (None, 900, (), {"by": f"dump {DONE.dump_id}"}),
        (None, 901, (), {"by": "a dump, or a DDL that emptied the table"}),
        (700, 700, (WORD,), {"by": "alice@db1", "reason": "restored by hand"}),
        (None, None, (WORD,), {"by": "alice@db1", "reason": "restored by hand"}),
        (None, 900, (WORD,), {"by": f"dump {DONE.dump_id}"}),
        (None, None, (replace(WORD, upto_seq=Seq(4)), replace(WORD, sink="copy"), replace(WORD, table=B)), None),
    ],
    ids=["dump", "DDL", "word, complete again", "word", "dump before the word", "dropped"],
)
def test_what_has_filled_it_has_a_name(
    before: int | None, complete: int | None, words: tuple[FilledWord, ...], by: dict[str, str] | None
) -> None:
    events = HoleEvents()
    assert len(list(events.lines(status(lake={A: hole(complete=before)}, copy={A: hole()})))) == 1
    now = status(lake={}, copy={A: hole()})
    lake = replace(now.sink_tables["lake"], complete={} if complete is None else {A: CommitTs(complete)})
    now = replace(now, sink_tables={**now.sink_tables, "lake": lake}, filled_words=words, dumps=(DONE,))
    lines = list(events.lines(now))
    filled = {"sink": "lake", "table": "shop.a", "since": "2025-11-22T08:26:40.000Z"}
    assert lines == ([] if by is None else [LogEvent("hole filled", filled | by)])
    assert list(events.lines(now)) == []


@given(st.lists(st.dictionaries(st.sampled_from([A, B]), st.integers(1, 4))))
def test_each_hole_of_a_table_is_noticed_once_while_it_is_open(steps: list[dict[TableName, int]]) -> None:
    events, open_ = HoleEvents(), set[tuple[TableName, int]]()
    for step in steps:
        lines = list(events.lines(status(lake={table: hole(seq) for table, seq in step.items()})))
        new = [line.values for line in lines if line.event == "hole noticed"]
        noticed = {(TableName(*name.split(".")), values["segment"]) for values in new for name in str(values["tables"]).split(", ")}
        assert noticed == step.items() - open_
        open_ = set(step.items())
