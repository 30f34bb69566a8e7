"""Each durable record of the outputs of files: it comes back as it was, and what is none of it is rejected by its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import DumpState, SegmentDump
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.folder import layout
from spark_merge.sinks.folder.layout import DeliveredFile, DeliveredSegment, FolderCommit, FolderIdentity, SegmentDdls
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.kit.records import JsonRecord
from spark_merge.sinks.spool import keeping
from spark_merge.sinks.spool.keeping import KeptSegments, Subscriber
from spark_merge.sinks.storage import commits as storage_commits
from spark_merge.sinks.storage.commits import StorageCommit, StorageHead, StorageLog
from spark_merge.sinks.storage.layout import StoragePlace
from spark_merge.sinks.storage.names import Last, Named, NamesChange, StorageNames, StoredVersion

TABLE = TableName("a.b", "ü")
LAST_TS = CommitTs((1 << 63) - 1)
FILES = (DeliveredFile("a.b/1.jsonl", TABLE, 1, 2, 3, "ff"),)
SEGMENT = DeliveredSegment(Seq(7), LAST_TS, FILES, "_ddl/7.json", "m", 9, 10, SegmentDump("d", DumpState.PAUSED, (TABLE,)), "aa")
CHANGE = NamesChange(3, "2026-11-22", {TABLE: StoredVersion(5, None)}, {StoragePlace(TABLE, 4): Last(5, "2026-11-22", 6)})
RECORDS: Mapping[str, tuple[JsonRecord[Any], Any]] = {
    "segment": (layout.SEGMENT, SEGMENT),
    "DDLs of a segment": (layout.DDLS_OF_SEGMENT, SegmentDdls(7, [DdlRecord(LAST_TS, "a", "ü", "DROP TABLE `ü`")])),
    "commit of a folder": (layout.COMMIT, FolderCommit(1, Owner(3, 1), "me", Seq(7), (SEGMENT,), Seq(0))),
    "identity of a folder": (layout.LOG, FolderIdentity("log", "jsonl", 16, 0)),
    "head of a folder": (layout.HEAD_NUMBER, 50),
    "log of a storage output": (storage_commits.LOG, StorageLog("log", {"protocol": "csv"})),
    "commit of a storage output": (
        storage_commits.COMMIT,
        StorageCommit(1, Owner(3, 1), "me", Accepted(Seq(7), LAST_TS, "m"), Named(CHANGE, {"a": "b"}, (("staged", "final"),), {"c": "d"})),
    ),
    "head of a storage output": (storage_commits.HEAD, StorageHead(50, StorageNames().after(CHANGE))),
    "what a spool keeps": (keeping.KEPT_RECORD, KeptSegments(Seq(1), Seq(2), Seq(2))),
    "subscriber": (keeping.SUBSCRIBER, Subscriber("ü", -1, 5)),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    record, value = RECORDS[name]
    folder = sink_folder(str(tmp_path))
    assert record.read(folder, "there") is None
    assert record.create(folder, "there", value)
    assert record.read(folder, "there") == value
    record.write(folder, "there", value)
    assert record.read_all(folder, ["none", "there"]) == {"there": value}


@pytest.mark.parametrize("name", RECORDS)
def test_what_is_no_such_record_is_rejected_by_its_name(name: str) -> None:
    record, value = RECORDS[name]
    whole = json.loads(record.to_json(value))
    lacking = [{at: result for at, result in whole.items() if at != field} for field in ("version", min(whole.keys() - {"version"}))]
    versions = [whole | {"version": other} for other in (0, 99, "1", True, None)]
    for data in (b"", b"[]", b"\xff", b"[" * 100_000, record.to_json(value)[:-1], *(json.dumps(one).encode() for one in versions)):
        with pytest.raises(SinkError, match=r"^its place (is not readable|has format version)"):
            record.from_json(data, name="its place")
    optional = {"first", "accepted_ms", "chunk_parts", "by"}
    for one in lacking:
        if not whole.keys() - one.keys() <= optional:
            with pytest.raises(SinkError, match=r"^its place is not readable"):
                record.from_json(json.dumps(one).encode(), name="its place")


def test_a_commit_with_a_segment_of_another_version_is_rejected() -> None:
    plain = json.loads(layout.COMMIT.to_json(FolderCommit(1, Owner(3, 1), "me", Seq(7), (SEGMENT,))))
    plain["segments"][0]["version"] = 9
    with pytest.raises(SinkError, match=r"is not readable.*version 9"):
        layout.COMMIT.from_json(json.dumps(plain).encode(), name="commit")
