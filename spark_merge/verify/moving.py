"""The keys that the log changes between two positions: a difference in one of them says nothing, for the two sides were read at different
moments.

A key of a change in `(low_ts, ∞)` of the segments that are in the log counts, and so does a key of a dump's chunk whose window closes
there: the sink may have received the chunk or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.core.model import CommitTs, Seq, TableSchema
from sidecar.log import storage
from sidecar.log.manifest import Manifest
from sidecar.log.skips import skipped_rows
from spark_merge.contract import Head
from spark_merge.delivery import JobSettings
from spark_merge.merge import key_text
from spark_merge.read import LoggedSchemas, new_manifests, whole_pages
from spark_merge.segments import Segments, SegmentSource

MANIFESTS_AT_ONCE = 200


class Moving:
    """Of one table, from segment `after` on. `keys`: all that were changed in the segments that `follow` has passed."""

    def __init__(self, settings: JobSettings, schema: TableSchema, *, after: Seq | None, low_ts: CommitTs) -> None:
        """`schema`: of the table after segment `after`."""
        self._settings, self.table, self._low_ts = settings, schema.name, low_ts
        self._schema = schema
        self.seq = after
        self.upto_ts = low_ts
        self.keys: pa.Array = pa.array([], pa.string())
        self.altered = False
        """A DDL has changed the table, or removed it."""

    def follow(self) -> CommitTs:
        """Pass all segments that are there. Returns where the log ends. Raises what reading and decoding the log raises."""
        while manifests := new_manifests(self._settings.log, after=self.seq, limit=MANIFESTS_AT_ONCE):
            found = [self.keys, *self._keys(manifests)]
            self.keys = pc.unique(pa.concat_arrays(found))
            self.seq, self.upto_ts = manifests[-1].seq, manifests[-1].upto_ts
        return self.upto_ts

    def _keys(self, manifests: Sequence[Manifest]) -> list[pa.Array]:
        load = partial(LoggedSchemas, self._settings.log)
        known = {name: load(name) for one in manifests for name in (one.schemas, one.next_schemas) if name}
        self.altered |= any(self._is_another(schemas.get(self.table)) for schemas in known.values())
        heads = {one.seq: Head(one, known[one.schemas], known[one.next_schemas or one.schemas]) for one in manifests}
        skips = skipped_rows(self._settings.log)
        source = SegmentSource(
            self._settings.log,
            heads,
            self._settings.server_tz,
            self._settings.ambiguous,
            {seq: skips[seq] for seq in skips.keys() & heads.keys()},
        )
        segments = Segments(source, raw=False)
        found: list[pa.Array] = []
        for seq, head in heads.items():
            if self.table not in head.schemas:
                continue
            for rows in segments.decoded(seq, self.table):
                found += rows.filter(pc.greater(rows["commit_ts"], self._low_ts))["key"].chunks
            found += [self._of_chunk(head.schemas[self.table], due.path) for due in head.due_chunks() if due.table == self.table]
        return found

    def _is_another(self, found: TableSchema | None) -> bool:
        return found is None or found.undefined() != self._schema.undefined()

    def _of_chunk(self, schema: TableSchema, path: str) -> pa.Array:
        with storage.open_to_read(self._settings.log, path) as file:
            rows = whole_pages(file).read(columns=list(schema.key))
        return key_text([rows.column(name) for name in schema.key]).combine_chunks()
