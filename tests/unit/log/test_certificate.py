"""A certificate's file and the parts that it is made of, and what their lines come to."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import dump_files, storage
from sidecar.shared.log.certificate import (
    CertificateHead,
    ChunkLine,
    HoleLine,
    SchemaLine,
    SegmentLine,
    read_head,
    write_certificate,
)
from sidecar.shared.log.certificate_parts import (
    BatchLine,
    DroppedLine,
    Line,
    ScopeLine,
    ScopeTable,
    collected,
    read_parts,
    remove_parts,
    write_part,
)
from sidecar.shared.log.certificate_sums import DumpSums
from sidecar.shared.log.dump_files import CERTIFICATES
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.nouns import CommitTs, OperationId, Seq, TableName

DUMP = OperationId("a" * 16)
HEAD = {"dump_id": DUMP, "first_seq": 3, "last_seq": 5, "scope": {"tables": [], "sinks": ["copy"]}, "note": "\u00fc\n"}


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path))


def segment(seq: int, sha256: str = "s") -> SegmentLine:
    return SegmentLine(seq, f"{sha256}{seq}", f"s{seq - 1}")


def chunk(seq: int, table: str = "orders", rows: int = 10) -> ChunkLine:
    return ChunkLine(seq, "shop", table, f"c{seq}", rows, 0, 5, "x", "", None, ("1",), 0, None, "1", "2", seq)


def test_its_last_field_is_the_sum_of_all_before_it_and_its_lines_are_json(log: Folder) -> None:
    schema = SchemaLine("shop", "orders", 3, (), ("id",))
    write_certificate(log, HEAD, tables=[schema], chunks=[chunk(3), chunk(5)], segments=map(segment, (3, 4, 5)))
    data = storage.read_file(log, f"certificates/{DUMP}.json")
    before, _, last = data.rpartition(b',\n"sha256": "')
    assert last == hashlib.sha256(before).hexdigest().encode() + b'"}\n'
    result = json.loads(data)
    assert {name: result[name] for name in HEAD} == HEAD
    assert [line["seq"] for line in result["segments"]] == [3, 4, 5]
    assert [(line["is"], line["path"]) for line in result["chunks"]] == [("chunk", "c3"), ("chunk", "c5")]
    assert data.count(b"\n") == 3 + 1 + 2 + 3 + 2, "a line for each element"
    assert read_head(log, DUMP) == CertificateHead(DUMP, Seq(3), Seq(5), ("copy",), result["sha256"])
    assert CERTIFICATES.ids(log) == [DUMP]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"dump_id": "a",\n', b"\xff\n\xff"])
def test_a_file_that_is_no_certificate_is_named(log: Folder, data: bytes) -> None:
    storage.write_atomically(log, "certificates/x.json", data)
    with pytest.raises(LogBroken, match=r"certificates/x\.json is no certificate"):
        read_head(log, OperationId("x"))


def test_the_newest_are_kept(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_files, "KEPT_MAX", 3)
    for dump_id in "abcde":
        write_certificate(log, HEAD | {"dump_id": dump_id}, tables=(), chunks=(), segments=())
    CERTIFICATES.remove_old(log, lambda: map(OperationId, "ade"))
    assert CERTIFICATES.ids(log) == ["a", "d", "e"]
    CERTIFICATES.remove_old(log, lambda: map(OperationId, ""))
    assert CERTIFICATES.ids(log) == ["a", "d", "e"], "an empty history removes none of them"


# ---- parts ----------------------------------------------------------------------------------------------------------------


def test_of_a_segment_that_is_in_two_parts_the_lines_count_once(log: Folder) -> None:
    write_part(log, 1, DUMP, Seq(3), Seq(4), [segment(3), chunk(3), segment(4)])
    write_part(log, 1, DUMP, Seq(3), Seq(5), [segment(3), chunk(3), segment(4), segment(5), chunk(5)])
    write_part(log, 1, DUMP, Seq(5), Seq(7), [segment(5), chunk(5), segment(6), segment(7)])
    write_part(log, 1, OperationId("b"), Seq(5), Seq(5), [segment(5)])
    lines = list(read_parts(log, 1, DUMP))
    assert [line.seq for line in lines if isinstance(line, SegmentLine)] == [3, 4, 5, 6, 7]
    assert [line.seq for line in lines if isinstance(line, ChunkLine)] == [3, 5]
    assert collected(log) == [DUMP, "b"]
    remove_parts(log, 1, DUMP)
    assert collected(log) == ["b"]


def test_a_gap_between_parts_is_broken(log: Folder) -> None:
    write_part(log, 1, DUMP, Seq(3), Seq(4), [segment(3), segment(4)])
    write_part(log, 1, DUMP, Seq(6), Seq(6), [segment(6)])
    with pytest.raises(LogBroken, match="segment 5 is in no part"):
        list(read_parts(log, 1, DUMP))


def test_a_part_that_cannot_be_read_is_broken(log: Folder) -> None:
    write_part(log, 1, DUMP, Seq(3), Seq(3), [segment(3)])
    [name] = [name for name in storage.list_names(log, deep=True) if ".parts/" in name]
    storage.write_atomically(log, name, b'{"is": "what"}\n')
    with pytest.raises(LogBroken, match="no part of a certificate"):
        list(read_parts(log, 1, DUMP))


# ---- sums -----------------------------------------------------------------------------------------------------------------


def test_rows_and_chunks_are_summed_by_table_and_the_last_segment_is_that_of_the_last_chunk() -> None:
    lines: list[Line] = [segment(3), chunk(3), chunk(3, "items", 2), segment(4), chunk(4), segment(5)]
    sums = DumpSums(lines)
    assert (sums.first, sums.last, sums.chunks) == (3, 4, 3)
    assert [(one["table"], one["chunks"], one["rows"], one["dropped"]) for one in sums.rows()] == [
        ("items", 1, 2, None),
        ("orders", 2, 20, None),
    ]


@pytest.mark.parametrize(
    ("batches", "dropped"),
    [
        ([BatchLine("a", 3, 4, (DroppedLine("shop", "orders", 2),)), BatchLine("a", 5, 5, (DroppedLine("shop", "orders", 1),))], 3),
        ([BatchLine("a", 0, 9, (DroppedLine("shop", "other", 2),))], 0),
        ([BatchLine("a", 3, 5, ()), BatchLine("a", 3, 5, (DroppedLine("shop", "orders", 8),))], 0),
        ([BatchLine("a", 3, 4, ())], None),
        ([BatchLine("a", 3, 3, ()), BatchLine("a", 2, 4, ())], None),
        ([BatchLine("a", 3, 5, None)], None),
        ([BatchLine("a", 3, 5, (DroppedLine("shop", "orders", None),))], None),
        ([BatchLine("a", 3, 4, ()), BatchLine("b", 3, 5, (DroppedLine("shop", "orders", 2),))], 2),
    ],
    ids=[
        "two",
        "of another table",
        "noted by two owners",
        "a gap",
        "a segment twice and a gap",
        "not known",
        "of two dumps",
        "the sink that is whole",
    ],
)
def test_dropped_rows_are_known_or_null(batches: list[Line], dropped: int | None) -> None:
    [orders] = DumpSums([segment(3), chunk(3), segment(4), segment(5), chunk(5), *batches]).rows()
    assert orders["dropped"] == dropped


def test_whichever_byte_of_a_part_is_damaged_it_is_no_part(tmp_path: Path) -> None:
    """Amid a text, too, where JSON's own signs stay."""
    log, dump_id = open_folder(str(tmp_path)), OperationId("d" * 16)
    lines: list[Line] = [SegmentLine(3, "of it", "of the one before"), BatchLine("kopie-ä", 3, 3, (DroppedLine("s", "t", 7),))]
    write_part(log, 1, dump_id, Seq(3), Seq(3), lines)
    assert list(read_parts(log, 1, dump_id)) == lines
    [name] = [name for name in storage.list_names(log, deep=True) if dump_id in name]
    data = storage.read_file(log, name)
    for at in range(len(data)):
        storage.write_atomically(log, name, data[:at] + b"\xff" + data[at + 1 :])
        with pytest.raises(LogBroken, match="is no part of a certificate"):
            list(read_parts(log, 1, dump_id))


TABLES = [TableName("shop", name) for name in "abc"]
IN_MANIFESTS = st.lists(st.tuples(st.integers(0, 9), st.none() | st.sets(st.sampled_from(TABLES), min_size=1), st.booleans()), max_size=5)
IN_SINKS = st.lists(st.dictionaries(st.sampled_from(TABLES), st.tuples(st.integers(0, 9), st.booleans())), max_size=2)


@given(IN_MANIFESTS, IN_SINKS, st.dictionaries(st.sampled_from(TABLES[:2]), st.integers(0, 9), min_size=1))
def test_the_holes_of_a_certificate_are_those_that_the_dump_does_not_fill(
    noticed: list[tuple[int, set[TableName] | None, bool]],
    in_sinks: list[dict[TableName, tuple[int, bool]]],
    since: dict[TableName, int],
) -> None:
    """Against each hole of each table alone."""
    last = 7
    scope = ScopeLine(last, tuple(ScopeTable(*name, None, 0, True, "1", seq) for name, seq in since.items()), ())
    lines: list[Line] = [
        *(HoleLine(seq, "import", "5", None if names is None else tuple(sorted(names)), vanished, "") for seq, names, vanished in noticed),
        *(chunk(seq, name.table) for name in since for seq in (3, last)),
        scope,
    ]
    there = [
        {name: OpenHole(HoleCause.IMPORT, CommitTs(5), Seq(seq), vanished, "") for name, (seq, vanished) in each.items()}
        for each in in_sinks
    ]
    each = {(name, seq, vanished) for seq, names, vanished in noticed for name in names or TABLES if seq <= last}
    each |= {(name, seq, vanished) for one in in_sinks for name, (seq, vanished) in one.items()}
    result = [(TableName(one["schema"], one["table"]), one["seq"], one["vanished"]) for one in DumpSums(lines).holes(there)]
    assert result == sorted((name, seq, vanished) for name, seq, vanished in each if name in since and (vanished or seq >= since[name]))


def test_of_a_table_that_is_not_in_the_scope_any_more_the_last_pass_counts() -> None:
    """It was renamed. A part of a version before has no segment of the pass: no hole counts as filled."""
    passes = [msgspec.structs.replace(chunk(seq), since_seq=since) for seq, since in ((3, 1), (9, 6))]
    noticed = [HoleLine(seq, "import", "5", (("shop", "orders"),), False, "") for seq in (0, 5, 6)]
    assert [one["seq"] for one in DumpSums([*passes, *noticed]).holes([])] == [6]
    old = ScopeLine(9, (ScopeTable("shop", "orders", None, 0, True, "1"),), ())
    assert [one["seq"] for one in DumpSums([*passes, *noticed, old]).holes([])] == [0, 5, 6]
