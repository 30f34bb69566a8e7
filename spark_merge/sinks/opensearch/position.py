"""Whose output it is and what it has: one document, in an index of ours, which changes by compare-and-set (`if_seq_no`, `if_primary_term`)
and is read as it is, not as a search would find it.

`by` is drawn at each opening: who does not know whether its write was done finds itself in the document, or another.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from opensearchpy.exceptions import ConflictError, RequestError

from sidecar.core.model import CommitTs, Seq
from sidecar.errors import OwnershipLost, SinkError
from spark_merge.contract import Accepted, Owner
from spark_merge.sinks.fence import check_log, check_next
from spark_merge.sinks.opensearch.client import NOT_FOUND, Server, Session, kind_of

DOCUMENT = "sink"
CHANGES_MAX = 100
"""How often one that loses to others tries again."""

EXISTS = "resource_already_exists_exception"


@dataclass(frozen=True, slots=True)
class Written:
    """All rows up to segment `seq` are there, and the DDLs of its end come now. `there`: by alias the index that it led to before them."""

    seq: Seq
    there: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Found:
    """The document."""

    log_id: str
    owner: Owner
    by: str
    accepted: Accepted | None = None
    written: Written | None = None

    def as_json(self) -> dict[str, Any]:
        """Every ts as text: readers that know only doubles would round it."""
        accepted, written = self.accepted, self.written
        return {
            "log": self.log_id,
            "epoch": self.owner.epoch,
            "incarnation": self.owner.incarnation,
            "by": self.by,
            "accepted": accepted
            and {
                "seq": accepted.seq,
                "upto_ts": None if accepted.upto_ts is None else str(accepted.upto_ts),
                "manifest": accepted.manifest,
            },
            "written": written and {"seq": written.seq, "there": dict(written.there)},
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Found:
        accepted, written = found["accepted"], found["written"]
        upto_ts = accepted and accepted["upto_ts"]
        return cls(
            found["log"],
            Owner(found["epoch"], found["incarnation"]),
            found["by"],
            accepted and Accepted(Seq(accepted["seq"]), None if upto_ts is None else CommitTs(int(upto_ts)), accepted["manifest"]),
            written and Written(Seq(written["seq"]), written["there"]),
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where the document is, and whom it must name. Goes to tasks."""

    server: Server
    index: str
    owner: Owner
    by: str

    @property
    def path(self) -> str:
        return f"/{self.index}/_doc/{DOCUMENT}"

    def check(self, session: Session) -> None:
        """Raises OwnershipLost where another has opened it since, SinkError."""
        found, _ = read(session, self)
        self.check_mine(found)

    def check_mine(self, found: Found | None) -> Found:
        if found is None or (found.owner, found.by) != (self.owner, self.by):
            owner = found.owner if found else "nobody"
            raise OwnershipLost(
                f"{self.server}, index {self.index}: the output is written by owner {owner}, this is {self.owner}",
                hint="nothing: the later owner has a merge worker of its own",
            )
        return found


Known = tuple[int, int] | None
"""The document's `_seq_no` and `_primary_term`; None where there is none."""


def read(session: Session, place: Place) -> tuple[Found | None, Known]:
    """Raises SinkError."""
    answered = session.asked("reading the position", "GET", place.path, ignore=(NOT_FOUND,))
    if not answered.get("found"):
        return None, None
    try:
        return Found.of_json(answered["_source"]), (answered["_seq_no"], answered["_primary_term"])
    except (LookupError, TypeError, ValueError) as error:
        raise SinkError(
            f"{place.server}: document {DOCUMENT} of index {place.index} is no position: {error!r}",
            hint="give the sink another position-index: this one is somebody else's",
        ) from error


class Position:
    """The driver's part. `open` first."""

    def __init__(self, session: Session, index: str, *, log_id: str) -> None:
        self._session, self._log_id = session, log_id
        self.place = Place(session.server, index, Owner(-1, 0), "")

    def look(self) -> Found | None:
        """Raises SinkError for another log's."""
        found, _ = read(self._session, self.place)
        self._check_log(found)
        return found

    def open(self, epoch: int | None) -> Found:
        """Raises OwnershipLost for a former epoch, SinkError as `look`."""
        self.look()
        self._create()
        by = secrets.token_hex(8)

        def take_over(found: Found | None, again: bool) -> Found:
            if again and found is not None and found.by == by:
                return found
            self._check_log(found)
            owner = Owner.after(found.owner if found else None, epoch, of=f"the output of index {self.place.index}")
            return replace(found, log_id=self._log_id, owner=owner, by=by) if found else Found(self._log_id, owner, by)

        found = self._change(take_over)
        self.place = replace(self.place, owner=found.owner, by=by)
        return found

    def wrote(self, written: Written, *, first: Seq) -> None:
        """All tasks of the batch are done, and the DDLs of its end come now. Raises as `accept`."""

        def note(found: Found | None, again: bool) -> Found:
            mine = self.place.check_mine(found)
            if again and mine.written == written:
                return mine
            check_next(self.place.index, mine.accepted and mine.accepted.seq, first)
            return replace(mine, written=written)

        self._change(note)

    def accept(self, accepted: Accepted, *, first: Seq) -> None:
        """Raises OwnershipLost, SinkError for a gap or a step back."""

        def note(found: Found | None, again: bool) -> Found:
            mine = self.place.check_mine(found)
            if again and mine.accepted == accepted:
                return mine
            check_next(self.place.index, mine.accepted and mine.accepted.seq, first)
            return replace(mine, accepted=accepted, written=None)

        self._change(note)

    def _change(self, change: Callable[[Found | None, bool], Found]) -> Found:
        """`change` is given what is there, and whether an earlier attempt of ours may be in it."""
        for attempt in range(CHANGES_MAX):
            found, known = read(self._session, self.place)
            made = change(found, attempt > 0)
            if made == found or self._put(made, known):
                return made
        raise SinkError(
            f"{self.place.server}: the position in index {self.place.index} is changed by others all the time",
            hint="see who else writes there: each changefeed needs a position-index of its own",
        )

    def _put(self, made: Found, known: Known) -> bool:
        """False where it has changed since it was known, or may have been put by an attempt whose answer was lost."""
        only: dict[str, Any] = {"op_type": "create"} if known is None else {"if_seq_no": known[0], "if_primary_term": known[1]}

        def put() -> bool:
            try:
                self._session.call("PUT", self.place.path, made.as_json(), only)
            except ConflictError:
                return False
            return True

        return self._session.retried(put, doing="writing the position")

    def _create(self) -> None:
        settings = {"number_of_shards": 1, "auto_expand_replicas": "0-1"}

        def create() -> None:
            try:
                self._session.call(
                    "PUT", f"/{self.place.index}", {"settings": {"index": settings}, "mappings": {"dynamic": False, "properties": {}}}
                )
            except RequestError as error:
                if kind_of(error) != EXISTS:
                    raise

        if self._session.asked("looking for the position", "GET", f"/{self.place.index}", ignore=(NOT_FOUND,)).get("error"):
            self._session.retried(create, doing="making the position's index")

    def _check_log(self, found: Found | None) -> None:
        if found is not None:
            check_log(
                f"index {self.place.index} at {self._session.server}",
                found.log_id,
                self._log_id,
                hint="give each changefeed a position-index of its own; for a new log of the same one, delete that index and the tables',"
                " and dump again",
            )
