"""Each resume is looked at once, whoever looks, as far back as etcd's history goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sidecar.adapters.etcd.keys import KeyEntry, Put
from sidecar.run import changefeed_watch
from sidecar.run.resumes import Resumes
from sidecar.shared.errors import Compacted, FeedUnsuitable
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from tests.support.eventually import eventually

NAME = ChangefeedName("newarch", "default", "n")
ROOT = "/changefeed_dump/v1/newarch/default/n/1"
INFO, STATUS = (f"/tidb/cdc/newarch/default/changefeed/{what}/n" for what in ("info", "status"))
MINUTE = 60_000 << 18

IN_ETCD: Any = SimpleNamespace(changefeed=SimpleNamespace(file=""))
"""What a watch looks at of the settings."""


class History:
    """etcd with all of its revisions, or those from `kept_from` on."""

    def __init__(self) -> None:
        self.writes: list[dict[str, bytes]] = [{}]
        self.kept_from = 0

    def ticdc(self, *, state: str | None = None, checkpoint_ts: int | None = None) -> None:
        """One transaction."""
        keys = {} if state is None else {INFO: json.dumps({"state": state, "epoch": len(self.writes)}).encode()}
        self.writes.append(keys | ({} if checkpoint_ts is None else {STATUS: json.dumps({"checkpoint-ts": checkpoint_ts}).encode()}))

    def get(self, key: str, *, revision: int = 0) -> KeyEntry | None:
        if revision and revision < self.kept_from:
            raise Compacted("mvcc: required revision has been compacted", hint="")
        upto = revision or len(self.writes) - 1
        results = [at for at in range(upto + 1) if key in self.writes[at]]
        return KeyEntry(key, self.writes[results[-1]][key], results[0], results[-1], 0) if results else None

    def transact(self, _: object, writes: Sequence[Put]) -> None:
        self.writes.append({put.key: put.value for put in writes})


@pytest.fixture
def etcd() -> History:
    history = History()
    history.ticdc(state="normal", checkpoint_ts=1 * MINUTE)
    return history


@pytest.fixture
def notes() -> list[str]:
    return []


def resumes(etcd: History, notes: list[str], *, new_log: bool = False) -> Resumes:
    result = Resumes(etcd, NAME, ROOT, notes.append)  # type: ignore[arg-type]  # a twin of the two calls that are used
    result.begin(new_log=new_log)
    return result


def pause(etcd: History, checkpoint_ts: int) -> None:
    etcd.ticdc(state="stopped")
    etcd.ticdc(checkpoint_ts=checkpoint_ts)


def test_an_overwritten_checkpoint_is_a_gap_for_whoever_looks(etcd: History, notes: list[str]) -> None:
    """Finding 2: start-ts and create-time stay, and the marks jump over what is missing."""
    watching = resumes(etcd, notes)
    pause(etcd, 2 * MINUTE)
    watching.look()
    etcd.ticdc(state="normal", checkpoint_ts=5 * MINUTE)
    etcd.ticdc(checkpoint_ts=6 * MINUTE)  # it runs, and marks follow
    for _ in range(2):
        with pytest.raises(FeedUnsuitable, match="overwrite-checkpoint-ts"):
            watching.look()
    with pytest.raises(FeedUnsuitable, match="overwrite-checkpoint-ts"):
        resumes(etcd, notes)
    resumes(etcd, notes, new_log=True).look()
    resumes(etcd, notes).look()
    assert notes == []


def test_resumes_while_nobody_looks_are_looked_at_afterwards(etcd: History, notes: list[str]) -> None:
    resumes(etcd, notes)
    for minute in (2, 3):
        pause(etcd, minute * MINUTE)
        etcd.ticdc(state="normal", checkpoint_ts=minute * MINUTE)
    resumes(etcd, notes).look()
    pause(etcd, 4 * MINUTE)
    etcd.ticdc(state="normal", checkpoint_ts=10 * MINUTE)
    pause(etcd, 11 * MINUTE)
    etcd.ticdc(state="normal")
    with pytest.raises(FeedUnsuitable, match=rf"from checkpoint {10 * MINUTE} though it had come to {4 * MINUTE}"):
        resumes(etcd, notes)


def test_what_is_older_than_etcds_history_is_reported(etcd: History, notes: list[str]) -> None:
    resumes(etcd, notes)
    pause(etcd, 2 * MINUTE)
    etcd.ticdc(state="normal", checkpoint_ts=10 * MINUTE)
    etcd.kept_from = len(etcd.writes)
    etcd.ticdc(checkpoint_ts=11 * MINUTE)
    resumes(etcd, notes).look()
    assert len(notes) == 1, "once"
    assert "overwrite-checkpoint-ts" in notes[0]


def test_a_log_of_before_is_taken_on(etcd: History, notes: list[str]) -> None:
    pause(etcd, 2 * MINUTE)
    etcd.ticdc(state="normal", checkpoint_ts=10 * MINUTE)
    resumes(etcd, notes).look()
    assert notes == []


def test_the_watch_on_the_changefeed_looks_at_its_resumes(etcd: History, notes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    changefeed = Changefeed(NAME, "1", "kafka://h/t")
    monkeypatch.setattr(changefeed_watch, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(changefeed_watch, "read_changefeed", lambda *_: changefeed)
    watch = changefeed_watch.ChangefeedWatch(None, IN_ETCD, changefeed, resumes(etcd, notes))  # type: ignore[arg-type]  # read by the above
    pause(etcd, 2 * MINUTE)
    etcd.ticdc(state="normal", checkpoint_ts=5 * MINUTE)
    try:
        with pytest.raises(FeedUnsuitable, match="overwrite-checkpoint-ts"):
            eventually(watch.check)
    finally:
        watch.close()
