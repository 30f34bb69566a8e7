"""Which DDLs of a segment a dump lets a sink carry out: those that it names, of tables that it reads after the segment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from spark_merge.delivery.rereads import Reread, lacking, leave_at

T, U = TableName("s", "t"), TableName("s", "u")
ddls = st.lists(st.integers(1, 3).map(CommitTs), max_size=3, unique=True)
ids = st.integers(0, 2)
rereads = st.dictionaries(
    st.tuples(st.integers(1, 3).map(CommitTs), st.sampled_from([T, U])), st.builds(Reread, st.integers(0, 4).map(Seq), ids)
)
tables = st.dictionaries(st.sampled_from([T, U]), ids)


@given(ddls, rereads, st.integers(0, 4), tables)
def test_leave_is_for_the_segments_own_ddls_by_dumps_that_began_after_it(
    in_segment: list[CommitTs], known: dict[tuple[CommitTs, TableName], Reread], seq: int, after_ids: dict[TableName, int]
) -> None:
    records = tuple(DdlRecord(ts, *T, "ALTER TABLE t …") for ts in in_segment)
    manifest = Manifest(Seq(seq), 1, CommitTs(0), CommitTs(9), None, 0, 0, {}, "schemas", "canal-json", records)
    after = {name: TableSchema(name, (), (), number) for name, number in after_ids.items()}
    result = leave_at(known, manifest, after)
    assert result <= known.keys()
    for (ts, table), (since_seq, table_id) in known.items():
        assert ((ts, table) in result) == (ts in in_segment and since_seq > seq and after_ids.get(table) == table_id)


@given(rereads, st.integers(0, 4), st.integers(0, 4))
def test_a_table_lacks_something_from_before_its_ddl(known: dict[tuple[CommitTs, TableName], Reread], above: int, upto: int) -> None:
    assert lacking(known, above_ts=CommitTs(above)) == {table for ts, table in known if ts > above}
    assert lacking(known, above_ts=CommitTs(above), upto_ts=CommitTs(upto)) == {table for ts, table in known if above < ts <= upto}
