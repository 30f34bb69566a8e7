"""The Iceberg sink at a SQL catalog that is a server (MariaDB), in the matrix lane. The catalog of every other test is a file of SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from spark_merge.sinks.iceberg import sink as iceberg
from spark_merge.testing.places import Place
from spark_merge.testing.story import Story
from tests.contract.iceberg_catalogs import CatalogPort, fresh
from tests.contract.test_iceberg_merge import story_of
from tests.lanes import LANE
from tests.support.lake import lake_place
from tests.support.merged_lake import merged_place
from tests.support.services.mariadb import MariaDb

pytestmark = pytest.mark.xdist_group("iceberg")

ANSWER_S = 10
"""As a SQL catalog is told it: by its driver's own parameters."""

if LANE.whole:

    @pytest.fixture(scope="module")
    def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
        with MariaDb(tmp_path_factory.mktemp("catalog")) as maria_db:
            maria_db.execute("CREATE DATABASE catalog")
            yield maria_db

    @pytest.fixture
    def catalog(server: MariaDb) -> MariaDb:
        if not server.runs:
            server.start()
        return server

    @pytest.fixture(autouse=True)
    def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(iceberg, "LIVE_PART_ROWS", 2)

    def at(catalog: MariaDb, folder: Path) -> str:
        account = f"{catalog.user}:{quote(catalog.password, safe='')}@{catalog.host}:{catalog.port}"
        timeouts = f"connect_timeout={ANSWER_S}&read_timeout={ANSWER_S}&write_timeout={ANSWER_S}"
        uri = quote(f"mysql+pymysql://{account}/catalog?{timeouts}", safe="")
        return fresh(f"{uri}&type=sql&warehouse={folder}/warehouse")

    class TestMySql(CatalogPort):
        @pytest.fixture
        def place(self, catalog: MariaDb, tmp_path: Path) -> Place:
            return lake_place(at(catalog, tmp_path))

    class TestMySqlMerged(TestMySql):
        """The same of tables as they are."""

        @pytest.fixture
        def place(self, catalog: MariaDb, tmp_path: Path) -> Place:
            return merged_place(at(catalog, tmp_path) + "&mode=merge")

        @pytest.fixture
        def story(self, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> Story:
            return story_of(tmp_path, place, monkeypatch)
