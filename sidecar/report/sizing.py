"""What a deployment will need, from its shape: values in, values out.

- Every cost is in the tables of size_costs.py, with its unit and its source. A figure says which it is made of.
- Live work is done segment by segment, one for each tick of the feed's resolved marks. So the processor's time is a sum:

      cores = processes + segments/s × (segment + sinks × (batch + changing tables × part)) + changes/s × (change + sinks × delivery)

- A dump is as fast as the slowest of its sinks, its pace, and the cores that its rows need.
- Costs of a row were measured with rows of 200 bytes. Half of such a cost is taken to grow with the bytes.

It must not know how figures are shown, and reads no settings: `SizedLoad` has those that count, with the defaults of `shared/config.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from urllib.parse import parse_qs, urlsplit

from sidecar.core.plan import CHUNK_BYTES_TARGET
from sidecar.report.size_costs import (
    ALIASES,
    BENCH,
    BULK_ROWS,
    COSTS,
    GIB,
    KIB,
    MEASURED_CORES,
    MEASURED_TABLES,
    MEASURED_WRITES,
    MIB,
    ROW_BYTES,
    SINKS,
    Basis,
    SinkCost,
)
from sidecar.shared.errors import ConfigError, nearest
from sidecar.shared.model.messages import ReadWith

HOURS_MAX = 8_760


def sink_named(text: str) -> str:
    """The name in SINKS of a sink that is given by that name or by its URI. Raises ConfigError."""
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    name = (text if text in SINKS else parts.scheme or text).removesuffix("+ssl").removesuffix("+s3").lower()
    if parts.scheme in ("file", "s3") or text.startswith("/"):
        query = parse_qs(parts.query)
        name = text if text in SINKS else f"file:{(query.get('format') or query.get('protocol') or [''])[0]}"
    name = ALIASES.get(name, name)
    if name not in SINKS:
        hint = f"use a sink's URI, or one of {', '.join(sorted(SINKS))}; for a sink of your own, the one that is most like it"
        raise ConfigError(f"no costs are known of the sink {name!r}{nearest(name, SINKS)}", hint=hint)
    return name


@dataclass(frozen=True, slots=True)
class SizedSettings:
    """Of the settings' file, in its units. `commit_interval_s`: of a lake."""

    spark_bytes: int = 2 * GIB
    held_bytes_max: int = 256 * MIB
    queue_bytes_max: int = 128 * MIB
    chunk_bytes_max: int = 256 * MIB
    chunk_rows: int = 10_000
    readers: int = 2
    window_chunks: int = 8
    lease_s: int = 10
    commit_interval_s: float = 10.0


@dataclass(frozen=True, slots=True)
class SizedLoad:
    """A deployment's shape. `writes_a_s`: row changes of the whole changefeed. `changing_tables`: with a change in one segment; 0: as
    many as can have one. `hours`: a sink, or the sidecar, may be away. `message_bytes` 0: by the row. `rows_a_s` 0: no pace."""

    rows: int
    row_bytes: int
    tables: int
    writes_a_s: int
    sinks: tuple[str, ...] = ("kafka",)
    changing_tables: int = 0
    hours: float = 8.0
    message_bytes: int = 0
    largest_row_bytes: int = 0
    rows_a_s: int = 0
    read_with: ReadWith = ReadWith.SQL
    settings: SizedSettings = SizedSettings()

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        least = {"rows": 1, "row-bytes": 1, "tables": 1, "writes": 0, "changing-tables": 0, "message-bytes": 0, "rows-per-second": 0}
        given = (self.rows, self.row_bytes, self.tables, self.writes_a_s, self.changing_tables, self.message_bytes, self.rows_a_s)
        for (name, bound), value in zip(least.items(), given, strict=True):
            if value < bound:
                raise ConfigError(f"--{name} is {value}", hint=f"give {bound} or more")
        if self.changing_tables > self.tables:
            raise ConfigError(f"{self.changing_tables} of {self.tables} tables cannot change", hint="give --changing-tables up to --tables")
        if not 0 < self.hours <= HOURS_MAX:
            raise ConfigError(f"--hours is {self.hours:g}", hint=f"give more than 0, and {HOURS_MAX:,} at most")
        if not self.sinks:
            raise ConfigError("there is no sink", hint=f"give --sink: {', '.join(sorted(SINKS))}")
        for name in self.sinks:
            sink_named(name)

    @property
    def changing(self) -> int:
        """Tables with a change in one segment: each change is taken to be of another table, where there are as many."""
        return self.changing_tables or min(self.tables, ceil(self.writes_a_s / _cost("segments")))

    @property
    def message(self) -> float:
        return self.message_bytes or self.row_bytes * _cost("message")

    @property
    def weight(self) -> float:
        """Of a row, beside one of ROW_BYTES."""
        return 0.5 + 0.5 * self.row_bytes / ROW_BYTES


def _cost(name: str) -> float:
    return COSTS[name].value


@dataclass(frozen=True, slots=True)
class SizedFigure:
    """`key`: for programs. `made_from`: what it is the sum or product of, and where that was measured."""

    group: str
    key: str
    name: str
    value: float
    unit: str
    basis: Basis
    made_from: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """`limits`: what holds a dump and the live stream back, as sentences."""

    figures: tuple[SizedFigure, ...]
    limits: tuple[str, ...]

    def value(self, key: str) -> float:
        """Raises KeyError."""
        return {figure.key: figure.value for figure in self.figures}[key]


WORKER_BUSY_MAX = 0.8
"""Of a core: what a merge worker's live work may take before segments begin to share batches. Its Python has one core."""
DELIVERY_BOUND_S = 0.5
"""Of a dump beside live changes, where no setting says another (README.md)."""


def sized(load: SizedLoad) -> Sizes:
    """Raises nothing: the load was checked when it was made."""
    live, dump = _live(load), _dump(load)
    figures = (
        *_cores(load, live, dump), *_memory(load), *_disk(load), *_etcd(load), *_sources(load), *_time(load, dump), *_delivery(load, live),
    )  # fmt: skip
    return Sizes(figures, tuple(_limits(load, live, dump)))


@dataclass(frozen=True, slots=True)
class _Live:
    """Cores. `sinks`: what the merge worker takes for each."""

    sidecar: float
    sinks: tuple[float, ...]

    @property
    def line(self) -> float:
        """Without what waiting processes take."""
        return self.sidecar + sum(self.sinks)


def _live(load: SizedLoad) -> _Live:
    per_s, changes, weight = _cost("segments"), load.writes_a_s, load.weight
    sinks = []
    for one in map(_sink, load.sinks):
        bulk_us = one.bulk_us * max(changes, BULK_ROWS * per_s * load.changing)
        delivered_us = changes * one.bulk_us if load.changing <= 1 else min(changes * one.change_us, bulk_us)
        busy = per_s * (one.batch_ms + load.changing * one.part_ms) / 1e3 + delivered_us * weight / 1e6
        sinks.append(busy + (_commits_a_s(load, one) * one.commit_cpu_s))
    return _Live(per_s * _cost("segment") / 1e3 + changes * _cost("change") * weight / 1e6, tuple(sinks))


def line_cores(load: SizedLoad) -> float:
    """Of feed, log and sinks in one process: what `tests/tools/bench/sizes.py` measures."""
    return _live(load).line


def _sink(name: str) -> SinkCost:
    return SINKS[sink_named(name)]


def _commit_s(load: SizedLoad, one: SinkCost) -> float:
    return one.commit_s * ceil(_tables_a_batch(load) / one.at_once)


def _tables_a_batch(load: SizedLoad) -> int:
    """Of a lake, with a change within its interval."""
    segments = max(1.0, load.settings.commit_interval_s * _cost("segments"))
    return min(load.tables, ceil(load.changing * segments))


def _commits_a_s(load: SizedLoad, one: SinkCost) -> float:
    return _tables_a_batch(load) / max(load.settings.commit_interval_s + _commit_s(load, one), 1 / _cost("segments"))


@dataclass(frozen=True, slots=True)
class _DumpRates:
    """Rows a second, each with the name of what sets it. `row_us`: CPU of a row, of all sinks, with reading."""

    alone: tuple[float, str]
    beside: tuple[float, str]
    row_us: float
    basis: Basis


def _dump(load: SizedLoad) -> _DumpRates:
    weight, sinks = load.weight, [(name, _sink(name)) for name in load.sinks]
    row_us = weight * (_cost(_READING[load.read_with]) + sum(one.row_us for _, one in sinks))
    shared = [
        (MEASURED_CORES * 1e6 / row_us, f"{MEASURED_CORES} cores: more of them make it faster"),
        (_cost("reading") / 2 * load.settings.readers / weight, "dump.readers"),
    ]
    if load.rows_a_s:
        shared.append((load.rows_a_s, "--rows-per-second"))
    basis = Basis.MEASURED if all(one.dump is Basis.MEASURED for _, one in sinks) and len(sinks) == 1 else Basis.ESTIMATE
    return _DumpRates(
        min([*((one.rows_a_s / weight, f"the sink {name}") for name, one in sinks), *shared]),
        min([*((one.beside_a_s / weight, f"the sink {name}") for name, one in sinks), *shared]),
        row_us,
        basis,
    )


_READING = {ReadWith.SQL: "read by SELECT", ReadWith.TIKV: "read from TiKV"}


def _cores(load: SizedLoad, live: _Live, dump: _DumpRates) -> Iterator[SizedFigure]:
    alike = load.row_bytes == ROW_BYTES and load.writes_a_s <= MEASURED_WRITES and load.changing <= MEASURED_TABLES
    measured = alike and all(_sink(name).live is Basis.MEASURED for name in load.sinks)
    basis = Basis.MEASURED if measured else Basis.ESTIMATE
    whole = _cost("processes") + live.line
    what = f"{_cost('segments'):g} segments/s, {load.changing:,} changing tables in each, {load.writes_a_s:,} changes/s; {BENCH}"
    yield SizedFigure("cores", "cores_live", "live, sidecar and worker", whole, "cores", basis, what)
    what = f"live, and {dump.row_us:.1f} µs for a dump row; {_sink(load.sinks[0]).source}"
    yield SizedFigure("cores", "cores_dump", "while a dump runs", whole + dump.beside[0] * dump.row_us / 1e6, "cores", Basis.ESTIMATE, what)


def _memory(load: SizedLoad) -> Iterator[SizedFigure]:
    settings, largest = load.settings, max(load.largest_row_bytes, load.row_bytes)
    large = largest * (_cost("large row, sink") * len(load.sinks) + _cost("large row, reader") * settings.readers)
    sidecar = settings.held_bytes_max + settings.queue_bytes_max + settings.readers * _cost("reader") + _cost("keeper") + _cost("process")
    others = _cost("another sink") * (len(load.sinks) - 1)
    parts = (
        ("memory_spark", "Spark's driver", float(settings.spark_bytes), "spark.memory"),
        ("memory_sidecar", "sidecar and worker", sidecar, "log.held_bytes_max, kafka.queue_bytes_max, dump.readers, Python"),
        ("memory_sinks", "further sinks", others, f"{COSTS['another sink'].source}; measured for one sink only"),
        ("memory_large_rows", "large rows", large, "20 times the largest row for each sink, 8 times for each reader"),
    )
    for key, name, value, what in parts:
        yield SizedFigure("memory", key, name, value, "bytes", Basis.ESTIMATE, what)
    whole = sum(value for _, _, value, _ in parts)
    yield SizedFigure(
        "memory", "memory", "together", whole, "bytes", Basis.ESTIMATE, "the sum; a verification: 0.3 GB more, and 0.2 GB a core"
    )


def _disk(load: SizedLoad) -> Iterator[SizedFigure]:
    second, settings = load.writes_a_s * load.message, load.settings
    lakes = [settings.commit_interval_s + _commit_s(load, one) for one in map(_sink, load.sinks) if one.commit_s]
    kept_s = max(_cost("log"), 2 * max(lakes, default=0))
    made = f"{load.message:,.0f} bytes of a message, before compression"
    figures = (
        ("log_normal", "log, normally", second * kept_s, f"{kept_s:,.0f} s of changes, {made}"),
        ("log_outage", f"log, a sink down for {load.hours:g} h", second * load.hours * 3600, f"changes/s × hours, {made}"),
        ("log_dump", "log, beside a dump", second * kept_s + settings.chunk_bytes_max, "log, normally, and dump.chunk_bytes_max"),
        ("spill", "log.spill_folder, at least", float(settings.held_bytes_max), "log.held_bytes_max; more for a larger transaction"),
    )
    for key, name, value, what in figures:
        yield SizedFigure("disk", key, name, value, "bytes", Basis.ESTIMATE, what)
    what = f"changes/s × {load.hours:g} h, {made}, without replicas: retention.ms covers the time, retention.bytes is not set"
    yield SizedFigure("Kafka", "kafka_retention", "room of the topics", second * load.hours * 3600, "bytes", Basis.ESTIMATE, what)


def _etcd(load: SizedLoad) -> Iterator[SizedFigure]:
    parts, source = ceil(load.tables / _cost("etcd tables")), COSTS["etcd key"].source
    history = 1_000
    yield SizedFigure("etcd", "etcd_keys", "keys, one dump", 5 + parts, "keys", Basis.MEASURED, f"one for 8 tables; {source}")
    yield SizedFigure("etcd", "etcd_history_keys", "keys of the history", history, "keys", Basis.MEASURED, f"at most; {source}")
    size = parts * _cost("etcd key") + KIB + history * _cost("etcd history")
    yield SizedFigure("etcd", "etcd_bytes", "bytes, history included", size, "bytes", Basis.MEASURED, source)
    kept = 3 / load.settings.lease_s
    yield SizedFigure("etcd", "etcd_live", "requests, live", kept, "a second", Basis.ESTIMATE, "three keepalives in etcd.lease_s")
    what = "and one write for each segment in which a window closes"
    yield SizedFigure("etcd", "etcd_dump", "requests, while a dump runs", kept + _cost("segments"), "a second", Basis.ESTIMATE, what)


def _sources(load: SizedLoad) -> Iterator[SizedFigure]:
    settings, tikv = load.settings, load.read_with is ReadWith.TIKV
    full_rows = max(1, min(settings.chunk_rows, CHUNK_BYTES_TARGET // load.row_bytes))
    selects = 0 if tikv else max(load.tables, ceil(load.rows / full_rows * _cost("chunk")))
    what = f"chunks of up to {full_rows:,} rows; {COSTS['chunk'].source}"
    yield SizedFigure("source", "selects", "SELECTs of a dump", selects, "statements", Basis.ESTIMATE, what)
    marks = 2 * ceil(selects / settings.window_chunks)
    yield SizedFigure("source", "marks", "UPDATEs of the watermark row", marks, "statements", Basis.ESTIMATE, "two for a window")
    connections = 0 if tikv else settings.readers + 1
    what = "dump.read_with: TiKV is read directly" if tikv else "dump.readers, and one for marks"
    yield SizedFigure("source", "connections", "connections while a dump runs", connections, "connections", Basis.ESTIMATE, what)
    cpu_s = load.rows * _cost("source") * load.weight / 1e6
    what = f"{_cost('source'):g} µs a row of {ROW_BYTES} bytes; {COSTS['source'].source}, TiDB and TiKV were not measured"
    yield SizedFigure("source", "source_cpu", "TiKV's CPU" if tikv else "CPU of TiDB and TiKV", cpu_s, "CPU s", Basis.ESTIMATE, what)


def _time(load: SizedLoad, dump: _DumpRates) -> Iterator[SizedFigure]:
    exact = load.row_bytes == ROW_BYTES and not load.rows_a_s
    basis = dump.basis if exact else Basis.ESTIMATE
    source = "; ".join(dict.fromkeys(_sink(name).source for name in load.sinks))
    for key, name, (rate, why) in (("alone", "alone", dump.alone), ("beside", "beside live changes", dump.beside)):
        yield SizedFigure("dump", f"rate_{key}", f"rows/s, {name}", rate, "rows/s", basis, f"limited by {why}; {source}")
        yield SizedFigure("dump", f"time_{key}", f"time, {name}", load.rows / rate, "s", Basis.ESTIMATE, f"{load.rows:,} rows at that rate")


def _delivery(load: SizedLoad, live: _Live) -> Iterator[SizedFigure]:
    p50, p99 = _cost("delivered p50"), _cost("delivered p99")
    interval_s = load.settings.commit_interval_s
    for name, busy in zip(load.sinks, live.sinks, strict=True):
        one = _sink(name)
        commit_s = _commit_s(load, one) if one.commit_s else 0.0
        batch_s = busy / _cost("segments") + commit_s
        half, whole = (interval_s / 2, interval_s) if commit_s else (0.0, 0.0)
        alike = load.changing <= 1 and not commit_s and one.live is Basis.MEASURED
        basis = Basis.MEASURED if alike else Basis.ESTIMATE
        what = f"{COSTS['delivered p50'].source}, and the time of a batch, {batch_s:.2f} s"
        yield SizedFigure("delivery", f"p50_{name}", f"{name}: p50", p50 + half + batch_s, "s", basis, what)
        what = "and the batch before it" + (f", commit-interval {interval_s:g} s" if commit_s else "")
        yield SizedFigure("delivery", f"p99_{name}", f"{name}: p99", p99 + whole + 2 * batch_s, "s", basis, what)
        if one.commit_s:
            commits = _commits_a_s(load, one) * 3600
            what = f"{_tables_a_batch(load):,} tables a batch, {one.commit_s:g} s each, {one.at_once} at once; {one.source}"
            yield SizedFigure("delivery", f"commits_{name}", f"{name}: commits of tables", commits, "an hour", Basis.ESTIMATE, what)


def _limits(load: SizedLoad, live: _Live, dump: _DumpRates) -> Iterator[str]:
    both = dump.alone[1] == dump.beside[1]
    yield f"A dump is limited by {dump.alone[1]}" + ("." if both else f", and beside live changes by {dump.beside[1]}.")
    busy = sum(live.sinks)
    if busy > WORKER_BUSY_MAX:
        yield (
            f"The merge worker's live work needs {busy:.1f} cores, and its Python has about one. Several segments then share a batch, which"
            " costs less than this model says, and delivery takes longer. Move tables or sinks to a second changefeed with its own sidecar."
        )
    if dump.beside[0] < dump.alone[0]:
        yield f"Beside live changes the pace keeps delivery within {DELIVERY_BOUND_S:g} s (p99). A higher dump.delivery_bound_s is faster."
    if any(_sink(name).commit_s for name in load.sinks):
        yield "A lake pays for each commit of a table. A longer commit-interval makes fewer; a dump counts it as the sink's time."


ACCURACY = (
    "Measured on a machine with 2 cores: ratios travel better than absolute values. Live cores of other shapes of file:, grpc:"
    " and sqlite: sinks were predicted within 25 % on that machine. Beside other programs, and in its first minute, a sidecar took up to"
    " 1.5 and 4 times as much. An estimate is arithmetic: measure before you buy."
)
