"""Recorded streams of real clusters into a real MariaDB: whatever the schedule, whoever dies when, its tables end as the truth.

They are made by the sink itself, from what the log says they were made of, and read back as the source's own reader spells them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sidecar.core.model import MARK_TABLE
from sidecar.errors import SinkError
from sidecar.log.storage import open_folder
from spark_merge.cut import BatchLimits
from spark_merge.delivery import Delivery, JobSettings
from spark_merge.sinks.registry import open_sink
from tests.support.recorded_target import Case, cases, deliver, differences, recorded
from tests.support.replaying import Run, stage
from tests.support.services.mariadb import MariaDb
from tests.support.sinks import Here
from tests.support.sql_place import rows_of, uri_of

pytestmark = [pytest.mark.xdist_group("sql-target"), pytest.mark.recordings]

numbers = itertools.count()

CASES = cases(Case("demo", "open-protocol", "recorded", 0), Case("demo", "kv", "snapshot", 0))


@pytest.fixture
def target(mariadb: MariaDb) -> Iterator[tuple[MariaDb, str]]:
    """A position of its own, and what is made there goes again."""
    before = {name for (name,) in mariadb.execute("SHOW DATABASES")}
    yield mariadb, f"ours{next(numbers)}"
    for (name,) in mariadb.execute("SHOW DATABASES"):
        if name not in before:
            mariadb.execute(f"DROP DATABASE `{name}`")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_tables_end_as_the_truth(target: tuple[MariaDb, str], tmp_path: Path, case: Case) -> None:
    db, position = target
    made, _, _ = case.record(tmp_path)
    uri = uri_of(db, position, create_tables="true", worker_count=str(1 + case.seed % 4), max_txn_row="20")
    assert deliver(tmp_path, uri, seed=case.seed, deaths=5) > 0
    assert not differences(made, partial(rows_of, db))
    assert open_sink(uri, log_id="recorded").look() is not None


def test_a_table_that_somebody_dropped_is_not_made_again_empty(target: tuple[MariaDb, str], tmp_path: Path) -> None:
    """Tables are made while nothing is accepted. After that one would lack the rows that it had."""
    db, position = target
    made = stage("demo", "kv")
    recorded(tmp_path, made, Run("snapshot", 0))
    uri = uri_of(db, position, create_tables="true")

    def delivery() -> Delivery:
        settings = JobSettings(open_folder(str(tmp_path)), limits=BatchLimits(segments_max=1))
        return Delivery(open_sink(uri, log_id="recorded"), settings, Here())

    assert delivery().deliver()
    tables = [table for table in made.tables if table != MARK_TABLE]
    db.execute(*(f"DROP TABLE {table}" for table in tables))
    again = delivery()
    with pytest.raises(SinkError, match="is not at the target"):  # noqa: PT012  # until it meets one
        while again.deliver():
            pass
