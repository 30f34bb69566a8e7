"""What both lakes keep in `mode=merge` of a table that a dump reads again, or whose live rows of before its dump lack something."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Seq
from spark_merge.port.contract import DumpPass
from spark_merge.sinks.iceberg.merge import LIVE, Below
from spark_merge.sinks.registry import open_sink
from tests.support.deliveries import ORDERS, SCHEMA, Row, Segments, change, chunk, deliver, opened, write, write_chunk
from tests.support.delta_place import folder_of, rows_of
from tests.support.lake import NAMESPACE, catalog_of, uri_of
from tests.support.merged_lake import rows_as_texts

pytestmark = pytest.mark.xdist_group("iceberg")

Texts = tuple[str | None, ...]


class Output:
    def __init__(self, folder: Path, kind: str) -> None:
        self.log = open_folder(str(folder / "log"))
        self.uri = uri_of(folder / "lake", mode="merge") if kind == "iceberg" else f"delta://{folder}/out?mode=merge"

    def chunks(self, **chunks: Sequence[Texts]) -> None:
        for path, rows in chunks.items():
            write_chunk(self.log, path, rows)

    def deliver(self, rows: Sequence[Row], batches: Sequence[Sequence[int]]) -> list[Texts]:
        """By a worker for each batch; the first try of each is not accepted. What the table has then."""
        for seqs in batches:
            write(opened(open_sink(self.uri, log_id="log-1")), Segments(seqs, rows), log=self.log)
            deliver(opened(open_sink(self.uri, log_id="log-1")), Segments(seqs, rows), log=self.log)
        return self.rows()

    def rows(self) -> list[Texts]:
        if self.uri.startswith("delta:"):
            return sorted(rows_of(folder_of(self.uri), "merge", SCHEMA))
        table = catalog_of(self.uri).load_table((NAMESPACE, *ORDERS))
        return sorted(rows_as_texts(table, SCHEMA))

    def below(self) -> Below:
        return Below.of(catalog_of(self.uri).load_table((NAMESPACE, *ORDERS)))


OUTPUTS = pytest.mark.parametrize("kind", ["iceberg", "delta"])
CUTS = pytest.mark.parametrize("batches", [[[1], [2], [3]], [[1, 2], [3]], [[1], [2, 3]], [[1, 2, 3]]])


@OUTPUTS
@CUTS
def test_a_table_that_a_dump_reads_again_has_each_row_once(tmp_path: Path, kind: str, batches: list[list[int]]) -> None:
    """A second pass under the same dump id, behind a DDL at the end of segment 1: no live row tells of it."""
    to = Output(tmp_path, kind)
    to.chunks(c1=[("1", "a"), ("2", "b")], c2=[("1", "a"), ("2", "B")], c3=[("3", "c")])
    rows = [chunk(1, 50, "c1", since_seq=1), chunk(2, 150, "c2", since_seq=2), chunk(3, 250, "c3", since_seq=2)]
    assert to.deliver(rows, batches) == [("1", "a"), ("2", "B"), ("3", "c")]


@OUTPUTS
@CUTS
def test_a_first_dump_brings_a_row_back_that_the_stream_had_brought_wrong_before_it(
    tmp_path: Path, kind: str, batches: list[list[int]]
) -> None:
    """Of the rows of segment 1 each was changed once more, by a change that nobody could decode."""
    to = Output(tmp_path, kind)
    to.chunks(c1=[("1", "new"), ("2", "made again")], c2=[("3", "never told of")])
    rows = [
        change(1, 10, after=("1", "old")),
        change(1, 20, before=("2", "gone"), ordinal=1),
        chunk(2, 150, "c1", since_seq=2),
        change(2, 170, before=("2", "made again"), after=("2", "newer")),
        chunk(3, 250, "c2", since_seq=2),
    ]
    assert to.deliver(rows, batches) == [("1", "new"), ("2", "newer"), ("3", "never told of")]


@CUTS
def test_a_dump_stays_below_the_live_rows_that_come_while_it_runs(tmp_path: Path, batches: list[list[int]]) -> None:
    """What makes it cheap; also where they come before its first chunk."""
    to = Output(tmp_path, "iceberg")
    to.chunks(c1=[("1", "a"), ("2", "old")], c2=[("3", "c")])
    rows = [
        change(1, 10, after=("4", "live")),
        chunk(2, 150, "c1", since_seq=1),
        change(2, 170, before=("2", "old"), after=("2", "new")),
        chunk(3, 250, "c2", since_seq=1),
    ]
    assert to.deliver(rows, batches) == [("1", "a"), ("2", "new"), ("3", "c"), ("4", "live")]
    below = to.below()
    assert (below.base is not None, below.dump, below.live) == (True, "d1 1", 1)


@OUTPUTS
@CUTS
def test_a_key_that_the_source_does_not_have_is_no_row_afterwards(tmp_path: Path, kind: str, batches: list[list[int]]) -> None:
    """A dump of keys, a repair, an exact dump: of a row that is there, of one that a change of the batch brings, of one that is nowhere."""
    to = Output(tmp_path, kind)
    to.chunks(c1=[("1", "a"), ("2", "b")])
    write_chunk(to.log, "c2", [("1", "A")], absent=[("2",), ("3",), ("4",)])
    write_chunk(to.log, "c3", [("2", "again")], absent=[("1",)])
    rows = [
        chunk(1, 50, "c1", since_seq=1),
        change(2, 110, after=("3", "lost")),
        chunk(2, 150, "c2", since_seq=2, dump_id="d2"),
        change(2, 170, after=("4", "later"), ordinal=1),
        chunk(3, 250, "c3", since_seq=3, dump_id="d3"),
    ]
    assert to.deliver(rows, batches) == [("2", "again"), ("4", "later")]


@OUTPUTS
def test_a_first_dump_of_keys_makes_no_row_of_what_is_not_there(tmp_path: Path, kind: str) -> None:
    """Into a table without a file, which takes a dump's files as they are; and of that dump nothing but such keys."""
    to = Output(tmp_path, kind)
    write_chunk(to.log, "c1", [("1", "a")], absent=[("2",)])
    write_chunk(to.log, "c2", [], absent=[("3",), ("4",)])
    assert to.deliver([chunk(1, 50, "c1", since_seq=1), chunk(2, 150, "c2", since_seq=1)], [[1], [2]]) == [("1", "a")]


ONE, AGAIN, OTHER, EARLIER = DumpPass("d1", Seq(5)), DumpPass("d1", Seq(9)), DumpPass("d2", Seq(5)), DumpPass("d1", Seq(0))


@pytest.mark.parametrize(
    ("below", "passes", "taken"),
    [
        (Below(1), {ONE}, True),
        (Below(1), {ONE, AGAIN}, False),
        (Below(1, dump="d1 5"), {ONE}, True),
        (Below(1, dump="d1 5"), {AGAIN}, False),
        (Below(1, dump="d1 5"), {OTHER}, False),
        (Below(1, dump="d1"), {EARLIER}, True),
        (Below(1, live=Seq(5)), {ONE}, True),
        (Below(1, live=Seq(4)), {ONE}, False),
        (Below(1, dump="d1 5", live=Seq(7)), {ONE}, True),
        (Below(), {ONE}, False),
        (Below(1), set(), False),
    ],
)
def test_one_pass_alone_comes_below_live_rows_and_those_are_of_its_time(below: Below, passes: set[DumpPass], taken: bool) -> None:
    assert below.takes(frozenset(passes)) is taken


def test_a_table_that_does_not_say_since_when_it_has_live_rows_may_have_them_from_the_beginning(tmp_path: Path) -> None:
    """As an earlier version left it."""
    to = Output(tmp_path, "iceberg")
    to.deliver([change(1, 10, after=("1", "old"))], [[1]])
    assert to.below().live == 1
    with catalog_of(to.uri).load_table((NAMESPACE, *ORDERS)).transaction() as staged:
        staged.remove_properties(LIVE)
    assert to.below().live == 0
