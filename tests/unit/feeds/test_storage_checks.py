"""What the preflight says of a storage sink's folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sidecar.feeds.encoded.files import feed_error
from sidecar.feeds.storage.checks import kept_files, own_folder
from sidecar.feeds.storage.names import FormFile
from sidecar.feeds.storage.reading import LANE
from sidecar.feeds.storage.table_form import table_form
from sidecar.feeds.storage.unread import SLACK_MS
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import FIRST_SEQ, CommitTs, Lane, ReadEnd, Seq, ts_at
from sidecar.shared.process.checks import CheckFinding, CheckStatus
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed as described
from tests.support.buckets import BEGIN_MS, BucketSink

FEED = Changefeed(ChangefeedName("c", "n", "orders"), "1", "file:///x?protocol=csv", protocol="csv", created_ms=BEGIN_MS)


@dataclass
class Log:
    positions: dict[Lane, int]
    epoch: int = 1
    seq: Seq = FIRST_SEQ
    incarnations: dict[Lane, str] = field(default_factory=dict)
    read_ends: dict[Lane, ReadEnd] = field(default_factory=dict)
    dumps: tuple[dict[str, Any], ...] = ()


def one(findings: list[CheckFinding]) -> CheckFinding:
    (finding,) = findings
    return finding


class TestOwnFolder:
    @pytest.fixture
    def sink(self, tmp_path: Path) -> BucketSink:
        sink = BucketSink(tmp_path, Random(1))
        sink.commit(20)
        while sink._sent < 20:
            sink.flush()
        return sink

    def of(self, sink: BucketSink, feed: Changefeed) -> CheckFinding:
        return one([*own_folder(open_folder(str(sink.root)).opened_for(feed_error), feed)])

    def test_files_that_are_not_older_than_the_changefeed_are_its_own(self, sink: BucketSink) -> None:
        assert self.of(sink, FEED).status is CheckStatus.OK

    def test_older_ones_fail_with_the_first_of_them(self, sink: BucketSink) -> None:
        finding = self.of(sink, replace(FEED, created_ms=sink.now_ms + SLACK_MS + 1000))
        assert finding.status is CheckStatus.FAILED
        assert "files are older than changefeed c/n/orders, the first of them other/a/b/" in finding.what

    def test_what_is_no_data_file_may_be_older(self, sink: BucketSink) -> None:
        sink.put("notes.txt", b"")
        os.utime(sink.root / "notes.txt", (0, 0))
        assert self.of(sink, FEED).status is CheckStatus.OK

    def test_where_nobody_knows_since_when_it_is_there_that_is_said(self, sink: BucketSink) -> None:
        finding = self.of(sink, replace(FEED, created_ms=0))
        assert finding.status is CheckStatus.WARNING
        assert "is not known" in finding.what


class TestKeptFiles:
    def of(self, log: Log | None, feed: Changefeed = FEED, there: int = ts_at(BEGIN_MS)) -> CheckFinding:
        return one([*kept_files(CommitTs(there), feed, log)])

    def test_a_new_log_and_one_that_ends_at_the_mark_are_fine(self) -> None:
        for log in (None, Log({}), Log({LANE: ts_at(BEGIN_MS) + 1}), Log({LANE: ts_at(BEGIN_MS) - 9})):
            assert self.of(log).status is CheckStatus.OK

    def test_a_log_that_is_ahead_of_the_folder_is_a_warning(self) -> None:
        assert self.of(Log({LANE: ts_at(BEGIN_MS) + 2})).status is CheckStatus.WARNING

    @pytest.mark.parametrize(("separator", "status"), [("day", CheckStatus.FAILED), ("none", CheckStatus.OK), (None, CheckStatus.FAILED)])
    def test_files_that_ticdc_may_have_removed_fail(self, separator: str | None, status: CheckStatus) -> None:
        sink = {"cloud-storage-config": {"file-expiration-days": 3}} | ({"date-separator": separator} if separator else {})
        feed = replace(FEED, config={"sink": sink})
        assert self.of(Log({LANE: ts_at(1_600_000_000_000)}), feed).status is status
        assert self.of(Log({}), feed).status is CheckStatus.OK


@pytest.mark.parametrize(
    ("time", "ms"),
    [
        ("2026-11-29T10:00:00.123456789+08:00", 1795917600123),
        ("2026-11-29T02:00:00Z", 1795917600000),
        ("2026-11-29 02:00:00", 0),
        ("", 0),
        ("yesterday", 0),
    ],
)
def test_when_a_changefeed_was_made_is_read_from_its_definition(time: str, ms: int) -> None:
    info = f'{{"sink-uri":"file:///x?protocol=csv","create-time":"{time}","start-ts":1,"config":{{}}}}'
    assert described(ChangefeedName("c", "n", "orders"), info).created_ms == ms


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"Schema":"s","Table":"t","TableVersion":8}', b'{"Schema":"s","TableVersion":"7"}', b"\xff"]
)
def test_what_is_no_schema_file_is_refused_with_its_name(data: bytes) -> None:
    with pytest.raises(MessageUnreadable, match=r"s/t/meta/schema_7_0000000001\.json is no schema file"):
        table_form(data, FormFile("s/t", CommitTs(7), "s/t/meta/schema_7_0000000001.json"))
