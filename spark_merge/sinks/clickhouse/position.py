"""Who writes to the target and what it has accepted: a journal of ours, for ClickHouse has no compare-and-set.

    ticdc_dump_position   rows of an owner (epoch, incarnation, token): number 0 claims, 1 has what was accepted then, each later accepts

- The last owner is the greatest of any row; an owner's token is random, so no two are one. What is accepted says the last row (the
  greatest number) of the greatest owner that has one above 0.
- Open: claim, read back; one that is not the greatest claims again. Then it reads what is accepted and writes that down as its own (1).
- Accept: write the row, read back. One that is not the greatest any more has lost the output, and its row says nothing:
    written before the later owner read, it is in what that one wrote down, and its batch was done: nothing of it is missing or twice;
    written after that, the later owner's claim was there before, so it is read back, and this accept fails.
- A server shows a row from when its insert is answered: one server, not several behind one name.
- A row of an owner is replaced by its later ones (ReplacingMergeTree), so the journal has about a row an owner.
- One row belongs to no owner: the last segment whose batch has all rows at the target, while the DDLs of its end may not be carried out.
  That stays true whichever worker writes it, and however late. So it needs no fence, and the greatest number counts.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import NamedTuple

from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.errors import OwnershipLost
from spark_merge.contract import Accepted, Owner
from spark_merge.sinks.clickhouse.server import NO_DATABASE, NO_TABLE, Server, identifier, literal, quoted
from spark_merge.sinks.fence import check_log, check_next

TABLE = "ticdc_dump_position"

OPEN_TRIES = 20
"""Workers that open at once: each that loses claims again, above all that it has seen."""

_COLUMNS = "epoch, incarnation, token, number, log_id, output, seq, upto_ts, manifest"
_MADE = """CREATE TABLE IF NOT EXISTS {table} (
  epoch Int64, incarnation Int64, token UInt64, number UInt64, log_id String, output String,
  seq Nullable(Int64), upto_ts Nullable(UInt64), manifest String, at DateTime DEFAULT now())
ENGINE = ReplacingMergeTree(number) ORDER BY (epoch, incarnation, token) SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"""
_NEWEST = "ORDER BY epoch DESC, incarnation DESC, token DESC, number DESC LIMIT 1"
_LATER = "nothing: it has a later owner"


class Holder(NamedTuple):
    """An owner, told from others of its number by `token`."""

    owner: Owner
    token: int


_NO_OWNER = Holder(Owner(-1, 0), 0)
"""Below every owner."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row. `output`: drawn when the journal began, so that nothing of a former life of this output is taken for this one's."""

    holder: Holder
    number: int
    log_id: str
    output: str
    accepted: Accepted | None


class Position:
    """One thread."""

    def __init__(self, server: Server, database: str, *, log_id: str) -> None:
        self._server, self._log_id = server, log_id
        self._table = TableName(database, TABLE)
        self._mine: Entry | None = None

    def look(self) -> Accepted | None:
        """Raises SinkError for another log's output."""
        found = self._settled()
        return found.accepted if found else None

    def is_there(self) -> bool:
        """Whether a log of ours, whichever, has opened this output."""
        return self._newest("number > 0") is not None

    def open(self, epoch: int | None) -> Entry:
        """As the next owner. Raises OwnershipLost if a later epoch is there, SinkError."""
        if self._settled() is None:
            self._make()
        holder = self._claim(epoch)
        base = self._settled()
        output = base.output if base else secrets.token_hex(8)
        self._mine = Entry(holder, 1, self._log_id, output, base.accepted if base else None)
        self._write(self._mine, doing="becoming the target's writer")
        return self._mine

    def written(self) -> Accepted | None:
        """What `wrote` has put on record and no owner has accepted yet."""
        found, accepted = self._newest(_of_no_owner(self._own().output)), self._own().accepted
        if found is None or found.accepted is None or (accepted is not None and found.accepted.seq <= accepted.seq):
            return None
        return found.accepted

    def wrote(self, last: Accepted, *, first: Seq) -> None:
        """All rows of the batch are at the target, and the DDLs of its end come next. Raises as `accept`."""
        self.check()
        mine = self._own()
        check_next(self._table, mine.accepted and mine.accepted.seq, first)
        written = last._replace(upto_ts=None)  # readers wait for the greatest upto_ts of this table, as accepted
        entry = Entry(_NO_OWNER, last.seq, self._log_id, mine.output, written)
        self._write(entry, doing="noting that a batch is written")

    def check(self) -> None:
        """Raises OwnershipLost for a former owner."""
        last, mine = self._newest("1"), self._own()
        if last is None or last.holder != mine.holder:
            raise OwnershipLost(
                f"the target has owner {tuple(last.holder.owner) if last else 'none'}, this is {tuple(mine.holder.owner)}", hint=_LATER
            )

    def accept(self, accepted: Accepted, *, first: Seq) -> None:
        """Raises OwnershipLost, SinkError for a gap or a step back; then nothing is accepted."""
        self.check()
        mine = self._own()
        check_next(self._table, mine.accepted and mine.accepted.seq, first)
        after = replace(mine, number=mine.number + 1, accepted=accepted)
        self._write(after, doing="accepting a batch")
        self.check()
        self._mine = after

    def _own(self) -> Entry:
        assert self._mine is not None, "open comes first"
        return self._mine

    # ---- steps -----------------------------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        hint = f"let the account create tables in {self._table.schema}, or create them for it: deploy/CLICKHOUSE-SINK.md"
        doing = f"making our table {self._table}"
        self._server.run(f"CREATE DATABASE IF NOT EXISTS {quoted(self._table.schema)}", doing=doing, hint=hint)
        self._server.run(_MADE.format(table=identifier(self._table)), doing=doing, hint=hint)

    def _claim(self, epoch: int | None) -> Holder:
        for _ in range(OPEN_TRIES):
            last = self._newest("1")
            owner = Owner.after(last.holder.owner if last else None, epoch, of=f"the target of {self._table}")
            holder = Holder(owner, secrets.randbits(63))
            self._write(Entry(holder, 0, self._log_id, "", None), doing="becoming the target's writer")
            last = self._newest("1")
            if last is not None and last.holder == holder:
                return holder
        raise OwnershipLost(f"other workers open the target of {self._table} again and again", hint=_LATER)

    def _settled(self) -> Entry | None:
        """What says what is accepted. Raises SinkError for another log's."""
        found = self._newest("number > 0")
        if found is not None:
            check_log(
                f"{self._table} at {self._server}",
                found.log_id,
                self._log_id,
                hint="give each changefeed a database of its own in the sink's URI; for a new log of the same one, drop the tables,"
                f" DROP TABLE {self._table}, and dump again",
            )
        return found

    def _newest(self, where: str) -> Entry | None:
        rows = self._server.rows(
            f"SELECT {_COLUMNS} FROM {identifier(self._table)} WHERE {where} {_NEWEST}",
            doing="reading the position",
            absent=(NO_TABLE, NO_DATABASE),
        )
        if not rows:
            return None
        ((epoch, incarnation, token, number, log_id, output, seq, upto_ts, manifest),) = rows
        accepted = None if seq is None else Accepted(Seq(seq), None if upto_ts is None else CommitTs(upto_ts), manifest)
        return Entry(Holder(Owner(epoch, incarnation), token), number, log_id, output, accepted)

    def _write(self, entry: Entry, *, doing: str) -> None:
        """Twice is once."""
        (owner, token), accepted = entry.holder, entry.accepted
        seq, upto_ts, manifest = (None, None, "") if accepted is None else accepted
        values: list[object] = [*owner, token, entry.number, literal(entry.log_id), literal(entry.output)]
        values += ["NULL" if value is None else value for value in (seq, upto_ts)]
        text = ", ".join(map(str, [*values, literal(manifest)]))
        self._server.run(f"INSERT INTO {identifier(self._table)} ({_COLUMNS}) SETTINGS async_insert = 0 VALUES ({text})", doing=doing)


def _of_no_owner(output: str) -> str:
    return f"epoch = {_NO_OWNER.owner.epoch} AND output = {literal(output)}"
