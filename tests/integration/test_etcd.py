"""Ownership, progress and TiCDC's keys on a real etcd that is stopped, killed, frozen, compacted, filled and locked up."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from string import ascii_letters, digits
from typing import Any

import pytest

from sidecar.adapters.etcd.changefeed import list_changefeeds, read_changefeed_info, read_checkpoint_ts
from sidecar.adapters.etcd.client import OPERATIONS_MAX, EtcdClient
from sidecar.adapters.etcd.cluster import CLUSTER_ID_KEY, pd_cluster_id
from sidecar.adapters.etcd.keeper import KeeperProcess
from sidecar.adapters.etcd.keys import Compare, Delete, Keys, Put, Transaction, changefeed_root
from sidecar.adapters.etcd.owner import EtcdOwner, OwnerHolder, owner, owner_log
from sidecar.adapters.etcd.progress import PART_TABLES, EtcdProgress, load_progress
from sidecar.control.predicate import PREDICATE_BYTES_MAX
from sidecar.core.dump_start import KEYS_BYTES_MAX
from sidecar.shared.config import EtcdSection, Tls
from sidecar.shared.errors import ConfigError, CoordinationError, CoordinationLost, FeedUnsuitable, OwnershipLost, StorageFull
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, Span, TableProgress
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.watch.gaps import ResumeWatch
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.recordings import recorded_cluster
from tests.support.services.etcd import Certificates, Etcd, certificates, cluster

ORDERS = ChangefeedName("default", "default", "orders")
KEYS = changefeed_root(ORDERS, "1")
REPOSITORY = Path(__file__).parents[2]
LEASE_S = 60
"""No machine stands still for so long."""

SHORT_S = 6
"""A lease that is to run out."""


def progress_of(tables: int, *, revision: int = 1, dump_id: str = "d1", moved: Sequence[int] = ()) -> tuple[Progress, ...]:
    """A dump in its middle; the tables `moved` are one chunk further."""
    rows = tuple(
        TableProgress(
            TableName("shop", f"orders_{number:05d}"),
            (Span((str(number * 7919), f"2026-11-21 03:36:{number % 60:02d}"), (str(number * 9000), "2026-11-21 03:37:00")),),
            number % 50 + (number in moved),
            number * 10_000,
            number * 1_234_567,
            CommitTs(470609344557744131 + number) if number % 3 == 0 else None,
        )
        for number in range(tables)
    )
    return (Progress(dump_id, DumpState.RUNNING, Brackets.WATERMARK, 10_000, 1, revision, Seq(revision), rows),)


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    with Etcd(tmp_path / "etcd") as running:
        yield running


@contextmanager
def connected(*endpoints: str, **settings: Any) -> Iterator[EtcdClient]:
    client = EtcdClient(EtcdSection(endpoints=endpoints, **settings))
    yield client
    client.close()


@contextmanager
def candidate(etcd: Etcd, *, lease_s: int = LEASE_S, **settings: Any) -> Iterator[EtcdOwner]:
    """Another process that wants to own, with a connection of its own."""
    with connected(*etcd.endpoints) as client:
        made = EtcdOwner(client, KEYS, lease_s=lease_s, holder=OwnerHolder("here", os.getpid(), "127.0.0.1:8310"), **settings)
        yield made
        made.release()


def answers(client: Keys) -> bool:
    try:
        client.get(f"{KEYS}/any")
    except CoordinationLost:
        return False
    return True


# ---- ownership -------------------------------------------------------------------------------------------------------------


class Process:
    """A sidecar of its own that owns, and saves when it is told to."""

    def __init__(self, etcd: Etcd, *, by_process: bool) -> None:
        code = f"from tests.integration.test_etcd import own; own({etcd.endpoints!r}, {by_process})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.epoch = self._read()

    def ask(self, what: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        return self._read()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def children(self) -> list[int]:
        pid = self._process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def own(endpoints: tuple[str, ...], by_process: bool) -> None:
    """What the process does."""
    with connected(*endpoints) as client:
        mine = EtcdOwner(client, KEYS, lease_s=SHORT_S, holder=OwnerHolder("there", os.getpid(), "10.0.0.1:8310"))
        mine.keeper = KeeperProcess(client.section) if by_process else None
        print(mine.acquire(timeout_s=PATIENCE_S), flush=True)  # noqa: T201 - its standard output is how it answers
        store = EtcdProgress(client, KEYS, mine)
        for number, line in enumerate(sys.stdin):
            try:
                if line == "save\n":
                    store.save(progress_of(3, revision=number))
                print(mine.held(), flush=True)  # noqa: T201 - as above
            except CoordinationError as error:
                print(type(error).__name__, flush=True)  # noqa: T201 - as above


@pytest.fixture(params=[False, True], ids=["kept by a thread", "kept by a process"])
def process(etcd: Etcd, request: pytest.FixtureRequest) -> Iterator[Process]:
    made = Process(etcd, by_process=request.param)
    yield made
    made.end()


def test_the_clusters_id_is_pds_and_unknown_where_the_etcd_is_not(etcd: Etcd) -> None:
    with closing(EtcdClient(EtcdSection(endpoints=etcd.endpoints), root="/pd/")) as pd, connected(*etcd.endpoints) as client:
        assert pd_cluster_id(client) == ""
        pd.transact((), (Put(CLUSTER_ID_KEY, (7_000_000_000_000_000_001).to_bytes(8, "big")),))
        assert pd_cluster_id(client) == "7000000000000000001"
        pd.transact((), (Put(CLUSTER_ID_KEY, b"seven"),))
        assert pd_cluster_id(client) == ""


def test_a_frozen_owner_is_replaced_when_its_lease_ends_and_can_write_nothing_when_it_wakes(etcd: Etcd, process: Process) -> None:
    assert process.epoch == "1"
    assert process.ask("save") == "True"
    with candidate(etcd) as standby:
        process.signal(signal.SIGSTOP)
        assert standby.acquire(timeout_s=PATIENCE_S) == 2
        written = progress_of(3, revision=99)
        EtcdProgress(standby.client, KEYS, standby).save(written)
        process.signal(signal.SIGCONT)
        assert process.ask("held") == "False"
        assert process.ask("save") == "OwnershipLost"
        assert load_progress(standby.client, KEYS) == written
        assert standby.held()


def test_a_killed_owner_is_replaced_when_its_lease_ends(etcd: Etcd, process: Process) -> None:
    with candidate(etcd) as standby:
        assert standby.acquire(timeout_s=0) is None
        process.signal(signal.SIGKILL)
        assert standby.acquire(timeout_s=PATIENCE_S) == 2


def test_a_keeper_that_dies_is_followed_by_another_one_before_the_lease_runs_out(etcd: Etcd) -> None:
    with candidate(etcd, lease_s=2 * SHORT_S) as made, candidate(etcd) as standby:
        made.keeper = KeeperProcess(made.client.section)
        made.acquire(timeout_s=PATIENCE_S)
        first, reign = made.keeper.pid, made._reign
        assert first is not None
        assert reign is not None
        until = reign.until
        os.kill(first, signal.SIGKILL)
        eventually(lambda: made.held() and reign.until > until)
        assert made.keeper.pid not in (None, first)
        assert standby.acquire(timeout_s=0) is None
        made.close()
        assert standby.acquire(timeout_s=PATIENCE_S) == 2


def test_a_keeper_takes_no_signal_and_ends_with_its_owner(etcd: Etcd) -> None:
    """What stops a service sends signals to all its processes, and the owner needs its lease to end well."""
    process = Process(etcd, by_process=True)
    try:
        (keeper,) = process.children()
        os.kill(keeper, signal.SIGTERM)
        assert process.ask("save") == "True"
        assert process.children() == [keeper]
    finally:
        process.end()
    eventually(lambda: b"etcd.keeper" not in command_line(keeper))


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_the_fence_holds_whatever_the_previous_owners_clock_says(etcd: Etcd) -> None:
    with candidate(etcd, lease_s=600, clock=lambda: 0.0) as previous, candidate(etcd) as standby:
        previous.acquire(timeout_s=0)
        store = EtcdProgress(previous.client, KEYS, previous)
        store.save(progress_of(3))
        entry = previous.client.get(f"{KEYS}/owner")
        assert entry is not None
        etcd.etcdctl("lease", "revoke", f"{entry.lease:x}")
        standby.acquire(timeout_s=PATIENCE_S)
        assert previous.held(), "it must not know yet, for this test to say something"
        with pytest.raises(OwnershipLost, match="another one is the owner"):
            store.save(progress_of(3, revision=2))
        assert load_progress(standby.client, KEYS) == progress_of(3)
        assert not previous.held()


def test_a_write_whose_lease_ran_out_is_refused_also_when_nobody_took_over(etcd: Etcd) -> None:
    with candidate(etcd, lease_s=600) as previous:
        previous.acquire(timeout_s=0)
        etcd.etcdctl("del", f"{KEYS}/owner")
        with pytest.raises(OwnershipLost, match="ran out"):
            previous.fenced([Put(f"{KEYS}/x", b"")])
        assert previous.client.get(f"{KEYS}/x") is None


def test_ownership_is_lost_by_our_own_clock_and_stays_lost(etcd: Etcd) -> None:
    now = [100.0]
    with candidate(etcd, lease_s=10, clock=lambda: now[0]) as made:
        made.acquire(timeout_s=0)
        now[0] = 108.9
        assert made.held()
        now[0] = 109.0
        assert not made.held()
        now[0] = 101.0
        assert not made.held()
        with pytest.raises(OwnershipLost, match="within the lease of 10 s"):
            made.fenced([Put(f"{KEYS}/x", b"")])
        assert made.acquire(timeout_s=PATIENCE_S) == 2


def test_the_lease_counts_from_when_the_keepalive_was_sent(etcd: Etcd) -> None:
    """Its reply may be as late as it likes."""
    now, third, go_on = [100.0], threading.Event(), threading.Event()
    with candidate(etcd, lease_s=SHORT_S, clock=lambda: now[0]) as made:
        real, took_s = made.client.keep_alive, [1.2, 3.6]

        def late(lease: int, *, timeout_s: float | None = None) -> bool:
            if not took_s:
                third.set()
                go_on.wait()
                return False
            now[0] += took_s.pop(0)
            return real(lease, timeout_s=timeout_s)

        made.client.keep_alive = late  # type: ignore[method-assign]  # as a slow network would
        made.acquire(timeout_s=0)
        assert third.wait(PATIENCE_S)
        now[0] = 106.5  # the second one was sent at 101.2
        assert made.held()
        now[0] = 106.7
        assert not made.held()
        go_on.set()


def test_the_lease_is_kept_for_longer_than_it_lasts(etcd: Etcd) -> None:
    with candidate(etcd, lease_s=2 * SHORT_S) as made, candidate(etcd) as standby:
        made.acquire(timeout_s=0)
        assert standby.acquire(timeout_s=3 * SHORT_S) is None
        assert made.held()
        made.fenced([Put(f"{KEYS}/x", b"")])


def test_the_log_that_an_owner_writes_is_on_record_as_long_as_its_lease(etcd: Etcd) -> None:
    with candidate(etcd) as made, candidate(etcd) as standby:
        with pytest.raises(OwnershipLost):
            made.record_log("1" * 32)
        made.acquire(timeout_s=0)
        assert owner_log(standby.client, KEYS) == ""
        made.record_log("1" * 32)
        assert owner_log(standby.client, KEYS) == "1" * 32
        made.release()
        assert owner_log(standby.client, KEYS) == ""


def test_the_command_line_finds_who_owns(etcd: Etcd) -> None:
    with candidate(etcd) as made:
        assert owner(made.client, KEYS) is None
        made.acquire(timeout_s=0)
        holder = owner(made.client, KEYS)
        assert holder is not None
        assert (holder.host, holder.pid, holder.address, holder.epoch) == ("here", os.getpid(), "127.0.0.1:8310", 1)
        assert holder.since.endswith("+00:00")
        made.release()
        assert owner(made.client, KEYS) is None


@pytest.mark.parametrize("value", ["", "{", "[]", '{"version": 9}'])
def test_an_owner_of_another_kind_is_not_taken_for_nobody(etcd: Etcd, value: str) -> None:
    etcd.put(f"{KEYS}/owner", value)
    with candidate(etcd) as made:
        with pytest.raises(CoordinationError, match="does not name an owner"):
            owner(made.client, KEYS)
        assert made.acquire(timeout_s=0) is None


def test_an_epoch_is_above_the_logs_also_when_etcd_forgot_it(etcd: Etcd) -> None:
    with candidate(etcd, epoch_min=8) as made:
        assert made.acquire(timeout_s=0) == 8
        assert made.acquire(timeout_s=0) == 9
        made.release()
        made.client.transact([], [Delete(f"{KEYS}/epoch")])
        assert made.acquire(timeout_s=0) == 10, "as the log has segments of epoch 9"


def test_an_epoch_that_is_no_number_stops(etcd: Etcd) -> None:
    etcd.put(f"{KEYS}/epoch", "many")
    with candidate(etcd) as made, pytest.raises(CoordinationError, match="is not an epoch"):
        made.acquire(timeout_s=PATIENCE_S)


def test_nothing_is_left_running_after_release(etcd: Etcd) -> None:
    before = set(threading.enumerate())
    with candidate(etcd) as made:
        made.acquire(timeout_s=0)
        assert [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("owner ")]
    eventually(lambda: set(threading.enumerate()) <= before)


# ---- etcd goes away --------------------------------------------------------------------------------------------------------


def test_an_etcd_that_is_away_for_less_than_the_lease_is_not_noticed(etcd: Etcd) -> None:
    lease_s, failed = 18, threading.Event()
    with candidate(etcd, lease_s=lease_s) as made:
        real = made.client.keep_alive

        def reported(lease: int, *, timeout_s: float | None = None) -> bool:
            try:
                return real(lease, timeout_s=timeout_s)
            except CoordinationLost:
                failed.set()
                raise

        made.client.keep_alive = reported  # type: ignore[method-assign]  # to hear of one that falls into the outage
        began_s = time.monotonic()
        made.acquire(timeout_s=0)
        etcd.stop()
        assert failed.wait(PATIENCE_S)
        etcd.start()
        eventually(lambda: time.monotonic() > began_s + lease_s)  # past the end of the lease as it was before
        assert made.held()
        EtcdProgress(made.client, KEYS, made).save(progress_of(3))


@pytest.mark.parametrize("how", [Etcd.stop, Etcd.kill, Etcd.freeze])
def test_an_etcd_that_is_away_for_longer_than_the_lease_loses_the_owner_cleanly(etcd: Etcd, how: Callable[[Etcd], None]) -> None:
    with candidate(etcd, lease_s=SHORT_S) as made:
        made.acquire(timeout_s=0)
        store = EtcdProgress(made.client, KEYS, made)
        store.save(progress_of(3))
        how(etcd)
        eventually(lambda: not made.held())
        with pytest.raises(OwnershipLost, match="no keepalive reached etcd"):
            store.save(progress_of(3, revision=2))
        with pytest.raises(CoordinationLost):
            made.acquire(timeout_s=0.1)
        etcd.thaw() if how is Etcd.freeze else etcd.start()
        assert made.acquire(timeout_s=PATIENCE_S) == 2
        assert store.load() == progress_of(3)
        store.save(progress_of(3, revision=2))
        assert store.load() == progress_of(3, revision=2)


def test_a_standby_waits_through_a_restart_of_etcd(etcd: Etcd) -> None:
    with candidate(etcd, lease_s=SHORT_S) as first, candidate(etcd) as standby, ThreadPoolExecutor(1) as pool:
        first.acquire(timeout_s=0)
        waiting = pool.submit(standby.acquire, timeout_s=PATIENCE_S)
        etcd.kill()
        eventually(lambda: not first.held())
        etcd.start()
        assert waiting.result(timeout=2 * PATIENCE_S) == 2


def test_a_standby_waits_through_a_compaction(etcd: Etcd) -> None:
    with candidate(etcd) as first, candidate(etcd) as standby, ThreadPoolExecutor(1) as pool:
        first.acquire(timeout_s=0)
        waiting = pool.submit(standby.acquire, timeout_s=PATIENCE_S)
        first.fenced([Put(f"{KEYS}/x", b"")])
        etcd.compact()
        first.release()
        etcd.compact()
        assert waiting.result(timeout=2 * PATIENCE_S) == 2


def test_a_save_waits_through_a_short_outage(etcd: Etcd) -> None:
    with candidate(etcd) as made, ThreadPoolExecutor(1) as pool:
        made.acquire(timeout_s=0)
        store = EtcdProgress(made.client, KEYS, made)
        store.save(progress_of(3))
        etcd.kill()
        waiting = pool.submit(store.save, progress_of(3, revision=2))
        assert not answers(made.client)
        etcd.start()
        waiting.result(timeout=PATIENCE_S)
        assert store.load() == progress_of(3, revision=2)


def test_a_save_gives_up_before_the_lease_ends(etcd: Etcd) -> None:
    lease_s = 18
    with candidate(etcd, lease_s=lease_s) as made:
        made.acquire(timeout_s=0)
        etcd.kill()
        began = time.monotonic()
        with pytest.raises(CoordinationLost) as raised:
            EtcdProgress(made.client, KEYS, made).save(progress_of(3))
        assert raised.value.retryable
        assert time.monotonic() - began > lease_s / 6
        assert made.held()


def test_an_owner_survives_the_death_of_any_member_of_a_cluster(tmp_path: Path) -> None:
    """The leader among them: its successor lets leases begin again."""
    with cluster(tmp_path / "etcd", 3) as members:
        endpoints = [member.endpoints[0] for member in members]
        with connected(*endpoints, timeout_s=30.0) as client:
            made = EtcdOwner(client, KEYS, lease_s=LEASE_S, holder=OwnerHolder("here", 1, ""))
            assert made.acquire(timeout_s=PATIENCE_S) == 1
            store = EtcdProgress(client, KEYS, made)
            for revision, member in enumerate(members):
                member.kill()
                store.save(progress_of(3, revision=revision))
                assert store.load() == progress_of(3, revision=revision)
                member.start()
            assert made.held()
            made.release()
            assert owner(client, KEYS) is None


# ---- the connection --------------------------------------------------------------------------------------------------------


def test_a_dead_endpoint_is_passed_over(etcd: Etcd) -> None:
    with connected("127.0.0.1:1", "name.invalid:2379", *etcd.endpoints) as client:
        client.transact([], [Put(f"{KEYS}/x", b"1")])
        assert client.get(f"{KEYS}/x") is not None


def test_a_silent_endpoint_is_passed_over_in_time_and_only_once(etcd: Etcd, tmp_path: Path) -> None:
    with Etcd(tmp_path / "silent") as silent, connected(*silent.endpoints, *etcd.endpoints, timeout_s=10.0) as client:
        client.get("/x")
        silent.freeze()
        began = time.monotonic()
        client.transact([], [Put(f"{KEYS}/x", b"1")])
        waited_s = time.monotonic() - began
        assert client.get(f"{KEYS}/x") is not None
        assert time.monotonic() - began < 2 * waited_s, "the silent one is asked once"


def test_a_call_ends_within_its_timeout(etcd: Etcd) -> None:
    with connected(*etcd.endpoints, timeout_s=0.5) as client:
        etcd.freeze()
        began = time.monotonic()
        with pytest.raises(CoordinationLost, match="DEADLINE_EXCEEDED"):
            client.get("/x")
        assert time.monotonic() - began > 0.4


def test_an_etcd_that_is_back_is_found_at_once(etcd: Etcd) -> None:
    with connected(*etcd.endpoints) as client:
        for how in (etcd.stop, etcd.kill):
            assert answers(client)
            how()
            assert not answers(client)
            etcd.start()
            eventually(lambda: answers(client))


def test_a_full_etcd_says_so(tmp_path: Path) -> None:
    with Etcd(tmp_path / "etcd", arguments=("--quota-backend-bytes=65536",)) as etcd, connected(*etcd.endpoints) as client:

        def fill() -> None:
            for _ in range(20):
                client.transact([], [Put(f"{KEYS}/x", b"x" * 50_000)])

        with pytest.raises(StorageFull, match="space") as raised:
            fill()
        assert raised.value.retryable


def test_what_etcd_refuses_is_reported_in_its_words(etcd: Etcd) -> None:
    with connected(*etcd.endpoints, user="nobody", password_file="") as client, pytest.raises(CoordinationError, match="too large"):
        client.transact([], [Put(f"{KEYS}/x", b"x" * 1_600_000)])


# ---- authentication and TLS ------------------------------------------------------------------------------------------------


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Etcd]:
    """Wants a user; `app` may do what the sidecar needs, `guest` nothing."""
    with Etcd(tmp_path / "etcd") as etcd:
        etcd.put("/tidb/cdc/default/default/changefeed/info/orders", "{}")
        etcd.etcdctl("role", "add", "sidecar")
        etcd.etcdctl("role", "grant-permission", "sidecar", "--prefix", "readwrite", "/changefeed_dump/v1/")
        etcd.etcdctl("role", "grant-permission", "sidecar", "--prefix", "read", "/tidb/cdc/")
        etcd.etcdctl("user", "add", "app:secret")
        etcd.etcdctl("user", "grant-role", "app", "sidecar")
        etcd.etcdctl("user", "add", "guest:secret")
        etcd.enable_auth("root-secret")
        (tmp_path / "secret").write_text("secret\n")
        (tmp_path / "wrong").write_text("wrong\n")
        yield etcd


def test_the_sidecars_user_needs_no_more_than_the_hint_says(locked: Etcd, tmp_path: Path) -> None:
    with connected(*locked.endpoints, user="app", password_file=str(tmp_path / "secret")) as client:
        assert read_changefeed_info(client, ORDERS) == b"{}"
        made = EtcdOwner(client, KEYS, lease_s=LEASE_S, holder=OwnerHolder("here", 1, ""))
        assert made.acquire(timeout_s=0) == 1
        EtcdProgress(client, KEYS, made).save(progress_of(3))
        assert client.keep_alive(client.grant(10))
        made.release()
        assert owner(client, KEYS) is None


def test_a_token_that_etcd_forgot_is_renewed(locked: Etcd, tmp_path: Path) -> None:
    """Tokens do not survive etcd's restart, nor some changes of its users."""
    with connected(*locked.endpoints, user="app", password_file=str(tmp_path / "secret")) as client:
        client.transact([], [Put(f"{KEYS}/x", b"1")])
        locked.stop()
        locked.start()
        eventually(lambda: answers(client))
        locked.etcdctl("user", "add", "another:secret")
        assert client.keep_alive(client.grant(10))
        client.transact([], [Put(f"{KEYS}/x", b"2")])
        locked.etcdctl("auth", "disable", "--user=root:root-secret")
        client.transact([], [Put(f"{KEYS}/x", b"3")])


@pytest.mark.parametrize(
    ("user", "password", "said"),
    [
        ("", "", r"etcd\.user and etcd\.password_file"),
        ("app", "wrong", r"etcd\.password_file"),
        ("unknown", "secret", r"etcd\.user"),
        ("guest", "secret", r"grant the user of etcd\.user read on /tidb/cdc/ and readwrite on /changefeed_dump/v1/"),
    ],
)
def test_a_user_that_may_not_gets_an_error_that_says_what_to_set(locked: Etcd, tmp_path: Path, user: str, password: str, said: str) -> None:
    with connected(*locked.endpoints, user=user, password_file=str(tmp_path / password) if password else "") as client:
        for call in (lambda: client.get(f"{KEYS}/x"), lambda: client.transact([], [Put(f"{KEYS}/x", b"")])):
            with pytest.raises(ConfigError, match=said):
                call()


@pytest.fixture(scope="module")
def made_certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("certificates"))


def test_tls_with_a_client_certificate(tmp_path: Path, made_certificates: Certificates) -> None:
    tls = Tls(ca_file=str(made_certificates.ca), cert_file=str(made_certificates.client_cert), key_file=str(made_certificates.client_key))
    (tmp_path / "secret").write_text("secret")
    with Etcd(tmp_path / "etcd", tls=made_certificates) as etcd:
        with connected(*etcd.endpoints, tls=tls) as client:
            client.transact([], [Put(f"{KEYS}/x", b"1")])
        etcd.enable_auth("secret")
        with connected(*etcd.endpoints, tls=tls, user="root", password_file=str(tmp_path / "secret")) as client:
            assert client.get(f"{KEYS}/x") is not None


def test_tls_that_does_not_fit_names_the_setting(tmp_path: Path, made_certificates: Certificates) -> None:
    other = certificates(tmp_path / "other")
    with Etcd(tmp_path / "etcd", tls=made_certificates) as etcd:
        for tls in (Tls(), Tls(ca_file=str(made_certificates.ca)), Tls(ca_file=str(other.ca))):
            with connected(*etcd.endpoints, tls=tls, timeout_s=2.0) as client, pytest.raises(CoordinationLost, match=r"etcd\.tls"):
                client.get("/x")


# ---- progress --------------------------------------------------------------------------------------------------------------


class Faulty(EtcdOwner):
    """Counts transactions and spoils some: `before` is called with its number before, `after` after it was carried out."""

    def __init__(self, like: EtcdOwner) -> None:
        super().__init__(like.client, like.root, lease_s=like.lease_s, holder=like.holder)
        self.count = 0
        self.before: Callable[[int], None] = lambda _: None
        self.after: Callable[[int], None] = lambda _: None

    def fenced(self, writes: Sequence[Put | Delete], *, compares: Sequence[Compare] = ()) -> Transaction:
        self.count += 1
        self.before(self.count)
        done = super().fenced(writes, compares=compares)
        self.after(self.count)
        return done


class Crash(Exception):
    """The process is gone."""


@pytest.fixture
def faulty(etcd: Etcd) -> Iterator[Faulty]:
    with candidate(etcd) as made:
        spoiled = Faulty(made)
        spoiled.acquire(timeout_s=0)
        yield spoiled
        spoiled.release()


def test_ten_thousand_tables_are_kept_and_a_change_costs_its_part_only(faulty: Faulty) -> None:
    client, store = faulty.client, EtcdProgress(faulty.client, KEYS, faulty)
    first = progress_of(10_000)
    store.save(first)
    assert load_progress(client, KEYS) == first
    before = {entry.key: entry.modified for entry in client.get_prefix(f"{KEYS}/progress/", keys_only=True)}
    moved = progress_of(10_000, revision=2, moved=[5, 6, 9_999])
    writes = faulty.count
    store.save(moved)
    assert faulty.count - writes == 1
    assert load_progress(client, KEYS) == moved
    after = {entry.key: entry.modified for entry in client.get_prefix(f"{KEYS}/progress/", keys_only=True)}
    assert len(after) == len(before) == -(-10_000 // PART_TABLES)
    assert len([key for key in after if after[key] != before[key]]) == 2


def test_tables_with_as_many_keys_and_as_long_predicates_as_requests_may_have_are_kept(faulty: Faulty) -> None:
    """Random text, which no compression helps: eight such tables are more than a transaction may have."""
    random = Random(7)

    def text(size: int) -> str:
        return "".join(random.choices(ascii_letters + digits, k=size))

    tables = [
        TableProgress(TableName("shop", f"p{number}"), where=text(PREDICATE_BYTES_MAX), keys=((text(KEYS_BYTES_MAX // 16),),))
        for number in range(16)
    ]
    (first,) = progress_of(3)
    store = EtcdProgress(faulty.client, KEYS, faulty)
    for revision, count in enumerate((0, 16, 3), 1):
        dumps = (replace(first, tables=(*first.tables, *tables[:count], *first.tables), revision=revision),)
        store.save(dumps)
        assert load_progress(faulty.client, KEYS) == dumps


def test_the_next_owner_goes_on_with_what_it_loaded_and_writes_no_more_than_changed(etcd: Etcd, faulty: Faulty) -> None:
    EtcdProgress(faulty.client, KEYS, faulty).save(progress_of(1_000))
    with candidate(etcd) as other:
        faulty.release()
        other.acquire(timeout_s=0)
        store = EtcdProgress(other.client, KEYS, other)
        assert store.load() == progress_of(1_000)
        store.save(progress_of(1_000, revision=2, moved=[1]))
        revisions = [entry.modified for entry in other.client.get_prefix(f"{KEYS}/progress/", keys_only=True)]
        assert revisions.count(max(revisions)) == 1


MANY = 2 * OPERATIONS_MAX * PART_TABLES
"""Tables of which not all fit into one transaction."""


@pytest.mark.parametrize(("before", "after"), [(40, MANY), (MANY, 40), (40, 40), (40, 0)])
def test_a_crash_between_any_two_transactions_leaves_the_previous_progress_or_the_next_one(faulty: Faulty, before: int, after: int) -> None:
    previous, following = progress_of(before), progress_of(after, dump_id="d2", revision=2)
    last = _transactions_of_a_save(faulty, following)
    assert last == (4 if after == MANY else 2 if after else 1)
    EtcdProgress(faulty.client, KEYS, faulty).save(previous)
    seen = []
    for crash_at in range(1, last + 1):

        def crash(count: int, at: int = faulty.count + crash_at) -> None:
            if count == at:
                raise Crash

        faulty.after = crash
        with pytest.raises(Crash):
            EtcdProgress(faulty.client, KEYS, faulty).save(following)
        seen.append(load_progress(faulty.client, KEYS))
        faulty.after = lambda _: None
        EtcdProgress(faulty.client, KEYS, faulty).save(previous)
        assert load_progress(faulty.client, KEYS) == previous
    assert seen == [previous] * (last - 1) + [following]
    assert _generations(faulty.client) == 1


def _transactions_of_a_save(faulty: Faulty, dumps: tuple[Progress, ...]) -> int:
    before = faulty.count
    EtcdProgress(faulty.client, KEYS, faulty).save(dumps)
    return faulty.count - before


def _generations(client: Keys) -> int:
    return len(
        {entry.key.removeprefix(f"{KEYS}/progress/").partition("/")[0] for entry in client.get_prefix(f"{KEYS}/progress/", keys_only=True)}
    )


@pytest.mark.parametrize("tables", [3, 2_000])
def test_a_save_whose_reply_was_lost_is_done_once_more_in_effect_never(faulty: Faulty, tables: int) -> None:
    store = EtcdProgress(faulty.client, KEYS, faulty)
    store.save(progress_of(tables))

    def lose_the_reply(count: int) -> None:
        faulty.after = lambda _: None
        raise CoordinationLost("the reply was lost", hint="none")

    for revision, dump_id in ((2, "d1"), (3, "d2")):
        faulty.after = lose_the_reply
        store.save(progress_of(tables, revision=revision, dump_id=dump_id))
        assert load_progress(faulty.client, KEYS) == progress_of(tables, revision=revision, dump_id=dump_id)
    store.save(progress_of(tables, revision=4, dump_id="d2", moved=[1]))
    assert load_progress(faulty.client, KEYS) == progress_of(tables, revision=4, dump_id="d2", moved=[1])


def recorded(faulty: Faulty) -> list[Callable[[], Transaction]]:
    """Every transaction from here on, to be carried out once more."""
    sent: list[Callable[[], Transaction]] = []
    transact = faulty.client.transact

    def record(*request: Any, **options: Any) -> Transaction:
        sent.append(lambda: transact(*request, **options))
        return transact(*request, **options)

    faulty.client.transact = record  # type: ignore[method-assign]  # what is sent is what the test is about
    return sent


def test_a_save_that_etcd_carries_out_late_changes_nothing(faulty: Faulty) -> None:
    """It was given up and sent again, and newer ones came after it."""
    store = EtcdProgress(faulty.client, KEYS, faulty)
    store.save(progress_of(3))
    sent = recorded(faulty)
    store.save(progress_of(3, revision=2))
    store.save(progress_of(3, revision=3))
    assert not sent[0]().succeeded
    assert load_progress(faulty.client, KEYS) == progress_of(3, revision=3)


def test_a_part_that_etcd_carries_out_late_does_not_come_into_the_next_generation(faulty: Faulty) -> None:
    store = EtcdProgress(faulty.client, KEYS, faulty)
    sent = recorded(faulty)

    def crash(count: int) -> None:
        raise Crash

    faulty.after = crash
    with pytest.raises(Crash):
        store.save(progress_of(30))
    following = progress_of(30, revision=2, moved=range(30))
    late = sent[0]

    def replay_before_the_head(count: int) -> None:
        if len(sent) == 3:
            assert late().succeeded

    faulty.after = replay_before_the_head
    store.save(following)
    assert load_progress(faulty.client, KEYS) == following
    assert len(sent) == 4  # the first attempt's parts; what it left, parts, head


def test_two_stores_of_one_owner_do_not_mix_their_parts(faulty: Faulty) -> None:
    one, other = (EtcdProgress(faulty.client, KEYS, faulty) for _ in range(2))
    for revision, store in enumerate([one, other, one, one, other]):
        saved = progress_of(100, revision=revision, moved=[revision * 10])
        store.save(saved)
        assert load_progress(faulty.client, KEYS) == saved
    assert _generations(faulty.client) == 1


def test_long_keys_of_every_table_fit(faulty: Faulty) -> None:
    """Keys that do not compress, as long as TiDB allows."""
    (result,) = progress_of(2_000)
    tables = tuple(dataclasses.replace(table, spans=(Span((os.urandom(1_500).hex(), "ü'\"\\\n")),)) for table in result.tables)
    progress = dataclasses.replace(result, tables=tables)
    EtcdProgress(faulty.client, KEYS, faulty).save([progress])
    assert load_progress(faulty.client, KEYS) == (progress,)


def test_tables_that_no_transaction_can_hold_are_refused_before_anything_is_written(faulty: Faulty) -> None:
    store = EtcdProgress(faulty.client, KEYS, faulty)
    store.save(progress_of(3))
    (progress,) = progress_of(3, dump_id="d2")
    where = f"id IN ({','.join(str(number) + os.urandom(3).hex() for number in range(300_000))})"
    with pytest.raises(CoordinationError, match=r"shop\.orders_00000 .*bytes") as raised:
        store.save([dataclasses.replace(progress, tables=(dataclasses.replace(progress.tables[0], where=where), *progress.tables[1:]))])
    assert not raised.value.retryable
    assert load_progress(faulty.client, KEYS) == progress_of(3)


def test_saving_without_ownership_writes_nothing(etcd: Etcd) -> None:
    with candidate(etcd) as made:
        with pytest.raises(OwnershipLost, match="not acquired"):
            EtcdProgress(made.client, KEYS, made).save(progress_of(3))
        assert load_progress(made.client, KEYS) == ()


@pytest.mark.parametrize(
    "value",
    [
        "x",
        "{",
        "[]",
        "null",
        '{"dump_id": "d1"}',
        '{"generation": "0", "parts": 2, "tables": 3}',
        "[" * 100_000,
        '{"generation": "0", "parts": 1e400}',
    ],
)
def test_what_is_no_progress_is_noticed_by_its_owner_and_written_again(etcd: Etcd, faulty: Faulty, value: str) -> None:
    """The log has what it should say: it ends nobody's process."""
    etcd.put(f"{KEYS}/progress", value)
    noticed: list[str] = []
    store = EtcdProgress(faulty.client, KEYS, faulty, noticed.append)
    with pytest.raises(CoordinationError, match="delete it"):
        load_progress(faulty.client, KEYS)
    assert store.load() == ()
    (notice,) = noticed
    assert f"{KEYS}/progress is not a dump's progress" in notice
    store.save(progress_of(3))
    assert store.load() == progress_of(3)


# ---- TiCDC's keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.recordings
@pytest.mark.parametrize(("architecture", "cluster"), [("classic", "default"), ("new", "newarch")])
def test_reads_what_ticdc_wrote(etcd: Etcd, architecture: str, cluster: str) -> None:
    recorded = recorded_cluster(architecture)["etcd"]
    for key, value in recorded.items():
        etcd.put(key, value if isinstance(value, str) else json.dumps(value))
    names = {key.rpartition("/")[2] for key in recorded if "/changefeed/info/" in key}
    assert names
    with connected(*etcd.endpoints) as client:
        assert list_changefeeds(client, cluster) == [ChangefeedName(cluster, "default", name) for name in sorted(names)]
        assert list_changefeeds(client, cluster[:-1]) == []
        assert list_changefeeds(client) == list_changefeeds(client, cluster)
        for name in list_changefeeds(client, cluster):
            info = read_changefeed_info(client, name)
            assert info.decode() == recorded[f"/tidb/cdc/{cluster}/default/changefeed/info/{name.id}"]
            assert json.loads(info)["start-ts"] > 0
            status = recorded.get(f"/tidb/cdc/{cluster}/default/changefeed/status/{name.id}")
            assert read_checkpoint_ts(client, name) == (json.loads(status)["checkpoint-ts"] if status else None)


def test_a_changefeed_that_does_not_exist_is_reported_with_those_that_do(etcd: Etcd) -> None:
    with connected(*etcd.endpoints) as client:
        with pytest.raises(ConfigError, match="none at all"):
            read_changefeed_info(client, ORDERS)
        etcd.put("/tidb/cdc/default/default/changefeed/info/order", "{}")
        etcd.put("/tidb/cdc/prod/app/changefeed/info/orders", "{}")
        etcd.put("/tidb/cdc/prod/app/changefeed/status/orders", "{}")
        with pytest.raises(ConfigError, match=r"default/default/orders .* has: default/default/order; prod/app/orders\n.*changefeed\.id"):
            read_changefeed_info(client, ORDERS)
        assert read_checkpoint_ts(client, ORDERS) is None
        with pytest.raises(FeedUnsuitable, match="not a changefeed's status"):
            read_checkpoint_ts(client, ChangefeedName("prod", "app", "orders"))


def test_a_resume_over_a_gap_is_found_in_etcds_history(etcd: Etcd) -> None:
    """Finding 2, as the new architecture writes it: whoever looks first after it, and where the history is gone a warning."""
    info, status = (f"/tidb/cdc/default/default/changefeed/{what}/orders" for what in ("info", "status"))
    minute, notes = 60_000 << 18, list[str]()

    def write(state: str, checkpoint_ts: int) -> None:
        etcd.put_together({info: json.dumps({"state": state}), status: json.dumps({"checkpoint-ts": checkpoint_ts})})

    def gaps(watch: ResumeWatch) -> list[int]:
        return [one.hole.since_ts // minute for one in watch.look() if one.hole is not None]

    def resumes(client: EtcdClient, seen: str | None = None) -> ResumeWatch:
        return ResumeWatch(client, ORDERS, notes.append, seen=seen)

    with connected(*etcd.endpoints) as client:
        write("normal", 1 * minute)
        watching = resumes(client)
        seen = watching.look()[-1].seen
        write("stopped", 2 * minute)
        write("normal", 2 * minute)
        etcd.put(status, json.dumps({"checkpoint-ts": 9 * minute}))  # it catches up
        assert gaps(watching) == []
        write("stopped", 9 * minute)
        write("normal", 10 * minute)
        assert gaps(watching) == gaps(resumes(client, seen)) == [9]
        assert notes == []
        etcd.compact()
        assert gaps(resumes(client, seen)) == []
        assert [note for note in notes if "longer ago than etcd's history" in note] == notes
        assert len(notes) == 1
        write("stopped", 11 * minute)
        write("normal", 20 * minute)
        assert gaps(resumes(client)) == [], "a new log"
