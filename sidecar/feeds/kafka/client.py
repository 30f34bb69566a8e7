"""The edge to librdkafka: its settings, its error codes, and the requests about topics.

- What decides correctness is set here and cannot be overridden: `kafka.client` holds TLS, SASL and network settings only.
- An error is classed by its code. What librdkafka repairs automatically is no error; what it would repeat for ever although
  a person must act (a password, a certificate, an ACL) is FeedUnsuitable; what is not known stops.
- TLS and login errors also come from a broker that is just starting. So they refuse only while no broker has answered
  yet; after that they are named when the outage has lasted too long.
- Nothing here waits without a bound. Logs go to `logging`, `check` raises errors of background threads.
- No request of the admin client that goes to a group's coordinator: librdkafka 2.16 aborts the process when the
  connection is lost meanwhile (confluentinc/librdkafka issues 3663, 4605; pull request 5397).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec  # type: ignore[attr-defined]  # exported, but not for mypy

from sidecar.feeds.kafka.lanes import PartitionKey, Topic
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable, TicdcDumpError
from sidecar.shared.model.nouns import ReadEnd
from sidecar.shared.process.librdkafka import REPAIRED, DebugLog

OUTAGE_MAX_S = 30.0
"""Without any answer of any broker. A rolling restart of a cluster takes less, an operator's patience not much more."""

REQUEST_TIMEOUT_S = 5.0
"""For one question to the cluster; librdkafka reconnects within."""

EPOCHS_MAX_S = 30.0
"""For the ends of all partitions' leader epochs: a message of each comes, or its end."""

EPOCHS_QUEUE_BYTES = 16 << 20
"""As `queue_bytes_max`, for as long: with less, thousands of partitions wait for each other."""

EVENT_WAIT_S = 0.1
"""Between two looks at what a person must repair."""

FETCHES_PART = QUEUE_PART = 8
"""Of `queue_bytes_max` an eighth each is for fetches under way and for what waits in the queue: librdkafka looks at its queue
before a fetch, not after it. The rest is for the batch that was taken: first as librdkafka has it, then as bytes."""

FETCH_BYTES_MIN = 64 << 10
RESPONSE_BYTES_MAX = 1 << 30
"""A broker sends one batch of messages even where it is larger than what a fetch asks for (KIP-74)."""

_log = logging.getLogger("sidecar.feeds.kafka.feed")


_ALSO_OURS = {"bootstrap.servers", "metadata.broker.list", "group.instance.id", "max.partition.fetch.bytes", "queued.min.messages"}
"""Beside those of `consumer_settings`, whose other names some of them are."""


_MIN_INSYNC, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
_NO_SUCH_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})

_REFUSED = {
    KafkaError._SSL: "check kafka.client ssl.ca.location (and ssl.certificate.location, ssl.key.location for mutual TLS), and that "
    "the names in kafka.brokers are those in the brokers' certificates",
    KafkaError._AUTHENTICATION: "check kafka.client sasl.mechanism and sasl.username, and the password in kafka.sasl_password_file",
    KafkaError.SASL_AUTHENTICATION_FAILED: "check kafka.client sasl.username, and the password in kafka.sasl_password_file",
    KafkaError.UNSUPPORTED_SASL_MECHANISM: "set kafka.client sasl.mechanism to one that the brokers have",
    KafkaError.ILLEGAL_SASL_STATE: "check kafka.client security.protocol and sasl.mechanism",
}
_FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant this user Read and Describe on the changefeed's topics",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant this user Read and Describe on the consumer group kafka.group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant this user what the brokers ask for on the cluster",
}


def refusal(error: KafkaError, where: str) -> FeedUnsuitable | None:
    """What to raise for an error at `where`; None if librdkafka repairs it automatically."""
    return None if error.code() in REPAIRED else _refused(error, where)


def _refused(error: KafkaError, where: str) -> FeedUnsuitable:
    what = f"{error.name()}: {error.str()}"
    if hint := _REFUSED.get(error.code()) or _FORBIDDEN.get(error.code()):
        return FeedUnsuitable(f"Kafka refuses {where}: {what}", hint=hint)
    return FeedUnsuitable(
        f"Kafka has an error for {where} that is not known here: {what}",
        hint="look into the brokers' logs; when the cause is gone, start the sidecar again: it resumes where the log ends",
    )


def check_client(client: Mapping[str, str]) -> None:
    """Raises ConfigError for a setting that the feed itself must decide."""
    ours = consumer_settings(group="", queue_bytes_max=1, brokers=1).keys() | _ALSO_OURS
    if taken := sorted(ours & client.keys()):
        raise ConfigError(
            f"kafka.client sets {', '.join(taken)}, which the feed itself decides",
            hint="remove it: kafka.client is for TLS, SASL and the network; brokers, group and queue_bytes_max have settings of their own",
        )


def common_settings(brokers: str, client: Mapping[str, str]) -> dict[str, Any]:
    return {"client.id": "ticdc-dump", "reconnect.backoff.max.ms": "1000", **client, "bootstrap.servers": brokers, "logger": DebugLog(_log)}


def consumer_settings(*, group: str, queue_bytes_max: int, brokers: int) -> dict[str, Any]:
    """librdkafka's queue is one for all partitions (its `queued.max.messages.kbytes` is then not a bound for each), and each
    of `brokers` has one fetch under way. One message larger than a broker's part exceeds the bound, at most once a broker."""
    fetch_bytes_max = max(FETCH_BYTES_MIN, queue_bytes_max // FETCHES_PART // brokers)
    return {
        "group.id": group,
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": "error",
        "allow.auto.create.topics": "false",
        "enable.partition.eof": "false",
        "check.crcs": "true",
        "queued.max.messages.kbytes": str(max(1, queue_bytes_max // QUEUE_PART >> 10)),
        "fetch.max.bytes": str(fetch_bytes_max),
        "fetch.message.max.bytes": str(min(fetch_bytes_max, 1 << 20)),
        "message.max.bytes": "1000",  # else librdkafka raises fetch.max.bytes to it
        "receive.message.max.bytes": str(RESPONSE_BYTES_MAX),
        "fetch.queue.backoff.ms": "10",  # by default a full queue stops a partition for a second
    }


@dataclass(frozen=True, slots=True)
class TopicsAnswer:
    """A question about topics, by name, that is under way."""

    futures: Mapping[str, Future[Any]]

    def wait(self, timeout_s: float) -> bool:
        return not wait(self.futures.values(), timeout_s).not_done

    def topics(self) -> dict[str, Topic] | None:
        """The topics that exist; None if no broker could tell. Raises FeedUnsuitable where the cluster refuses."""
        topics: dict[str, Topic] = {}
        useless = False
        for name, future in self.futures.items():
            error = _error_of(future)
            if error is None:
                topic = future.result()
                number = (topic.topic_id.get_most_significant_bits(), topic.topic_id.get_least_significant_bits())
                topics[name] = Topic(str(topic.topic_id) if any(number) else None, len(topic.partitions))
            elif error.code() not in _NO_SUCH_TOPIC:
                if refused := refusal(error, f"topic {name}"):
                    raise refused
                useless = True
        return None if useless else topics


@dataclass(frozen=True, slots=True)
class Replication:
    """Of a topic. `replicas`: of the partition with the fewest; `min_insync`: so many have a message before TiCDC's write is confirmed;
    `unclean`: one that lacks messages may become the leader."""

    replicas: int
    min_insync: int
    unclean: bool


class Cluster:
    """Asks about topics and offsets. `brokers`: host:port, separated by commas. Raises ConfigError for settings that are wrong."""

    def __init__(self, brokers: str, client: Mapping[str, str], group: str = "ticdc-dump") -> None:
        check_client(client)
        self.brokers = brokers
        self._group = group
        self._answered = False
        self._trouble: KafkaError | None = None
        self._settings = common_settings(brokers, client) | {"error_cb": self.note}
        self._opened: AdminClient | None = open_client(AdminClient, self._settings)

    @property
    def _admin(self) -> AdminClient:
        if self._opened is None:
            self._opened = open_client(AdminClient, self._settings)
        return self._opened

    def close(self) -> None:
        """End its threads and connections, until the next request. librdkafka's client ends with the last reference to it, which is in a
        circle with this object: the collector would come to it when many terms have left theirs behind."""
        self._opened = None

    def note(self, error: KafkaError) -> None:
        """librdkafka's error callback, of any client of this cluster; called by `check` and by the consumer's own calls.

        What a person must repair is not hidden by what follows from it: a refused password is reported once a broker, and then
        "all brokers are down", often before anybody looks."""
        if self._trouble is None or _rank(error) >= _rank(self._trouble):
            self._trouble = error

    def check(self, *, wait_s: float = 0.0) -> None:
        """Raises FeedUnsuitable for what a person must repair before a first answer can come, or at any time an ACL."""
        self._admin.poll(wait_s)
        if self._trouble is None:
            return
        code = self._trouble.code()
        if code in _FORBIDDEN or code == KafkaError._FATAL or (code in _REFUSED and not self._answered):
            raise _refused(self._trouble, f"the connection to {self.brokers}")

    def answered(self) -> None:
        self._answered, self._trouble = True, None

    def lost(self, seconds: float) -> TicdcDumpError:
        """What to raise after so long without an answer."""
        trouble = self._trouble
        if trouble is not None and trouble.code() in _REFUSED:
            return _refused(trouble, f"the connection to {self.brokers}")
        last = f"; the last error is {trouble.name()}: {trouble.str()}" if trouble else ""
        return FeedLost(
            f"no Kafka broker of {self.brokers} has answered for {seconds:.0f} s{last}",
            hint="start the brokers, or correct kafka.brokers; if they ask for TLS or a login, set kafka.client security.protocol",
        )

    def ask(self, topics: Iterable[str]) -> TopicsAnswer:
        """Begin to ask which of `topics` exist, with how many partitions."""
        names = sorted(topics)
        return TopicsAnswer(self._admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S) if names else {})

    def broker_count(self) -> int:
        return len(self._done(self._admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S), "the cluster").nodes)

    def available(self, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, tuple[int, int]]:
        """`(first, end)` for each: the oldest offset that is there, and the one that the next message will get."""
        keys = sorted(partitions)
        first = self._offsets(keys, OffsetSpec.earliest())  # type: ignore[no-untyped-call]  # it has no types
        end = self._offsets(keys, OffsetSpec.latest())  # type: ignore[no-untyped-call]  # it has no types
        return {key: (first[key], end[key]) for key in keys}

    def continues_at(self, read_ends: Mapping[PartitionKey, ReadEnd]) -> dict[PartitionKey, int]:
        """Where a reader that has read so far continues: at its own position, or below it where its leader epoch ends. Of an epoch that
        the leader does not know it is the partition's beginning; where retention has removed the position, what is left.

        librdkafka requests the epoch's end of the leader at each seek, and continues there: the client has no request for it. At an
        assignment it does so only while it does not know the leader (confluentinc/librdkafka issue 5158, pull request 5207).
        """
        first: dict[PartitionKey, int] = {}
        if not read_ends:
            return first
        settings = consumer_settings(group=self._group, queue_bytes_max=EPOCHS_QUEUE_BYTES, brokers=1)
        ours = {"auto.offset.reset": "earliest", "enable.partition.eof": "true", "fetch.wait.max.ms": "10", "queued.min.messages": "1"}
        until_s = monotonic() + EPOCHS_MAX_S
        with closing(open_client(Consumer, self._settings | settings | ours)) as consumer:
            wanted = places({key: end.position for key, end in read_ends.items()}, read_ends)
            consumer.incremental_assign(wanted)
            for place in wanted:
                consumer.seek(place)
            while first.keys() != read_ends.keys():
                if monotonic() > until_s:
                    raise self.lost(EPOCHS_MAX_S)
                self.check()
                for record in consume(consumer, 1, EVENT_WAIT_S):
                    key = (record.topic(), record.partition())
                    if _is_at(record) and key not in first:
                        first[key] = record.offset()
                        consumer.incremental_unassign([TopicPartition(*key)])
        return first

    def replication(self, topics: Iterable[str]) -> dict[str, Replication]:
        """Of topics that exist. Raises FeedUnsuitable where the brokers refuse, FeedLost if none answers."""
        names = sorted(topics)
        about = self._admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S) if names else {}
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        configs = self._admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S) if names else {}
        of_topics = {}
        for resource, future in configs.items():
            settings = self._done(future, f"the settings of topic {resource.name}")
            if absent := {_MIN_INSYNC, _UNCLEAN} - settings.keys():
                raise FeedUnsuitable(
                    f"the brokers do not report {', '.join(sorted(absent))} of topic {resource.name}", hint="ask who runs the brokers"
                )
            partitions = self._done(about[resource.name], f"topic {resource.name}").partitions
            of_topics[resource.name] = Replication(
                min(len(partition.replicas) for partition in partitions),
                int(settings[_MIN_INSYNC].value),
                unclean=settings[_UNCLEAN].value == "true",
            )
        return of_topics

    def _offsets(self, keys: list[PartitionKey], spec: OffsetSpec) -> dict[PartitionKey, int]:
        if not keys:
            return {}
        futures = self._admin.list_offsets({TopicPartition(*key): spec for key in keys}, request_timeout=REQUEST_TIMEOUT_S)
        return {(at.topic, at.partition): self._done(future, f"{at.topic}/{at.partition}").offset for at, future in futures.items()}

    def _done(self, future: Future[Any], what: str) -> Any:
        """The result. Raises FeedUnsuitable for a refusal, else FeedLost."""
        if error := _error_of(future):
            raise refusal(error, what) or FeedLost(
                f"Kafka at {self.brokers} does not answer for {what}: {error.name()}: {error.str()}",
                hint="wait until every partition has a leader, and start the brokers that are down",
            )
        return future.result()


def places(positions: Mapping[PartitionKey, int], read_ends: Mapping[PartitionKey, ReadEnd]) -> list[TopicPartition]:
    """As librdkafka takes them. The epoch of what was read later serves for a position too: it ends at or above it."""
    return [
        TopicPartition(*key, position, leader_epoch=read_ends[key].epoch if key in read_ends else -1) for key, position in positions.items()
    ]


def consume(consumer: Any, count: int, timeout_s: float) -> list[Any]:
    """Messages and events: what comes within the time. Raises FeedUnsuitable for a refusal."""
    try:
        records: list[Any] = consumer.consume(count, timeout_s)
    except KafkaException as error:
        if refused := refusal(error.args[0], "reading"):
            raise refused from error
        return []
    return records


def _is_at(record: Any) -> bool:
    """Whether it says where the partition is read: a message does, and so does its end. Raises FeedUnsuitable for a refusal."""
    error = record.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return True
    if refused := refusal(error, f"reading {record.topic() or 'its topics'}"):
        raise refused
    return False


def _rank(error: KafkaError) -> int:
    return 2 if error.code() in _FORBIDDEN else 1 if error.code() in _REFUSED else 0


def _error_of(future: Future[Any]) -> KafkaError | None:
    failure = future.exception()
    if failure is None:
        return None
    if not isinstance(failure, KafkaException):
        raise failure
    error: KafkaError = failure.args[0]
    return error


def open_client(kind: type[Any], settings: dict[str, Any]) -> Any:
    """A librdkafka client. Raises ConfigError for a setting that it does not know or cannot use."""
    try:
        return kind(settings)
    except KafkaException as error:
        raise ConfigError(
            f"librdkafka cannot use the settings in kafka.client: {error.args[0].str()}",
            hint="see librdkafka's CONFIGURATION.md for the names and values; files must be readable for this user",
        ) from error
