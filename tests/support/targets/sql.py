"""The SQL sink into a real MariaDB: its tables are made by the sink itself, and read back by the sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lanes import LANE
from tests.support.read_back import read_back
from tests.support.recorded_target import Case
from tests.support.services.mariadb import MariaDb
from tests.support.sql_place import uri_of
from tests.support.targets.target import Place, RecordedSink, Target, after_ddls, after_each, numbers


@contextmanager
def target(place: Place) -> Iterator[Target]:
    """A position of its own, and what is made there is removed."""
    db: MariaDb = place.server
    before = {name for (name,) in db.execute("SHOW DATABASES")}
    seed, position = place.case.seed, f"recorded{next(numbers)}"
    how = {"skip_views": "true"} if place.amid_schema_changes else {"max_txn_row": "20"}
    uri = uri_of(db, position, create_tables="true", worker_count=str(1 + seed % 4), **how)
    looks = after_each if LANE.whole else after_ddls
    try:
        yield Target(uri, read_back(uri), looks=looks, drop=lambda name: db.execute(f"DROP TABLE {name}"))
    finally:
        for (name,) in db.execute("SHOW DATABASES"):
            if name not in before:
                db.execute(f"DROP DATABASE `{name}`")


SQL = RecordedSink(
    "sql",
    target,
    still=[Case("demo", "open-protocol", "recorded", 0), Case("demo", "kv", "snapshot", 0)],
    amid=[Case("ddl", "kv", "watermark", 3)],
    server="mariadb",
    group="sql-target",
    ddl_names=("ddl", "ddl-new", "binlog-ddl", "binlog-ddl2"),
)
"""Of binlogs the sidecar is a drainer."""
