"""Schema changes of real clusters among the rows of a dump, into a real MariaDB, by workers that die: after each batch, and a DDL ends one,
its tables hold what the source's did at that very moment.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.lanes import LANE
from tests.support.recorded_target import Judge, deliver, recorded
from tests.support.replaying import Run, stage
from tests.support.services.mariadb import MariaDb
from tests.support.sql_place import rows_of, uri_of

pytestmark = [pytest.mark.xdist_group("sql-target"), pytest.mark.recordings]

numbers = itertools.count()

WHOLE = [*itertools.product(["ddl", "ddl-new", "binlog-ddl", "binlog-ddl2"], ["watermark", "snapshot"], range(5))]
CASES = WHOLE if LANE.whole else [("ddl", "watermark", 3)]
"""Of binlogs the sidecar is a drainer."""


@pytest.fixture
def target(mariadb: MariaDb) -> Iterator[tuple[MariaDb, str]]:
    """A position of its own, and what is made there goes again."""
    before = {name for (name,) in mariadb.execute("SHOW DATABASES")}
    yield mariadb, f"schemas{next(numbers)}"
    for (name,) in mariadb.execute("SHOW DATABASES"):
        if name not in before:
            mariadb.execute(f"DROP DATABASE `{name}`")


@pytest.mark.parametrize(("name", "brackets", "seed"), CASES)
def test_after_each_schema_change_the_tables_are_the_sources(
    target: tuple[MariaDb, str], tmp_path: Path, name: str, brackets: str, seed: int
) -> None:
    """A dump that begins at any of them, in every other one; from the beginning of the recording to its end."""
    db, position = target
    made = stage(name, "binlog" if name.startswith("binlog") else "kv")
    run = Run(brackets, seed, chunk_rows=(1000, 20)[seed % 2], after_part=seed % 10 / 11)
    judge = Judge(made, partial(rows_of, db), *recorded(tmp_path, made, run))
    uri = uri_of(db, position, create_tables="true", skip_views="true", worker_count=str(1 + seed % 4))
    assert deliver(tmp_path, uri, seed=seed, deaths=5, after=judge.look) > 0
    judge.end()
    assert judge.whole > len(made.tables)
    assert len(judge.ddls) > 10
