"""DDLs that the changefeed's filter omits from its messages: they reach TiCDC's schemas, so rows of another form follow, unannounced.

A lane beside the feed's brings them from TiDB's own history, at their commit_ts, as cuts: the tables are others from there on, and no
sink receives them. What comes by the feed as well is a cut there already. R waits for this lane as for any other: no row passes an unknown
DDL.

Where the changefeed sends tables under other names (shared/ticdc/table_routes.py), all DDLs are hidden: the messages' own are dropped, for
their texts have those names.

Positions of the lane say nothing: it continues from where the log's tables are. Where the account may not read the history, a hidden DDL
that can change rows stops the stream by name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from queue import SimpleQueue
from threading import Event
from typing import Protocol

from sidecar.feeds.around import NotifyingFeedAround
from sidecar.feeds.contract import HIDDEN_LANE, NotifyingFeed
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.codecs.kv import KvCodec, encode_ddl, encode_resolved
from sidecar.shared.errors import FeedUnsuitable, SourceError
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Ddl, Envelope, Lane, Mark, Message, ReadEnd, TableName
from sidecar.shared.process.background import Background
from sidecar.shared.rowcodec.kv_table import KvTable
from sidecar.shared.schema.ddl import FinishedDdl
from sidecar.shared.ticdc.ddl_rules import KEEPS_ROWS

AGAIN_S = 0.5
CLOSE_WAIT_S = 1.0


class History(Protocol):
    """As adapters.tidb.ddl_history.DdlHistory."""

    def since(self, after_ts: CommitTs) -> tuple[list[FinishedDdl], CommitTs]: ...


class WithHiddenDdls(NotifyingFeedAround):
    """`feed` and the lane. `begins`: after which TSO DDLs are wanted, known when `seek` is called. `carried`: whether the changefeed's
    table rules have a table; `hides`: whether its filter leaves a DDL of it out, by TiDB's word for its kind and by its text."""

    def __init__(
        self,
        feed: NotifyingFeed,
        history: History,
        *,
        begins: Callable[[], CommitTs],
        carried: Callable[[TableName], bool],
        hides: Callable[[TableName, str, str], bool],
    ) -> None:
        super().__init__(feed)
        self._history = history
        self._begins, self._carried, self._hides = begins, carried, hides
        self._messages: SimpleQueue[Message] = SimpleQueue()
        self._asking: Background | None = None
        self._waits = ""

    def lanes(self) -> frozenset[Lane]:
        lanes = self._feed.lanes()
        return lanes | {HIDDEN_LANE} if lanes else lanes

    def incarnations(self) -> Mapping[Lane, str]:
        return {**self._feed.incarnations(), HIDDEN_LANE: ""}

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        super().seek(positions, incarnations, read_ends)
        self._end()
        self._messages = SimpleQueue()
        begins_ts, messages = self._begins(), self._messages
        self._asking = Background(lambda ending: self._ask(ending, begins_ts, messages), name="feed-hidden-ddls")

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        """Raises also what the history raises and no retry helps, and FeedUnsuitable for a DDL that cannot be followed."""
        assert self._asking is not None, "poll comes after seek"
        self._asking.check()
        messages = list(self._feed.poll(timeout_s=timeout_s))
        while not self._messages.empty():
            messages.append(self._messages.get())
        return messages

    def still_because(self) -> str:
        """For people: whom the lane, or the feed, waits for; empty if for nobody."""
        return self._waits or self._feed.still_because()

    def close(self) -> None:
        self._end()
        super().close()

    def _end(self) -> None:
        if self._asking is not None:
            self._asking.close(CLOSE_WAIT_S)

    # ---- beside it --------------------------------------------------------------------------------------------------

    def _ask(self, ending: Event, after_ts: CommitTs, messages: SimpleQueue[Message]) -> None:
        while not ending.is_set():
            try:
                finished_ddls, upto_ts = self._history.since(after_ts)
            except SourceError as error:
                if not error.retryable:
                    raise
                self._waits = f"waits for the source's DDLs, which do not all come by the feed: {error.message}"
            else:
                for ddl in finished_ddls:
                    self._notify(ddl, messages)
                after_ts, self._waits = upto_ts, ""
                messages.put(Message(HIDDEN_LANE, after_ts, None, encode_resolved(after_ts)))
            ending.wait(AGAIN_S)

    def _notify(self, ddl: FinishedDdl, messages: SimpleQueue[Message]) -> None:
        if ddl.commit_ts is None:
            if hidden := [name for name in ddl.tables if self._carried(name) and self._hides(name, ddl.kind, ddl.query)]:
                raise FeedUnsuitable(
                    f"DDL job {ddl.number} ({ddl.kind} of {hidden[0]}: {ddl.query[:200]}) does not come by the feed (its changefeed's"
                    " filter or target-schema), and the account may not read when it was done: rows after it have another form",
                    hint="GRANT SELECT ON mysql.tidb_ddl_job and ON mysql.tidb_ddl_history to source.user, and start again; or narrow the"
                    " changefeed's event filters to rows",
                )
            return
        for name in names_of(ddl, self._carried):
            text = ddl.query if name == MARK_TABLE else ""  # of its creation: marks continue; no sink looks at it
            messages.put(Message(HIDDEN_LANE, ddl.commit_ts, None, encode_ddl(ddl.commit_ts, name.schema, name.table, text)))


def names_of(ddl: FinishedDdl, carried: Callable[[TableName], bool]) -> list[TableName]:
    """Of the tables that the changefeed has; its schema alone where the job does not name all that it changed. None: it is not ours."""
    names = [name for name in ddl.tables if carried(name)]
    if not names and (not ddl.tables or ddl.kind.startswith(("rename", "exchange"))):
        return [TableName(ddl.schema, "")]
    return names


def may_change_rows(_: TableName, kind: str, __: str) -> bool:
    """Of any DDL, by TiDB's word for its kind."""
    return kind not in KEEPS_ROWS


class CodecWithCuts:
    """`codec` for the feed's own lanes, and what the lane brings. `all_hidden`: of the feed's own lanes no DDL counts."""

    def __init__(self, codec: Codec, *, all_hidden: bool = False) -> None:
        self._codec, self._cuts, self._all_hidden = codec, KvCodec(_no_marks), all_hidden

    @property
    def name(self) -> str:
        return self._codec.name

    def envelopes(self, message: Message) -> list[Envelope]:
        if message.lane == HIDDEN_LANE:
            return self._cuts.envelopes(message)
        envelopes = self._codec.envelopes(message)
        return [one for one in envelopes if not isinstance(one, Ddl)] if self._all_hidden else envelopes

    def identity(self, change: Change) -> Hashable:
        return self._codec.identity(change)

    def mark(self, change: Change) -> Mark | None:
        return self._codec.mark(change)


def _no_marks() -> KvTable:
    raise AssertionError("cuts hold no rows")
