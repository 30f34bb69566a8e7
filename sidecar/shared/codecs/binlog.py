"""TiDB-Binlog as a protocol: a transaction as a pump streams it, and what the log keeps of each of its rows.

    transaction, fake   value   a Binlog (proto/ticdc_dump/binlog/binlog.proto), which begins with its tp: 08
    resolved, DDL       value   as of raw key-values (codecs/kv.py): R and a ts, D and JSON; made by the feed
    in the log: Change.key empty, Change.value the event (rowcodec/binlog_event.py: ordinal, kind, schema_version, the row's bytes)

- A transaction's Binlog has a PrewriteValue {schema_version, mutations}, with a TableMutation a table; `sequence` says in which order rows
  are to be taken from inserted, updated and deleted ones. It has no order between tables.
- What a pump streams rises in commit_ts, so that each Binlog resolves its lane. A fake, of which start_ts is commit_ts, does nothing else.
- The table of a row is not known here: until the feed names it, the schema is empty and the table is the logical table id, as text.
- Rows of one TableMutation may be changes of one row; which are, only the table's handle shows (rowcodec/binlog_fold.py). Those that cannot
  be have a capital letter as their kind: all rows are new, or all are gone, or there is but one.
- DDL binlogs hold no table: the feed puts a DDL message in their place. One that comes here is refused.

Source: pingcap/tipb proto/binlog, pingcap/tidb-binlog drainer/translator/sequence_iterator.go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from hashlib import blake2b

from google.protobuf.message import DecodeError

from sidecar.shared.codecs.contract import IDENTITY_BYTES
from sidecar.shared.codecs.kv import ddl_or_resolved, mark_of
from sidecar.shared.codecs.refusals import not_a_mark
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Mark, Message, Rank, Resolved
from sidecar.shared.rowcodec.binlog_event import DELETE, INSERT, MAYBE_REPEATED, UPDATE, event_value
from sidecar.shared.rowcodec.binlog_row import decode_event
from sidecar.shared.rowcodec.binlog_table import BinlogTable
from sidecar.shared.rowcodec.kv_table import KvTable
from ticdc_dump.binlog.binlog_pb2 import Binlog, Commit, DeleteRow, Insert, PrewriteValue, TableMutation, Update

CODEC = "binlog"

_HINT = (
    "report it with the pump's answer (http://<pump>/debug/binlog/<commit_ts> shows it): the binlog is damaged, or of a TiDB that this "
    "ticdc-dump does not know"
)
_MADE_HERE = (b"R", b"D")
"""What the messages begin with that the feed made. No Binlog does: a Go sender writes its first field always."""

_SHOWN_TABLES_MAX = 20

_PUT, _DELETE = Rank.PUT, Rank.DELETE


@dataclass(frozen=True, slots=True)
class BinlogCodec:
    """`mark_table`: what decodes the watermark table's rows; called at each mark."""

    mark_table: Callable[[], KvTable]

    @property
    def name(self) -> str:
        return CODEC

    def envelopes(self, message: Message) -> list[Envelope]:
        value = message.value
        if value is None:
            raise _unreadable(message, "a value", "null")
        if value[:1] in _MADE_HERE:
            return [ddl_or_resolved(message, value)]
        commit_ts, prewrite = _transaction(message, value)
        envelopes: list[Envelope] = []
        for mutation in prewrite.mutations:
            envelopes += _changes(message, commit_ts, prewrite.schema_version, mutation, len(envelopes))
        envelopes.append(Resolved(message.lane, CommitTs(commit_ts + 1), message.position))
        return envelopes

    def identity(self, change: Change) -> Hashable:
        """Two pumps may have one transaction: its events are equal, with their ordinals, and no two of one transaction are."""
        return blake2b(change.table.encode() + change.value, digest_size=IDENTITY_BYTES).digest()

    def mark(self, change: Change) -> Mark | None:
        if change.rank is _DELETE:
            return None
        table = self.mark_table()
        try:
            row = decode_event(BinlogTable(table), change.value).after
            if row is None:
                raise ValueError("the deletion of a row")
            return mark_of(change.commit_ts, table, row)
        except (MessageUnreadable, ValueError, KeyError) as error:
            raise not_a_mark(change, error) from error


def _transaction(message: Message, value: bytes) -> tuple[CommitTs, PrewriteValue]:
    """Its commit_ts and its rows, of which a fake has none."""
    try:
        binlog = Binlog.FromString(value)
        prewrite = PrewriteValue.FromString(binlog.prewrite_value)
    except DecodeError as error:
        raise _unreadable(message, "a Binlog with a PrewriteValue", f"{len(value)} bytes that are none ({error})") from error
    commit_ts = CommitTs(binlog.commit_ts)
    if commit_ts <= 0:
        raise _unreadable(message, "a commit_ts", str(commit_ts))
    if binlog.start_ts == commit_ts:
        if prewrite.mutations:
            raise _unreadable(message, "no rows in a fake binlog", f"rows of {len(prewrite.mutations)} tables")
    elif binlog.tp != Commit or binlog.ddl_job_id:
        job = f" of DDL job {binlog.ddl_job_id}" if binlog.ddl_job_id else ""
        raise _unreadable(message, "the Commit of a transaction with rows", f"type {binlog.tp}{job}, start_ts {binlog.start_ts}")
    tables = [mutation.table_id for mutation in prewrite.mutations]
    if len(tables) != len(set(tables)):
        raise _unreadable(message, "one TableMutation a table", f"those of tables {tables[:_SHOWN_TABLES_MAX]}")
    return commit_ts, prewrite


def _changes(message: Message, commit_ts: CommitTs, schema_version: int, mutation: TableMutation, ordinal: int) -> list[Change]:
    """The rows of one table, in order; the first one is number `ordinal` of the transaction."""
    inserted, updated, deleted = mutation.inserted_rows, mutation.updated_rows, mutation.deleted_rows
    counts = len(inserted), len(updated), len(deleted)
    sequence = mutation.sequence
    by_kind = tuple(map(list(sequence).count, (Insert, Update, DeleteRow)))
    if by_kind != counts or len(sequence) != sum(counts) or mutation.deleted_ids or mutation.deleted_pks:
        obsolete = len(mutation.deleted_ids) + len(mutation.deleted_pks)
        raise _unreadable(
            message,
            f"a sequence of {counts} inserts, updates and deletes of table {mutation.table_id}",
            f"one of {by_kind}, {obsolete} obsolete",
        )
    repeated = MAYBE_REPEATED if len(updated) > 1 or sum(map(bool, counts)) > 1 else 0
    rows = {
        Insert: (INSERT | repeated, _PUT, iter(inserted)),
        Update: (UPDATE | repeated, _PUT, iter(updated)),
        DeleteRow: (DELETE | repeated, _DELETE, iter(deleted)),
    }
    table, lane, position = str(mutation.table_id), message.lane, message.position
    changes = []
    for number, of in enumerate(sequence, ordinal):
        kind, rank, left = rows[of]
        value = event_value(number, kind, schema_version, next(left))
        changes.append(Change(commit_ts, rank, "", table, b"", value, lane, position))
    return changes


def _unreadable(message: Message, form: str, value: str) -> MessageUnreadable:
    return MessageUnreadable(f"{message.at()}: expected {form}; got {value}", hint=_HINT)
