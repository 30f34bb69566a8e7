"""The row of our table at a SQL target, and the state that it holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.kit.position import OutputState
from spark_merge.sinks.mysql.position import SinkRow, SqlBatch, Underway

LOG = "default/feed 1#ab"


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (
            (LOG, 3, 4, 5, (1 << 63) - 1, "id", '{"last":6,"workers":16,"keys":"k","written":true}', '{"seq":6}'),
            OutputState(
                LOG, Owner(3, 4), Accepted(Seq(5), CommitTs((1 << 63) - 1), "id"), Underway(SqlBatch(Seq(6), 16, "k", True), '{"seq":6}')
            ),
        ),
        ((LOG, 0, 1, None, None, "", None, None), OutputState(LOG, Owner(0, 1))),
        ((LOG, 3, 4, 5, None, "", None, None), OutputState(LOG, Owner(3, 4), Accepted(Seq(5)))),
        (
            (LOG, 3, 4, None, None, "", '{"last":6,"workers":2,"keys":""}', None),
            OutputState(LOG, Owner(3, 4), None, Underway(SqlBatch(Seq(6), 2, ""))),
        ),
    ],
    ids=["a DDL is carried out", "opened", "accepted by 0.1, which kept the segment alone", "begun by 0.1"],
)
def test_a_row_that_0_4_or_before_wrote_is_read(row: tuple[object, ...], state: OutputState[Underway]) -> None:
    assert SinkRow(*row).state() == state  # type: ignore[arg-type]  # as the driver gives it


def test_what_is_written_is_read() -> None:
    state = OutputState(LOG, Owner(3, 4), Accepted(Seq(5), CommitTs(7), "id"), Underway(SqlBatch(Seq(6), 16, "k"), "a DDL"))
    for one in (state, replace(state, accepted=None, detail=None)):
        assert SinkRow.of(one).state() == one
