"""What the Iceberg sink's snapshots with deletes ask of pyiceberg's internals, and what they leave in manifests: as bytes, for Java reads
them by its own rules.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pyiceberg
import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import snapshot as producers
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from spark_merge.sinks.iceberg.deletes import RowDelta

LOCK = Path(__file__).parents[3] / "requirements.lock"


@pytest.fixture
def table(tmp_path: Path) -> Any:
    catalog: Catalog = load_catalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    yield catalog.create_table("n.t", Schema(NestedField(1, "id", LongType(), required=False)))
    catalog.close()


def test_what_is_leant_on_is_there_in_the_version_that_is_locked() -> None:
    assert f"pyiceberg=={pyiceberg.__version__}" in LOCK.read_text()
    for name in ("_manifests", "_summary", "_existing_manifests", "new_manifest_writer", "new_manifest_output", "fetch_manifest_entry"):
        assert callable(getattr(producers._MergeAppendFiles, name))
    body = inspect.getsource(producers._SnapshotProducer._commit)
    assert body.index("self._manifests()") < body.index("self._summary("), "files that go are known by then"
    for name in ("_meta", "content", "_with_partition", "add_entry"):
        assert hasattr(ManifestWriterV2, name)


def file(path: str, content: DataFileContent = DataFileContent.DATA, key: list[int] | None = None) -> DataFile:
    return DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=3,
        file_size_in_bytes=10,
        spec_id=0,
        equality_ids=key,
    )


def commit(table: Table, *files: DataFile, emptied: bool = False, **below: int) -> Snapshot:
    staged = Transaction(table)
    act = RowDelta(staged, {"told": "x"}, below=below, emptied=emptied)
    for one in files:
        act.append_data_file(one)
    act.commit()
    staged.commit_transaction()
    current_snapshot = table.refresh().current_snapshot()
    assert current_snapshot is not None
    return current_snapshot


def entries(table: Table, snapshot: Snapshot) -> dict[str, tuple[int | None, str]]:
    results = [
        entry for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    ]
    return {entry.data_file.file_path: (entry.sequence_number, entry.status.name) for entry in results}


def test_files_come_at_the_numbers_that_they_are_to_have(table: Table) -> None:
    commit(table)
    commit(table, file("a"), file("d", DataFileContent.EQUALITY_DELETES, [1]))
    last = commit(table, file("low"), file("b"), low=1)
    assert entries(table, last) == {"a": (2, "ADDED"), "d": (2, "ADDED"), "low": (1, "ADDED"), "b": (3, "ADDED")}
    reported = {(one.content, one.sequence_number, one.min_sequence_number) for one in last.manifests(table.io)}
    assert reported == {(ManifestContent.DATA, 3, 1), (ManifestContent.DATA, 2, 2), (ManifestContent.DELETES, 2, 2)}
    assert last.summary is not None
    assert (last.summary["told"], last.summary["total-delete-files"], last.summary["total-records"]) == ("x", "1", "9")


def test_manifests_are_merged_each_with_its_like_and_keep_numbers(table: Table) -> None:
    with table.transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "2", "commit.manifest-merge.enabled": "true"})
    commit(table)
    commit(table, file("low"), file("d", DataFileContent.EQUALITY_DELETES, [1]), low=1)
    last = commit(table, file("b"), file("e", DataFileContent.EQUALITY_DELETES, [1]))
    assert entries(table, last) == {"low": (1, "EXISTING"), "d": (2, "EXISTING"), "b": (3, "ADDED"), "e": (3, "ADDED")}
    assert [(one.content, one.min_sequence_number) for one in last.manifests(table.io)] == [
        (ManifestContent.DATA, 1),
        (ManifestContent.DELETES, 2),
    ]


def test_a_table_that_is_emptied_reports_which_files_went(table: Table) -> None:
    commit(table, file("a"), file("d", DataFileContent.EQUALITY_DELETES, [1]))
    last = commit(table, emptied=True)
    assert entries(table, last) == {"a": (1, "DELETED"), "d": (1, "DELETED")}
    assert last.summary is not None
    assert (last.summary.operation.value, last.summary["total-records"], last.summary["total-delete-files"]) == ("delete", "0", "0")
    assert not entries(table, commit(table))


def test_equality_ids_are_ints_as_java_reads_them(table: Table) -> None:
    last = commit(table, file("d", DataFileContent.EQUALITY_DELETES, [1]))
    (manifest,) = last.manifests(table.io)
    with AvroFile(table.io.new_input(manifest.manifest_path)) as avro_file:  # type: ignore[var-annotated]
        reported = avro_file.header.meta
    assert reported["content"] == "deletes"
    of_file = next(field["type"] for field in json.loads(reported["avro.schema"])["fields"] if field["name"] == "data_file")
    ids = next(field["type"] for field in of_file["fields"] if field["name"] == "equality_ids")
    assert [kind["items"] for kind in ids if isinstance(kind, dict)] == ["int"]
