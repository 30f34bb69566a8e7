"""Our errors on their way out of a Spark task: the driver gets only a text, so the error travels in it, encoded.

`notifying` wraps a task's function; `error_of_task` finds the error in what Spark raised. Any other error stays Spark's own.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from sidecar.shared import errors
from sidecar.shared.errors import TicdcDumpError

_REPORTED = re.compile(r"ticdc-dump-error\[([A-Za-z0-9+/=]+)\]")

P = ParamSpec("P")
R = TypeVar("R")


def notifying(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, whose TicdcDumpErrors the driver can read."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TicdcDumpError as error:
            raise RuntimeError(error_text(error)) from error

    return call


def error_text(error: Exception) -> str:
    """With an error of ours in it, for `error_of_task`; of another one what it is."""
    if not isinstance(error, TicdcDumpError):
        return f"{type(error).__name__}: {error}"
    results = [type(error).__name__, error.message, error.hint]
    return f"ticdc-dump-error[{base64.b64encode(json.dumps(results).encode()).decode()}]"


def error_of_task(error: BaseException) -> TicdcDumpError | None:
    """The error of ours that a task died of, as the same class; None if it died of something else."""
    match = _REPORTED.search(str(error))
    if match is None:
        return None
    name, message, hint = json.loads(base64.b64decode(match.group(1)))
    kind: type[TicdcDumpError] = getattr(errors, name)
    return kind(message, hint=hint)
