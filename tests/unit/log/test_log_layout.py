from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import LogBroken
from sidecar.shared.log.layout import (
    Contents,
    check_next,
    chunk_name,
    data_name,
    keep_from,
    manifest_name,
    retained_name,
    schemas_name,
    skip_name,
)
from sidecar.shared.model.nouns import Seq


def manifests(*seqs: int) -> list[str]:
    return [manifest_name(Seq(seq)) for seq in seqs]


def test_names_sort_as_their_numbers() -> None:
    assert manifest_name(Seq(7)) == "00000000000000000007.json"
    assert data_name(Seq(7), epoch=3) == "00000000000000000007-0000000003.parquet"
    assert chunk_name("d1", epoch=3, number=9) == "chunks/d1/0000000003-00000009.parquet"
    assert schemas_name(b"[]", epoch=7) == "schemas/0000000007/4f53cda18c2baa0c.json"


@pytest.mark.parametrize(
    ("names", "run"),
    [
        ([], range(0)),
        (manifests(0, 1, 2), range(3)),
        ([*manifests(4, 5), retained_name(Seq(4))], range(4, 6)),
        ([*manifests(0, 2, 4, 5), retained_name(Seq(4)), retained_name(Seq(1))], range(4, 6)),
        ([*manifests(0), data_name(Seq(1), epoch=1)], range(1)),
        ([*manifests(4, 5), retained_name(Seq(4)), skip_name(Seq(1), 3), skip_name(Seq(5), 0)], range(4, 6)),
        ([data_name(Seq(0), epoch=1), "schemas/x.json", "README", "1.json"], range(0)),
    ],
)
def test_the_segments_that_exist_are_one_run(names: list[str], run: range) -> None:
    assert Contents.of(names).run("log") == run


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (manifests(0, 2), 1),
        (manifests(4, 5), 0),
        ([*manifests(4, 5), retained_name(Seq(3))], 3),
        ([*manifests(4, 6), retained_name(Seq(4))], 5),
        ([*manifests(5, 6), retained_name(Seq(4))], 4),
        ([retained_name(Seq(4))], 4),
        ([*manifests(0, 1), data_name(Seq(3), epoch=1)], 2),
        ([data_name(Seq(3), epoch=1)], 0),
        ([skip_name(Seq(0), 3)], 0),
        ([*manifests(0, 1), skip_name(Seq(2), 3)], 2),
    ],
)
def test_a_run_with_a_gap_is_broken(names: list[str], missing: int) -> None:
    with pytest.raises(LogBroken, match=f"{missing:020d}"):
        Contents.of(names).run("log")


def test_orphans_are_of_earlier_epochs_and_named_nowhere() -> None:
    chunks = [chunk_name("d1", epoch=epoch, number=number) for epoch in (1, 2, 3) for number in (0, 1)]
    data = [data_name(Seq(seq), epoch=epoch) for seq in (4, 5, 6) for epoch in (1, 2, 3)]
    named = {data_name(Seq(5), epoch=1)}
    contents = Contents.of([*manifests(3, 4, 5), retained_name(Seq(4)), *chunks, *data])
    orphans = contents.orphans(contents.run("log"), named=named, epoch=2)
    assert sorted(orphans) == sorted([manifest_name(Seq(3)), data_name(Seq(6), epoch=1)])
    assert contents.written_before(2) == {*chunks[:2]}


@given(st.integers(0, 20), st.integers(1, 20), st.integers(0, 50), st.lists(st.integers(0, 50)))
def test_what_must_stay_begins_at_the_smallest_need(start: int, count: int, delivered: int, first: list[int]) -> None:
    run = range(start, start + count)
    keep = keep_from(run, delivered=Seq(delivered), needed=map(Seq, first))
    needs = {delivered, run[-1], *first}
    assert keep in needs
    assert all(keep <= need for need in needs)


def test_the_next_segment_comes_right_after_the_last() -> None:
    check_next("log", range(0), Seq(0))
    check_next("log", range(4, 6), Seq(6))
    for seq in (5, 7):
        with pytest.raises(LogBroken, match="the next is 6"):
            check_next("log", range(4, 6), Seq(seq))
