from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidecar
from sidecar.shared.log.manifest import OPEN_NOT_KNOWN, DdlRecord, Manifest, ManifestOfLaterVersion, ManifestUnreadable, from_json, to_json
from sidecar.shared.log.schemas_file import schemas_from_json, schemas_to_json
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.hole import Hole, HoleCause, WaitingHole
from sidecar.shared.model.nouns import (
    Column,
    ColumnDefinition,
    CommitTs,
    IndexDefinition,
    IndexPart,
    Kind,
    Lane,
    PreviousLayout,
    ReadEnd,
    Seq,
    TableDefinition,
    TableName,
    TableSchema,
)
from sidecar.shared.rowcodec.table_info import table_schema
from tests.support.former import PREVIOUS
from tests.support.recordings import recording

numbers = st.integers(0, (1 << 63) - 1)
texts = st.text(max_size=8)
ts = st.integers(0, (1 << 64) - 1).map(CommitTs)
seqs = numbers.map(Seq)
names = st.builds(TableName, texts, texts)
keys = st.none() | st.lists(texts, min_size=1, max_size=2).map(tuple)
chunk_files = st.builds(ChunkFile, names, texts, numbers, numbers, keys, keys, st.none() | ts, seqs)
windows = st.builds(ClosedWindow, texts, ts, ts, seqs, st.lists(chunk_files, max_size=2).map(tuple))
json_values = st.dictionaries(texts, st.none() | st.booleans() | numbers | texts | st.lists(texts, max_size=2), max_size=2)
manifests = st.builds(
    Manifest,
    seq=seqs,
    epoch=numbers,
    after_ts=ts,
    upto_ts=ts,
    data=st.none() | texts,
    rows=numbers,
    bytes=numbers,
    positions=st.dictionaries(texts.map(Lane), numbers, max_size=3),
    schemas=texts,
    codec=texts,
    ddls=st.lists(st.builds(DdlRecord, ts, texts, texts, texts), max_size=2).map(tuple),
    windows=st.lists(windows, max_size=2).map(tuple),
    progress=st.none() | json_values,
    table_rows=st.none() | st.dictionaries(names, numbers, max_size=3),
    incarnations=st.dictionaries(texts.map(Lane), texts, max_size=3),
    read_ends=st.dictionaries(texts.map(Lane), st.builds(ReadEnd, numbers, st.integers(0, (1 << 31) - 1)), max_size=3),
    id=texts,
    open_from=st.none() | seqs,
    holes=st.lists(
        st.builds(
            Hole, st.sampled_from(HoleCause), ts, st.none() | st.lists(names, min_size=1, max_size=2).map(tuple), st.booleans(), texts
        ),
        max_size=2,
    ).map(tuple),
    seen=st.dictionaries(texts, texts, max_size=2),
    waiting=st.lists(
        st.builds(
            WaitingHole,
            st.builds(Hole, st.sampled_from(HoleCause), ts, st.none() | st.lists(names, max_size=2).map(tuple), st.booleans(), texts),
            st.frozensets(numbers, max_size=2),
        ),
        max_size=2,
    ).map(tuple),
)
columns = st.builds(
    Column,
    name=texts,
    kind=st.sampled_from(get_args(Kind)),
    nullable=st.booleans(),
    length=st.integers(-1, 255),
    scale=st.integers(0, 30),
    elements=st.lists(texts, max_size=3).map(tuple),
)
index_parts = st.lists(st.builds(IndexPart, texts, st.integers(-1, 255), texts), max_size=2).map(tuple)
definitions = st.builds(
    TableDefinition,
    columns=st.lists(
        st.builds(ColumnDefinition, texts, texts, st.booleans(), texts, texts, st.none() | texts, texts, texts, st.booleans()), max_size=2
    ).map(tuple),
    indexes=st.lists(st.builds(IndexDefinition, texts, index_parts, st.booleans(), st.booleans(), numbers), max_size=2).map(tuple),
    clustered=st.booleans(),
    charset=texts,
    collation=texts,
    partitioning=texts,
    new_collation=st.booleans(),
)
schemas = st.dictionaries(
    names,
    st.tuples(
        st.lists(columns, max_size=3).map(tuple),
        st.lists(texts, max_size=2).map(tuple),
        numbers,
        st.lists(numbers, max_size=2).map(tuple),
        texts,
        st.none() | definitions,
        st.none() | st.builds(PreviousLayout, numbers, texts, numbers),
        st.lists(columns, max_size=2).map(tuple),
    ),
    max_size=3,
).map(lambda value: {name: TableSchema(name, *parts) for name, parts in value.items()})


@given(manifests)
def test_a_manifest_comes_back_as_it_was(manifest: Manifest) -> None:
    assert from_json(to_json(manifest), name="m") == manifest


@given(manifests)
def test_the_bytes_are_those_of_the_standard_librarys_json(manifest: Manifest) -> None:
    data = to_json(manifest)
    assert json.dumps(json.loads(data), separators=(",", ":"), ensure_ascii=False).encode() == data


def test_a_manifest_of_version_0_1_0_is_written_again_bit_for_bit() -> None:
    data = (PREVIOUS / "samples" / "manifest.json").read_bytes()
    manifest = from_json(data, name="m")
    assert to_json(manifest) == data
    assert (manifest.seq, manifest.upto_ts, manifest.positions) == (1 << 40, (1 << 64) - 1, {"kafka/ü/0": (1 << 63) + 5, "b": -1})
    assert manifest.windows[0].chunks[0].last == ("a\tb", "\u0001\u007f")
    assert manifest.windows[0].chunks[0].read_tso == (1 << 63) + 1
    assert manifest.ddls[0].query == "ALTER\r\n\b\f\u001f"


@given(manifests)
def test_a_version_that_knows_no_read_ends_reads_all_else_as_it_is(manifest: Manifest) -> None:
    """It reads fields that it knows, and no version says that there is one more: it checks offsets alone, as before."""
    less, more = (json.loads(to_json(replace(manifest, id="", read_ends=ends))) for ends in ({}, {Lane("a"): ReadEnd(7, 3)}))
    assert more.pop("read_ends") == {"a": ["7", 3]}
    assert more == less


def test_schemas_of_version_0_1_0_are_written_again_bit_for_bit() -> None:
    data = (PREVIOUS / "samples" / "schemas.json").read_bytes()
    assert schemas_to_json(schemas_from_json(data, name="s")) == data


def test_what_earlier_versions_did_not_write_has_its_default() -> None:
    result = json.loads(to_json(Manifest(Seq(1), 1, CommitTs(1), CommitTs(2), None, 0, 0, {}, "s", "c")))
    del result["next_schemas"]
    read = from_json(json.dumps(result).encode(), name="m")
    assert (read.next_schemas, read.table_rows, read.incarnations, read.id, read.open_from) == (None, None, {}, "", OPEN_NOT_KNOWN)
    assert read.read_ends == {}
    table = {"schema": "s", "table": "t", "key": ["id"], "columns": [["id", "int", False, -1, 0, []]]}
    (schema,) = schemas_from_json(json.dumps([table]).encode(), name="s").values()
    assert (schema.table_id, schema.physical_ids, schema.layout, schema.definition, schema.former) == (0, (), "", None, None)
    assert schema.omitted == ()


@given(schemas)
def test_schemas_come_back_as_they_were(found: dict[TableName, TableSchema]) -> None:
    assert schemas_from_json(schemas_to_json(found), name="s") == found


def test_a_cluster_without_new_collations_is_all_that_is_written_of_them() -> None:
    """So a log of a cluster that has them names its schemas as before."""
    table = {"schema": "s", "table": "t", "key": [], "columns": [], "ids": [0], "layout": "", "definition": [[], [], True, "", "", ""]}
    data = json.dumps([table], separators=(",", ":")).encode()
    (schema,) = schemas_from_json(data, name="s").values()
    assert schema.definition == TableDefinition(())
    assert schemas_to_json({schema.name: schema}) == data
    by_bytes = replace(schema, definition=TableDefinition((), new_collation=False))
    assert schemas_from_json(schemas_to_json({schema.name: by_bytes}), name="s") == {schema.name: by_bytes}


@pytest.mark.recordings
def test_definitions_do_not_make_the_schemas_file_much_larger() -> None:
    """One file has all tables, and is read by every task."""
    folder = recording("shop")
    start = json.loads((folder / "recording.json").read_bytes())["start_ts"]
    paths = sorted((folder / "schema" / start).glob("shop.*.json"))
    schemas = {(one := table_schema(json.loads(path.read_bytes()), schema="shop")).name: one for path in paths}
    bare = {name: replace(one, definition=None) for name, one in schemas.items()}
    data = schemas_to_json(schemas)
    assert schemas_from_json(data, name="s") == schemas
    assert len(schemas_to_json(bare)) < len(data) < 4 * len(schemas_to_json(bare))


@given(schemas)
def test_equal_schemas_are_equal_bytes_in_any_order(found: dict[TableName, TableSchema]) -> None:
    assert schemas_to_json(dict(reversed(found.items()))) == schemas_to_json(found)


@given(manifests)
def test_no_ts_is_a_number_that_a_reader_of_doubles_would_round(manifest: Manifest) -> None:
    result = json.loads(to_json(manifest))
    assert all(isinstance(value, str) for value in ts_values(result))


def ts_values(result: Any) -> list[Any]:
    match result:
        case dict():
            here = [value for name, value in result.items() if name in ("after_ts", "upto_ts", "commit_ts", "low_ts", "high_ts")]
            return here + [value for name, part in result.items() if name not in ("progress", "positions") for value in ts_values(part)]
        case list():
            return [value for part in result for value in ts_values(part)]
        case _:
            return []


@given(manifests, st.integers(0), st.integers(0, 7))
def test_a_flipped_bit_of_a_manifest_is_unreadable(manifest: Manifest, place: int, bit: int) -> None:
    data = bytearray(to_json(replace(manifest, id="drawn")))
    data[place % (len(data) - len(b',"sum":"0123456789abcdef"}'))] ^= 1 << bit
    with pytest.raises(ManifestUnreadable, match="m1"):
        from_json(bytes(data), name="m1")


@given(manifests, st.data())
def test_a_truncated_manifest_is_unreadable(manifest: Manifest, data: st.DataObject) -> None:
    whole = to_json(manifest)
    with pytest.raises(ManifestUnreadable, match="m1 is not readable"):
        from_json(whole[: data.draw(st.integers(0, len(whole) - 1))], name="m1")


def test_a_newer_format_is_of_a_later_version() -> None:
    with pytest.raises(ManifestOfLaterVersion, match="m1 was written by a later version, in format 3, and this is ticdc-dump "):
        from_json(b'{"version": 3}', name="m1")


PLAIN = Manifest(Seq(1), 1, CommitTs(1), CommitTs(2), None, 0, 0, {}, "s", "c")
VERSIONS = st.tuples(*[st.integers(0, 11)] * 3)


@given(manifests, VERSIONS, VERSIONS)
def test_a_manifest_is_read_by_its_own_minor_version_and_by_later_ones(
    manifest: Manifest, ours: tuple[int, int, int], writer: tuple[int, int, int]
) -> None:
    """N5: 0.4.0 named two codes, and the earlier one read the log of the later one, and was wrong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sidecar, "__version__", ".".join(map(str, writer)))
        manifest = replace(manifest, id="drawn")
        written = to_json(manifest)
        patch.setattr(sidecar, "__version__", ".".join(map(str, ours)))
        if writer[:2] <= ours[:2]:
            assert from_json(written, name="m1") == manifest
            return
        with pytest.raises(ManifestOfLaterVersion, match=f"m1 was written by ticdc-dump {'.'.join(map(str, writer))}, and this is"):
            from_json(written, name="m1")


@pytest.mark.parametrize("writer", ["", None])
def test_logs_of_0_4_name_no_version(writer: str | None) -> None:
    data = json.loads(to_json(PLAIN)) | ({} if writer is None else {"writer": writer})
    assert from_json(json.dumps(data).encode(), name="m1") == PLAIN


@pytest.mark.parametrize("writer", ["0", "x.y", " 0.5.0", "9" * 30 + ".1", "0.5x"])
def test_a_version_that_is_none_is_unreadable(writer: str) -> None:
    data = json.dumps(json.loads(to_json(PLAIN)) | {"writer": writer}).encode()
    with pytest.raises(ManifestUnreadable, match="which is none"):
        from_json(data, name="m1")


@pytest.mark.parametrize("field", ["seq", "upto_ts", "data", "positions", "windows", "progress"])
def test_a_missing_field_is_named(field: str) -> None:
    result = json.loads(to_json(Manifest(Seq(1), 1, CommitTs(1), CommitTs(2), None, 0, 0, {}, "s", "c")))
    del result[field]
    with pytest.raises(ManifestUnreadable, match=field):
        from_json(json.dumps(result).encode(), name="m1")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", True), ("version", 1.0), ("seq", -1), ("seq", "9" * 30), ("seq", 1.5), ("epoch", -2), ("upto_ts", "-5"),
        ("upto_ts", "9" * 30), ("after_ts", str(1 << 64)), ("rows", -3), ("bytes", 1 << 80), ("rows", 1e300), ("data", ["x"]),
        ("positions", {"a": "9" * 30}), ("positions", {"a": True}), ("incarnations", {"a": 1}),
        ("read_ends", {"a": 1}), ("read_ends", {"a": ["9" * 30, 0]}),
        ("read_ends", {"a": ["1", -1]}), ("read_ends", {"a": ["1", 1 << 31]}), ("progress", [1]), ("id", 7),
        ("ddls", [{"commit_ts": "-1", "schema": "s", "table": "t", "query": "q"}]),
    ],
)  # fmt: skip
def test_what_cannot_be_a_manifest_is_unreadable(field: str, value: object) -> None:
    result = json.loads(to_json(Manifest(Seq(1), 1, CommitTs(1), CommitTs(2), None, 0, 0, {}, "s", "c")))
    with pytest.raises(ManifestUnreadable, match="m1"):
        from_json(json.dumps(result | {field: value}).encode(), name="m1")


@pytest.mark.parametrize("inside", [b"version", b"progress", b"windows", b"more"])
def test_what_is_deeper_than_python_goes_is_unreadable(inside: bytes) -> None:
    whole = to_json(Manifest(Seq(1), 1, CommitTs(1), CommitTs(2), None, 0, 0, {}, "s", "c"))
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    with pytest.raises(ManifestUnreadable, match="m1"):
        from_json(b'{"%b":%b,' % (inside, deep) + whole[1:], name="m1")
    with pytest.raises(ManifestUnreadable, match="s1"):
        schemas_from_json(deep, name="s1")


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'[{"schema": "s"}]', b'[{"schema":"s","table":"t","key":[],"columns":[[1]]}]'])
def test_broken_schemas_are_unreadable(data: bytes) -> None:
    with pytest.raises(ManifestUnreadable, match="s1"):
        schemas_from_json(data, name="s1")
