"""The position (`PositionStore`): the state that the receiver keeps. A request without lines swaps it; tasks swap it with lines
(writer.py)."""

from __future__ import annotations

import secrets

from sidecar.shared.errors import SinkError
from spark_merge.sinks.http.client import Body, Receiver, client_of
from spark_merge.sinks.http.state import BegunSegment, ReceiverState, state_of
from spark_merge.sinks.kit.position import Missed, OutputState, Stored

REFUSED_MAX = 5
"""Swaps in a row that a receiver may answer with 409, for other workers that open at the same time."""


class ReceiverPositions:
    """`PositionStore` at `receiver`. The version is the state as text."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._swapped: ReceiverState | None = None
        self._refused = 0
        self.place = str(receiver)

    def read(self) -> Stored[BegunSegment] | None:
        text = client_of(self._receiver).state()
        if text is None:
            return None
        state = state_of(text, where=self._receiver)
        return Stored(OutputState(state.log, state.owner, state.accepted, state.begun), text)

    def compare_and_swap(
        self,
        before: Stored[BegunSegment] | None,
        after: OutputState[BegunSegment],
        payload: None = None,  # noqa: ARG002 - the port's
    ) -> Stored[BegunSegment] | Missed:
        """Each swap has a `by` of its own, so a receiver that takes an equal state for done takes no other worker's for it."""
        state = ReceiverState(after.log_id, *after.owner, secrets.token_hex(8)).standing(after.accepted, after.detail)
        key = f'"{state.log}/open/{state.epoch}.{state.incarnation}.{state.by}"'
        body = Body(b"", key, "that it has a new owner, a body")
        conflict = client_of(self._receiver).post(body, after=None if before is None else str(before.version), state=state.text)
        if conflict is None:
            self._swapped, self._refused = state, 0
            return Stored(after, state.text)
        self._refused += 1
        if self._refused >= REFUSED_MAX:
            raise SinkError(
                f"{self._receiver} answers 409 to each new owner: {conflict.reason}",
                hint="see that GET answers with the last Ticdc-Dump-State, letter by letter, and that one sidecar alone sends there",
            )
        return Missed.UNKNOWN

    def swapped(self) -> ReceiverState:
        """As the last swap wrote it."""
        assert self._swapped is not None, "open comes first"
        return self._swapped
