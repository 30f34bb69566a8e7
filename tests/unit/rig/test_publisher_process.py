"""The publisher's process and its checkpoints, without servers: it waits for a MariaDB that never comes."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import PATIENCE_S
from tests.tools.rig.binlog import MySqlAddress
from tests.tools.rig.dispatch import Dispatcher
from tests.tools.rig.publisher import CHECKPOINTS_FILE, Checkpoint, Settings, read_checkpoints, write_checkpoint
from tests.tools.rig.publisher_process import PublisherProcess

START = Checkpoint("0-1-7", 700)


def settings(port: int) -> Settings:
    nobody = MySqlAddress("127.0.0.1", port, "user", "password")
    rules = (Dispatcher(("*.*",), "index-value", "x_{table}"),)
    return Settings(nobody, f"127.0.0.1:{port}", "topic", "canal-json", ("shop.*",), START, 3, rules)


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[PublisherProcess]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        made = PublisherProcess(tmp_path / "publisher", settings(taken.getsockname()[1]))
        made.start()
        yield made
        made.kill()


def test_it_waits_for_its_servers_and_ends_with_the_process_that_started_it(publisher: PublisherProcess) -> None:
    process = publisher._process
    assert process is not None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    publisher.check()
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0


def test_a_publisher_that_ended_is_reported_with_its_log(publisher: PublisherProcess) -> None:
    process = publisher._process
    assert process is not None
    process.kill()
    process.wait(PATIENCE_S)
    with pytest.raises(RuntimeError, match="the publisher ended with -9"):
        publisher.await_gtid("0-1-8", timeout_s=PATIENCE_S)


def test_waiting_for_what_does_not_come_ends(publisher: PublisherProcess) -> None:
    assert publisher.await_gtid("0-1-7", timeout_s=PATIENCE_S) == START
    with pytest.raises(TimeoutError, match=r"is at 0-1-7 after 0\.1 s, and not at 0-1-8"):
        publisher.await_gtid("0-1-8", timeout_s=0.1)


def test_checkpoints_are_read_in_order_and_one_being_written_is_not_there_yet(tmp_path: Path) -> None:
    assert read_checkpoints(tmp_path, START) == [START]
    newer, older = Checkpoint("0-1-9", 900), Checkpoint("0-1-8", 800)
    write_checkpoint(tmp_path, newer)
    write_checkpoint(tmp_path, older)
    with (tmp_path / CHECKPOINTS_FILE).open("ab") as file:
        file.write(b'{"gtid":"0-1')
    assert read_checkpoints(tmp_path, START) == [START, newer, older]
