"""Rows that TiCDC put into files come as messages, the same changes as without them; a file that is gone, or another row's, stops."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from sidecar.feeds.contract import NotifyingFeed
from sidecar.feeds.encoded import whole_rows as module
from sidecar.feeds.encoded.checks import of_large_rows
from sidecar.feeds.encoded.claims import ClaimFiles
from sidecar.feeds.encoded.files import feed_error
from sidecar.feeds.encoded.make import claims_folder
from sidecar.feeds.encoded.whole_rows import WithWholeRows
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.codecs.contract import Claim, CodecWithParts
from sidecar.shared.config import KafkaSection
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable, MessageUnreadable
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder, Unreachable, open_folder
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Message, ReadEnd
from sidecar.shared.process.checks import CheckStatus
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.ticdc.suitability import problems
from tests.recordings.make_claims import ARCHIVE, FEEDS, FILES_EACH, claims_of, messages_of
from tests.support.recordings import recording

LANE = Lane("kafka/t/0")
ROW = '{"database":"shop","table":"doc","isDdl":false,"type":"INSERT","data":[{"id":"%d"%s}],"_tidb":{"commitTs":%d%s}}'


def row(number: int, *, file: str = "", body: str = "") -> bytes:
    """canal-json: whole with a body, or with where it is."""
    more = f',"claimCheckLocation":"{file}"' if file else ""
    return (ROW % (number, f',"body":"{body}"' if body else "", 100 + number, more)).encode()


class Sent:
    """A feed of these messages, some a poll."""

    def __init__(self, messages: Sequence[Message], *, at_once: int = 3) -> None:
        self.messages, self.at, self.at_once, self.acknowledged = list(messages), 0, at_once, dict[Lane, int]()
        self.there = {LANE: "a"}

    def lanes(self) -> frozenset[Lane]:
        return frozenset({LANE})

    def ends(self) -> Mapping[Lane, int]:
        return {LANE: len(self.messages)}

    def incarnations(self) -> Mapping[Lane, str]:
        return self.there

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        return {LANE: ReadEnd(self.at, 1)}

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        self.at = positions.get(LANE, 0)

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        some = self.messages[self.at : self.at + self.at_once]
        self.at += len(some)
        return some

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        self.acknowledged.update(positions)

    def still_because(self) -> str:
        return "it waits"

    def close(self) -> None:
        self.at = -1


def with_claims(feed: NotifyingFeed, codec: CodecWithParts, folder: Folder, *, raw: bool, after_ts: int = 0) -> WithWholeRows:
    return WithWholeRows(feed, codec, {Claim: ClaimFiles(codec, folder, raw=raw)}, after_ts=lambda: CommitTs(after_ts))


def place(root: Path) -> Folder:
    return open_folder(str(root)).opened_for(feed_error)


def put(root: Path, name: str, value: bytes, key: bytes | None = None) -> str:
    file = {"key": None if key is None else base64.b64encode(key).decode(), "value": base64.b64encode(value).decode()}
    (root / name).write_text(json.dumps(file))
    return f"s3:/other/place/{name}"


def all_of(feed: WithWholeRows) -> list[Message]:
    messages: list[Message] = []
    while some := feed.poll(timeout_s=0.0):
        messages += some
    return messages


def test_rows_in_files_come_at_their_position_in_their_order_and_all_else_as_it_is(tmp_path: Path) -> None:
    rng, values, wanted = Random(3), list[bytes](), list[bytes]()
    for number in range(60):
        whole = row(number, body="x" * rng.randint(1, 50))
        wanted.append(whole)
        values.append(row(number, file=put(tmp_path, f"f-{number}.json", whole)) if rng.random() < 0.4 else whole)
    sent = Sent([Message(LANE, at, b"", value, after_gap=at == 0) for at, value in enumerate(values)])
    feed = with_claims(sent, CanalJson(), place(tmp_path), raw=False)
    feed.seek({})
    messages = all_of(feed)
    assert [(message.position, message.value) for message in messages] == list(enumerate(wanted))
    assert [message.after_gap for message in messages] == [True] + [False] * 59
    feed.seek({LANE: 40})
    assert [message.position for message in all_of(feed)] == list(range(40, 60))


def test_files_may_hold_the_value_as_it_is(tmp_path: Path) -> None:
    whole = row(1, body="x")
    (tmp_path / "a.json").write_bytes(whole)
    feed = with_claims(Sent([Message(LANE, 0, None, row(1, file="s3://b/a.json"))]), CanalJson(), place(tmp_path), raw=True)
    assert [(message.key, message.value) for message in all_of(feed)] == [(None, whole)]


def test_what_waits_is_bounded_and_its_lane_is_read_until_it_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_BYTES_MAX", 100)
    monkeypatch.setattr(module, "AT_ONCE_MAX", 1)
    values = [row(number, file=put(tmp_path, f"{number}.json", row(number, body="y" * 90))) for number in range(6)]
    sent = Sent([Message(LANE, at, b"", value) for at, value in enumerate(values)], at_once=6)
    feed = with_claims(sent, CanalJson(), place(tmp_path), raw=False)
    feed.seek({})
    assert [message.position for message in feed.poll(timeout_s=0.0)] == [0]
    sent.there = {}
    assert feed.incarnations() == {LANE: "a"}
    assert [message.position for message in all_of(feed)] == [1, 2, 3, 4, 5]
    assert feed.incarnations() == {}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, r"row of shop.doc at commit_ts 101 is in a\.json, which is not in"),
        (b"{}", "is none of TiCDC's"),
        (b'{"key":null,"value":"*"}', "is none of TiCDC's"),
        (json.dumps({"key": None, "value": base64.b64encode(row(2, body="x")).decode()}).encode(), "of another row"),
        (json.dumps({"key": None, "value": base64.b64encode(row(1, body="x") + b"]").decode()}).encode(), "the JSON of canal-json"),
    ],
)
def test_a_file_that_is_gone_or_is_not_the_rows_stops_with_the_message_and_the_row(tmp_path: Path, data: bytes | None, says: str) -> None:
    if data is not None:
        (tmp_path / "a.json").write_bytes(data)
    feed = with_claims(Sent([Message(LANE, 7, b"", row(1, file="s3://b/a.json"))]), CanalJson(), place(tmp_path), raw=False)
    with pytest.raises((FeedUnsuitable, MessageUnreadable), match=says) as raised:
        feed.poll(timeout_s=0.0)
    assert "kafka/t/0@7" in str(raised.value)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "a/..", "x.txt", "a b.json", "%2e.json"])
def test_a_name_that_ticdc_does_not_write_is_no_path(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "read_files", None)
    feed = with_claims(Sent([Message(LANE, 7, b"", row(1, file=f"s3://b/{name}"))]), CanalJson(), place(tmp_path), raw=False)
    with pytest.raises(MessageUnreadable, match="which is none that TiCDC writes"):
        feed.poll(timeout_s=0.0)


def test_a_folder_that_does_not_answer_ends_the_term_and_the_message_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> Mapping[str, bytes]:
        raise Unreachable("no answer")

    value = row(1, file=put(tmp_path, "a.json", row(1, body="x")))
    feed = with_claims(Sent([Message(LANE, 0, b"", value)]), CanalJson(), place(tmp_path), raw=False)
    with monkeypatch.context() as patched:
        patched.setattr(storage, "read_files", away)
        with pytest.raises(FeedLost, match="does not answer: no answer") as raised:
            feed.poll(timeout_s=0.0)
        assert raised.value.retryable
    assert [message.value for message in feed.poll(timeout_s=0.0)] == [row(1, body="x")]


def test_all_else_is_the_feeds_own(tmp_path: Path) -> None:
    sent = Sent([])
    feed = with_claims(sent, CanalJson(), place(tmp_path), raw=False)
    feed.acknowledge({LANE: 3})
    assert (feed.lanes(), feed.ends(), feed.read_ends()) == (frozenset({LANE}), {LANE: 0}, {LANE: ReadEnd(0, 1)})
    assert (sent.acknowledged, feed.still_because()) == ({LANE: 3}, "it waits")
    feed.close()
    assert sent.at == -1


@pytest.mark.parametrize(("plain", "claimed"), [("open-protocol", "open-claim-check"), ("canal-json", "canal-claim-check")])
def test_a_recorded_history_is_the_same_with_its_large_rows_in_files(tmp_path: Path, plain: str, claimed: str) -> None:
    """The messages whose files the repository has."""
    codec, recorded = FEEDS[claimed], recording("large")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    there = {path.name for path in (tmp_path / claimed).iterdir()}
    sent = [message for message in messages_of(recorded, claimed) if there.issuperset(claims_of(message, codec))]

    def changes(some: Sequence[Message]) -> set[tuple[object, ...]]:
        envelopes = (one for message in some for one in codec.envelopes(message))
        return {(one.commit_ts, one.rank, codec.identity(one)) for one in envelopes if isinstance(one, Change)}

    whole = all_of(with_claims(Sent(sent, at_once=50), codec, place(tmp_path / claimed), raw=False))
    assert sum(len(message.value or b"") > 6000 for message in whole) >= len(there) >= FILES_EACH
    assert len(changes(whole)) > 400
    assert changes(whole) <= changes(messages_of(recorded, plain))


def test_compressed_values_are_whole_again(tmp_path: Path) -> None:
    pack = pa.Codec("lz4").compress
    whole = pack(row(1, body="x" * 500), asbytes=True)
    value = pack(row(1, file=put(tmp_path, "a.json", whole)), asbytes=True)
    feed = with_claims(Sent([Message(LANE, 0, b"", value)]), CanalJson("lz4"), place(tmp_path), raw=False)
    assert [message.value for message in all_of(feed)] == [whole]


class TestLargeRowsOfThePreflight:
    def changefeed(self, **large: str) -> Changefeed:
        config: dict[str, object] = {
            "sink": {"kafka-config": {"large-message-handle": {name.replace("_", "-"): value for name, value in large.items()}}}
        }
        return Changefeed(ChangefeedName("c", "n", "orders"), "1", "kafka://h:9092/t", config=config)

    def test_a_folder_that_can_be_read_is_named_and_none_is_needed_without(self, tmp_path: Path) -> None:
        option = {"large_message_handle_option": "claim-check"}
        there = claims_folder(self.changefeed(**option, claim_check_storage_uri=f"file://{tmp_path}"), KafkaSection())
        assert there == claims_folder(
            self.changefeed(**option, claim_check_storage_uri="gs://b/x"), KafkaSection(claim_check_uri=str(tmp_path))
        )
        assert str(tmp_path) in of_large_rows(there).what
        assert claims_folder(self.changefeed(large_message_handle_option="none"), KafkaSection()) is None
        assert of_large_rows(None).status is CheckStatus.OK

    @pytest.mark.parametrize("uri", ["file:///f?protocol=csv", "s3://b/f?protocol=canal-json"])
    def test_a_storage_sink_has_no_messages_that_could_be_too_small(self, uri: str) -> None:
        changefeed = self.changefeed(large_message_handle_option="claim-check", claim_check_storage_uri="file:///claims")
        assert claims_folder(changefeed, KafkaSection()) is not None
        assert claims_folder(replace(changefeed, sink_uri=uri), KafkaSection()) is None
        other = replace(self.changefeed(large_message_handle_option="all-keys"), sink_uri=uri)
        assert "large-message-handle-option" not in [problem.setting for problem in problems(other)]

    def test_one_that_cannot_be_read_or_is_not_said_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(FeedUnsuitable, match="cannot be read"):
            of_large_rows(place(tmp_path / "file"))
        for uri in ({}, {"claim_check_storage_uri": ""}, {"claim_check_storage_uri": "nowhere"}):
            with pytest.raises(ConfigError, match="has no claim-check-storage-uri"):
                claims_folder(self.changefeed(large_message_handle_option="claim-check", **uri), KafkaSection())
