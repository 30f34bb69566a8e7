"""The push feed for real: recordings played by deploy/push/send_recording.py over TCP, with what goes wrong on the way.

Whatever happens, every `Pulled` is held against the recording: each entry that it covers must have been delivered before it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import grpc
import pyarrow.parquet as pq
import pytest

from sidecar.feeds.push.puller import PushPuller
from sidecar.shared.config import PushSection, Tls
from sidecar.shared.errors import FeedLost
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, rows_of
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.lanes import LANE
from tests.support.eventually import PATIENCE_S
from tests.support.recordings import recording
from tests.support.senders import FOLDER, sender_script
from tests.support.services.tls import Authority, Signed
from tests.unit.feeds.pushing import RawSender, waiting

SCRIPT = FOLDER / "send_recording.py"
RECORDINGS = [pytest.param(name, marks=pytest.mark.recordings) for name in ("shop", "ddl")]
SMALL_BYTES = 128 << 10
"""Of all that waits: recordings have some megabytes."""

TOKEN = "correct horse battery staple"
CHANGEFEED = ChangefeedName("default", "default", "cf")


send_recording = sender_script("send_recording")


class Committed(NamedTuple):
    key: bytes
    commit_ts: int
    value: bytes
    old: bytes


@cache
def committed(name: str) -> frozenset[Committed]:
    rows = pq.read_table(recording(name) / "kv" / "entries.parquet").to_pylist()
    return frozenset(Committed(r["key"], r["commit_ts"], r["value"], r["old_value"]) for r in rows if r["op"] != "resolved")


class Taking:
    """Takes all that a puller gives, and holds each Pulled against the recording. `ranges`: what is wanted, with their ends."""

    def __init__(self, name: str, puller: PushPuller) -> None:
        self.puller = puller
        self.spans = {rows_of(span.table_id): span for span in send_recording.read_spans(recording(name))}
        self.due = {range: sorted((c for c in committed(name) if c.key in range), key=lambda c: c.commit_ts) for range in self.spans}
        self.left = dict(self.due)
        self.delivered: set[Committed] = set()
        self.entries = 0
        self.upto_ts: dict[KeyRange, CommitTs] = {}

    def want(self, ranges: Sequence[KeyRange] | None = None) -> None:
        self.puller.want({range: CommitTs(self.spans[range].available_ts) for range in ranges or self.spans})

    def take(self, *, timeout_s: float = 0.05) -> None:
        for event in self.puller.poll(timeout_s=timeout_s):
            if isinstance(event, KvEntry):
                self.delivered.add(Committed(event.key, event.commit_ts, event.value, event.old))
                self.entries += 1
                continue
            assert event.upto_ts > self.upto_ts.get(event.range, 0)
            self.upto_ts[event.range] = event.upto_ts
            left = self.left[event.range]
            passed = next((at for at, due in enumerate(left) if due.commit_ts > event.upto_ts), len(left))
            missing = [due for due in left[:passed] if due not in self.delivered]
            assert not missing, f"{event} passes {missing[0]} and {len(missing) - 1} others"
            self.left[event.range] = left[passed:]

    def acknowledge(self) -> None:
        self.puller.acknowledge(self.upto_ts)

    def until(self, there: Callable[[], object], *, acknowledge: bool = True) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not there():
            assert time.monotonic() < until_s, f"does not end: { ({range.start.hex(): len(left) for range, left in self.left.items()}) }"
            self.take()
            if acknowledge:
                self.acknowledge()

    def complete(self) -> bool:
        return all(range in self.upto_ts and not left for range, left in self.left.items())


@contextmanager
def taking(name: str, **settings: Any) -> Iterator[Taking]:
    with closing(PushPuller(PushSection(**{"listen": "127.0.0.1:0"} | settings), changefeed=CHANGEFEED)) as puller:
        yield Taking(name, puller)


@contextmanager
def playing(taking: Taking, tables: int = 1, *, part: int = 0, name: str = "", keep: bool = False, **reached: Any) -> Iterator[Any]:
    """A sender in a thread: each `tables`-th table of the recording, or of all of them. `keep`: it stays when all is durable."""
    spans = [span for at, span in enumerate(taking.spans.values()) if at % tables == part]
    at = reached.pop("at", f"127.0.0.1:{taking.puller.port}")
    copies = [send_recording.Span(s.table_id, s.start, s.end, [*s.items], s.available_ts) for s in spans]
    target = send_recording.Target(at, str(CHANGEFEED), **reached)
    sender = send_recording.Sender(name or f"node-{part}", copies, target, speed=0.0, until_durable=not keep)
    thread = Thread(target=send_recording.play, args=([sender],), name="playing", daemon=True)
    sender.thread = thread
    thread.start()
    try:
        yield sender
    finally:
        sender.done()
        sender.break_connection()
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("name", ["demo", *RECORDINGS])
@pytest.mark.parametrize("senders", [1, 3])
def test_all_entries_of_a_recording_arrive_before_the_marks_that_cover_them(name: str, senders: int) -> None:
    with taking(name) as result, ExitStack() as held:
        result.want()
        threads = [held.enter_context(playing(result, senders, part=part)).thread for part in range(senders)]
        result.until(lambda: not any(thread.is_alive() for thread in threads))
        assert result.complete()
        assert result.delivered == committed(name)


@pytest.mark.parametrize("name", ["demo", *RECORDINGS])
def test_connections_that_break_in_the_middle_lose_nothing(name: str) -> None:
    with taking(name, queue_bytes_max=SMALL_BYTES) as result, playing(result, 2) as one, playing(result, 2, part=1) as other:
        result.want()
        for part in (8, 4, 2):
            result.until(lambda part=part: result.entries > len(committed(name)) // part)  # type: ignore[misc]  # one loop's
            one.break_connection()
            other.break_connection()
        result.until(lambda: not one.thread.is_alive() and not other.thread.is_alive())
        assert result.complete()
        assert result.delivered == committed(name)


def test_what_is_durable_is_forgotten_and_not_sent_again() -> None:
    with taking("demo") as result, playing(result, keep=True) as sender:
        result.want()
        result.until(result.complete, acknowledge=False)
        assert result.entries == len(committed("demo"))
        sender.break_connection()
        result.until(lambda: result.puller.senders() == [])
        result.until(lambda: sum(view.spans for view in result.puller.senders()) == len(result.spans))
        assert result.entries == len(committed("demo")), "all of it was resolved"
        result.until(lambda: all(span.durable() for span in sender.spans))


@pytest.mark.parametrize("name", ["demo", *(RECORDINGS if LANE.whole else [])])
def test_spans_move_to_another_sender_in_the_middle_and_back(name: str) -> None:
    with taking(name, queue_bytes_max=SMALL_BYTES) as result, playing(result, keep=True, name="node-1") as first:
        result.want()
        result.until(lambda: result.entries > len(committed(name)) // 8)
        with playing(result, 2, name="node-2", keep=True) as second:
            result.until(lambda: any(span.moved for span in first.spans))
            result.until(lambda: result.entries > len(committed(name)) // 2)
            second.break_connection()
            result.until(lambda: all(span.ready for span in second.spans))
        for span in first.spans:
            span.moved = False
        first.break_connection()
        result.until(result.complete)
        assert result.delivered == committed(name)


def test_tables_that_are_wanted_later_come_from_the_ts_that_is_requested() -> None:
    with taking("demo") as result, playing(result, keep=True):
        early, *late = result.spans
        result.want([early])
        result.until(lambda: early in result.upto_ts and not result.left[early])
        assert all(entry.key in early for entry in result.delivered)
        assert late
        result.want()
        result.until(result.complete)
        assert result.delivered == committed("demo")


def test_a_table_that_is_not_wanted_any_more_ends_and_the_others_go_on() -> None:
    with taking("demo", queue_bytes_max=16 << 10) as result, playing(result):
        result.want()
        result.until(lambda: result.entries > 50)
        ended = max(result.left, key=lambda range: len(result.left[range]))
        result.want([range for range in result.spans if range != ended])
        upto_ts = result.upto_ts.get(ended)
        del result.left[ended]
        result.until(result.complete)
        assert result.upto_ts.get(ended) == upto_ts


def test_a_sender_tries_its_addresses_in_turn_until_one_listens() -> None:
    with taking("demo") as result, taking("demo") as standby:
        standby.puller.close()
        result.want()
        with playing(result, at=f"127.0.0.1:{standby.puller.port},127.0.0.1:{result.puller.port}") as sender:
            result.until(lambda: not sender.thread.is_alive())
        assert result.complete()


@pytest.mark.parametrize("senders", [1, 3])
def test_a_slow_consumer_holds_the_senders_within_the_bound(senders: int) -> None:
    with taking("demo", queue_bytes_max=SMALL_BYTES // 2) as result, ExitStack() as held:
        result.want()
        playing_all = [held.enter_context(playing(result, senders, part=part)) for part in range(senders)]
        result.until(lambda: result.entries)
        stalls = 0
        while not result.complete():
            assert waiting(lambda: all(sender._credit <= 0 or _idle(sender) for sender in playing_all))
            stalls += any(sender._credit <= 0 for sender in playing_all)
            assert sum(view.waiting_bytes for view in result.puller.senders()) <= SMALL_BYTES // 2
            result.take()
            result.acknowledge()
        assert stalls > 3
        assert result.delivered == committed("demo")


def _idle(sender: Any) -> bool:
    with sender._changed:
        return bool(sender._due_in_s() > 0)


# ---- as processes -------------------------------------------------------------------------------------------------------


def start(taking: Taking, name: str, *arguments: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        str(SCRIPT),
        str(recording(name)),
        "--to",
        f"127.0.0.1:{taking.puller.port}",
        "--changefeed",
        str(CHANGEFEED),
    ]
    return subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True)


def test_a_sender_that_is_killed_and_started_again_loses_nothing() -> None:
    with taking("demo", queue_bytes_max=16 << 10) as result:
        result.want()
        with start(result, "demo", "--speed", "20") as first:
            result.until(lambda: result.entries > 20)
            first.kill()
        assert not result.complete()
        with start(result, "demo", "--until-durable", "--senders", "2") as second:
            result.until(lambda: second.poll() is not None)
            assert second.stderr is not None
            assert second.returncode == 0, second.stderr.read()
        assert result.complete()
        assert result.delivered == committed("demo")


def test_the_speed_is_that_of_the_recording_times_the_factor() -> None:
    commits = sorted(entry.commit_ts for entry in committed("demo"))
    recorded_s = ((commits[-1] >> 18) - (commits[0] >> 18)) / 1000
    speed = recorded_s / 2.0
    with taking("demo") as result:
        result.want()
        began_s = time.monotonic()
        with start(result, "demo", "--speed", str(speed), "--until-durable") as sender:
            result.until(lambda: sender.poll() is not None)
            assert sender.stderr is not None
            assert sender.returncode == 0, sender.stderr.read()
        assert time.monotonic() - began_s >= 1.9
        assert result.delivered == committed("demo")


def test_a_sender_that_is_turned_away_says_why_and_stops() -> None:
    with taking("demo") as result, start(result, "demo", "--changefeed", "another/one/here") as sender:
        result.until(lambda: sender.poll() is not None)
        assert sender.stderr is not None
        assert sender.returncode == 1
        assert "FAILED_PRECONDITION" in sender.stderr.read()


def test_help_reports_every_option() -> None:
    help_text = subprocess.run([sys.executable, str(SCRIPT), "--help"], capture_output=True, text=True, check=True).stdout
    for option in (
        "--to",
        "--speed",
        "--senders",
        "--until-durable",
        "--token-file",
        "--ca",
        "--cert",
        "--key",
        "--tables",
        "--changefeed",
    ):
        assert option in help_text


# ---- who may send -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def signed(authority: Authority) -> Signed:
    return authority.sign("sidecar")


def tls(signed: Signed, authority: Authority | None = None) -> Tls:
    return Tls(ca_file=str(authority.ca_file) if authority else "", cert_file=str(signed.cert_file), key_file=str(signed.key_file))


def channel(value: Taking, authority: Authority, signed: Signed | None = None) -> Any:
    own = (signed.key_file.read_bytes(), signed.cert_file.read_bytes()) if signed else (None, None)
    return grpc.secure_channel(f"127.0.0.1:{value.puller.port}", grpc.ssl_channel_credentials(authority.ca_file.read_bytes(), *own))


def test_with_mutual_tls_senders_need_a_certificate_of_the_authority(authority: Authority, signed: Signed, tmp_path: Path) -> None:
    with taking("demo", tls=tls(signed, authority)) as result:
        result.want()
        stranger = Authority(tmp_path, "stranger").sign("stranger")
        for wrong in (channel(result, authority), channel(result, authority, stranger), None):
            with RawSender(result.puller.port, channel=wrong) as refused:
                refused.hello()
                assert refused.wait_end()[0] == grpc.StatusCode.UNAVAILABLE
        node = authority.sign("node")
        reached: dict[str, Any] = {"ca_file": str(authority.ca_file), "cert_file": str(node.cert_file), "key_file": str(node.key_file)}
        with playing(result, **reached) as sender:
            result.until(lambda: not sender.thread.is_alive())
        assert result.complete()


def test_with_a_token_senders_need_it(authority: Authority, signed: Signed, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    with taking("demo", tls=tls(signed), token_file=str(file), listen="0.0.0.0:0") as result:
        result.want()
        for wrong in ("", "wrong", TOKEN + "x"):
            with RawSender(result.puller.port, channel=channel(result, authority), token=wrong) as refused:
                refused.hello()
                assert refused.wait_end()[0] == grpc.StatusCode.UNAUTHENTICATED
        with playing(result, ca_file=str(authority.ca_file), token=TOKEN) as sender:
            result.until(lambda: not sender.thread.is_alive())
        assert result.complete()


def test_a_sidecar_without_senders_says_which_table_nobody_sends() -> None:
    with taking("demo", silent_max_s=0.2) as result:
        result.want()
        with pytest.raises(FeedLost, match=r"table \d+: no sender has sent it"):
            result.until(result.complete)
