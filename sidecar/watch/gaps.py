"""Stretches of time that the changefeed skipped, by what TiCDC and PD keep of it in etcd.

    ResumeWatch     it was resumed with --overwrite-checkpoint-ts (sidecar/shared/ticdc/resumes.py): all that it skipped is missing
    VersionWatch    PD's GC safe point has passed its checkpoint: what it has not sent is collected in part, and TiCDC refuses to continue
                    from there. Whatever follows has a gap, so its tables have a hole before somebody resumes it

- A gap is of each table, and rows vanished: deletes were skipped too. No dump fills it; a verification that repairs does.
- Each resume is examined once, also one of a time when no sidecar ran: `seen` is the revision of the definition that was examined last,
  and etcd keeps an hour of its history. What is older is for a note: nothing says whether it was a gap.
- TiCDC writes its checkpoint to etcd late, and PD keeps versions by what TiCDC has in memory: SAVED_LATE_MS lie between them.
"""

from __future__ import annotations

from collections.abc import Callable

from sidecar.adapters.etcd.changefeed import read_checkpoint_ts, read_life
from sidecar.adapters.etcd.cluster import gc_safe_point
from sidecar.adapters.etcd.keys import Keys
from sidecar.shared.errors import Compacted, ConfigError
from sidecar.shared.model.hole import Hole, HoleCause, Sighting
from sidecar.shared.model.nouns import CommitTs, ts_at
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.shared.ticdc.resumes import Life, skipped
from sidecar.watch.contract import RESUMES, VERSIONS, seen_fields, seen_text

SAVED_LATE_MS = 60_000
NO_GC = "a changefeed that GC has passed is not watched"
NO_UPSTREAM = f"{NO_GC}: the changefeed's definition has no upstream-id"


class ResumeWatch:
    """Of the new architecture, which keeps a changefeed's incarnation when it is resumed. `seen`: as of Looked. `kept_at`: the key where
    versions up to 0.5 kept the revision; empty for a new log, which has lost nothing before it began."""

    name = RESUMES
    unwatched = ""

    def __init__(
        self, keys: Keys, changefeed: ChangefeedName, note: Callable[[str], object], *, seen: str | None = None, kept_at: str = ""
    ) -> None:
        self._keys, self._changefeed, self._note, self._kept_at = keys, changefeed, note, kept_at
        self._examined: int | None = seen_fields(seen, "revision").get("revision")

    def look(self) -> list[Sighting]:
        newest = read_life(self._keys, self._changefeed)
        if newest is None:
            return []
        if self._examined is None and self._kept_at and (entry := self._keys.get(self._kept_at)) is not None:
            self._examined = int(entry.value)
        sightings: list[Sighting] = []
        if self._examined is not None and newest.revision > self._examined:
            sightings = [self._gap(before, at) for before, at in reversed(self._written_since(self._examined, newest))]
        self._examined = newest.revision
        return [*sightings, Sighting(self.name, seen_text(revision=newest.revision))]

    def _written_since(self, examined: int, newest: Life) -> list[tuple[Life, Life]]:
        """Each time that the definition was written over a gap: how it stood before and after, the last one first."""
        gaps, at = [], newest
        try:
            while at.revision > examined:
                at = read_life(self._keys, self._changefeed, revision=at.revision) or at
                before = read_life(self._keys, self._changefeed, revision=at.revision - 1)
                if before is None:
                    break
                if skipped(before, at) is not None:
                    gaps.append((before, at))
                at = before
        except Compacted:
            self._note(
                f"changefeed {self._changefeed} was changed while no sidecar looked, longer ago than etcd's history: whether it was resumed"
                " with --overwrite-checkpoint-ts since is not known; if it was, verify with repair: what it skipped is missing"
            )
        return gaps

    def _gap(self, before: Life, at: Life) -> Sighting:
        gap = skipped(before, at)
        assert gap is not None, "only gaps are collected"
        text = f"the changefeed was resumed from checkpoint {gap.upto_ts} though it had come to {gap.after_ts}"
        return Sighting(self.name, "", _gap(gap.after_ts, text))


class VersionWatch:
    """`cluster_id`: of the PD that the changefeed reads, 0: the definition does not have it. `seen`: the checkpoint whose gap was
    seen last."""

    name = VERSIONS

    def __init__(self, keys: Keys, changefeed: ChangefeedName, cluster_id: int, seen: str | None) -> None:
        self._keys, self._changefeed, self._cluster_id = keys, changefeed, cluster_id
        self._checkpoint_ts = CommitTs(seen_fields(seen, "checkpoint_ts").get("checkpoint_ts", 0))
        self.unwatched = "" if cluster_id else NO_UPSTREAM

    def look(self) -> list[Sighting]:
        if self.unwatched:
            return []
        checkpoint_ts = read_checkpoint_ts(self._keys, self._changefeed)
        try:
            safe_point = gc_safe_point(self._keys, self._cluster_id)
        except ConfigError as error:
            self.unwatched = f"{NO_GC}: {error.message}"
            return []
        if checkpoint_ts is None or safe_point is None or checkpoint_ts == self._checkpoint_ts:
            return []
        if safe_point <= checkpoint_ts + ts_at(SAVED_LATE_MS):
            return []
        self._checkpoint_ts = checkpoint_ts
        text = (
            f"versions up to {safe_point} may be collected, and the changefeed had come to {checkpoint_ts}: it cannot continue from there"
        )
        return [Sighting(self.name, seen_text(checkpoint_ts=checkpoint_ts), _gap(checkpoint_ts, text))]


def _gap(since_ts: CommitTs, text: str) -> Hole:
    return Hole(HoleCause.GAP, since_ts, None, vanished=True, text=text)
