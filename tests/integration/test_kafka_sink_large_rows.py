"""Rows that are larger than a message, on a real broker: a second sidecar that reads the topic as a feed has every row, after deaths at any
step; and so has a verification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from sidecar.feeds.encoded.claims import ClaimFiles
from sidecar.feeds.encoded.files import feed_error
from sidecar.feeds.encoded.whole_rows import NotWhole
from sidecar.shared.codecs.contract import Claim
from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.log.storage.dispatch import NewFile
from sidecar.shared.model.nouns import Lane, Message, TableName
from spark_merge.merge.rule import Image
from spark_merge.sinks.kafka import sink
from spark_merge.sinks.kafka.holder import IdHolder
from spark_merge.sinks.kafka.producer import RECORD_OVERHEAD_BYTES, TransactionalProducer
from spark_merge.sinks.registry import open_sink
from spark_merge.testing import histories
from spark_merge.testing.places import Place, Shown
from spark_merge.testing.story import Died, Story, before_each, die_after_each
from tests.integration.test_kafka_sink import SCHEMAS
from tests.lanes import LANE
from tests.recordings.make_claims import FEEDS
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import Read, decoded, read_all, without_repeats
from tests.support.services.kafka import KafkaBroker

pytestmark = pytest.mark.xdist_group("kafka-sink")

MESSAGE_BYTES_MAX = 700
PROTOCOLS = {"open-protocol": "open-claim-check", "canal-json": "canal-claim-check"}
WAYS = [("open-protocol", ""), ("canal-json", "&claim-check-raw-value=true&transactions=false")]
if LANE.whole:
    WAYS += [("canal-json", ""), ("open-protocol", "&transactions=false")]


@pytest.fixture(autouse=True)
def _large_rows_among_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    of_key = histories.image

    def image(rng: Random) -> Image:
        return (*of_key(rng)[:2], rng.choice([None, "x", "µ<" * 600, "y" * 2000]))

    monkeypatch.setattr(histories, "image", image)
    monkeypatch.setattr(histories, "TABLES", 3)
    monkeypatch.setattr(sink, "FEW_ROWS", 3)


def place_at(broker: KafkaBroker, folder: Path, protocol: str, more: str) -> Place:
    topic = new_topic()
    claims = f"large-message-handle-option=claim-check&claim-check-storage-uri={folder}&max-message-bytes={MESSAGE_BYTES_MAX}{more}"
    uri = f"kafka://{broker.bootstrap}/{topic}?protocol={protocol}&partition-num=2&{claims}"

    def rows() -> dict[TableName, list[Shown]]:
        records = read_all(broker.bootstrap, [topic], committed="transactions" not in more)
        records = without_repeats(records) if "transactions" in more else records
        assert all(len(one.key or b"") + len(one.value or b"") + RECORD_OVERHEAD_BYTES <= MESSAGE_BYTES_MAX for one in records)
        return decoded(as_a_feed(records, protocol, folder, raw="raw" in more), protocol, SCHEMAS).rows

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows)


def as_a_feed(records: Sequence[Read], protocol: str, folder: Path, *, raw: bool) -> list[Read]:
    """The records as a sidecar's feed makes messages of them."""
    codec = FEEDS[PROTOCOLS[protocol]]
    fetch = ClaimFiles(codec, open_folder(str(folder)).opened_for(feed_error), raw=raw)
    whole: list[Read] = []
    for record in records:
        message = Message(Lane(record.topic), record.offset, record.key, record.value)
        if parts := codec.parts(message):
            (claim,) = parts
            assert isinstance(claim, Claim)
            (message,) = fetch([NotWhole(message, claim)])
        whole.append(Read(record.topic, record.partition, record.offset, message.key, message.value, record.origin, record.dump))
    return whole


def behind_each_file(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """`act` when files are durable, and no message names them."""
    new_files = storage.new_files

    @contextmanager
    def writing(folder: Folder) -> Iterator[NewFile]:
        with new_files(folder) as new_file:
            yield new_file
        if folder.root.endswith("claims"):
            act()

    monkeypatch.setattr(storage, "new_files", writing)


@pytest.mark.parametrize(("protocol", "more"), WAYS)
def test_a_feed_and_a_verification_have_each_row_after_deaths_at_any_step(
    tmp_path: Path, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, protocol: str, more: str
) -> None:
    folder = tmp_path / "claims"
    story = Story(tmp_path, place_at(broker, folder, protocol, more), seed=7)
    kept = dict[str, bytes]()

    @contextmanager
    def dying(at: int) -> Iterator[None]:
        """Behind a file, or before a task commits."""
        left = at

        def step() -> None:
            nonlocal left
            if left == 0:
                raise Died
            left -= 1

        with monkeypatch.context() as patch:
            behind_each_file(patch, step)
            before_each(patch, step, IdHolder, "commit")
            patch.setattr(TransactionalProducer, "abort", lambda _: False)  # nobody is left to abort it
            yield
        written = {path.name: path.read_bytes() for path in folder.glob("*")}
        assert {name: written[name] for name in kept} == kept, "what is done again writes the same files"
        kept.update(written)

    assert die_after_each(story, dying, range(0, 60, 5)) > 2
    story.check_read_back(end=True)
    assert len(kept) > 10


def test_a_file_that_is_gone_is_an_error_of_the_verification(tmp_path: Path, broker: KafkaBroker) -> None:
    story = Story(tmp_path, place_at(broker, tmp_path / "claims", "open-protocol", ""), seed=7)
    story.finish()
    for path in (tmp_path / "claims").iterdir():
        path.unlink()
    with pytest.raises(SinkError, match=r"the row of s\.t\d at commit_ts \d+ is in .*\.json, which is not in file://"):
        story.check_read_back()
