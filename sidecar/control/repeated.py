"""Whether dumps are already as a request would have them: then a request that is made again, after a lost answer, changes nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sidecar.core.dump import NEXT
from sidecar.shared.model.messages import Request, RestartDump, Settings, StartDump
from sidecar.shared.model.progress import DumpState, Progress, intended_without_id


def is_set(settings: Settings, states: frozenset[DumpState], progress: Progress) -> bool:
    """Whether the dump is in one of the states, with these settings."""
    now = progress.chunk_rows, progress.pace
    return progress.state in states and settings.of(*now) == now


def already_done(dumps: Sequence[Progress], request: Request, shows: Callable[[Progress], bool]) -> Progress | None:
    """The dump that is as the request would have it already; None where it has to be carried out."""
    if isinstance(request, StartDump | RestartDump):
        there = dumps
    elif request.dump_id:
        there = [dump for dump in dumps if dump.dump_id == request.dump_id]
    else:
        there = intended_without_id(dumps)
        if any(dump.state in NEXT[type(request)] and not shows(dump) for dump in there):
            return None
    return next((dump for dump in there if shows(dump)), None)
