"""Which DDLs of a segment a dump lets a sink carry out: those that it names, of tables that it reads after the segment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.log.manifest import DdlRecord, Manifest
from spark_merge.delivery.rereads import leave_at

T, U = TableName("s", "t"), TableName("s", "u")
ddls = st.lists(st.integers(1, 3).map(CommitTs), max_size=3, unique=True)
rereads = st.dictionaries(st.tuples(st.integers(1, 3).map(CommitTs), st.sampled_from([T, U])), st.integers(0, 4).map(Seq))


@given(ddls, rereads, st.integers(0, 4))
def test_leave_is_for_the_segments_own_ddls_by_dumps_that_began_after_it(
    in_segment: list[CommitTs], known: dict[tuple[CommitTs, TableName], Seq], seq: int
) -> None:
    records = tuple(DdlRecord(ts, *T, "ALTER TABLE t …") for ts in in_segment)
    manifest = Manifest(Seq(seq), 1, CommitTs(0), CommitTs(9), None, 0, 0, {}, "schemas", "canal-json", records)
    result = leave_at(known, manifest)
    assert result <= known.keys()
    for (ts, table), since_seq in known.items():
        assert ((ts, table) in result) == (ts in in_segment and since_seq > seq)
