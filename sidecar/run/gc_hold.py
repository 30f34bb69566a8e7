"""What this sidecar still has to read as of a moment of TiDB, and that garbage collection leaves it there: held in PD where PD can be
reached (shared/tikv/gc.py), else reported with the time that remains.

    who reads as of a moment                                  which                            for how long
    tables after a DDL, rows larger than a message, DDLs      above the log's end              while the feed is TiCDC's messages
      of TiDB's history
    a `tikv` feed                                             above the log's end              always; it has a hold of its own, too
    chunks that are read from TiKV itself                     in their window                  while a window is open
    a verification                                            where it has followed the log    while one runs

- A chunk by SQL needs nothing, with marks or with snapshot brackets: its SELECT takes a timestamp of its own, and TiDB keeps what a running
  transaction reads (shared/tikv/gc.py).
- No window and no verification reads as of an earlier moment than that at which the first segment begins that it needs (retention.py).
- The hold ends when nothing is read, KEEP_S after the last renewal of a process that is gone, and at gc.hold_max_s in any case.
- An outage of PD ends nothing: until it is back TiDB's own life time counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event

from sidecar.adapters.clock import wall_ms
from sidecar.run.auxiliary import Services
from sidecar.run.followed_log import FollowedLog
from sidecar.run.log_event import LogEvent
from sidecar.run.logs import say
from sidecar.shared.config import Config
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable
from sidecar.shared.log import storage
from sidecar.shared.model.messages import ReadWith
from sidecar.shared.model.nouns import CommitTs, Seq, physical_ms, utc
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.snapshot import gc_life_s
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.tikv.gc import VersionHold, reads_id
from sidecar.shared.tikv.pd import PdClient, pd_section

KEEP_S = 600
"""Of a hold, after its last renewal: longer than a restart or a change of owner takes."""
LOOK_EVERY_S = 30.0
LIFE_EVERY_MS = 600_000
"""Between two looks at tidb_gc_life_time, which few change."""

DDLS, FEED, CHUNKS, VERIFICATIONS = "tables and rows as of a commit", "key-values to be pulled", "chunks from TiKV", "a verification"


@dataclass(frozen=True, slots=True)
class TsoReads:
    """`position`: up to where the log has all; None: nowhere yet. `at_position`: who reads from there on. `segments`: the first segment
    that each other one needs."""

    position: CommitTs | None = None
    at_position: tuple[str, ...] = ()
    segments: Mapping[str, Seq] = field(default_factory=dict)


def tso_reads(config: Config, position: CommitTs, *, window: Seq | None, verification: Seq | None) -> TsoReads:
    """`window`, `verification`: the first segment that an open window, or a verification, needs; None: there is none."""
    own = FEED if config.feed == "tikv" else DDLS
    segments = {CHUNKS: window if config.dump.read_with is ReadWith.TIKV else None, VERIFICATIONS: verification}
    known = {by: seq for by, seq in segments.items() if seq is not None}
    return TsoReads(position or None, (own,) if config.encoded or own is FEED else (), known)


@dataclass(frozen=True, slots=True)
class GcHoldState:
    """`ages_s`: by who reads, how far back the oldest moment is. `held`: PD keeps them. `kept_s`: for how long a moment is kept, by the
    hold or by tidb_gc_life_time; None: not known. `gone`: it may be collected already. `why`: what is against a hold; empty: nothing, or
    there is no PD."""

    ages_s: Mapping[str, float] = field(default_factory=dict)
    held: bool = False
    kept_s: float | None = None
    gone: bool = False
    why: str = ""

    @property
    def remaining_s(self) -> float | None:
        """Until the oldest moment may be collected; None: nothing is read, or that is not known."""
        if not self.ages_s or (self.kept_s is None and not self.gone):
            return None
        return 0.0 if self.gone or self.kept_s is None else max(self.kept_s - max(self.ages_s.values()), 0.0)


@dataclass(frozen=True, slots=True)
class GcOutside:
    """What the hold goes by. `begins_at`: the ts above which a segment begins, None for one that is not in the log yet. `hold`: None where
    there is no PD. `life_s`: tidb_gc_life_time in seconds, None where the source has none. Each raises as what it asks."""

    begins_at: Callable[[Seq], CommitTs | None]
    hold: Callable[[], VersionHold | None]
    life_s: Callable[[], float | None]
    wall_ms: Callable[[], int] = wall_ms
    log_line: Callable[[LogEvent], object] = say


class GcHold:
    """A service (auxiliary.py). `reads`: what is read now. `state`: for any thread, None before the first look and at the end."""

    def __init__(self, reads: Callable[[], TsoReads], outside: GcOutside, *, hold_max_s: float) -> None:
        self._reads, self._outside, self._hold_max_s = reads, outside, hold_max_s
        self._life: tuple[float | None, int] | None = None
        self._needed: Mapping[str, CommitTs] = {}
        self.state: GcHoldState | None = None

    def serve(self, ending: Event) -> None:
        while not ending.is_set():
            self.look()
            ending.wait(LOOK_EVERY_S)
        self.state = None

    def look(self) -> None:
        """Raises SourceError, and as the log's storage: then the hold is renewed by what was needed before."""
        try:
            self._needed = self._needed_now()
        finally:
            self._renew(self._needed)

    def _renew(self, needed: Mapping[str, CommitTs]) -> None:
        now_ms = self._outside.wall_ms()
        ages_s = {by: max(now_ms - physical_ms(ts), 0) / 1000 for by, ts in needed.items()}
        state = self._held(min(needed.values(), default=None), ages_s, now_ms)
        self._log(state, needed)
        self.state = state
        if ages_s and not state.held:
            self.state = GcHoldState(ages_s, state.held, self._life_s(now_ms), state.gone, state.why)

    def _needed_now(self) -> dict[str, CommitTs]:
        reads = self._reads()
        if (position := reads.position) is None:
            return {}
        known = dict.fromkeys(reads.at_position, position)
        for by, seq in reads.segments.items():
            begins_at = self._outside.begins_at(seq)
            known[by] = position if begins_at is None else min(begins_at, position)
        return known

    def _held(self, from_ts: CommitTs | None, ages_s: Mapping[str, float], now_ms: int) -> GcHoldState:
        try:
            hold = self._outside.hold()
            if hold is None:
                return GcHoldState(ages_s)
            if from_ts is None:
                if hold.held:
                    hold.let_go()
                return GcHoldState()
            gone = hold.keep(from_ts, now_ms=now_ms)
        except (FeedLost, FeedUnsuitable, ConfigError) as error:
            return GcHoldState(ages_s, why=error.message)
        if gone is not None:
            return GcHoldState(ages_s, gone=True, why=f"garbage collection has passed TSO {gone} ({utc(gone)})")
        if not hold.held:
            return GcHoldState(ages_s, why=f"it is further back than gc.hold_max_s ({self._hold_max_s:g} s)")
        return GcHoldState(ages_s, held=True, kept_s=self._hold_max_s)

    def _log(self, state: GcHoldState, needed: Mapping[str, CommitTs]) -> None:
        before = "" if self.state is None else self.state.why
        if state.why and needed and state.why != before:
            by = min(needed, key=lambda one: needed[one])
            hint = "find out why that is behind, or raise tidb_gc_life_time: what is collected cannot be read, and a dump brings it again"
            values = {"by": by, "since": utc(needed[by]), "why": state.why, "hint": hint}
            self._outside.log_line(LogEvent("old versions are not kept", values, "warning"))
        elif before and not state.why:
            self._outside.log_line(LogEvent("old versions are kept again", {}))

    def _life_s(self, now_ms: int) -> float | None:
        if self._life is None or now_ms - self._life[1] >= LIFE_EVERY_MS:
            self._life = self._outside.life_s(), now_ms
        return self._life[0]


# ---- with the real ones ---------------------------------------------------------------------------------------------


def begin_gc_hold(
    config: Config, changefeed: Changefeed, reads: Callable[[], TsoReads], services: Services
) -> Callable[[], GcHoldState | None]:
    """Begins the service. What it knows."""
    pd, account = _Pd(config, changefeed), Account.of(config.source)
    log = _Begins(FollowedLog(storage.log_folder(config.log.uri)))

    def life_s() -> float | None:
        with closing(MysqlSession(account, Role.READ_SOURCE)) as session:
            return carried_out(session, lambda: gc_life_s(session), doing="reading tidb_gc_life_time")

    hold = GcHold(reads, GcOutside(log.begins_at, pd.hold, life_s), hold_max_s=config.gc.hold_max_s)

    def life(ending: Event) -> None:
        try:
            hold.serve(ending)
        finally:
            pd.close()

    services.serve("old versions", life)
    return lambda: hold.state


class _Pd:
    """For the service's thread."""

    def __init__(self, config: Config, changefeed: Changefeed) -> None:
        self._config, self._changefeed = config, changefeed
        self._is_none = not (pd_section(config).pd and config.gc.hold_max_s)
        self._client: PdClient | None = None
        self._hold: VersionHold | None = None

    def hold(self) -> VersionHold | None:
        """Raises FeedLost, FeedUnsuitable, ConfigError."""
        if self._is_none or self._hold is not None:
            return self._hold
        if self._client is None:
            self._client = PdClient(pd_section(self._config), named="tikv" if self._config.tikv.pd else "etcd")
        if not self._client.answers_as_pd():
            self._is_none = True
            return None
        changefeed, known = self._changefeed, self._client.cluster_id()
        if changefeed.upstream_id not in (0, known):
            what = f"PD is of cluster {known}, and the changefeed reads cluster {changefeed.upstream_id}"
            raise FeedUnsuitable(what, hint="set tikv.pd to PD of the cluster that the changefeed reads")
        keyspace = changefeed.name.namespace if changefeed.new_architecture else ""
        name = reads_id(changefeed.log_id)
        self._hold = VersionHold(self._client, name, keep_s=KEEP_S, hold_max_s=self._config.gc.hold_max_s, keyspace=keyspace)
        return self._hold

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = self._hold = None


class _Begins:
    """Where segments of the log begin, each looked at once."""

    def __init__(self, log: FollowedLog) -> None:
        self._log = log
        self._known: dict[Seq, CommitTs] = {}

    def begins_at(self, seq: Seq) -> CommitTs | None:
        """Of one that is gone, the first that there is. Raises as FollowedLog."""
        if seq not in self._known:
            there = self._log.there()
            if not there or seq > there[-1]:
                return None
            first = max(seq, there[0])
            for segment in self._log.read(range(first, first + 1)):
                self._known = {seq: segment.manifest.after_ts}
        return self._known.get(seq)
