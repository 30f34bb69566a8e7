"""Unique values that wander between rows in any order, with a dump amid them and rows of an earlier copy at the target: it ends as the
source, whoever dies when, and no reader sees a row go back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sidecar.shared.log.storage import open_folder
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.merge.cut import BatchLimits
from spark_merge.sinks.mysql import writer
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Here
from spark_merge.testing.story import Died, Mortal, WorkerLife
from tests.lanes import LANE
from tests.support.services.mariadb import MariaDb
from tests.support.sql_place import rows_of, uri_of
from tests.support.wandering import CREATE, SCHEMA, TABLE, Row, reported

pytestmark = pytest.mark.xdist_group("sql-target")

SEEDS = range(200 if LANE.whole else 8)


@pytest.fixture
def db(mariadb: MariaDb) -> Iterator[MariaDb]:
    drop = ("DROP DATABASE IF EXISTS wandering", "DROP DATABASE IF EXISTS wandering_pos")
    mariadb.execute(*drop, f"CREATE DATABASE {TABLE.schema}", CREATE)
    yield mariadb
    mariadb.execute(*drop)


class Reader:
    """Who looks now and then."""

    def __init__(self, db: MariaDb) -> None:
        self._db = db
        self._seen: dict[int, int] = {}

    def look(self) -> set[tuple[str | None, ...]]:
        rows = rows_of(self._db, SCHEMA)
        for row in rows:
            key, version = int(row[0] or 0), int(row[3] or 0)
            assert version >= self._seen.get(key, 0), f"row {key} goes back from {self._seen[key]} to {version}"
            self._seen[key] = version
        return set(rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_target_ends_as_the_source(db: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """In every third one commits are too long to be held; in every fourth deletes tell the handle key alone."""
    monkeypatch.setattr(writer, "COMMIT_ROWS_MAX", 2 if seed % 3 == 0 else 1000)
    log, rng = open_folder(str(tmp_path)), Random(seed)
    source = reported(seed, log)
    for row in source.stale.values():
        _insert(db, row)
    uri = uri_of(db, "wandering_pos", worker_count=str(1 + seed % 4), max_txn_row=str(rng.choice([1, 3, 50])))
    reader, died = Reader(db), 0
    while True:
        life = WorkerLife(rng.randrange(2, 12) if died < 4 else -1)
        try:
            settings = JobSettings(log, limits=BatchLimits(segments_max=rng.choice([1, 2, 9])))
            delivery = Delivery(Mortal(open_sink(uri, log_id="w"), life), settings, Here(before=life.step))
            while delivery.deliver():
                reader.look()
            break
        except Died:
            died += 1
            reader.look()
    assert reader.look() == {tuple(None if value is None else str(value) for value in row) for row in source.rows.values()}


def _insert(db: MariaDb, row: Row) -> None:
    with db.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {TABLE} VALUES (%s, %s, %s, %s)", row)
