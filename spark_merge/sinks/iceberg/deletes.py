"""One snapshot with data files, delete files and files that go, which pyiceberg 0.12 does not make: it writes manifests of data only, and
each new file at the snapshot's own sequence number.

What it leans on of pyiceberg's internals (requirements.lock pins it, tests/unit/sinks/test_iceberg_deletes.py says what is needed of them):
`_SnapshotProducer._manifests`, `_summary`, `new_manifest_output`, `fetch_manifest_entry`; that a `ManifestWriterV2` writes the sequence
number of an entry that has one, and the least of them as its manifest's; `_ManifestMergeManager`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _MergeAppendFiles
from pyiceberg.typedef import TableVersion
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

_EQUALITY_IDS = 135
"""Of a manifest's fields."""


class _DeletesWriter(ManifestWriterV2):
    """Of a manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def _with_partition(self, format_version: TableVersion) -> Schema:
        """pyiceberg has `equality_ids` as longs, which Java does not read; the specification says int."""
        return Schema(*map(_with_int_ids, super()._with_partition(format_version).fields))


class RowDelta(_MergeAppendFiles):
    """`below`: the data sequence number of some of its data files, by their paths; the others and the delete files have the snapshot's.
    `emptied`: all files that are there go first."""

    def __init__(self, staged: Transaction, summary: Mapping[str, str], *, below: Mapping[str, int], emptied: bool) -> None:
        super().__init__(Operation.OVERWRITE, staged, staged._table.io, snapshot_properties=dict(summary))
        self._below, self._emptied = below, emptied
        self._gone: list[DataFile] = []
        self._content = ManifestContent.DATA

    def _manifests(self) -> list[ManifestFile]:
        there = self._existing_manifests()
        results: list[ManifestFile] = []
        for content in ManifestContent:
            self._content = content
            new = [file for file in self._added_data_files if _content_of(file) is content]
            manifests = [self._written(self._added(new), self._transaction.table_metadata.spec())] if new else []
            mine = [manifest for manifest in there if manifest.content is content]
            results += manifests + self._removed(mine) if self._emptied else self._merged(manifests + mine)
        return results

    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        kind = _DeletesWriter if self._content is ManifestContent.DELETES else ManifestWriterV2
        return kind(spec, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression)

    def _added(self, files: Iterable[DataFile]) -> Iterable[ManifestEntry]:
        for file in files:
            yield ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=self._snapshot_id,
                sequence_number=self._below.get(file.file_path),
                file_sequence_number=None,
                data_file=file,
            )

    def _removed(self, manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
        entries: defaultdict[int, list[ManifestEntry]] = defaultdict(list)
        for manifest in manifests:
            for entry in self.fetch_manifest_entry(manifest):
                self._gone.append(entry.data_file)
                entries[manifest.partition_spec_id].append(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.DELETED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=entry.sequence_number,
                        file_sequence_number=entry.file_sequence_number,
                        data_file=entry.data_file,
                    )
                )
        return [self._written(gone, self.spec(spec_id)) for spec_id, gone in entries.items()]

    def _written(self, entries: Iterable[ManifestEntry], spec: PartitionSpec) -> ManifestFile:
        with self.new_manifest_writer(spec) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _merged(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        return _ManifestMergeManager(
            target_size_bytes=self._target_size_bytes,
            min_count_to_merge=self._min_count_to_merge,
            merge_enabled=self._merge_enabled,
            snapshot_producer=self,
        ).merge_manifests(manifests)

    def _summary(self, snapshot_properties: Mapping[str, str] = {}) -> Summary:
        metadata = self._transaction.table_metadata
        schema, specs, result = metadata.schema(), metadata.specs(), SnapshotSummaryCollector()
        for file in self._added_data_files:
            result.add_file(file, schema, metadata.spec())
        for file in self._gone:
            result.remove_file(file, schema, specs[file.spec_id])
        before = metadata.snapshot_by_id(self._parent_snapshot_id) if self._parent_snapshot_id is not None else None
        summary = Summary(self._operation_of(), **result.build(), **snapshot_properties)
        return update_snapshot_summaries(summary, before.summary if before is not None else None)

    def _operation_of(self) -> Operation:
        if self._emptied:
            return Operation.DELETE if not self._added_data_files else Operation.OVERWRITE
        adds = all(_content_of(file) is ManifestContent.DATA for file in self._added_data_files)
        return Operation.APPEND if adds else Operation.OVERWRITE


def _with_int_ids(field: NestedField) -> NestedField:
    kind = field.field_type
    if field.field_id == _EQUALITY_IDS and isinstance(kind, ListType):
        kind = ListType(kind.element_id, IntegerType(), element_required=kind.element_required)
    elif isinstance(kind, StructType):
        kind = StructType(*map(_with_int_ids, kind.fields))
    return NestedField(field.field_id, field.name, kind, required=field.required, doc=field.doc)


def _content_of(file: DataFile) -> ManifestContent:
    return ManifestContent.DATA if file.content == DataFileContent.DATA else ManifestContent.DELETES
