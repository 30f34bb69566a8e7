"""The Kafka feed without a broker: which settings librdkafka gets, which are refused, and what its error codes mean."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from sidecar.feeds.kafka.client import FETCH_BYTES_MIN, consumer_settings, refusal
from sidecar.feeds.kafka.feed import KafkaFeed
from sidecar.feeds.kafka.reading import KafkaSettings
from sidecar.feeds.kafka.start import FIRST_ANSWER_MAX_S
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable
from sidecar.shared.model.nouns import Lane
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.services.ports import free_ports


def feed(client: dict[str, str], brokers: str = "127.0.0.1:1", clock: object = None) -> KafkaFeed:
    return KafkaFeed(KafkaSettings(brokers, "g", 1 << 20, client), lambda: frozenset({"orders"}), clock=clock)  # type: ignore[arg-type]  # clocks of the tests


class Hurried:
    """Each look is a second later."""

    time_s = 0.0

    def now_s(self) -> float:
        self.time_s += 1.0
        return self.time_s


@pytest.mark.parametrize("brokers", [1, 3, 50])
@pytest.mark.parametrize("queue_bytes_max", [16 << 20, 128 << 20])
def test_what_waits_and_what_is_under_way_is_a_quarter_of_the_bound(queue_bytes_max: int, brokers: int) -> None:
    settings = consumer_settings(group="g", queue_bytes_max=queue_bytes_max, brokers=brokers)
    under_way = int(settings["fetch.max.bytes"]) * brokers
    assert int(settings["queued.max.messages.kbytes"]) * 1024 + under_way <= max(
        queue_bytes_max // 4, queue_bytes_max // 8 + FETCH_BYTES_MIN * brokers
    )
    assert int(settings["fetch.message.max.bytes"]) <= int(settings["fetch.max.bytes"])
    assert int(settings["message.max.bytes"]) < int(settings["fetch.max.bytes"]) < int(settings["receive.message.max.bytes"])


def test_nothing_resets_a_position_silently() -> None:
    settings = consumer_settings(group="g", queue_bytes_max=1 << 20, brokers=1)
    assert settings["auto.offset.reset"] == "error"
    assert settings["enable.auto.commit"] == "false"


@pytest.mark.parametrize("name", ["auto.offset.reset", "enable.auto.commit", "group.id", "bootstrap.servers", "fetch.max.bytes"])
def test_a_client_setting_that_the_feed_decides_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        feed({name: "1"})


@pytest.mark.parametrize(
    "client",
    [
        {"no.such.setting": "1"},
        {"security.protocol": "WAT"},
        {"security.protocol": "SSL", "ssl.ca.location": "/no/such/file"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "NONE-SUCH"},
    ],
)
def test_a_client_setting_that_librdkafka_cannot_use_is_refused(client: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.client"):
        feed(client)


@pytest.mark.parametrize("lane", ["kafka/orders", "kafka/orders/x", "kafka//1", "kafka/a/b/1", "tables/shop.orders", ""])
def test_the_lane_of_another_feed_is_refused(lane: str) -> None:
    with pytest.raises(FeedUnsuitable, match="no partition of Kafka"):
        feed({}).acknowledge({Lane(lane): 1})


def test_brokers_that_are_not_there_can_be_tried_again() -> None:
    (port,) = free_ports(1)
    with pytest.raises(FeedLost, match=rf"127\.0\.0\.1:{port} has answered for {FIRST_ANSWER_MAX_S:.0f} s") as lost:
        feed({}, f"127.0.0.1:{port}", Hurried()).seek({})
    assert lost.value.retryable


@pytest.mark.parametrize(
    "code", [KafkaError._TRANSPORT, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._ALL_BROKERS_DOWN, KafkaError._NOENT]
)
def test_what_librdkafka_repairs_is_no_error(code: int) -> None:
    assert refusal(KafkaError(code), "here") is None


@pytest.mark.parametrize(
    ("code", "setting"),
    [
        (KafkaError._SSL, "ssl.ca.location"),
        (KafkaError._AUTHENTICATION, "sasl_password_file"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "grant"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, r"kafka\.group"),
        (KafkaError._BAD_MSG, "brokers' logs"),
    ],
)
def test_what_a_person_must_repair_says_how(code: int, setting: str) -> None:
    refused = refusal(KafkaError(code), "here")
    assert isinstance(refused, FeedUnsuitable)
    assert not refused.retryable
    with pytest.raises(FeedUnsuitable, match=setting):
        raise refused


def test_what_is_closed_leaves_no_thread_of_librdkafka_to_the_collector() -> None:
    """A process that loses its lease has a feed for each of its terms. Alone in a process: others' clients start threads when they like."""
    alone = [sys.executable, "-c", f"import {__name__} as these; these.close_without_a_collector()"]
    subprocess.run(alone, check=True, cwd=Path(__file__).parents[3], timeout=PATIENCE_S)


def close_without_a_collector() -> None:
    gc.disable()
    one = feed({}, clock=Hurried())
    assert threads_of_librdkafka()
    one.close()
    eventually(lambda: not threads_of_librdkafka(), "the feed's threads have ended")
    with pytest.raises(FeedLost):
        one.ends()
    one.close()
    eventually(lambda: not threads_of_librdkafka(), "and so have those of its last question")


def threads_of_librdkafka() -> set[str]:
    """A thread that has been joined may still be here for a moment: the kernel frees its number after it wakes the joiner."""
    threads = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            threads |= {task.name} if (task / "comm").read_text().startswith("rdk:") else set()
    return threads


def test_a_feed_that_was_never_read_closes(tmp_path: Path) -> None:
    result = feed({})
    result.close()
    assert result.lanes() == frozenset()
