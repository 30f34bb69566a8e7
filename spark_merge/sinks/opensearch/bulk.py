"""Bulk requests, one after another: rows of all tables of a task, up to so many bytes and rows.

- A request holds each document once, the last that came, and the next one is sent when all of it is answered: whatever of it is sent again,
  and whatever the server has forgotten of deletes in between, no row goes back.
- An item's answer is its own. 409: a greater version is there. 429 and 503: those items again, with growing pauses that no two workers
  share, as long as some are taken within `client.RETRY_S`. All others stop, and are reported by table and key with the server's reason.
- Before each request the sink checks that the output is still this owner's: a worker that slept sends nothing but what it was sending.

The client's own bulk helper serializes row by row in Python, pauses without jitter and gives up a request that is refused as a whole.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName
from spark_merge.port.keys import last_places
from spark_merge.sinks.opensearch import client
from spark_merge.sinks.opensearch.client import AWAY, BUSY, CONFLICT, NOT_FOUND, OpenSearchSession, hint_of
from spark_merge.sinks.opensearch.position import OwnedPosition

REPORTED_MAX = 3
"""Of the rows that a server refuses, as many are reported."""

_ANSWER = {"filter_path": "errors,items.*.status,items.*.error", "require_alias": "true"}


class BulkRows(NamedTuple):
    """Of one table: ids and lines (documents.lines), at least one."""

    table: TableName
    ids: pa.Array
    lines: pa.Array


class Bulk:
    def __init__(self, session: OpenSearchSession, owned: OwnedPosition, *, bytes_max: int, rows_max: int) -> None:
        self._session, self._owned = session, owned
        self._bytes_max, self._rows_max = bytes_max, rows_max
        self._waiting: list[BulkRows] = []
        self._bytes = self._rows = 0

    def add(self, rows: BulkRows) -> None:
        """What fills requests is sent. Raises SinkError, OwnershipLost."""
        sizes = np.cumsum(pc.binary_length(rows.lines).to_numpy(zero_copy_only=False).astype(np.int64))
        start, sent = 0, 0
        while start < len(rows.ids):
            fits = int(np.searchsorted(sizes, sent + self._bytes_max - self._bytes, side="right"))
            end = min(fits, start + self._rows_max - self._rows)
            end = start + 1 if end <= start and not self._waiting else end  # a row that is too large alone
            if end > start:
                self._waiting.append(BulkRows(rows.table, rows.ids[start:end], rows.lines[start:end]))
                self._bytes += int(sizes[end - 1]) - sent
                self._rows += end - start
                start, sent = end, int(sizes[end - 1])
            if start < len(rows.ids):
                self.flush()

    def flush(self) -> None:
        """All that was added is there. Raises SinkError, OwnershipLost."""
        waiting, self._waiting, self._bytes, self._rows = self._waiting, [], 0, 0
        if not waiting:
            return
        tables = sorted({rows.table for rows in waiting})
        numbers = pa.array(np.concatenate([np.full(len(rows.ids), tables.index(rows.table), np.int32) for rows in waiting]))
        ids, sources = (pa.concat_arrays([rows[part] for rows in waiting]) for part in (1, 2))
        if len(waiting) > 1 or pc.count_distinct(ids).as_py() < len(ids):
            last = last_places(pc.binary_join_element_wise(numbers.cast(pa.string()), ids, " "))
            numbers, ids, sources = numbers.take(last), ids.take(last), sources.take(last)
        self._send(tables, numbers, ids, sources)

    def _send(self, tables: Sequence[TableName], numbers: pa.Array, ids: pa.Array, lines: pa.Array) -> None:
        give_up_s, wait_s = time.monotonic() + client.RETRY_S, client.OPENSEARCH_RETRY_FIRST_S
        while True:
            body = _body(lines)
            alone = (
                f"writing row {ids[0].as_py()} of {tables[numbers[0].as_py()]}, {len(body):,} bytes" if len(ids) == 1 else "writing rows"
            )
            answered = self._session.retried(partial(self._once, body), doing=alone)
            if not answered["errors"]:
                return
            items = [next(iter(item.values())) for item in answered["items"]]
            busy = [at for at, item in enumerate(items) if _is_busy(item)]
            refused = [at for at, item in enumerate(items) if _is_refused(item)]
            if refused:
                raise self._rejection_error([(tables[numbers[at].as_py()], ids[at].as_py(), items[at]) for at in refused])
            if not busy:
                return
            if len(busy) < len(items):
                give_up_s, wait_s = time.monotonic() + client.RETRY_S, client.OPENSEARCH_RETRY_FIRST_S
            elif time.monotonic() > give_up_s:
                raise self._rejection_error([(tables[numbers[at].as_py()], ids[at].as_py(), items[at]) for at in busy])
            numbers, ids, lines = numbers.take(pa.array(busy)), ids.take(pa.array(busy)), lines.take(pa.array(busy))
            time.sleep(wait_s * random.uniform(0.5, 1.5))
            wait_s = min(wait_s * 2, client.OPENSEARCH_RETRY_MAX_S)

    def _once(self, body: bytes) -> Any:
        """The owner of the output is checked each time."""
        self._owned.check(self._session)
        return self._session.call("POST", "/_bulk", body, _ANSWER)

    def _rejection_error(self, refused: Sequence[tuple[TableName, str, Any]]) -> SinkError:
        shown = "; ".join(f"row {key} of {table}: {_reason(item)}" for table, key, item in refused[:REPORTED_MAX])
        others = f", and {len(refused) - REPORTED_MAX} more" if len(refused) > REPORTED_MAX else ""
        status = refused[0][2]["status"]
        return SinkError(
            f"{self._session.server}: {len(refused)} rows are not taken: {shown}{others}",
            hint=_HINTS.get(status) or hint_of(status, self._session.server, shown),
        )


_HINTS = {
    400: "give the index a mapping that takes such a value (or name it in ddl-anew at a DDL and dump the table again); nothing is skipped",
    404: "bring the index back, from a snapshot or empty and with a new dump of the table: it was there when the batch began",
}


def _body(lines: pa.Array) -> bytes:
    """As they lie in memory, one after another."""
    _, ends, data = lines.buffers()
    offsets = np.frombuffer(ends, np.int32, count=len(lines) + 1, offset=4 * lines.offset)
    return memoryview(data)[offsets[0] : offsets[-1]].tobytes()


def _is_busy(item: Any) -> bool:
    return item["status"] == BUSY or item["status"] in AWAY


def _is_refused(item: Any) -> bool:
    """A delete of what is not there is answered with 404 and without an error."""
    status = item["status"]
    done = 200 <= status < 300 or status == CONFLICT or (status == NOT_FOUND and "error" not in item)
    return not (done or _is_busy(item))


def _reason(item: Any) -> str:
    error = item.get("error") or {}
    if not isinstance(error, dict):
        return f"{error} (status {item['status']})"
    cause = (error.get("caused_by") or {}).get("reason", "")
    return f"{error.get('reason') or error.get('type')}{f': {cause}' if cause else ''} (status {item['status']})"
