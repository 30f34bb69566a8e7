"""Our errors on their way out of a Spark task: the driver gets only a text, so the error travels in it, encoded.

`telling` wraps a task's function, `told` finds the error again in what Spark raised. Any other error stays Spark's own.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from sidecar import errors
from sidecar.errors import TicdcDumpError

_TOLD = re.compile(r"ticdc-dump-error\[([A-Za-z0-9+/=]+)\]")

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class telling:  # noqa: N801  # a picklable function
    """`task`, whose TicdcDumpErrors the driver can read. For `mapInArrow`."""

    task: Task

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        try:
            yield from self.task(iter(batches))
        except TicdcDumpError as error:
            found = [type(error).__name__, str(error).partition("\n")[0], error.hint]
            raise RuntimeError(f"ticdc-dump-error[{base64.b64encode(json.dumps(found).encode()).decode()}]") from error


def told(error: BaseException) -> TicdcDumpError | None:
    """The error of ours that a task died of, as the same class; None if it died of something else."""
    found = _TOLD.search(str(error))
    if found is None:
        return None
    name, message, hint = json.loads(base64.b64decode(found.group(1)))
    kind: type[TicdcDumpError] = getattr(errors, name)
    return kind(message, hint=hint)
