"""Holes that are open in sinks, as people read them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from sidecar.control.hole_texts import LINES_SHOWN, SinkHole, hole_lines, holes_of, holes_reported
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkTables
from ticdc_dump.v1 import control_pb2 as pb

TS = 470_000_000_000_000_000
TABLES = [TableName("shop", f"t{number}") for number in range(6)]


def sink_status(sink: str, holes: dict[TableName, int], *, vanished: bool = False) -> pb.SinkStatus:
    tables = [
        pb.SinkTableStatus(
            schema=name.schema, table=name.table, incomplete_since_tso=TS + at, cause="import", text=f"job {at}", vanished=vanished
        )
        for name, at in holes.items()
    ]
    return pb.SinkStatus(sink=sink, tables=[*tables, pb.SinkTableStatus(schema="shop", table="whole", complete_since_tso=1)])


def test_a_line_says_where_since_when_by_what_and_what_to_do() -> None:
    one = sink_status("lake", {TABLES[0]: 0})
    when = f"since 2026-10-25T05:55:14.843Z (TSO {TS})"
    assert hole_lines(holes_reported([one])) == [f"shop.t0 in sink lake {when}: import: job 0; dumpstart --holes fills it"]
    gone = hole_lines(holes_reported([sink_status("lake", {TABLES[0]: 0}, vanished=True)]))
    assert gone[0].endswith("; rows may be gone in TiDB: dumpstart --holes removes them too, where the sink can be read back")
    assert hole_lines([]) == []


def test_of_many_tables_the_first_are_named_and_sinks_alike_are_together() -> None:
    every = dict.fromkeys(TABLES, 0)
    [line] = hole_lines(holes_reported([sink_status("lake", every), sink_status("copy", every)]))
    assert line.startswith("shop.t0, shop.t1, shop.t2 and 3 more tables in sinks lake, copy since ")


def test_the_files_say_the_segment_too() -> None:
    hole = OpenHole(HoleCause.GAP, CommitTs(TS), Seq(7), vanished=False, text="paused for long")
    tables = SinkTables("lake", "", Seq(0), None, Seq(9), None, holes={TABLES[0]: hole})
    [line] = hole_lines(holes_of([tables]))
    assert f"(TSO {TS}), noticed in segment 7: gap: paused for long" in line


HOLES = st.dictionaries(st.sampled_from(TABLES), st.integers(0, 8))


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), HOLES))
def test_every_hole_is_in_one_line_the_oldest_first_or_counted(sinks: dict[str, dict[TableName, int]]) -> None:
    value = [sink_status(name, holes) for name, holes in sinks.items()]
    holes: list[SinkHole] = holes_reported(value)
    assert {(one.sink, one.table, one.since_ts - TS) for one in holes} == {
        (sink, str(name), at) for sink, each in sinks.items() for name, at in each.items()
    }
    every = hole_lines(holes, shown=None)
    counted = 0
    for line in every:
        names, of_sinks, at = re.match(r"(.*) in sinks? (.*) since .*: job (\d+);", line).groups()  # type: ignore[union-attr]  # it raises
        first, _, more = names.partition(" and ")
        counted += len(of_sinks.split(", ")) * (len(first.split(", ")) + int(more.split()[0] if more else 0))
        assert all(sinks[sink].get(TableName("shop", name[5:])) == int(at) for sink in of_sinks.split(", ") for name in first.split(", "))
    assert counted == len(holes)
    ages = [int(re.findall(r"TSO (\d+)", line)[0]) for line in every]
    assert ages == sorted(ages)
    shown = hole_lines(holes)
    assert shown == every or shown == [*every[:LINES_SHOWN], f"… {len(every) - LINES_SHOWN:,} more; --json shows all"]
    assert len(shown) <= LINES_SHOWN + 1
