"""The edge to librdkafka: how a cluster is reached, what is waited for, and what an error means.

- An error is classed by its code, never by its text. `Fenced` is for the sink itself: another instance has our transactional id.
- What a person must repair (a login, a right, a size) is reported at once; what librdkafka repairs is waited for, within a bound.
- All errors from here are SinkErrors: the loop reports them and tries again. A setting that is not valid raises ConfigError.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from sidecar.shared.errors import ConfigError, OutcomeUnknown, SinkError
from sidecar.shared.process.kept_secrets import keep, kept
from sidecar.shared.process.librdkafka import REPAIRED, DebugLog
from sidecar.shared.process.patience import patience_s
from sidecar.shared.process.progress import may_take

OUTAGE_MAX_S = 25.0
"""Without an answer, of one step: then it is reported, and tried again. A broker that is restarted takes less mostly."""

RECONNECT_MS = 22
"""librdkafka looks for a broker to connect to every half of it, 0.01 s at the least: so long who is new waits, twice."""

REQUEST_TIMEOUT_S = 10.0
TRY_AGAIN_S = 0.02

TRANSACTION_MAX_S = 600
"""Of one task: longer than the largest batch takes. So long a worker that died for good holds back consumers that read what is committed,
where no other worker opens the output (which ends it at once)."""

SECRETS = ("sasl.password", "sasl.oauthbearer.client.secret")
SECRET_KIND = "kafka"
PASSWORD_VARIABLE = "TICDC_DUMP_KAFKA_PASSWORD"

_log = logging.getLogger("spark_merge.sinks.kafka")

_T = TypeVar("_T")


class Fenced(Exception):
    """Another instance has begun to use this transactional id."""


@dataclass(frozen=True, slots=True)
class SinkCluster:
    """`brokers`: host:port, separated by commas. `client`: TLS and SASL as librdkafka names them, no secrets: none travels with what is
    pickled to a Spark task. `secrets`: the settings that are, kept as shared/process/kept_secrets.py says; on a cluster the executors have
    it in PASSWORD_VARIABLE."""

    brokers: str
    client: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()

    @classmethod
    def of(cls, brokers: str, client: Mapping[str, str]) -> SinkCluster:
        secrets = tuple(name for name in SECRETS if client.get(name))
        cluster = cls(brokers, tuple((name, value) for name, value in client.items() if name not in SECRETS), secrets)
        for name in secrets:
            keep(SECRET_KIND, cluster._secret(name), client[name])
        return cluster

    def _note(self, error: KafkaError) -> None:
        """What a person must repair comes here alone: librdkafka returns to a call only that no broker answers."""
        if error.code() in _REFUSED:
            _refusals[self.brokers] = error

    def refusal(self) -> KafkaError | None:
        """Why no broker answered, if they gave a reason; once."""
        return _refusals.pop(self.brokers, None)

    def _secret(self, name: str) -> str:
        return f"{name} {self.brokers} {dict(self.client).get('sasl.username', '')}"

    def _secrets(self) -> dict[str, str]:
        names = self.secrets or (("sasl.password",) if "sasl.username" in dict(self.client) else ())
        secrets = {name: kept(SECRET_KIND, self._secret(name)) or os.environ.get(PASSWORD_VARIABLE, "") for name in names}
        if missing := sorted(name for name, value in secrets.items() if not value):
            raise SinkError(
                f"{', '.join(missing)} of kafka://{self.brokers} is not known to this process: secrets do not travel with tasks",
                hint=f"set {PASSWORD_VARIABLE} in the executors' environment (or sasl-password in the URI, where the master is local)",
            )
        return secrets

    def settings(self) -> dict[str, Any]:
        """Raises SinkError for a secret that this process does not have."""
        return self._secrets() | {
            "client.id": "ticdc-dump", "reconnect.backoff.ms": str(RECONNECT_MS),
            "reconnect.backoff.max.ms": "1000", "allow.auto.create.topics": "false", **dict(self.client),
            "bootstrap.servers": self.brokers, "logger": DebugLog(_log),
        }  # fmt: skip

    def connect(self, kind: Callable[[dict[str, Any]], _T], settings: dict[str, Any]) -> _T:
        """Raises ConfigError for settings that librdkafka does not take."""
        try:
            return kind(self.settings() | {"error_cb": self._note} | settings)
        except KafkaException as error:
            raise ConfigError(
                f"librdkafka cannot use the parameters of the sink kafka://{self.brokers}: {error.args[0].str()}",
                hint="check ca, cert, key and the sasl- parameters; files must be readable for this user on every host that runs tasks",
            ) from error

    def raised(self, error: KafkaError, what: str) -> SinkError | Fenced:
        """What to raise for `error` at `what`."""
        if error.code() in _FENCED:
            return Fenced(what)
        did = "does not answer for" if passing(error) else "refuses"
        said = f"Kafka at {self.brokers} {did} {what}: {error.name()}: {error.str()}"
        return (OutcomeUnknown if error.code() == KafkaError.UNKNOWN else SinkError)(said, hint=_HINTS.get(error.code(), _WAIT))


_FENCED = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_ID_MAPPING}
)
_REFUSED = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaError._SSL}
)
_refusals: dict[str, KafkaError] = {}
_HINTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant this user Write and Describe on the output's topics and the position topic, Read on the "
    "position topic, and Create if they are to be made",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant this user Write and Describe on the transactional ids that begin with the "
    "position topic's name, or set transactions=false (at least once: deploy/KAFKA-SINK.md)",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant this user IdempotentWrite (and Create, if topics are to be made) on the cluster",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: f"set transaction.max.timeout.ms of the brokers to {TRANSACTION_MAX_S * 1000} or more",
    KafkaError.MSG_SIZE_TOO_LARGE: "raise max.message.bytes of the topic (message.max.bytes of the brokers) to max-message-bytes",
    KafkaError._MSG_TIMED_OUT: "start the brokers that are down, and look whether each partition has enough in-sync replicas and room",
    KafkaError._AUTHENTICATION: "check sasl-mechanism, sasl-user and sasl-password",
    KafkaError.SASL_AUTHENTICATION_FAILED: "check sasl-user and sasl-password",
    KafkaError.UNSUPPORTED_SASL_MECHANISM: "set sasl-mechanism to one that the brokers have",
    KafkaError._SSL: "check ca (and cert, key for mutual TLS), and that the names in the URI are those in the brokers' certificates",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "make the topic again, or leave it to the sink: auto-create-topic=true",
    KafkaError.UNKNOWN: "look for its cause in the brokers' log; what was not accepted is sent again automatically",
}
_WAIT = "start the brokers, or correct their names in the URI; what was not accepted is sent again automatically"


def patiently(cluster: SinkCluster, client: Any, call: Callable[[float], _T], what: str) -> _T:
    """`call(timeout_s)` of `client` until it succeeds or fails for good. Raises Fenced, SinkError."""
    deadline_s, call_s = time.monotonic() + patience_s(OUTAGE_MAX_S), patience_s(REQUEST_TIMEOUT_S)
    while True:
        try:
            with may_take(call_s):
                return call(call_s)
        except KafkaException as error:
            arg: KafkaError = error.args[0]
            with suppress(KafkaException):  # of a producer that has failed for good, which the call has reported
                client.poll(0)
            if (refused := cluster.refusal()) is not None:
                raise cluster.raised(refused, "the connection") from error
            if not passing(arg) or time.monotonic() > deadline_s:
                raise cluster.raised(arg, what) from error
            time.sleep(TRY_AGAIN_S)


def passing(error: KafkaError) -> bool:
    """Whether it passes without help: a broker is away, a partition changes its leader, a topic has just been made."""
    return bool(error.retriable()) or error.code() in REPAIRED or error.code() == KafkaError.CONCURRENT_TRANSACTIONS
