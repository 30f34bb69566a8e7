"""A recorded Kafka changefeed on its way as messages of TiCDC's own sink: deploy/push/send_messages.py beside a test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

from sidecar.replay.recording import Recording
from tests.support.senders import sender_script

send_messages: Any = sender_script("send_messages")
PATIENCE_S = 300.0
MORE = 10
"""Messages of each partition."""


class Sending:
    """Senders in threads. `partitions`: of all of them. `upto_ts`: they send what a mark at it covers, and some rows more."""

    def __init__(
        self, recording: Recording, feed: str, at: str, *, changefeed: str = "", senders: int = 2, upto_ts: int | None = None
    ) -> None:
        self.partitions: Sequence[Any] = send_messages.read_partitions(recording.folder, feed)
        if upto_ts is not None:
            self.partitions = [_beginning(partition, upto_ts) for partition in self.partitions]
        names = [f"node-{number}" for number in range(senders)]
        self.senders: Sequence[Any] = send_messages.senders_of(self.partitions, names, send_messages.Target(at, changefeed))
        self._refused = 0
        self._thread = Thread(target=self._run, name="sending", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._refused = send_messages.play(self.senders)

    def alive(self) -> bool:
        """False once everything is kept, or a sender was turned away."""
        return self._thread.is_alive()

    def check(self) -> None:
        """All was sent and kept."""
        self._thread.join(PATIENCE_S)
        assert not self.alive()
        assert not self._refused
        assert all(partition.kept == len(partition.items) for partition in self.partitions)

    def end(self) -> None:
        for sender in self.senders:
            sender.done()
            sender.break_connection()
        self._thread.join(PATIENCE_S)


def _beginning(partition: Any, upto_ts: int) -> Any:
    at = next(at for at, item in enumerate(partition.items) if item.mark_ts >= upto_ts)
    return send_messages.Partition(partition.number, partition.items[: at + 1 + MORE])


@contextmanager
def sending(
    recording: Recording, feed: str, at: str, *, changefeed: str = "", senders: int = 2, upto_ts: int | None = None
) -> Iterator[Sending]:
    """Until everything is kept, or the block ends."""
    result = Sending(recording, feed, at, changefeed=changefeed, senders=senders, upto_ts=upto_ts)
    try:
        yield result
    finally:
        result.end()
