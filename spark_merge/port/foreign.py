"""Errors that are none of ours: a library's, or a defect. Each leaves its decoder, encoder or sink as one of ours, with its place.

    codecs/decode/rows.py   of a row: the row's lane, position, segment and ordinal, so that an operator can leave it out
    merge/task.py           of a task: the table and segment that were being written         } a note on the error
    delivery/batches.py     of a batch: what was being done, and the segments                }
    delivery/loop.py        of a sink: a SinkError with those notes; the sink is opened again after a while, and no other sink is delayed

MemoryError is not translated: a process that has no memory left must end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sidecar.shared.errors import SinkError, TicdcDumpError

UNKNOWN_HINT = "report this text with the lines of the worker's log beside it; nothing accepted is lost, and the batch is tried again"


_RUST_PANIC = "PanicException"
"""Of polars, deltalake and other libraries in Rust: each has a class of its own of this name (pyo3_runtime), and none is an Exception."""


def is_foreign(error: BaseException) -> bool:
    if not isinstance(error, Exception):
        return type(error).__name__ == _RUST_PANIC
    return not isinstance(error, TicdcDumpError | MemoryError)


@contextmanager
def noting(place: Callable[[], str]) -> Iterator[None]:
    """Where an error of a library came from, for who reports it."""
    try:
        yield
    except BaseException as error:
        if is_foreign(error):
            error.add_note(place())
        raise


def unknown(error: BaseException) -> SinkError:
    """With the notes of `noting`, the outermost first."""
    where = ": ".join(reversed(getattr(error, "__notes__", [])))
    return SinkError(f"{where + ': ' if where else ''}{type(error).__name__}: {error}", hint=UNKNOWN_HINT)
