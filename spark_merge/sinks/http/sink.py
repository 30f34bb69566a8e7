"""The http: sink's driver. A receiver keeps a line of ours, the state (state.py), and swaps it in the transaction of a body's lines:

    open    look ─► the next owner in the state        tasks    body after body, in order, each from state to state        accept    look

So position, fence and what was begun are one thing: a former owner's body goes on from a state that is no more. Rows are seen in their
order as bodies come, and nothing is told twice: a batch that is done again, in whatever cut, goes on where the receiver is.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from sidecar.errors import SinkError
from spark_merge.contract import Accepted, Batch, Head, Outcome, Owner, Standing, Task, Unit
from spark_merge.sinks.fence import check_log, check_next
from spark_merge.sinks.http.client import Body, Receiver, client_of
from spark_merge.sinks.http.records import ending_of
from spark_merge.sinks.http.state import State, state_of
from spark_merge.sinks.http.writer import HttpWriter, Limits, mine

OPEN_TRIES = 5
"""Others who open at the same time come between."""


class HttpSink:
    """`log_id` names the log for ever."""

    def __init__(self, receiver: Receiver, limits: Limits, *, log_id: str) -> None:
        self.receiver, self._limits, self._log_id = receiver, limits, log_id
        self._state: State | None = None

    def look(self) -> Accepted | None:
        _, found = self._read()
        return found.accepted if found else None

    def open(self, *, epoch: int | None) -> Standing:
        reason = ""
        for _ in range(OPEN_TRIES):
            text, found = self._read()
            owner = Owner.after(found.owner if found else None, epoch, of=self.receiver)
            by = secrets.token_hex(8)
            state = (found or State(self._log_id, -1, 0, "")).owned(self._log_id, owner, by)
            body = Body(b"", f'"{self._log_id}/open/{owner.epoch}.{owner.incarnation}.{by}"', "that it has a new owner, a body")
            conflict = client_of(self.receiver).post(body, after=text, state=state.text)
            if conflict is None:
                self._state = state
                return Standing(owner, state.accepted)
            reason = conflict.reason
        raise SinkError(
            f"{self.receiver} answers 409 to each new owner: {reason}",
            hint="see that GET answers with the last Ticdc-Dump-State, letter by letter, and that one sidecar alone sends there",
        )

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:  # noqa: ARG002 - one task alone is in order
        state = self._opened()
        if state.begun is not None and (state.begun.seq, state.begun.manifest) != (heads[0].seq, heads[0].manifest.id):
            raise SinkError(
                f"{self.receiver} has rows of segment {state.begun.seq} ({state.begun.manifest}), the log goes on with {heads[0].seq}"
                f" ({heads[0].manifest.id}): the log was replaced",
                hint="set log.uri back to the log that the output is of; else name a new output, and dump again",
            )
        units = tuple(Unit(head.seq, live=True, chunks=tuple(head.due_chunks())) for head in heads)
        task = Task(f"{heads[0].seq}-{heads[-1].seq}", units, "segment")
        writer = HttpWriter(self.receiver, self._limits, state, tuple(map(ending_of, heads)))
        return Batch(tuple(heads), ((task,),), writer)

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the receiver has told
        state, client = self._opened(), client_of(self.receiver)
        before, last = state.accepted, Accepted.of(batch.heads[-1].manifest)
        check_next(self.receiver, before and before.seq, batch.heads[0].seq)
        found = mine(client, client.state(), state)
        if found.accepted != last:
            raise SinkError(
                f"{self.receiver} has accepted {found.accepted}, and the tasks up to {last} are done", hint="start the worker again"
            )
        self._state = found

    def close(self) -> None:
        client_of(self.receiver).close()

    def _opened(self) -> State:
        if self._state is None:
            raise SinkError(f"{self.receiver} was not opened", hint="report this: it is a defect of ticdc-dump")
        return self._state

    def _read(self) -> tuple[str | None, State | None]:
        """Raises SinkError for another log's."""
        text = client_of(self.receiver).state()
        if text is None:
            return None, None
        found = state_of(text, where=self.receiver)
        hint = "name another output (another path, if the receiver keeps one for each), and dump again"
        check_log(self.receiver, found.log, self._log_id, hint=hint)
        return text, found
