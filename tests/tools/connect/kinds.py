"""The readers that are played, and what each cannot take: its own limits, by column of the recordings."""

from __future__ import annotations

from tests.tools.connect import iceberg, jdbc
from tests.tools.connect.readers import Kind

_NO_DAY = "Debezium's JDBC sink binds a time of day: -838:59:59 and 24:00:00 stop it (DateTimeUtils.toLocalTimeFromDurationMicroseconds)"
_DIGITS = "more than 38 digits"

TIMES = dict.fromkeys(("took", "c_time", "c_time6"), _NO_DAY)
WIDE = {"c_dec65": _DIGITS}

KINDS = (
    Kind("jdbc-mariadb", jdbc.mariadb, {**TIMES, **WIDE}),
    Kind("jdbc-postgres", jdbc.postgres, {**TIMES, **WIDE}),
    Kind("iceberg", iceberg.enveloped, WIDE),
    Kind("iceberg-flat", iceberg.flattened, WIDE),
    Kind("iceberg-schemaless", iceberg.enveloped, schemas=False),
)
