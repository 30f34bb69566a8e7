"""What a merge worker and the process of its verifications say to each other, over a pair of sockets.

    worker ──► BeginVerifying, then LateState when that changes, and SparkDone for each SparkWork ──► process
    worker ◄── RunState, Notice, SparkWork ◄── process

A message is a pickle: both ends are processes of one user, and one has started the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

from sidecar.shared.model.nouns import OperationId
from spark_merge.delivery.batches import JobSettings
from spark_merge.sinks.mysql.server import SqlServer


@dataclass(frozen=True, slots=True)
class BeginVerifying:
    """`uris`: the sinks'. `on_spark`: large work is sent back to the worker, whose Spark is a cluster; else the process has processes of
    its own for it, at most `cores`."""

    job: JobSettings
    uris: tuple[str, ...]
    log_id: str
    server: SqlServer
    on_spark: bool
    cores: int


@dataclass(frozen=True, slots=True)
class LateState:
    """`late`: whether deliveries take longer than they may (lateness.py)."""

    late: bool


@dataclass(frozen=True, slots=True)
class RunState:
    """`verification`: the id of the one that runs."""

    verification: OperationId | None


@dataclass(frozen=True, slots=True)
class Notice:
    text: str


@dataclass(frozen=True, slots=True)
class SparkWork:
    """For Spark. None: how many cores it has."""

    number: int
    work: Sequence[Callable[[], Any]] | None


@dataclass(frozen=True, slots=True)
class SparkDone:
    """`error`: as of task_errors.error_text; empty: there is none."""

    number: int
    results: list[Any]
    error: str = ""


class Link:
    """One end. Any thread sends; one receives."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = Lock()

    def send(self, message: object) -> None:
        """Raises OSError where the other end is gone."""
        with self._sending:
            self._connection.send(message)

    def receive(self) -> Any:
        """Waits. Raises EOFError or OSError where the other end is gone."""
        return self._connection.recv()

    def close(self) -> None:
        self._connection.close()
