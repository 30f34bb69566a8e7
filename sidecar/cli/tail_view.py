"""What people see of a table's events and of a sink's row: a line each. Values are written as Python writes texts, and names and reasons
without what cannot be seen: a terminal carries out nothing of them. A program takes `--json`, which has all as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sidecar.shared.model.hole import in_short
from sidecar.shared.model.nouns import utc
from spark_merge.tail.events import EventKind, LiveChange, TailEvent
from spark_merge.tail.shown import ShownValues, Values
from spark_merge.tail.verdict import SinkHas, shown_row

COLUMNS_MAX = 12
"""Of a row that are shown."""
KIND_WIDTH, OP_WIDTH = 11, 6


def event_line(event: TailEvent, shown: ShownValues) -> str:
    if event.kind is EventKind.BEGIN:
        since = f", after commit-ts {event.commit_ts} ({utc(event.commit_ts)})" if event.commit_ts else ""
        return f"{in_short(str(event.table))}: the log begins with segment {event.seq}{since}: {in_short(event.text)}"
    at = f"{utc(event.commit_ts):<24} {event.commit_ts or '-':<19} {event.kind:<{KIND_WIDTH}}"
    if event.schema is None or event.key is None:
        what = f" {event.op}" if event.op else ""
        return f"{at}{what} {in_short(str(event.table))}: {in_short(shown.reason(event))}"
    row = f"{event.op:<{OP_WIDTH}} {in_short(str(event.table))} {pairs(shown.key(event))}"
    parts = [_change_text(event, shown), *_where(event, shown)]
    return f"{at} {row}: {'; '.join(part for part in parts if part)}"


def _where(event: TailEvent, shown: ShownValues) -> Iterator[str]:
    """Of a chunk's row."""
    due = event.chunk
    if due is None:
        return
    if event.kind is EventKind.DROPPED:
        change = event.change
        if change is None:
            yield "replaced in its window by a live change that cannot be read"
        else:
            at = f"commit-ts {change.commit_ts} ({utc(change.commit_ts)})"
            yield f"replaced in its window by the {change.op} at {at}: {_change_text(event, shown, change)}"
    yield f"dump {due.dump_id}, chunk {due.path}, window ({due.low_ts}, {due.high_ts}]"
    if event.sinks:
        yield f"for {', '.join(map(in_short, event.sinks))}"
    if event.text:
        yield in_short(event.text)


def _change_text(event: TailEvent, shown: ShownValues, change: LiveChange | None = None) -> str:
    """The values; of an update those that it has changed. `change`: of the event's row, in its place."""
    assert event.schema is not None, "it is a row"
    of = event if change is None else change
    before = None if of.before is None else shown.image(event.schema, of.before)
    after = None if of.after is None else shown.image(event.schema, of.after)
    if before is None or after is None:
        values = after or before
        return "no row" if values is None else pairs({name: text for name, text in values.items() if name not in event.schema.key})
    changed = [name for name, text in after.items() if before.get(name) != text]
    texts = [f"{in_short(name)} {value_text(before[name])} → {value_text(after[name])}" for name in changed[:COLUMNS_MAX]]
    return _listed(texts, len(changed)) or "no value that is shown has changed"


def sink_line(has: SinkHas, shown: ShownValues) -> str:
    at = "" if has.accepted is None else f", at segment {has.accepted}"
    row = shown_row(has, shown)
    it_has = "" if has.table is None else "; it has " + ("no row" if row is None else pairs(row))
    return f"sink {in_short(has.sink)}{at}: {has.verdict}: {in_short(has.text)}{it_has}"


def pairs(values: Values | Mapping[str, str | None]) -> str:
    texts = [f"{in_short(name)} {value_text(text)}" for name, text in list(values.items())[:COLUMNS_MAX]]
    return _listed(texts, len(values))


def _listed(texts: list[str], count: int) -> str:
    return ", ".join(texts) + (f", and {count - len(texts):,} more columns" if count > len(texts) else "")


def value_text(text: str | None) -> str:
    return "NULL" if text is None else repr(text)
