"""The Kafka sink at brokers that ask who comes: TLS and SASL by TiCDC's parameters, and what a missing right is called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]  # exported, but not for mypy

from sidecar.shared.errors import SinkError
from spark_merge.sinks.kafka import client
from spark_merge.sinks.kafka.uri import position_topic_of
from spark_merge.sinks.registry import open_sink
from spark_merge.testing import histories
from spark_merge.testing.places import Place
from spark_merge.testing.story import Story
from tests.integration.test_kafka_sink import SCHEMAS
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import decoded, read_all
from tests.support.services.kafka import READER, STRANGER, KafkaBroker

pytestmark = pytest.mark.xdist_group("kafka-sink")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("secured"), secured=True) as running:
        yield running


def place_at(broker: KafkaBroker, user: tuple[str, str], ca: Path, parameters: str = "", topic: str = "") -> Place:
    topic = topic or new_topic()
    login = f"sasl-mechanism=PLAIN&sasl-user={user[0]}&sasl-password={quote(user[1])}&ca={ca}"
    uri = f"kafka+ssl://{broker.sasl_tls}/{topic}?protocol=canal-json&partition-num=2&{login}{parameters}"
    return Place(
        uri,
        lambda log_id: open_sink(uri, log_id=log_id),
        lambda: decoded(read_all(broker.bootstrap, [topic]), "canal-json", SCHEMAS).rows,
    )


def test_a_login_over_tls_delivers(tmp_path: Path, secured: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert secured.authority is not None
    monkeypatch.setattr(histories, "TABLES", 3)
    story = Story(tmp_path, place_at(secured, READER, secured.authority.ca_file), seed=7)
    story.finish()
    story.check_end()


def test_a_user_who_may_nothing_gets_an_error_that_names_the_rights(
    tmp_path: Path, secured: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert secured.authority is not None
    monkeypatch.setattr(client, "OUTAGE_MAX_S", 5.0)
    sink = place_at(secured, STRANGER, secured.authority.ca_file).sink()
    with pytest.raises(SinkError, match="AUTHORIZATION_FAILED") as refused:
        sink.open(epoch=None)
    assert "grant this user" in refused.value.hint
    assert STRANGER[1] not in str(refused.value)


def test_who_may_not_use_transactions_delivers_without(tmp_path: Path, secured: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert secured.authority is not None
    monkeypatch.setattr(histories, "TABLES", 3)
    topic = new_topic()
    position = position_topic_of(topic)
    secured.create_topic(topic, 2)
    secured.create_topic(position, 6, {"cleanup.policy": "compact"})
    secured.allow(STRANGER[0], ResourceType.TOPIC, topic, AclOperation.WRITE, AclOperation.DESCRIBE)
    secured.allow(STRANGER[0], ResourceType.TOPIC, position, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
    secured.allow(STRANGER[0], ResourceType.GROUP, position, AclOperation.READ)
    with pytest.raises(SinkError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED") as refused:
        place_at(secured, STRANGER, secured.authority.ca_file, topic=topic).sink().open(epoch=None)
    assert "transactions=false" in refused.value.hint
    story = Story(tmp_path, place_at(secured, STRANGER, secured.authority.ca_file, "&transactions=false", topic), seed=7)
    _, work = story.begin(story.place.sink())
    work[0].carry_out()
    story.finish()
    story.check_end()


def test_a_wrong_password_is_called_one(secured: KafkaBroker) -> None:
    assert secured.authority is not None
    sink = place_at(secured, (READER[0], "wrong password"), secured.authority.ca_file).sink()
    with pytest.raises(SinkError, match="AUTHENTICATION") as refused:
        sink.look()
    assert "sasl-password" in refused.value.hint
    assert "wrong password" not in str(refused.value)
