"""The rows of ClickHouse's journal, and the state that they say."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.clickhouse.position import Journal
from spark_merge.sinks.clickhouse.server import ClickHouseServer
from spark_merge.sinks.kit.position import OutputState

LOG = "default/feed 1#ab"
TS = (1 << 63) - 1


@pytest.mark.parametrize(
    ("rows", "state", "opened"),
    [
        ([], None, False),
        ([[3, 1, 77, 0, LOG, "", None, None, ""]], OutputState(LOG, Owner(3, 1)), False),
        ([[3, 1, 77, 1, LOG, "0123456789abcdef", None, None, ""]], OutputState(LOG, Owner(3, 1)), True),
        ([[3, 1, 77, 9, LOG, "0123456789abcdef", 5, TS, "id"]], OutputState(LOG, Owner(3, 1), Accepted(Seq(5), CommitTs(TS), "id")), True),
        (
            [[4, 1, 5, 0, LOG, "", None, None, ""], [3, 1, 77, 9, LOG, "0123456789abcdef", 5, None, ""]],
            OutputState(LOG, Owner(4, 1), Accepted(Seq(5))),
            True,
        ),
    ],
    ids=["empty", "claimed", "opened", "accepted", "claimed by a later owner, accepted by 0.2"],
)
def test_a_journal_that_0_4_or_before_wrote_is_read(
    monkeypatch: pytest.MonkeyPatch, rows: list[list[Any]], state: OutputState[None] | None, opened: bool
) -> None:
    monkeypatch.setattr(ClickHouseServer, "rows", lambda *_, **__: rows)
    journal = Journal(ClickHouseServer((("host", 1),), "user"), "ours")
    stored = journal.read()
    assert (stored and stored.state, journal.is_opened()) == (state, opened)
