"""What became of a message, and how outcomes are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.model.nouns import Ddl, Envelope, Rank, Resolved

T = TypeVar("T")

SHOWN_BYTES_MAX = 20_000
SHOWN_INPUTS_MAX = 8
"""The batch makes all of them again."""


class Refused(Exception):
    """A slow reader's no."""


class Fault(Exception):
    """What must never be: its text says what, and holds the bytes."""


class Hang(Fault):
    pass


@dataclass(slots=True)
class Counts:
    """`refused`: by the error's class. `only_slow`: of these, how many the slow reader takes. `rows`: rows that were read by both."""

    messages: int = 0
    equal: int = 0
    rows: int = 0
    only_slow: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, other: Counts) -> None:
        self.messages += other.messages
        self.equal += other.equal
        self.rows += other.rows
        self.only_slow += other.only_slow
        self.refused += other.refused


def ours(read: Callable[[], T], what: str, *inputs: bytes | None) -> T | TicdcDumpError:
    """What the product reads, or its error. Raises Fault for an error that is not ours."""
    try:
        return read()
    except TicdcDumpError as error:
        if not (error.message and error.hint):
            raise fault(f"{what}: an error without a text or a way out", *inputs) from error
        return error
    except Hang as hang:
        raise Hang(str(fault(f"{what}: {hang}", *inputs))) from hang
    except Exception as error:
        raise fault(f"{what}: {type(error).__name__} is no error of ours: {str(error)[:300]}", *inputs) from error


def slow(read: Callable[[], T]) -> T | Refused:
    try:
        return read()
    except Refused as refused:
        return refused


def fault(text: str, *inputs: bytes | None) -> Fault:
    shown = ["null" if one is None else one[:SHOWN_BYTES_MAX].hex() for one in inputs[:SHOWN_INPUTS_MAX]]
    return Fault("\n  ".join([text, *shown]))


def differ(what: str, value: Any, expected: Any, *inputs: bytes | None) -> Fault:
    return fault(f"{what}: read as {str(value)[:600]}\n  the slow reader: {str(expected)[:600]}", *inputs)


def reported_of(envelope: Envelope) -> tuple[Any, ...]:
    """What a message says, without where it stood."""
    match envelope:
        case Resolved():
            return ("resolved", envelope.ts)
        case Ddl():
            return ("ddl", envelope.commit_ts, envelope.schema, envelope.table, envelope.query)
        case _:
            return ("delete" if envelope.rank is Rank.DELETE else "put", envelope.commit_ts, *envelope[2:6])
