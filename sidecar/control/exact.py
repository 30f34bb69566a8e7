"""Exact dumps: when one has finished its sinks are compared with TiDB, and corrected, by a verification of its own.

- The dump's record says that it is exact (`Progress.exact`), and the verification has the id that belongs to its dump (`exact_id`).
- A record that 0.4 or before wrote does not say it. Then the history does, as long as it has lost nothing: the dump is exact if it, or the
  dump of which it is the restart, has a verification there. 0.4 left a restart with the verification of the dump before it.
- It is on record before the dump is requested, so a dump whose command died is exact too. It ends where the dump is rejected.
- A restart of an exact dump is exact, in whatever state that dump is, or it is rejected; so is one where nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import structs

from sidecar.control.dump_scope import Scope
from sidecar.control.judging import Targets
from sidecar.control.verification_messages import NO_TARGETS, VerificationPort, asked, derived_id
from sidecar.history.entry import HISTORY_MAX, HistoryEntry
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.verification import VerifyRequest
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import OperationId
from sidecar.shared.model.progress import Progress
from ticdc_dump.v1 import control_pb2 as pb


def exact_id(dump_id: str) -> OperationId:
    """Of the verification that makes this dump exact, whether there is one or not."""
    return derived_id(dump_id, "exact")


def verification_of(dump: Progress, history: Sequence[HistoryEntry]) -> OperationId | None:
    """The one that makes the dump exact; None: it is not exact. Raises RefusedRequest where neither its record nor the history says it."""
    if dump.exact is not None:
        return exact_id(dump.dump_id) if dump.exact else None
    there: dict[str, HistoryEntry] = {entry.id: entry for entry in history}
    one = dump.dump_id
    for _ in there:
        if exact_id(one) in there:
            return exact_id(one)
        if one not in there or not there[one].restart_of:
            break
        one = there[one].restart_of
    if one not in there or len(there) >= HISTORY_MAX:
        raise RefusedRequest(
            f"whether dump {dump.dump_id} is exact is not known: an older version wrote its record, and the history may have lost it",
            hint="use dumpstart with its tables, with --exact if it is to be exact",
        )
    return None


def after_dump(
    request: pb.StartRequest, scope: Scope, *, sinks: Mapping[str, str], targets: Targets = NO_TARGETS, asked_ms: int
) -> VerifyRequest:
    """Of a dump that is started. Raises RefusedRequest."""
    if scope.narrowed:
        raise RefusedRequest(
            "an exact dump is of whole tables: extra rows of a part cannot be distinguished from the others",
            hint="omit --keys and --where, or --exact",
        )
    compared = [name for name in request.sinks if not (request.holes and sinks.get(name))] or request.sinks
    wanted = pb.VerifyRequest(id=exact_id(request.dump_id), sinks=compared, repair=True)
    if request.HasField("delete_at_most"):
        wanted.delete_at_most = request.delete_at_most
    result = asked(wanted, scope, sinks=sinks, targets=targets, asked_ms=asked_ms)
    return structs.replace(result, after_dump=request.dump_id)


def after_restart(verification: OperationId, new_dump_id: str, port: VerificationPort, *, asked_ms: int) -> VerifyRequest:
    """As that of the exact dump that is restarted. Raises RefusedRequest where its request is removed, and as the port."""
    known = port.find(verification)
    if known is None:
        raise RefusedRequest(
            f"the dump is exact, and the request of its comparison {verification} is removed: a restart could not be exact",
            hint="use dumpstart --exact with its tables, or dumpstart without --exact",
        )
    return structs.replace(known[0], id=exact_id(new_dump_id), after_dump=new_dump_id, asked_ms=asked_ms)


@contextmanager
def followed_by(request: VerifyRequest, port: VerificationPort, asker: Asker) -> Iterator[None]:
    """Around what requests the dump."""
    port.start(request, asker)
    try:
        yield
    except RefusedRequest:
        port.stop(request.id, asker)
        raise
