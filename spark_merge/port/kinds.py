"""What a sink's folder gives the registry, or a third party's package its entry point in the group `ticdc_dump.sinks`: a SinkKind, by the
name of its URI scheme.

    [project.entry-points."ticdc_dump.sinks"]
    pulsar = "my_package.sink:PULSAR"

A sink declares the options of its URI as fields of a frozen dataclass (sinks/kit/options.py), or lists their names itself:

    @dataclass(frozen=True, slots=True)
    class Options:
        batch_rows: int = option("batch-rows", number(1, 10_000), 500, "Rows in one batch.")

    PULSAR = SinkKind(lambda uri: PulsarSink(uri, read(Options, uri.parameters)), names_of(Options))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult

from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.port.contract import Sink
from spark_merge.port.maintained import Maintained

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
    """`open` makes the sink; it reads and writes nothing, and raises SinkError for a URI that is not valid. `parameters`: the names that
    may stand behind the `?`; the registry rejects others. `holds_rows`: whether the target has rows that no log of ours brought, for a sink
    that can tell; writes nothing. `misfits`: what keeps the target from having rows of these tables, each with the way out; writes nothing.
    `leaves`: for who takes a sidecar away, what is ours beside the output, and how it is removed; asks nobody. `unreadable`: why its rows
    cannot be read back, for a sink without a reader (port/readable.py). `target`: what has a table's rows, of a sink whose names
    are more than its `routes` (registry.target_of). `statements`: whether the target carries out TiDB's own statements, and so keeps TiDB's
    columns. `maintained`: its tables for `ticdc-dump maintain`, of a target that consists of files; reads and writes nothing, and raises
    SinkError as `open`."""

    open: Callable[[SinkUri], Sink]
    parameters: frozenset[str] = frozenset()
    holds_rows: Callable[[SinkUri], bool] | None = None
    misfits: Callable[[SinkUri, Sequence[TableSchema]], Iterable[tuple[str, str]]] | None = None
    leaves: Callable[[SinkUri], str] | None = None
    unreadable: str = "this sink has no reader"
    target: Callable[[SinkUri], Callable[[TableName], str]] | None = None
    statements: bool = False
    maintained: Callable[[SinkUri], Maintained] | None = None
