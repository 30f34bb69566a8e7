"""What writes to Kafka, with a transactional id and without: begin, write, commit.

    TransactionalProducer    nothing is visible that is not committed
    IdempotentProducer       all is visible as it comes: in each partition a beginning of what was written for it, each record once

- A delivery report with an error or **without an offset** is a failure: a broker may reject the first batch of a partition that has just
  been made, accept the second, and then call the first's repetition a duplicate, which librdkafka reports as delivered. One request at a
  time makes that impossible; the check of the offset would detect it.
- Memory is bounded by librdkafka's queue: a writer waits while it is full.
- After an error a transaction is aborted. Where that fails, the producer is of no use any more: the next one with its id aborts it.
- Without a transaction no record of a partition may follow one that failed, or a consumer would see a gap: librdkafka then ends with a
  fatal error (gapless), and gives up no record because of its age (`_Patience` ends the task).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer

from sidecar.shared.errors import SinkError
from sidecar.shared.process.progress import progressed
from spark_merge.sinks.kafka.client import OUTAGE_MAX_S, TRANSACTION_MAX_S, Fenced, SinkCluster, patiently

QUEUE_KBYTES_MAX = 32 << 10
QUEUE_ROWS_MAX = 100_000
ABORT_MAX_S = 5.0
REPORTS_EVERY_ROWS = 1_000
MESSAGE_MAX_S = 300
"""Of a message in the queue, behind all others of it. That nothing of the queue is taken any more is noticed sooner (`_Patience`)."""

RECORD_OVERHEAD_BYTES = 36
"""What TiCDC reckons a record takes beside its key and value (maxRecordOverhead in pkg/sink/codec/common/message.go)."""

Headers = list[tuple[str, bytes]]


KafkaRecord: TypeAlias = "tuple[str, int, bytes | None, bytes | None, Headers | None]"
"""Topic, partition, key, value, headers. A plain tuple, as RowMessage."""


CONNECTED_MAX_S = 2.0
"""For a connection before the coordinator is requested: librdkafka that has none yet asks again after 0.5 s, a connection takes 0.01."""


class IdempotentProducer:
    """Making one asks nobody. One thread."""

    own: Mapping[str, str] = {"enable.idempotence": "true", "enable.gapless.guarantee": "true", "message.timeout.ms": "0"}

    def __init__(self, cluster: SinkCluster, name: str, settings: Mapping[str, str]) -> None:
        self.name, self._cluster = name, cluster
        self._reports: list[tuple[KafkaError | None, Any]] = []
        self._failures: list[SinkError | Fenced] = []
        self._failed = 0
        self._producer: Any = cluster.connect(
            Producer,
            {
                "max.in.flight": "1", "linger.ms": "5", "queue.buffering.max.kbytes": str(QUEUE_KBYTES_MAX),
                "queue.buffering.max.messages": str(QUEUE_ROWS_MAX), **settings, **self.own,
            },
        )  # fmt: skip

    def begin(self) -> None:
        self._reports, self._failures, self._failed = [], [], 0

    def write(self, records: Iterable[KafkaRecord]) -> None:
        produce, reported = self._producer.produce, self._reported
        with self._errors():
            for number, (topic, partition, key, value, headers) in enumerate(records):
                while True:
                    try:
                        produce(topic, value, key, partition, reported, headers=headers)
                        break
                    except BufferError:
                        self._make_room()
                if not number % REPORTS_EVERY_ROWS:
                    self._producer.poll(0)
                    self._check()

    def flush(self) -> None:
        """All that was written is at the brokers."""
        patience = _Patience()
        with self._errors():
            while waiting := self._producer.flush(1.0):
                self._check()
                if patience.ends(waiting):
                    raise self._silent()
        self._check()

    def commit(self) -> None:
        """All of it is durable, and seen. Raises Fenced, SinkError; then it is to be aborted."""
        self.flush()

    def abort(self) -> bool:
        """Whether this producer can continue. Waits for requests on their way: their rows come before those of the next attempt."""
        self._producer.purge(in_queue=True, in_flight=False, blocking=True)
        left, deadline_s = True, time.monotonic() + ABORT_MAX_S
        while left and time.monotonic() < deadline_s:
            with suppress(KafkaException, SystemError):  # of reports, one by one
                left = bool(self._producer.flush(1.0))
        return False

    def close(self) -> None:
        """What is not committed stays undone: the broker aborts it, or who takes the id next."""
        self._producer.purge()
        self._producer = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Of calls that librdkafka answers with what is wrong with the producer. Where it has a fatal error and a report at once, the
        binding stumbles over its own exception (SystemError)."""
        try:
            yield
        except KafkaException as error:
            if error.args[0].fatal() or error.args[0].code() == KafkaError._FATAL:
                raise self._fatal() from error
            failure = self._first_failure() if error.args[0].code() == KafkaError._STATE else None
            raise failure or self._cluster.raised(error.args[0], f"what {self.name} writes") from error
        except SystemError as error:
            raise self._fatal() from error

    def _fatal(self) -> SinkError | Fenced:
        lost = SinkError(f"Kafka's client has failed in what {self.name} writes", hint="nothing: it is written again")
        return self._first_failure() or lost

    def _first_failure(self) -> SinkError | Fenced | None:
        """The cause by the reports: a call fails after a record has failed, and says nothing of that record."""
        deadline_s = time.monotonic() + ABORT_MAX_S
        while not self._looked() and time.monotonic() < deadline_s:
            with suppress(KafkaException, SystemError):  # each call may meet it again
                self._producer.poll(0.1)
            time.sleep(0.01)
        return self._failures[0] if self._failures else None

    def _make_room(self) -> None:
        patience, before = _Patience(), len(self._producer)
        while len(self._producer) > before * 3 // 4:
            self._producer.poll(0.05)
            self._check()
            if patience.ends(len(self._producer)):
                raise self._silent()

    def _silent(self) -> SinkError:
        return SinkError(
            f"Kafka has not taken {len(self._producer)} rows of {self.name} for {OUTAGE_MAX_S:.0f} s",
            hint="start the brokers, and look whether each partition has a leader, enough in-sync replicas and room on disk",
        )

    def _reported(self, error: KafkaError | None, message: Any) -> None:
        """The binding may call this with an exception of its own under way: no call that is made here succeeds then, and the report would
        be lost. So it is kept as it is."""
        if error is not None:
            self._reports += [(error, message)]
        elif message.offset() is None:
            self._reports += [(None, message)]

    def _looked(self) -> list[SinkError | Fenced]:
        """What the reports say so far, the cause first."""
        reports, self._reports = self._reports, []
        for error, message in reports:
            self._failed += 1
            if self._failed == 1 or (error is not None and error.code() not in _AFTERMATH and len(self._failures) < 3):
                place = f"a row for {message.topic()}/{message.partition()} of {len(message)} bytes"
                lost = SinkError(f"Kafka says that it has {place} already, and has not", hint="nothing: it is written again")
                self._failures.insert(0, lost if error is None else self._cluster.raised(error, place))
        return self._failures

    def _check(self) -> None:
        if failures := self._looked():
            raise failures[0]


class TransactionalProducer(IdempotentProducer):
    own: Mapping[str, str] = {"message.timeout.ms": str(MESSAGE_MAX_S * 1000), "transaction.timeout.ms": str(TRANSACTION_MAX_S * 1000)}

    def __init__(self, cluster: SinkCluster, name: str, settings: Mapping[str, str]) -> None:
        super().__init__(cluster, name, {**settings, "transactional.id": name})
        self._taken = False

    def start(self) -> None:
        """Begin to become the one instance with this id; `take` ends it. So several can begin at once."""
        try:
            self._producer.init_transactions(0.001)
            self._taken = True
        except KafkaException as error:
            if not error.args[0].retriable():
                raise self._cluster.raised(error.args[0], f"transactional id {self.name}") from error

    def take(self) -> None:
        """Be the one instance with this id: what another has not committed is aborted, and it can commit no more."""
        if self._taken:
            return
        with suppress(KafkaException):  # what follows reports a broker that is not there
            self._producer.list_topics(timeout=CONNECTED_MAX_S)
        patiently(self._cluster, self._producer, self._producer.init_transactions, f"transactional id {self.name}")

    def begin(self) -> None:
        super().begin()
        with self._errors():
            self._producer.begin_transaction()

    def commit(self) -> None:
        super().commit()
        patiently(self._cluster, self._producer, self._producer.commit_transaction, f"a transaction of {self.name}")
        self._check()

    def abort(self) -> bool:
        try:
            self._producer.abort_transaction(ABORT_MAX_S)
        except KafkaException:
            return False
        return True

    def _fatal(self) -> SinkError | Fenced:
        """What it is, which only some calls tell."""
        try:
            self._producer.commit_transaction(ABORT_MAX_S)
        except KafkaException as error:
            return self._cluster.raised(error.args[0], f"a transaction of {self.name}")
        return super()._fatal()


class _Patience:
    """With a queue that gets no shorter; one that does is progress."""

    def __init__(self) -> None:
        self._least, self._deadline_s = math.inf, 0.0

    def ends(self, waiting: int) -> bool:
        if waiting < self._least:
            self._least, self._deadline_s = waiting, time.monotonic() + OUTAGE_MAX_S
            progressed()
        return time.monotonic() > self._deadline_s


_AFTERMATH = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
