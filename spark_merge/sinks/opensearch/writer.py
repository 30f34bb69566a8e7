"""A task: portions of rows in, bulk requests out. Rows of one table come in their order, so does what is sent of each document."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from sidecar.shared.model.nouns import MARK_TABLE
from spark_merge.codecs.encode.block import blocks
from spark_merge.port.contract import Counts, Outcome, Portion, Task, counted
from spark_merge.sinks.opensearch import bulk
from spark_merge.sinks.opensearch.bulk import Bulk
from spark_merge.sinks.opensearch.client import OpenSearchSession
from spark_merge.sinks.opensearch.documents import lines
from spark_merge.sinks.opensearch.position import OwnedPosition
from spark_merge.sinks.opensearch.uri import OpenSearchSettings


@dataclass(frozen=True, slots=True)
class BulkWriter:
    settings: OpenSearchSettings
    owned: OwnedPosition

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts: Counts = {}
        with closing(OpenSearchSession(self.settings.server)) as session:
            requests = Bulk(session, self.owned, bytes_max=self.settings.bulk_bytes, rows_max=self.settings.bulk_rows)
            for portion in portions:
                self._take(portion, requests, counts)
            requests.flush()
        return Outcome(task.id, counts)

    def _take(self, portion: Portion, requests: Bulk, counts: Counts) -> None:
        schema = portion.schema
        alias, has_documents = self.settings.names.alias(schema.name), schema.key and schema.name != MARK_TABLE
        for piece in counted(portion, counts):
            for block in blocks(schema, portion.unit.seq, piece) if has_documents else ():
                for ids, documents in lines(block, alias, self.settings.forms) if block.rows else ():
                    requests.add(bulk.BulkRows(schema.name, ids, documents))
