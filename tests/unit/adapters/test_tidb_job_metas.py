"""DDL jobs by their ids: over or not, and all that are over, page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.adapters.tidb import job_metas
from sidecar.adapters.tidb.job_metas import JobMetas
from sidecar.shared.model.nouns import TableName
from sidecar.shared.schema.ddl import Action
from tests.support.services.fake_tidb import FakeJob, FakeTidb

ORDERS = TableName("shop", "orders")
SYNCED, DONE, RUNNING = 6, 4, 1


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as made:
        made.now_ts = 1000
        made.job_list = [FakeJob(number, ORDERS, Action.ADD_COLUMN, 100, 200, 300) for number in (70, 71, 72)]
        made.job_list += [FakeJob(73, ORDERS, Action.ADD_COLUMN, 100, 200, None), FakeJob(74, ORDERS, Action.ADD_COLUMN, 100, 2000, None)]
        yield made


def test_a_job_is_found_wherever_it_is(tidb: FakeTidb) -> None:
    metas = JobMetas(tidb.settings())
    result = {number: metas.of(number) for number in (71, 73, 74, 99)}
    states = {number: None if meta is None else json.loads(meta)["state"] for number, meta in result.items()}
    assert states == {71: SYNCED, 73: DONE, 74: RUNNING, 99: None}


def test_all_that_are_over_come_by_id(tidb: FakeTidb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_metas, "PAGE", 2)
    assert [number for number, _ in JobMetas(tidb.settings()).history()] == [70, 71, 72]
