"""Who writes to the target and what it has accepted: a journal of ours, because ClickHouse has no compare-and-swap.

    ticdc_dump_position   rows of an owner (epoch, incarnation, token): number 0 claims, 1 repeats what is accepted then, each later accepts

The owner of the output is the greatest owner of any row. What is accepted says the last row (the greatest number) of the greatest owner
that has a row above 0. A token is random, so each owner is written by one worker.

    opening      read: as before? → write the claim → read: but for the claim, as before? → write row 1
    acceptance   read: as before? → write the next row → read: is it the last row, of the greatest owner?

Why a swap that was answered as done is one:
- Of two workers that have read the same, one at most opens. Let both write their claims: the one whose claim becomes visible later reads
  the other's claim, which is not as before. So no two owners have the same epoch and incarnation. (A claim that was not followed up says
  only that its numbers are taken.)
- An acceptance of a replaced owner is counted or fails. Let the later owner read after its claim:
    the row was visible then: what is accepted is not as before, so the later owner reads again, and starts from this row
    the row became visible later: the claim was visible before it, so the read after the row returns the claim, and the acceptance fails
  A row that fails may say what is accepted until the later owner has written its row 1. That is true all the same: its batch is complete.
- A request that arrives late says nothing: its owner, or its number, is not the greatest any more. Twice is once.

A server shows a row from when its insert is answered: this needs one server, not several behind one name. A row of an owner is replaced by
its later ones (ReplacingMergeTree), so the journal has about a row for each owner.

One row belongs to no owner, and is not part of the state: the last segment whose batch has all rows at the target, while the DDLs of its
end may not be carried out. That stays true whichever worker writes it, and however late, so it needs no fence. The greatest number counts.
"""

from __future__ import annotations

import random
import secrets
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

from sidecar.shared.model.nouns import TableName
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.clickhouse.server import NO_DATABASE, NO_TABLE, ClickHouseServer, identifier, literal, quoted
from spark_merge.sinks.kit.position import Missed, OutputState, PositionKeeper, Stored, from_fields, to_fields

TABLE = "ticdc_dump_position"

WAIT_FACTOR = 4.0
"""Of workers that open at once each waits for a random time before it claims again, at most this many times what its claim took: else they
could continue to claim in step."""

_COLUMNS = "epoch, incarnation, token, number, log_id, output, seq, upto_ts, manifest"
_MADE = """CREATE TABLE IF NOT EXISTS {table} (
  epoch Int64, incarnation Int64, token UInt64, number UInt64, log_id String, output String,
  seq Nullable(Int64), upto_ts Nullable(UInt64), manifest String, at DateTime DEFAULT now())
ENGINE = ReplacingMergeTree(number) ORDER BY (epoch, incarnation, token) SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"""


class JournalOwner(NamedTuple):
    """An owner. `token`: differs from that of others of its number, whose claims failed."""

    owner: Owner
    token: int


_NO_OWNER = JournalOwner(Owner(-1, 0), 0)
"""Below every owner."""


@dataclass(frozen=True, slots=True)
class JournalRow:
    """`output`: drawn when the journal began, so that no row of an earlier life of this output is taken for one of this life. Empty in a
    claim."""

    holder: JournalOwner
    number: int
    log_id: str
    output: str
    accepted: Accepted | None


class JournalEnd(NamedTuple):
    """The journal's rows that say the state: `newest` its owner, `settled` what is accepted; None before the first owner's row 1."""

    newest: JournalRow
    settled: JournalRow | None

    def stored(self) -> Stored[None]:
        said = self.settled or self.newest
        return Stored(OutputState(said.log_id, self.newest.holder.owner, said.accepted), self)


class Journal:
    """`PositionStore` in `database`; the version is a JournalEnd. `output`: `JournalRow.output`, as of the last opening that this store
    carried out."""

    def __init__(self, server: ClickHouseServer, database: str) -> None:
        self._server, self._table = server, TableName(database, TABLE)
        self.place = f"{self._table} at {server}"
        self.output = ""

    def read(self) -> Stored[None] | None:
        return self._read("epoch >= 0")

    def compare_and_swap(
        self,
        before: Stored[None] | None,
        after: OutputState[None],
        payload: None = None,  # noqa: ARG002 - the port's
    ) -> Stored[None] | Missed:
        if self.read() != before:
            return Missed.CONFLICT
        if before is None or before.state.owner != after.owner:
            return self._open(before, after)
        return self._accept(before.version, after)

    def is_opened(self) -> bool:
        """Whether a log of ours, whichever, has opened this output."""
        stored = self.read()
        return stored is not None and stored.version.settled is not None

    def written(self, accepted: Accepted | None) -> Accepted | None:
        """The batch after `accepted` that `note_written` has put on record."""
        rows = self._rows(f"epoch = {_NO_OWNER.owner.epoch} AND output = {literal(self.output)}")
        last = rows[0].accepted if rows else None
        return None if last is None or (accepted is not None and last.seq <= accepted.seq) else last

    def note_written(self, last: Accepted, *, log_id: str) -> None:
        """All rows of the batch are at the target, and the DDLs of its end come next."""
        written = last._replace(upto_ts=None)  # readers wait for the greatest upto_ts of this table, as accepted
        self._write(JournalRow(_NO_OWNER, last.seq, log_id, self.output, written), doing="noting that a batch is written")

    # ---- the two swaps -----------------------------------------------------------------------------------------------

    def _open(self, before: Stored[None] | None, after: OutputState[None]) -> Stored[None] | Missed:
        if before is None:
            self._create()
        assert before is None or before.state.owner < after.owner, "an opening brings a later owner"
        start_s, holder, doing = time.monotonic(), JournalOwner(after.owner, secrets.randbits(63)), "becoming the target's writer"
        self._write(JournalRow(holder, 0, after.log_id, "", None), doing=doing)
        epoch, incarnation = after.owner
        if self._read(f"epoch >= 0 AND (epoch, incarnation, token) != ({epoch}, {incarnation}, {holder.token})") != before:
            time.sleep(random.uniform(0, WAIT_FACTOR * (time.monotonic() - start_s)))
            return Missed.CONFLICT
        settled = None if before is None else before.version.settled
        self.output = settled.output if settled else secrets.token_hex(8)
        first = JournalRow(holder, 1, after.log_id, self.output, after.accepted)
        self._write(first, doing=doing)
        return JournalEnd(first, first).stored()

    def _accept(self, before: JournalEnd, after: OutputState[None]) -> Stored[None] | Missed:
        if before.settled is None or before.settled.holder.owner != after.owner:
            return Missed.CONFLICT  # a claim that was not followed up
        row = replace(before.settled, number=before.settled.number + 1, log_id=after.log_id, accepted=after.accepted)
        self._write(row, doing="accepting a batch")
        newest = row if before.newest.holder == row.holder else before.newest
        stored = JournalEnd(newest, row).stored()
        return stored if self.read() == stored else Missed.UNKNOWN

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        hint = f"let the account create tables in {self._table.schema}, or create them for it: deploy/CLICKHOUSE-SINK.md"
        doing = f"making our table {self._table}"
        self._server.run(f"CREATE DATABASE IF NOT EXISTS {quoted(self._table.schema)}", doing=doing, hint=hint)
        self._server.run(_MADE.format(table=identifier(self._table)), doing=doing, hint=hint)

    def _read(self, where: str) -> Stored[None] | None:
        rows = self._rows(where)
        return JournalEnd(rows[0], next((row for row in rows if row.number > 0), None)).stored() if rows else None

    def _rows(self, where: str) -> list[JournalRow]:
        """The last row of the greatest owner, and the last one above 0, newest first; they may be one. In one request, so of one moment."""
        rows = self._server.rows(
            f"SELECT {_COLUMNS} FROM {identifier(self._table)} WHERE {where}"
            " ORDER BY epoch DESC, incarnation DESC, token DESC, number DESC LIMIT 1 BY number > 0",
            doing="reading the position",
            absent=(NO_TABLE, NO_DATABASE),
        )
        return [_row_of(*row) for row in rows or ()]

    def _write(self, row: JournalRow, *, doing: str) -> None:
        (owner, token), (seq, upto_ts, manifest) = row.holder, to_fields(row.accepted)
        values: list[object] = [*owner, token, row.number, literal(row.log_id), literal(row.output)]
        values += ["NULL" if value is None else value for value in (seq, upto_ts)]
        text = ", ".join(map(str, [*values, literal(manifest)]))
        self._server.run(f"INSERT INTO {identifier(self._table)} ({_COLUMNS}) SETTINGS async_insert = 0 VALUES ({text})", doing=doing)


def position_of(journal: Journal, *, log_id: str) -> PositionKeeper[None, None]:
    remedy = (
        "give each changefeed a database of its own in the sink's URI; for a new log of the same one, drop the tables and the position's,"
        f" {TABLE}, and dump again"
    )
    return PositionKeeper(journal, log_id=log_id, remedy=remedy)


def _row_of(
    epoch: int, incarnation: int, token: int, number: int, log_id: str, output: str, seq: int | None, upto_ts: int | None, manifest: str
) -> JournalRow:
    return JournalRow(JournalOwner(Owner(epoch, incarnation), token), number, log_id, output, from_fields(seq, upto_ts, manifest))
