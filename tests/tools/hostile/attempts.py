"""An attempt, what became of it, and the table: the frame of all areas. It knows nothing of what is attacked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic

import grpc

from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.process.background import Background

ATTEMPT_S = 120.0
"""Where an attempt says nothing else. An answer comes in milliseconds; the machine may be loaded."""


class Outcome(StrEnum):
    REFUSED = "refused"
    HARMLESS = "harmless"
    HANG = "hang"
    ACCEPTED = "accepted"
    LEAK = "leak"
    FOREIGN = "foreign"


FAULTS = (Outcome.HANG, Outcome.ACCEPTED, Outcome.LEAK, Outcome.FOREIGN)


class Fault(Exception):
    """Raised by an attempt that sees one. `outcome`: which."""

    def __init__(self, outcome: Outcome, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Attempt:
    """`tried` returns its outcome or raises, in a thread of its own. `whole`: only where everything is tried. `inputs`: how many bad
    inputs it is made of."""

    name: str
    tried: Callable[[], Outcome]
    within_s: float = ATTEMPT_S
    whole: bool = False
    inputs: int = 1


@dataclass(frozen=True, slots=True)
class Area:
    """`at_least`: inputs that it has in all. `whole`: it is opened only where everything is tried."""

    name: str
    at_least: int
    opened: Callable[[], AbstractContextManager[Sequence[Attempt]]]
    whole: bool = False


@dataclass(slots=True)
class Result:
    """Of one area. `faults`: each by its attempt's name, with what was seen."""

    area: str
    tried: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    took_s: float = 0.0


def refuses(name: str, requested: Callable[[], object], **more: float | bool) -> Attempt:
    """`requested` must raise an error of ours, or the protocol's."""

    def tried() -> Outcome:
        return _accepted(requested())

    return Attempt(name, tried, **more)  # type: ignore[arg-type]  # fields by name


def serves(name: str, requested: Callable[[], object], **more: float | bool) -> Attempt:
    """`requested` looks odd and is right: it must be answered, by something that is true."""

    def tried() -> Outcome:
        if not requested():
            raise Fault(Outcome.FOREIGN, "it was answered by nothing")
        return Outcome.HARMLESS

    return Attempt(name, tried, **more)  # type: ignore[arg-type]  # fields by name


def _accepted(answer: object) -> Outcome:
    raise Fault(Outcome.ACCEPTED, f"was taken: {str(answer)[:200]}")


_REFUSING = {
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.ABORTED, grpc.StatusCode.CANCELLED, grpc.StatusCode.OUT_OF_RANGE,
}  # fmt: skip
_UNPARSED = "Exception deserializing request!"
"""What gRPC says of bytes that are no message, as INTERNAL."""


def outcome_of(error: BaseException, secrets: Iterable[str] = ()) -> Outcome:
    """What an attack that raised this came to."""
    if any(secret in str(error) for secret in secrets):
        return Outcome.LEAK
    match error:
        case Fault():
            return error.outcome
        case TicdcDumpError():
            return Outcome.REFUSED
        case grpc.RpcError():
            return _of_status(error.code(), error.details() or "")
        case TimeoutError():
            return Outcome.HANG
        case _:
            return Outcome.FOREIGN


def _of_status(code: grpc.StatusCode, details: str) -> Outcome:
    if code in _REFUSING or (code is grpc.StatusCode.INTERNAL and details == _UNPARSED):
        return Outcome.REFUSED
    return Outcome.HANG if code is grpc.StatusCode.DEADLINE_EXCEEDED else Outcome.FOREIGN


def one(attempt: Attempt) -> tuple[Outcome, str]:
    """Try it, no longer than it may take; what was seen, where it is a fault."""
    outcomes: list[Outcome] = []
    work = Background(lambda _: outcomes.append(attempt.tried()), name=f"attempt {attempt.name}")
    work.close(attempt.within_s)
    if work.alive:
        return Outcome.HANG, f"no end within {attempt.within_s:g} s"
    try:
        work.check()
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is what is counted
        return outcome_of(error), f"{type(error).__name__}: {error}"
    return outcomes[0], ""


def carried_out(area: Area, *, whole: bool) -> Result:
    """All of an area's attempts, or those that are not `whole`."""
    rows, began_s = Result(area.name), monotonic()
    with area.opened() as attempts:
        inputs = sum(attempt.inputs for attempt in attempts)
        if inputs < area.at_least:
            rows.faults.append(f"{area.name}: {inputs} inputs, and {area.at_least} are promised")
        for attempt in attempts:
            if attempt.whole and not whole:
                continue
            outcome, seen = one(attempt)
            rows.tried += attempt.inputs
            rows.outcomes[outcome] += attempt.inputs
            if outcome in FAULTS:
                rows.faults.append(f"{area.name}: {attempt.name}: {outcome}: {seen}"[:1000])
    rows.took_s = monotonic() - began_s
    return rows


def table(rows: Sequence[Result]) -> str:
    """As in the report of the first time, a line an area, and the sum."""
    total = Result(
        "sum", sum(one.tried for one in rows), sum((one.outcomes for one in rows), Counter()), [], sum(one.took_s for one in rows)
    )
    lines = ["| area | inputs tried | refused | harmless | hangs | accepted in silence | leaks | errors that are not ours | seconds |"]
    lines.append("|---" * 9 + "|")
    for one_area in (*rows, total):
        counts = (one_area.tried, *(one_area.outcomes[outcome] for outcome in Outcome), f"{one_area.took_s:.0f}")
        lines.append(f"| {one_area.area} | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines)
