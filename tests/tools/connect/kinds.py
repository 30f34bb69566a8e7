"""The readers that are played, and what each cannot take: its own limits, by column of the recordings."""

from __future__ import annotations

from tests.support.recorded_target import Case
from tests.tools.connect import iceberg, jdbc
from tests.tools.connect.readers import Kind

_NO_DAY = "Debezium's JDBC sink binds a time of day: -838:59:59 and 24:00:00 stop it (DateTimeUtils.toLocalTimeFromDurationMicroseconds)"
_DIGITS = "more than 38 digits: not without decimal-handling-mode=string"
_RETYPED = "Debezium's JDBC sink changes no column's type, and PostgreSQL takes no text for an INTEGER"

TIMES = dict.fromkeys(("took", "c_time", "c_time6"), _NO_DAY)
WIDE = {"c_dec65": _DIGITS}

KINDS = (
    Kind("jdbc-mariadb", jdbc.mariadb, {**TIMES, **WIDE}),
    Kind("jdbc-postgres", jdbc.postgres, {**TIMES, **WIDE}, {"cost": _RETYPED}),
    Kind("iceberg", iceberg.enveloped, WIDE),
    Kind("iceberg-flat", iceberg.flattened, WIDE),
    Kind("iceberg-schemaless", iceberg.enveloped, schemas=False),
)

STILL, AMID = Case("shop", "kv", "watermark", 0), Case("ddl", "kv", "watermark", 9)
"""Of the second the dump begins after most of its schema changes: it brings what they made of the rows that nobody wrote since, which is in
no event."""

REMOVED = {AMID.name: frozenset({"bin_pk", "ledger", "swap_me", "uid"})}
"""Tables of a recording of which a DDL removed rows (DROP, TRUNCATE, and those of partitions): no event says so, and they stay with every
reader."""
