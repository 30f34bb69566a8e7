"""What there is to compare continuously, as a test says it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

from sidecar.run.cycle import TableInSink
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.log.verification import RequestedTable, Slice, VerifyRequest
from sidecar.shared.model.nouns import OperationId, TableName

numbers = itertools.count()


class NamedSlices:
    """`SliceSource`. `error`: of the next request."""

    def __init__(self, *names: TableInSink) -> None:
        self.names: Collection[TableInSink] | None = names
        self.unready: set[TableInSink] = set()
        self.statistics: dict[TableName, int] = {}
        self.error: TicdcDumpError | None = None
        self.requests: list[VerifyRequest] = []

    def carried(self) -> Collection[TableInSink] | None:
        return self.names

    def ready(self) -> Collection[TableInSink]:
        return [name for name in self.names or () if name not in self.unready]

    def rows(self, tables: Sequence[TableName]) -> Mapping[TableName, int]:
        return {table: self.statistics.get(table, 0) for table in tables}

    def request(self, name: TableInSink, part: Slice) -> VerifyRequest:
        error, self.error = self.error, None
        if error is not None:
            raise error
        self.requests.append(
            VerifyRequest(OperationId(f"slice{next(numbers):011}"), (name.sink,), (RequestedTable(*name.table),), slice=part)
        )
        return self.requests[-1]
