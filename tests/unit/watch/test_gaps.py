"""Gaps of a changefeed, by what TiCDC and PD have of it in etcd."""

from __future__ import annotations

import json

import pytest

from sidecar.adapters.etcd.keys import KeyEntry
from sidecar.shared.errors import Compacted, ConfigError
from sidecar.shared.model.hole import HoleCause, Sighting
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.watch.gaps import ResumeWatch, VersionWatch

NAME = ChangefeedName("newarch", "default", "n")
INFO, STATUS = (f"/tidb/cdc/newarch/default/changefeed/{what}/n" for what in ("info", "status"))
KEPT_AT, SAFE_POINT = "/changefeed_dump/v1/newarch/default/n/1/definition", "/pd/12/gc/safe_point"
MINUTE = 60_000 << 18


class Etcd:
    """With all of its revisions, or those from `kept_from` on."""

    def __init__(self) -> None:
        self.writes: list[dict[str, bytes]] = [{}]
        self.kept_from = 0
        self.refused = ""

    def ticdc(self, *, state: str | None = None, minute: int | None = None) -> None:
        """One transaction."""
        keys = {} if state is None else {INFO: json.dumps({"state": state}).encode()}
        self.writes.append(keys | ({} if minute is None else {STATUS: json.dumps({"checkpoint-ts": minute * MINUTE}).encode()}))

    def resumed(self, came_to: int, by: int) -> None:
        self.ticdc(state="stopped")
        self.ticdc(minute=came_to)
        self.ticdc(state="normal", minute=by)

    def get(self, key: str, *, revision: int = 0) -> KeyEntry | None:
        if revision and revision < self.kept_from:
            raise Compacted("mvcc: required revision has been compacted", hint="")
        if self.refused and key.startswith(self.refused):
            raise ConfigError("permission denied", hint="")
        upto = revision or len(self.writes) - 1
        results = [at for at in range(upto + 1) if key in self.writes[at]]
        return KeyEntry(key, self.writes[results[-1]][key], results[0], results[-1], 0) if results else None


@pytest.fixture
def etcd() -> Etcd:
    result = Etcd()
    result.ticdc(state="normal", minute=1)
    return result


def resumes(etcd: Etcd, notes: list[str], seen: str | None = None, *, kept_at: str = "") -> ResumeWatch:
    return ResumeWatch(etcd, NAME, notes.append, seen=seen, kept_at=kept_at)  # type: ignore[arg-type]  # a twin of the one call


def gaps(sightings: list[Sighting]) -> list[int]:
    """Since which minute."""
    holes = [one.hole for one in sightings if one.hole is not None]
    assert all((one.cause, one.tables, one.vanished) == (HoleCause.GAP, None, True) for one in holes)
    return [one.since_ts // MINUTE for one in holes]


def test_an_overwritten_checkpoint_is_a_gap_of_each_table_once(etcd: Etcd) -> None:
    notes = list[str]()
    watching = resumes(etcd, notes)
    assert gaps(watching.look()) == []
    etcd.resumed(2, 5)
    etcd.ticdc(minute=6)
    assert gaps(watching.look()) == [2]
    assert gaps(watching.look()) == []
    etcd.resumed(8, 8)
    assert gaps(watching.look()) == []
    assert notes == []


def test_resumes_of_a_time_when_nobody_looked_are_seen_in_their_order_and_again_until_they_are_durable(etcd: Etcd) -> None:
    seen = resumes(etcd, []).look()[-1].seen
    for came_to, by in ((2, 5), (6, 6), (7, 20)):
        etcd.resumed(came_to, by)
    sightings = resumes(etcd, [], seen).look()
    assert gaps(sightings) == [2, 7]
    assert gaps(resumes(etcd, [], seen).look()) == [2, 7]
    assert [one.seen for one in sightings[:-1]] == ["", ""]
    assert gaps(resumes(etcd, [], sightings[-1].seen).look()) == []


def test_a_log_of_before_continues_where_the_old_version_had_examined_and_a_new_log_begins_now(etcd: Etcd) -> None:
    etcd.writes.append({KEPT_AT: b"1"})
    etcd.resumed(2, 5)
    assert gaps(resumes(etcd, [], kept_at=KEPT_AT).look()) == [2]
    assert gaps(resumes(etcd, []).look()) == []


def test_what_is_older_than_etcds_history_is_noted(etcd: Etcd) -> None:
    notes = list[str]()
    watching = resumes(etcd, notes)
    watching.look()
    etcd.resumed(2, 10)
    etcd.kept_from = len(etcd.writes)
    etcd.ticdc(minute=11)
    assert [gaps(watching.look()) for _ in range(2)] == [[], []]
    assert len(notes) == 1
    assert "--overwrite-checkpoint-ts" in notes[0]


def versions(etcd: Etcd, seen: str | None = None) -> VersionWatch:
    return VersionWatch(etcd, NAME, 12, seen)  # type: ignore[arg-type]  # a twin of the one call


@pytest.mark.parametrize(("safe_minute", "since"), [(0, []), (10, []), (11, []), (12, [10])])
def test_a_checkpoint_that_gc_has_passed_is_a_gap(etcd: Etcd, safe_minute: int, since: list[int]) -> None:
    """A minute is what TiCDC may have in memory and not in etcd."""
    etcd.ticdc(minute=10)
    etcd.writes.append({SAFE_POINT: f"{safe_minute * MINUTE:x}".encode()})
    watching = versions(etcd)
    sightings = watching.look()
    assert gaps(sightings) == since
    assert gaps(watching.look()) == []
    assert gaps(versions(etcd).look()) == since, "what was not durable is seen again"
    if since:
        assert gaps(versions(etcd, sightings[-1].seen).look()) == []
        etcd.ticdc(minute=11)
        etcd.writes.append({SAFE_POINT: f"{20 * MINUTE:x}".encode()})
        assert gaps(watching.look()) == [11]


def test_without_the_clusters_id_it_says_so() -> None:
    watching = VersionWatch(Etcd(), NAME, 0, None)  # type: ignore[arg-type]  # a twin of the one call
    assert watching.look() == []
    assert "no upstream-id" in watching.unwatched


def test_where_pds_keys_are_not_there_or_not_allowed_nothing_is_a_gap(etcd: Etcd) -> None:
    watching = versions(etcd)
    assert watching.look() == []
    assert watching.unwatched == ""
    etcd.refused = "/pd/"
    assert watching.look() == []
    assert "is not watched: permission denied" in watching.unwatched
    etcd.refused = ""
    etcd.writes.append({SAFE_POINT: f"{CommitTs(20 * MINUTE):x}".encode()})
    assert watching.look() == []
