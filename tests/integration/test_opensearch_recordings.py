"""Recorded streams of real clusters into a real OpenSearch node: whatever the schedule, whoever dies when, its documents are the truth."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import pytest

from sidecar.log.storage import open_folder
from spark_merge.delivery import Delivery, JobSettings
from spark_merge.sinks.registry import open_sink
from tests.support.opensearch_place import rows_of, uri_of
from tests.support.recorded_target import Case, cases, deliver, differences
from tests.support.services.opensearch import OpenSearchNode
from tests.support.sinks import Here

pytestmark = [pytest.mark.xdist_group("opensearch"), pytest.mark.recordings]

numbers = itertools.count()

CASES = cases(Case("demo", "kv", "snapshot", 0))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_documents_end_as_the_truth(opensearch: OpenSearchNode, tmp_path: Path, case: Case) -> None:
    output = f"ours{next(numbers)}"
    made, _, _ = case.record(tmp_path)
    uri = uri_of(opensearch, output, bulk_rows=str((100, 5000)[case.seed % 2]), refresh=("interval", "accept")[case.seed % 2])
    assert deliver(tmp_path, uri, seed=case.seed, deaths=5) > 0
    assert not differences(made, partial(rows_of, opensearch, output))
    assert Delivery(open_sink(uri, log_id="recorded"), JobSettings(open_folder(str(tmp_path))), Here()).deliver() == []
    opensearch.remove(f"{output}.*,position-{output}")
