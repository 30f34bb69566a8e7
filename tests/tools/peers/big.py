"""The table that all are measured on, and the server's counters of what was asked of it.

It is filled before the changefeed starts and outside the binlog, so a dump alone brings its rows. `touched` is the number of the
write that changed the row last, 0 for none: by it a write is found again wherever it arrives.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.support.services.mariadb import MariaDb
from tests.tools.rig.tables import SCHEMA

TABLE = "big"
NAME = f"{SCHEMA}.{TABLE}"
SIGNALS = f"{SCHEMA}.debezium_signal"
ROW_BYTES = 190
"""8 + 4 + 120 + 50 + 8, as the server stores a row's values."""
TEXT_BYTES_MIN = 170
"""What the two texts of a row take wherever they are written out."""
UPDATE = f"update {NAME} set n = n + 1, touched = %s where id = %s"

FILL_ROWS = 50_000
"""A statement: its undo fits the rig's small buffers."""
SETTLE_S_MAX = 120.0
POLL_S = 0.2


def statements(rows: int) -> tuple[str, ...]:
    """Make and fill the table, and the table by which Debezium is told to dump; ids are 1 to `rows`."""
    fills = (
        f"insert into {NAME} select seq, seq % 1000, left(sha2(seq, 512), 120), left(sha2(concat('note', seq), 256), 50), 0"
        f" from {SCHEMA}.seq_{first}_to_{min(first + FILL_ROWS - 1, rows)}"
        for first in range(1, rows + 1, FILL_ROWS)
    )
    return (
        f"create table {NAME} (id bigint not null primary key, n int not null, filler char(120) not null, note char(50) not null,"
        " touched bigint not null)",
        f"create table {SIGNALS} (id varchar(64) not null primary key, type varchar(32) not null, data varchar(2048))",
        "set session sql_log_bin = 0",
        *fills,
        "set session sql_log_bin = 1",
        f"analyze table {NAME}",
    )


def settle(db: MariaDb) -> None:
    """Wait until the server has written what filling left dirty: else it is busy with that while others are measured.
    Raises TimeoutError."""
    ((usual,),) = db.execute("select @@global.innodb_max_dirty_pages_pct")
    db.execute("set global innodb_max_dirty_pages_pct = 0")
    give_up_s = time.monotonic() + SETTLE_S_MAX
    while (dirty := _status(db, "Innodb_buffer_pool_pages_dirty")) > DIRTY_PAGES_IDLE:
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"MariaDB still has {dirty} dirty pages {SETTLE_S_MAX:.0f} s after the table was filled")
        time.sleep(POLL_S)  # the server tells nobody
    db.execute(f"set global innodb_max_dirty_pages_pct = {usual}")


DIRTY_PAGES_IDLE = 50
"""The rig's heartbeat writes a few pages again and again."""


@dataclass(frozen=True, slots=True)
class Queries:
    """What clients have asked of the server since it started. `questions`: statements of every kind."""

    selects: int
    questions: int

    def since(self, before: Queries) -> Queries:
        return Queries(self.selects - before.selects, self.questions - before.questions)


def queries(db: MariaDb) -> Queries:
    return Queries(_status(db, "Com_select"), _status(db, "Questions"))


def _status(db: MariaDb, name: str) -> int:
    ((_, value),) = db.execute(f"show global status like '{name}'")
    return int(value)
