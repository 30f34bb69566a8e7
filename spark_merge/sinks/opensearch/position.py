"""The position: one document, in an index of ours, which changes by compare-and-set (`if_seq_no`, `if_primary_term`). It is read by its id,
not by a search, so the last write is seen."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opensearchpy.exceptions import ConflictError, RequestError

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Seq
from spark_merge.port.contract import Owner
from spark_merge.sinks.kit.position import Missed, OutputState, PositionKeeper, Stored, as_text, check_owner, from_fields, to_fields
from spark_merge.sinks.opensearch.client import NOT_FOUND, OpenSearchServer, OpenSearchSession, kind_of

DOCUMENT = "sink"

EXISTS = "resource_already_exists_exception"

_INDEX: dict[str, Any] = {
    "settings": {"index": {"number_of_shards": 1, "auto_expand_replicas": "0-1"}},
    "mappings": {"dynamic": False, "properties": {}},
}


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """All rows up to segment `seq` are there, and the DDLs of its end come next. `there`: by alias the index that it led to before them.
    `manifest`: of the segment; empty in documents of 0.4 and before."""

    seq: Seq
    there: Mapping[str, str]
    manifest: str = ""


class DocumentPositions:
    """`PositionStore` in `index`. The version: `_seq_no` and `_primary_term`."""

    def __init__(self, session: OpenSearchSession, index: str) -> None:
        self._session, self._index = session, index
        self.place = f"index {index} at {session.server}"

    def read(self) -> Stored[WrittenBatch] | None:
        answered = self._session.asked("reading the position", "GET", self._path, ignore=(NOT_FOUND,))
        if not answered.get("found"):
            return None
        try:
            return Stored(_state_of(answered["_source"]), (answered["_seq_no"], answered["_primary_term"]))
        except (LookupError, TypeError, ValueError) as error:
            raise SinkError(
                f"document {DOCUMENT} of {self.place} is no position: {error!r}",
                hint="give the sink another position-index: this one is somebody else's",
            ) from error

    def compare_and_swap(
        self,
        before: Stored[WrittenBatch] | None,
        after: OutputState[WrittenBatch],
        payload: None = None,  # noqa: ARG002 - the port's
    ) -> Stored[WrittenBatch] | Missed:
        if before is None:
            self._create_index()
        only = {"op_type": "create"} if before is None else dict(zip(("if_seq_no", "if_primary_term"), before.version, strict=True))
        tries = 0

        def put() -> Stored[WrittenBatch] | Missed:
            nonlocal tries
            tries += 1
            try:
                answered = self._session.call("PUT", self._path, _as_json(after), only)
            except ConflictError:
                return Missed.CONFLICT if tries == 1 else Missed.UNKNOWN
            return Stored(after, (answered["_seq_no"], answered["_primary_term"]))

        return self._session.retried(put, doing="writing the position")

    @property
    def _path(self) -> str:
        return f"/{self._index}/_doc/{DOCUMENT}"

    def _create_index(self) -> None:
        def create() -> None:
            try:
                self._session.call("PUT", f"/{self._index}", _INDEX)
            except RequestError as error:
                if kind_of(error) != EXISTS:
                    raise

        if self._session.asked("looking for the position", "GET", f"/{self._index}", ignore=(NOT_FOUND,)).get("error"):
            self._session.retried(create, doing="making the position's index")


@dataclass(frozen=True, slots=True)
class OwnedPosition:
    """A task's view of it: `owner` is the one that the task works for. Picklable."""

    server: OpenSearchServer
    index: str
    owner: Owner

    def check(self, session: OpenSearchSession) -> None:
        """Raises OwnershipLost if another worker has opened the output since, SinkError."""
        positions = DocumentPositions(session, self.index)
        check_owner(positions.place, positions.read(), self.owner)


def position_of(session: OpenSearchSession, index: str, *, log_id: str) -> PositionKeeper[WrittenBatch, None]:
    remedy = (
        "give each changefeed a position-index of its own; for a new log of the same one, delete that index and the tables', and dump again"
    )
    return PositionKeeper(DocumentPositions(session, index), log_id=log_id, remedy=remedy)


def _as_json(state: OutputState[WrittenBatch]) -> dict[str, Any]:
    """Every ts as text: readers that know only doubles would round it. `by` is for 0.4 and before, which want it there."""
    (seq, upto_ts, manifest), written = to_fields(state.accepted), state.detail
    return {
        "log": state.log_id,
        "epoch": state.owner.epoch,
        "incarnation": state.owner.incarnation,
        "by": secrets.token_hex(8),
        "accepted": None if seq is None else {"seq": seq, "upto_ts": as_text(upto_ts), "manifest": manifest},
        "written": written and {"seq": written.seq, "there": dict(written.there), "manifest": written.manifest},
    }


def _state_of(source: Mapping[str, Any]) -> OutputState[WrittenBatch]:
    accepted, written = source["accepted"], source["written"]
    return OutputState(
        source["log"],
        Owner(source["epoch"], source["incarnation"]),
        accepted and from_fields(accepted["seq"], accepted["upto_ts"], accepted["manifest"]),
        written and WrittenBatch(Seq(written["seq"]), written["there"], written.get("manifest", "")),
    )
