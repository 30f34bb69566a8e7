"""What DDLs did to the tables (changes.py), done to the indices, once all rows before them are there.

    rows are there ─► where each alias leads is durable (position.WrittenBatch) ─► carried out ─► the segment is accepted

- After a death no row of the batch is written again, so each step looks at what is there and does the rest.
- Documents that must be written again are written into another index, by the server itself (`_reindex`, with their versions), and the alias
  goes over in one step that deletes the old index: a reader sees all of it or nothing. An earlier owner that wakes up at this step sees
  that the index that it would replace is gone, and changes nothing.
- A column that is dropped stays in the documents until they are written; one that comes, is of any rows and is NULL, is not in them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Seq, TableSchema
from spark_merge.sinks.opensearch.changes import ColumnSource, IndexChanges, KeptIndex
from spark_merge.sinks.opensearch.client import NOT_FOUND
from spark_merge.sinks.opensearch.fields import Form, Forms, differs
from spark_merge.sinks.opensearch.indices import IndexThere, Indices
from spark_merge.sinks.opensearch.names import physical

POLL_FIRST_S, POLL_MAX_S = 0.05, 2.0

COPY_ROWS = 2_000
"""Of documents that the server copies at once."""

SCRIPT = """
Map was = new HashMap(ctx._source);
ctx._source.clear();
for (column in params.columns) {
  def value = column.name == null ? column.absent : was.get(column.name);
  if (value != null && column.how == 'text') {
    value = value instanceof List ? String.join(',', value) : value.toString();
    while (value.length() < column.digits) { value = '0' + value; }
  } else if (value != null && column.how == 'scale') {
    value = new BigDecimal(value.toString()).setScale(column.digits).toPlainString();
  }
  ctx._source.put(column.to, value);
}
"""
"""Each document from its previous columns."""


@dataclass(frozen=True, slots=True)
class IndexDdlRunner:
    """`there`: by alias the index that it led to before the DDLs. `since`: the segment after them. `still_ours` raises OwnershipLost."""

    indices: Indices
    there: Mapping[str, str]
    since: Seq
    still_ours: Callable[[], object]

    def carry_out(self, changes: IndexChanges) -> None:
        """All of it, but what is done. Raises SinkError, OwnershipLost."""
        for schema in changes.dropped:
            if (name := self.there.get(self._alias(schema))) is not None:
                self.still_ours()
                self.indices.remove(name)
        self._rename(changes.kept)
        for old, schema in changes.emptied:
            self._begin_again(old, schema)
        for schema in changes.made:
            self._make(schema)
        for kept in changes.kept:
            self._reshape(kept)

    def _alias(self, schema: TableSchema) -> str:
        return self.indices.settings.names.alias(schema.name)

    def _was(self, schema: TableSchema) -> str:
        """The index of a table of before. Raises SinkError where there was none."""
        name = self.there.get(self._alias(schema))
        if name is None:
            raise SinkError(
                f"{self.indices.session.server}: alias {self._alias(schema)} led to no index before the DDL, and {schema.name} had rows",
                hint="bring the index back from a snapshot, and let the alias lead there",
            )
        return name

    def _make(self, schema: TableSchema) -> None:
        """An index that the operator has made is taken. One of this log has the rows of an earlier table of this name, and is replaced."""
        alias = self._alias(schema)
        index = self.indices.there([alias]).get(alias)
        if index is None:
            self.still_ours()
            self.indices.make(alias, schema, self.since)
        elif self.indices.of_this_log(index) and index.name != physical(alias, self.since):
            self._go_over(index.name, self.indices.make(alias, schema, self.since, aliased=False), alias)
        else:
            self.indices.fit(schema, index)

    def _rename(self, kept: list[KeptIndex]) -> None:
        """All in one step: names may be swapped."""
        moves = [(self._was(one.before), self._alias(one.before), self._alias(one.after)) for one in kept if self._moves(one)]
        actions: list[dict[str, Any]] = []
        for name, old, new in moves:
            index = self.indices.by_name(name)
            aliases = index.aliases if index else frozenset[str]()
            actions += [{"remove": {"index": name, "alias": old}}] if old in aliases else []
            actions += [{"add": {"index": name, "alias": new}}] if index and new not in aliases else []
        if actions:
            self.still_ours()
            self.indices.lead(actions, doing="renaming tables")

    def _moves(self, kept: KeptIndex) -> bool:
        return self._alias(kept.before) != self._alias(kept.after)

    def _begin_again(self, before: TableSchema, schema: TableSchema) -> None:
        name = self.indices.make(self._alias(schema), schema, self.since, aliased=False)
        self._go_over(self.there.get(self._alias(before)), name, self._alias(schema))

    def _go_over(self, old: str | None, new: str, alias: str) -> None:
        """`alias` leads to `new` alone, and `old` is gone."""
        index = self.indices.there([alias]).get(alias)
        if index is not None and index.name == new:
            return
        self.still_ours()
        actions: list[dict[str, Any]] = [{"add": {"index": new, "alias": alias}}]
        self.indices.lead([*actions, {"remove_index": {"index": old}}] if old else actions, doing=f"leading {alias} to {new}")

    # ---- columns ---------------------------------------------------------------------------------------------------------

    def _reshape(self, kept: KeptIndex) -> None:
        alias = self._alias(kept.after)
        index = self.indices.there([alias]).get(alias)
        if index is None:
            raise SinkError(f"{self.indices.session.server}: alias {alias} leads nowhere", hint="bring its index back from a snapshot")
        if index.name == physical(alias, self.since):
            return
        if not kept.reshaped and not kept.added & index.columns and not self._other_fields(kept.after, index):
            self.indices.fit(kept.after, index)
            return
        name = self.indices.make(alias, kept.after, self.since, aliased=False)
        self._copy(index.name, name, kept)
        self._go_over(index.name, name, alias)

    def _other_fields(self, schema: TableSchema, index: IndexThere) -> bool:
        wanted = self.indices.settings.forms.properties(schema, unsigned_long=self.indices.unsigned_long)
        return any(name in index.fields and differs(index.fields[name], field) for name, field in wanted.items())

    def _copy(self, old: str, new: str, kept: KeptIndex) -> None:
        """Every document, with its version; those that are there already stay."""
        session, doing = self.indices.session, f"writing the documents of {kept.after.name} again, from {old} to {new}"
        session.asked(doing, "POST", f"/{quote(old, safe='')}/_refresh")
        body = {
            "source": {"index": old, "size": COPY_ROWS},
            "dest": {"index": new, "version_type": "external"},
            "conflicts": "proceed",
            "script": {"lang": "painless", "source": SCRIPT, "params": {"columns": list(_columns(kept, self.indices.settings.forms))}},
        }
        task: dict[str, Any] | None = None
        while task is None:  # a task is forgotten by a server that starts again
            self.still_ours()
            started = session.asked(doing, "POST", "/_reindex", body, params={"wait_for_completion": "false", "refresh": "true"})
            task = self._ended(started["task"], doing)
        if problem := task.get("error") or task.get("response", {}).get("failures"):
            raise SinkError(
                f"{session.server}: {doing}: {problem}",
                hint="remove the cause; or name the DDL in ddl-anew of the sink's URI and dump the table again",
            )
        session.asked(doing, "POST", f"/{quote(new, safe='')}/_refresh")
        counts = [session.asked(doing, "GET", f"/{quote(name, safe='')}/_count")["count"] for name in (old, new)]
        if counts[0] != counts[1]:
            raise SinkError(
                f"{session.server}: {doing}: {counts[1]} documents of {counts[0]} are there", hint=f"delete index {new}; it is made again"
            )

    def _ended(self, task: str, doing: str) -> dict[str, Any] | None:
        """What a task of the server came to, None for one that it does not know any more."""
        session, wait_s = self.indices.session, POLL_FIRST_S
        while True:
            task_state: dict[str, Any] = session.asked(doing, "GET", f"/_tasks/{task}", ignore=(NOT_FOUND,))
            if "completed" not in task_state:
                return None
            if task_state["completed"]:
                return task_state
            time.sleep(wait_s)
            wait_s = min(wait_s * 2, POLL_MAX_S)


def _columns(kept: KeptIndex, forms: Forms) -> Iterator[dict[str, Any]]:
    before = {column.name: column for column in kept.before.columns}
    for source in kept.sources:
        year = source.name is not None and before[source.name].kind == "year"
        yield {
            "to": source.column.name,
            "name": source.name,
            "absent": _value(source, forms.form(source.column)),
            "how": source.how,
            "digits": source.column.scale if source.how == "scale" else 4 if year else 0,
        }


def _value(source: ColumnSource, form: Form) -> Any:
    """Of a new column, as a document has it."""
    text = source.absent
    if text is None:
        return None
    match form:
        case Form.NUMBER:
            return float(text) if source.column.kind in ("float", "double") else int(text)
        case Form.YEAR:
            return int(text)
        case Form.LABELS:
            return text.split(",") if text else []
        case Form.TEXT:
            return text
        case Form.RAW:
            raise SinkError(f"the default of {source.column.name}, a json, cannot be written", hint="use json=text")
