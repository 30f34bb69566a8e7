"""Schema changes of real clusters among the rows of a dump, into a real OpenSearch node, by workers that die: after each schema change its
documents are what the source's rows were at that very moment.

What cannot be followed is refused by name, and goes on by the operator's word: those tables begin anew, and are left out of the judgement.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from sidecar.core.model import CommitTs, TableName
from sidecar.log.manifest import DdlRecord, Manifest
from tests.lanes import LANE
from tests.support.opensearch_place import rows_of, uri_of
from tests.support.recorded_target import Judge, deliver, recorded
from tests.support.replaying import Run, stage
from tests.support.services.opensearch import OpenSearchNode

pytestmark = [pytest.mark.xdist_group("opensearch"), pytest.mark.recordings]

numbers = itertools.count()

CASES = [*itertools.product(["ddl", "ddl-new"], ["watermark", "snapshot"], range(5))]
"""Each kind of change is in tests/integration/test_opensearch_ddl.py as well."""

NOT_FOLLOWED: Mapping[str, tuple[str, ...]] = {
    "truncate partition": ("ledger",),
    "exchange partition": ("ledger", "swap_me"),
}
"""Words of a DDL, and the tables whose rows it moves without a change of theirs."""


class JudgeOfOthers(Judge):
    """Without tables that have begun anew."""

    def _check(self, name: TableName, ts: CommitTs, *, whole: bool) -> None:
        done = [ddl for manifest in self.manifests for ddl in manifest.ddls if ddl.commit_ts <= ts and _words(ddl)]
        if all(name.table not in NOT_FOLLOWED[_words(ddl)] for ddl in done):
            super()._check(name, ts, whole=whole)


def _words(ddl: DdlRecord) -> str:
    return next((words for words in NOT_FOLLOWED if words in ddl.query.lower()), "")


def _anew(manifests: list[Manifest]) -> str:
    return ",".join(str(ddl.commit_ts) for manifest in manifests for ddl in manifest.ddls if _words(ddl))


if LANE.whole:  # test_opensearch_ddl.py has every kind of DDL by itself

    @pytest.mark.parametrize(("name", "brackets", "seed"), CASES)
    def test_after_each_schema_change_the_documents_are_the_sources_rows(
        opensearch: OpenSearchNode, tmp_path: Path, name: str, brackets: str, seed: int
    ) -> None:
        """A dump that begins at any of them, in every other one; from the beginning of the recording to its end."""
        output, made = f"schemas{next(numbers)}", stage(name, "kv")
        run = Run(brackets, seed, chunk_rows=(1000, 20)[seed % 2], after_part=seed % 10 / 11)
        log, manifests = recorded(tmp_path, made, run)
        judge = JudgeOfOthers(made, partial(rows_of, opensearch, output), log, manifests)
        uri = uri_of(opensearch, output, ddl_anew=_anew(manifests))
        assert deliver(tmp_path, uri, seed=seed, deaths=5, after=lambda seq: judge.look(seq) if manifests[seq].ddls else None) > 0
        judge.end()
        assert judge.whole > len(made.tables)
        assert len(judge.ddls) > 10
        opensearch.remove(f"{output}*,position-{output}*")
