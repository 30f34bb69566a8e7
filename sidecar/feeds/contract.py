"""What a way of the changes brings to a term, made from the settings and the changefeed's definition: a `make.py` in each folder.

Feed, codec and schemas belong together: Kafka's messages name their tables, which after a DDL are TiDB's at that TSO; raw key-values
have ids, and the tables follow TiDB's DDL jobs, which come with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sidecar.ports import Feed, Schemas
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.config import Config
from sidecar.shared.errors import FeedError
from sidecar.shared.log.parked import Parked, StoppedAt
from sidecar.shared.model.nouns import Lane
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.scope import LiveScope

HIDDEN_LANE = Lane("tidb/ddl")
"""Of no feed: DDLs that the changefeed's filter omits (encoded/hidden.py)."""


class LiveFeed(Feed, Protocol):
    """A feed with connections of its own."""

    def close(self) -> None: ...


class NotifyingFeed(LiveFeed, Protocol):
    """One that knows why it does not move."""

    def still_because(self) -> str:
        """For people: whom it waits for; empty if for nobody. Called by who calls `poll`."""


class Parking(Protocol):
    """Messages that stop the stream (encoded/parked.py)."""

    passed: Callable[[Parked], object]
    """Receives each message that is passed because an operator has parked it, in the thread that polls."""

    def note_stop(self, error: FeedError, now_ms: int) -> StoppedAt | None:
        """Keep the message that the stream stopped at, with why; None where it is not known which one. Raises as the log's storage."""


@dataclass(frozen=True, slots=True)
class Brought:
    """For one term. `feed` begins to listen or to connect: for the owner only. `still_because`: what the feed knows of why it does not
    move. `place`: where the changes come from, for people, once the schemas are there; no secret is in it. `parking`: of messages that an
    operator can let the stream pass; None: there are none."""

    codec: Codec
    schemas: Schemas
    feed: Callable[[], LiveFeed]
    still_because: Callable[[], str] = lambda: ""
    place: Callable[[], Mapping[str, str]] = dict
    parking: Parking | None = None


Note = Callable[[str], None]
"""Receives what an operator should know."""

Make = Callable[[Config, Changefeed, LiveScope, Note], Brought]
"""Raises FeedUnsuitable for a changefeed that cannot be served that way. The scope follows the schemas that are brought."""
