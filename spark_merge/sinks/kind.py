"""What a sink's folder gives the registry, or a third party's package its entry point in the group `ticdc_dump.sinks`: a SinkKind, by the
name of its URI scheme.

    [project.entry-points."ticdc_dump.sinks"]
    pulsar = "my_package.sink:PULSAR"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult

from spark_merge.contract import Sink

ENTRY_POINTS = "ticdc_dump.sinks"


@dataclass(frozen=True, slots=True)
class SinkUri:
    """`text` as the operator gave it, `parts` and `parameters` of it, none of them unknown. `log_id` names the log for ever."""

    text: str
    parts: SplitResult
    parameters: Mapping[str, str]
    log_id: str


@dataclass(frozen=True, slots=True)
class SinkKind:
    """`open` makes the sink; it reads and writes nothing, and raises SinkError for a URI that cannot be meant. `parameters`: what may stand
    behind the `?`."""

    open: Callable[[SinkUri], Sink]
    parameters: frozenset[str] = frozenset()
