"""Actions of statements, against TiDB's own jobs in the recordings and by hand."""

from __future__ import annotations

import json

import pytest

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.schema.ddl import Action
from sidecar.shared.ticdc.ddl_text import action_of
from tests.support.recordings import recording


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["ddl", "ddl-new"])
def test_each_recorded_job_has_the_action_that_its_text_reports(name: str) -> None:
    lines = (recording(name) / "schema" / "ddl_history.jsonl").read_text().splitlines()
    jobs = [json.loads(json.loads(line)["job_meta"]) for line in lines]
    judged = [job for job in jobs if job["query"]]
    assert len(judged) > 150
    for job in judged:
        # TiCDC makes a message a table of it, each a rename of one
        expected = Action.RENAME_TABLE if job["type"] == Action.RENAME_TABLES else Action(job["type"])
        assert action_of(job["query"]) is expected, job["query"]


@pytest.mark.parametrize("query", ["", "CREATE"])
def test_what_is_no_schema_change_is_refused_by_its_text(query: str) -> None:
    with pytest.raises(UnsupportedDdl, match="is not known"):
        action_of(query)
