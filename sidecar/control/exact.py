"""Exact dumps: when one has finished its sinks are compared with TiDB, and corrected, by a verification of its own.

- The verification has the id that belongs to its dump (`exact_id`): by that the history says which dumps are exact.
- It is on record before the dump is requested, so a dump whose command died is exact too. It ends where the dump is rejected.
- A restart of an exact dump is exact, in whatever state that dump is, or it is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import structs

from sidecar.control.dump_scope import Scope
from sidecar.control.judging import Targets
from sidecar.control.verification_messages import NO_TARGETS, VerificationPort, asked, derived_id
from sidecar.history.entry import HistoryEntry
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.verification import VerifyRequest
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import OperationId
from ticdc_dump.v1 import control_pb2 as pb


def exact_id(dump_id: str) -> OperationId:
    """Of the verification that makes this dump exact, whether there is one or not."""
    return derived_id(dump_id, "exact")


def is_exact(dump_id: str, history: Iterable[HistoryEntry]) -> bool:
    following = exact_id(dump_id)
    return any(entry.id == following for entry in history)


def after_dump(
    request: pb.StartRequest, scope: Scope, *, sinks: Mapping[str, str], targets: Targets = NO_TARGETS, asked_ms: int
) -> VerifyRequest:
    """Of a dump that is started. Raises RefusedRequest."""
    if scope.narrowed:
        raise RefusedRequest(
            "an exact dump is of whole tables: extra rows of a part cannot be distinguished from the others",
            hint="omit --keys and --where, or --exact",
        )
    wanted = pb.VerifyRequest(id=exact_id(request.dump_id), sinks=request.sinks, repair=True)
    if request.HasField("delete_at_most"):
        wanted.delete_at_most = request.delete_at_most
    result = asked(wanted, scope, sinks=sinks, targets=targets, asked_ms=asked_ms)
    return structs.replace(result, after_dump=request.dump_id)


def after_restart(dump_id: str, new_dump_id: str, port: VerificationPort, *, asked_ms: int) -> VerifyRequest:
    """As that of the exact dump that is restarted. Raises RefusedRequest where its request is removed, and as the port."""
    known = port.find(exact_id(dump_id))
    if known is None:
        raise RefusedRequest(
            f"dump {dump_id} is exact, and the request of the comparison after it is removed: a restart could not be exact",
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
