"""How long a finished dump for a DDL is kept: until each of its sinks has passed the DDL, whatever begins meanwhile."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.dump_start import UNLIMITED, DumpLimits
from sidecar.core.dumps import LEAVES_MAX, Dumps
from sidecar.shared.model.messages import Brackets, StartDump
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, TableProgress

T = TableName("s", "t")
SINKS = ("copy", "lake")
SINCE = Seq(5)
"""The DDL is in the segment before that, or an earlier one."""

finished = st.builds(
    Progress,
    dump_id=st.integers(0, 1 << 40).map(lambda number: f"{number:016x}"),
    state=st.sampled_from([DumpState.FINISHED, DumpState.STOPPED]),
    brackets=st.just(Brackets.WATERMARK),
    chunk_rows=st.just(10),
    epoch=st.just(1),
    revision=st.integers(0, 100),
    seq=st.just(Seq(8)),
    tables=st.just((TableProgress(T, (), complete_at=CommitTs(90), since_seq=SINCE),)) | st.just(()),
    sinks=st.sampled_from([("copy",), ("lake",), SINKS, ("gone",)]),
    for_ddl=st.none() | st.just(CommitTs(50)),
)
dumps = st.lists(finished, min_size=1, max_size=6, unique_by=lambda one: one.dump_id)
accepted = st.dictionaries(st.sampled_from(SINKS), st.none() | st.integers(2, 7).map(Seq))


def of(recovered: list[Progress]) -> Dumps:
    numbered = [replace(one, number=at) for at, one in enumerate(recovered)]
    return Dumps(changefeed_id="cf", epoch=1, limits=DumpLimits(sinks=SINKS), recovered=numbered, after_ts=CommitTs(400), next_seq=Seq(9))


def begin(made: Dumps, number: int) -> str:
    made.request(StartDump(f"{number:016x}", (TableName("s", f"t{number}"),), Brackets.SNAPSHOT, 10))
    return f"{number:016x}"


@given(dumps, accepted | st.none())
def test_a_dump_that_gives_leave_is_known_until_its_sinks_have_passed_the_ddl(
    recovered: list[Progress], at: dict[str, Seq | None] | None
) -> None:
    made = of(recovered)
    if at is not None:  # else nothing was reported yet
        made.allow(UNLIMITED, at)
    begun = [begin(made, (1 << 41) + number) for number in range(3)]
    known = {one.dump_id for one in made.records}
    assert {*begun} <= known
    for one in recovered:
        reached = [(at or {}).get(sink) for sink in one.sinks if sink in SINKS]
        waits = any(seq is None or seq < SINCE - 1 for seq in reached)
        gives = one.state is DumpState.FINISHED and one.for_ddl is not None and bool(one.tables)  # dropped since
        assert (one.dump_id in known) == (one is recovered[-1] or (gives and waits))


def test_so_many_are_kept_at_most() -> None:
    tables = (TableProgress(T, (), complete_at=CommitTs(90), since_seq=SINCE),)
    recovered = [
        Progress(f"{number:016x}", DumpState.FINISHED, Brackets.WATERMARK, 10, 1, number, Seq(8), tables, sinks=SINKS, for_ddl=CommitTs(50))
        for number in range(LEAVES_MAX + 3)
    ]
    made = of(recovered)
    begun = begin(made, 1 << 41)
    assert [one.dump_id for one in made.records] == [*(one.dump_id for one in recovered[-LEAVES_MAX:]), begun]
