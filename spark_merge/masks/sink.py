"""The view: any sink, which sees tables and rows as its column rules have them.

    log ─► plan: heads with masked tables ─► the sink's own batch ─► in tasks: portions, masked ─► the sink's own writer

- Tasks read and merge what the log has, so a batch keeps the log's own tables. The sink sees the masked ones, in `plan`, tasks and
  `accept`.
- The salt is read where rows are masked, by each task from a file of its host.
- A table without a mask passes through, its messages as TiCDC wrote them too.
- Optional parts of a sink's port are the view's own where the sink has them, so that who looks for one sees it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from spark_merge.masks.changes import check_changes
from spark_merge.masks.rows import masked_pieces, masked_rows
from spark_merge.masks.rules import ColumnRules
from spark_merge.masks.salt import identity_of, read_salt
from spark_merge.masks.tables import MaskedTable, masked_table
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Piece, Portion, Sink, Standing, Task, Writer
from spark_merge.port.readable import Readable, Reading, RowForm

TABLES_KEPT_MAX = 50_000
"""Tables that a process remembers: a DDL makes new ones of all."""

_OPTIONAL = ("certify", "gather_s", "check_places", "small_files")
"""Of Certifies, Gathers and KeepsTables (port/contract.py), and CountsFiles (port/maintained.py)."""


@dataclass(frozen=True, slots=True)
class Masking:
    """What a sink's URI says. Picklable, and without the salt. `statements`: the target carries out TiDB's own, but those of `done`.
    `salt_identity`: of the driver's salt."""

    rules: ColumnRules
    salt_file: str = ""
    salt_identity: str = ""
    statements: bool = False
    done: frozenset[CommitTs] = frozenset()

    @classmethod
    def of(cls, rules: ColumnRules, salt_file: str, *, statements: bool = False, done: frozenset[CommitTs] = frozenset()) -> Masking:
        """`salt_file` is empty for none. Raises SinkError as `read_salt`."""
        return cls(rules, salt_file, identity_of(read_salt(salt_file)) if salt_file else "", statements, done)

    @property
    def identity(self) -> str:
        """Equal for equal rules and salts; says nothing of either."""
        masks = [(mask.kind.value, mask.rule, mask.text) for mask in self.rules.masks]
        return hashlib.sha256(json.dumps([masks, self.salt_identity]).encode()).hexdigest()

    def opened(self) -> OpenMasking:
        """Raises SinkError as `read_salt`, and for another salt than the driver's."""
        salt = read_salt(self.salt_file) if self.salt_file else b""
        if salt and identity_of(salt) != self.salt_identity:
            raise SinkError(
                f"salt-file {self.salt_file} of this host has another salt than that with which the sink was opened",
                hint="put the same file on every host, then restart",
            )
        return OpenMasking(self, salt)


class OpenMasking:
    """In one process, with the salt."""

    def __init__(self, masking: Masking, salt: bytes) -> None:
        self._masking, self._salt = masking, salt
        self._tables: dict[int, tuple[TableSchema, MaskedTable | None]] = {}

    def table(self, schema: TableSchema) -> MaskedTable | None:
        """None: nothing of it is masked. Raises SinkError for a rule that the table does not allow."""
        known = self._tables.get(id(schema))
        if known is None:
            if len(self._tables) >= TABLES_KEPT_MAX:
                self._tables.clear()
            known = self._tables[id(schema)] = schema, self._made(schema)
        return known[1]

    def schema(self, schema: TableSchema) -> TableSchema:
        return schema if (table := self.table(schema)) is None else table.schema

    def heads(self, heads: Sequence[Head]) -> tuple[Head, ...]:
        """Mappings that are one stay one: a head whose tables do not change has them twice. Raises SinkError also for a schema change that
        cannot be followed."""
        mappings = {id(one): one for head in heads for one in (head.schemas, head.next_schemas)}
        shown = {place: self._schemas(one) for place, one in mappings.items()}
        for head in heads:
            if head.next_schemas is not head.schemas or head.ddls:
                with _of_the_sink():
                    check_changes(head, self._masking.rules, statements=self._masking.statements, done=self._masking.done)
        return tuple(replace(head, schemas=shown[id(head.schemas)], next_schemas=shown[id(head.next_schemas)]) for head in heads)

    def portion(self, portion: Portion, codec: str) -> Portion:
        if (table := self.table(portion.schema)) is None:
            return portion
        return replace(portion, schema=table.schema, pieces=self._pieces(table, portion.pieces, codec))

    def rows(self, table: MaskedTable, rows: pa.Table) -> pa.Table:
        return masked_rows(table, rows, self._salt)

    def _pieces(self, table: MaskedTable, pieces: Iterator[Piece], codec: str) -> Iterator[Piece]:
        for piece in pieces:
            yield from masked_pieces(table, piece, self._salt, codec=codec)

    def _schemas(self, schemas: Mapping[TableName, TableSchema]) -> dict[TableName, TableSchema]:
        return {name: self.schema(schema) for name, schema in schemas.items()}

    def _made(self, schema: TableSchema) -> MaskedTable | None:
        with _of_the_sink():
            masks = self._masking.rules.of(schema)
            return masked_table(schema, masks, self._salt, statements=self._masking.statements) if masks else None


@contextmanager
def _of_the_sink() -> Iterator[None]:
    """A rule that a table does not allow stops this sink, and delays no other."""
    try:
        yield
    except ConfigError as error:
        raise SinkError(error.message, hint=error.hint) from error


@dataclass(frozen=True, slots=True)
class MaskingWriter:
    """The sink's own writer, which receives masked portions. `codecs`: of the segments' messages."""

    writer: Writer
    masking: Masking
    codecs: Mapping[Seq, str]

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        opened = self.masking.opened()
        return self.writer(task, (opened.portion(portion, self.codecs[portion.unit.seq]) for portion in portions))


@dataclass(frozen=True, slots=True)
class MaskedForm:
    """`RowForm`: of the source's rows of `schema`. `form`: the sink's own."""

    masking: Masking
    schema: TableSchema
    form: RowForm | None

    def __call__(self, rows: pa.Table) -> pa.Table:
        opened = self.masking.opened()
        if (table := opened.table(self.schema)) is not None:
            rows = opened.rows(table, rows)
        return rows if self.form is None else self.form(rows)


class MaskedSink:
    """`Sink`. Each call raises as the sink's own."""

    def __init__(self, sink: Sink, masking: Masking) -> None:
        self._sink, self._masking = sink, masking
        self._opened: OpenMasking | None = None
        self.rules_identity = masking.identity
        for name in _OPTIONAL:
            if hasattr(sink, name):
                setattr(self, name, getattr(sink, name))

    def look(self) -> Accepted | None:
        return self._sink.look()

    def open(self, *, epoch: int | None) -> Standing:
        self._opened = self._masking.opened()
        return self._sink.open(epoch=epoch)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        batch = self._sink.plan(self._masked(heads), cores=cores)
        codecs = {head.seq: head.manifest.codec for head in heads}
        return Batch(tuple(heads[: len(batch.heads)]), batch.stages, MaskingWriter(batch.writer, self._masking, codecs))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        assert isinstance(batch.writer, MaskingWriter), "plan has made it"
        self._sink.accept(Batch(self._masked(batch.heads), batch.stages, batch.writer.writer), outcomes)

    def close(self) -> None:
        self._sink.close()

    def _masked(self, heads: Sequence[Head]) -> tuple[Head, ...]:
        assert self._opened is not None, "open comes first"
        return self._opened.heads(heads)


class ReadableMaskedSink(MaskedSink):
    """`Readable`: of a sink that is."""

    def __init__(self, sink: Sink, reader: Readable, masking: Masking) -> None:
        super().__init__(sink, masking)
        self._reader, self.finds_keys = reader, reader.finds_keys

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:
        table = self._masking.opened().table(schema)
        if table is None:
            return self._reader.reading(schema, parts=parts, keys=keys)
        reading = self._reader.reading(table.schema, parts=parts, keys=keys)
        return replace(reading, form=MaskedForm(self._masking, schema, reading.form), schema=table.schema)


def masked(sink: Sink, masking: Masking) -> Sink:
    """A view of the sink."""
    return ReadableMaskedSink(sink, sink, masking) if isinstance(sink, Readable) else MaskedSink(sink, masking)
