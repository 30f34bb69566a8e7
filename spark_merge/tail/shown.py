"""Values as the sinks have them: who may see a sink's rows sees no more here.

Where several sinks mask a column, it is shown as the first of them in the settings has it, or not at all where that one omits it. Rows are
masked here, where they leave this package, and nowhere before: merging and comparing need the log's own values. What a decoder says of a
row may quote a value of it: of a table with masked columns it is not shown. A sink's own row is as it is, without what only others mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sidecar.shared.model.nouns import TableSchema, utc
from spark_merge.masks.sink import OpenMasking
from spark_merge.tail.events import EventKind, LiveChange, TailEvent

Values = Mapping[str, str | None]
"""By column, in the order of the table."""

HIDDEN_REASON = "the reason may quote a masked column: `ticdc-dump skip` shows it"


class ShownValues:
    """`maskings`: of the sinks that mask something, by their names, in the order of the settings. `chars_max`: characters of a value, 0:
    all; a longer one ends with "…"."""

    def __init__(self, maskings: Mapping[str, OpenMasking] | None = None, *, chars_max: int = 0) -> None:
        self._maskings, self._chars_max = maskings or {}, chars_max

    def image(self, schema: TableSchema, image: Sequence[str | None]) -> Values:
        """Raises SinkError for a rule that the table does not allow."""
        values: dict[str, str | None] = dict(zip(schema.column_names(), image, strict=True))
        decided = set[str]()
        for masking in self._maskings.values():
            if (table := masking.table(schema)) is None:
                continue
            rows = pa.table({name: pa.array([text], pa.string()) for name, text in zip(schema.column_names(), image, strict=True)})
            masked = masking.rows(table, rows)
            for name in table.masks.keys() - decided:
                if name in masked.column_names:
                    values[name] = masked.column(name)[0].as_py()
                else:
                    del values[name]
            decided |= table.masks.keys()
        return {name: self.short(text) for name, text in values.items()}

    def sink_row(self, sink: str, schema: TableSchema, row: Values) -> Values:
        """`row`: as the sink of this name has it, of the source's table `schema`."""
        masked = {name: frozenset(table.masks) for name, one in self._maskings.items() if (table := one.table(schema)) is not None}
        hidden = frozenset[str]().union(*masked.values()) - masked.get(sink, frozenset())
        return {name: self.short(text) for name, text in row.items() if name not in hidden}

    def masks(self, schema: TableSchema) -> bool:
        return any(masking.table(schema) is not None for masking in self._maskings.values())

    def short(self, text: str | None) -> str | None:
        if text is None or not self._chars_max or len(text) <= self._chars_max:
            return text
        return text[: self._chars_max] + "…"

    def key(self, event: TailEvent) -> Values:
        """A column of a handle key has no mask."""
        assert event.schema is not None, "it is a row"
        assert event.key is not None, "it is a row"
        return {name: self.short(text) for name, text in zip(event.schema.key, event.key, strict=True)}

    def reason(self, event: TailEvent) -> str:
        """The event's text."""
        of_row = event.kind in (EventKind.SKIPPED, EventKind.UNDECODABLE)
        return HIDDEN_REASON if of_row and event.schema is not None and self.masks(event.schema) else event.text


def event_json(event: TailEvent, shown: ShownValues) -> dict[str, Any]:
    """deploy/TAIL.md names the fields. A commit-ts is a decimal string."""
    head: dict[str, Any] = {"kind": event.kind, "seq": event.seq, "commit_ts": str(event.commit_ts), "time": utc(event.commit_ts)}
    head |= {"schema": event.table.schema, "table": event.table.table}
    if event.op:
        head["op"] = event.op
    if event.schema is not None and event.key is not None:
        head["key"] = shown.key(event)
        head |= _images(event.schema, event, shown)
    if (due := event.chunk) is not None:
        window = {"low_ts": str(due.low_ts), "high_ts": str(due.high_ts), "sinks": list(event.sinks)}
        head["dump"] = {"id": due.dump_id, "chunk": due.path, **window}
    if event.kind is EventKind.DROPPED and event.schema is not None:
        change = event.change
        head["replaced_by"] = change and {
            "commit_ts": str(change.commit_ts), "time": utc(change.commit_ts), "op": change.op, **_images(event.schema, change, shown),
        }  # fmt: skip
    return head | ({"text": text} if (text := shown.reason(event)) else {})


def _images(schema: TableSchema, of: TailEvent | LiveChange, shown: ShownValues) -> dict[str, Values | None]:
    return {
        "before": None if of.before is None else shown.image(schema, of.before),
        "after": None if of.after is None else shown.image(schema, of.after),
    }
