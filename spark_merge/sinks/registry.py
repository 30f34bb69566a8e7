"""A sink's URI to the sink: the one list of what there is, so that an error can name it.

    file:///var/out?format=jsonl   /var/out?format=parquet   s3://bucket/out?format=parquet&endpoint=…   console:   grpc:///var/spool
    file:///var/out?protocol=csv   s3://bucket/out?protocol=canal-json      (TiCDC's storage layout)
    kafka://broker:9092/topic?protocol=open-protocol
    mysql://user@host:3306/?worker-count=8   tidb+ssl://user@host:4000/
    https://receiver.example/orders?token-file=…
    delta:///var/lake?mode=append   delta+s3://bucket/lake?mode=merge&endpoint=…

A sink is loaded when a URI names its scheme. Some need packages of an extra of this project (`pip install 'ticdc-dump[…]'`).

A scheme that is not in the list is looked for among the installed packages' entry points (port/kinds.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from sidecar.shared.errors import ConfigError, SinkError, TicdcDumpError, nearest
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.process.kept_secrets import without_secrets
from spark_merge.ddl.routes import routes_of
from spark_merge.masks.rules import ColumnRules
from spark_merge.masks.sink import Masking, OpenMasking, masked
from spark_merge.port.contract import KeepsTables, Sink, has_rows
from spark_merge.port.kinds import ENTRY_POINTS, SinkKind, SinkUri
from spark_merge.port.maintained import Maintained
from spark_merge.port.readable import Readable
from spark_merge.sinks.kit.options import CommonOptions, commit_tss, names_of, read


class _Named(NamedTuple):
    """`kind`: module:name in this package. `extra`: of pyproject.toml, which has what the module needs; empty where nothing more is."""

    kind: str
    extra: str = ""


KINDS: dict[str, _Named] = {
    "clickhouse": _Named("clickhouse.sink:CLICKHOUSE", "clickhouse"),
    "clickhouse+ssl": _Named("clickhouse.sink:CLICKHOUSE", "clickhouse"),
    "console": _Named("console.sink:CONSOLE"),
    "delta": _Named("delta.sink:DELTA", "delta"),
    "delta+s3": _Named("delta.sink:DELTA_S3", "delta"),
    "elasticsearch": _Named("opensearch.sink:OPENSEARCH", "opensearch"),
    "elasticsearch+ssl": _Named("opensearch.sink:OPENSEARCH", "opensearch"),
    "file": _Named("folders:FILE"),
    "grpc": _Named("spool.uri:GRPC"),
    "http": _Named("http.uri:HTTP"),
    "https": _Named("http.uri:HTTP"),
    "iceberg": _Named("iceberg.sink:ICEBERG", "iceberg"),
    "kafka": _Named("kafka.uri:KAFKA"),
    "kafka+ssl": _Named("kafka.uri:KAFKA"),
    "mysql": _Named("mysql.sink:MYSQL"),
    "mysql+ssl": _Named("mysql.sink:MYSQL"),
    "opensearch": _Named("opensearch.sink:OPENSEARCH", "opensearch"),
    "opensearch+ssl": _Named("opensearch.sink:OPENSEARCH", "opensearch"),
    "s3": _Named("folders:S3"),
    "sqlite": _Named("sqlite.sink:SQLITE"),
    "tidb": _Named("mysql.sink:MYSQL"),
    "tidb+ssl": _Named("mysql.sink:MYSQL"),
}

COMMON_PARAMETERS = names_of(CommonOptions)
"""Of every sink, also of a third party's, which does not see them. Those of column rules make it a view (spark_merge/masks)."""

_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ENCODE = "in a password, and in a parameter's value, write '?' as %3F, '#' as %23, '/' as %2F, '@' as %40, '&' as %26, '[' as %5B"
"""The hint for an unknown name: it may be a part of a password."""


_DISTINGUISH = frozenset({"format", "position-schema", "position-topic", "position-index"})
"""Parameters that name an output beside what stands before the `?`."""


def open_sinks(uris: Sequence[str], *, log_id: str) -> dict[str, Sink]:
    """Each by its name. Raises as `open_sink` and `outputs_of`."""
    opened = [open_sink(uri, log_id=log_id) for uri in uris]
    return dict(zip(outputs_of(uris), opened, strict=True))


def outputs_of(uris: Sequence[str]) -> dict[str, str]:
    """What each output is, by the sink's name. Raises ConfigError where two sinks are one output or have one name, and SinkError for a name
    that is none."""
    outputs = list(map(output_of, uris))
    if len(set(outputs)) < len(uris):
        raise ConfigError(f"sinks names one output twice: {', '.join(outputs)}", hint="name each output once")
    result = dict(zip(map(name_of, uris), outputs, strict=True))
    if len(result) < len(uris):
        names = ", ".join(map(name_of, uris))
        raise ConfigError(f"two sinks have one name: {names}", hint="give each sink another name=, or none: its URI is its name then")
    return result


def open_sink(uri: str, *, log_id: str) -> Sink:
    """The sink that `uri` names, for the log `log_id`; nothing is read or written yet.

    Raises SinkError for an unknown scheme, format or parameter, naming the known ones (and no parameter's value: it may
    be a secret).
    """
    named = _read(uri, log_id)
    sink = named.kind.open(named.uri)
    return sink if named.masking is None else masked(sink, named.masking())


def masking_of(uri: str, *, log_id: str) -> Masking | None:
    """Which columns its target does not have as the source has them; None: it has all. Raises as `open_sink` and `read_salt`."""
    masking = _read(uri, log_id).masking
    return None if masking is None else masking()


def holds_rows(uri: str, *, log_id: str) -> bool:
    """Whether its target says that it has rows which no log of ours brought: a consumer that the sidecar replaces has fed it. False where
    it cannot tell. Raises SinkError as `open_sink`, and for a target that cannot be looked at."""
    kind, sink_uri, _ = _read(uri, log_id)
    return kind.holds_rows is not None and kind.holds_rows(sink_uri)


def misfits(uri: str, schemas: Sequence[TableSchema], *, log_id: str) -> list[tuple[str, str]]:
    """What keeps its target from having rows of these tables, each with the way out; nothing for a sink that cannot tell. Raises as
    `holds_rows`."""
    kind, sink_uri, masking = _read(uri, log_id)
    shown, results = list(schemas), list[tuple[str, str]]()
    if masking is not None:
        shown, results = _as_shown(masking().opened(), schemas)
    results += [] if kind.misfits is None else kind.misfits(sink_uri, shown)
    sink = kind.open(sink_uri)
    if isinstance(sink, KeepsTables):
        try:
            sink.check_places([schema.name for schema in schemas if has_rows(schema)], ())
        except SinkError as error:
            results.append((error.message, error.hint))
    return results


def _as_shown(masking: OpenMasking, schemas: Iterable[TableSchema]) -> tuple[list[TableSchema], list[tuple[str, str]]]:
    """Tables as the target has them, and why its column rules do not allow others."""
    shown, problems = list[TableSchema](), list[tuple[str, str]]()
    for schema in schemas:
        try:
            shown.append(masking.schema(schema))
        except SinkError as error:
            problems.append((error.message, error.hint))
    return shown, problems


def idle_rules(uri: str, schemas: Iterable[TableSchema]) -> list[str]:
    """Column rules of the sink that match no column of these tables. Raises SinkError as `open_sink`."""
    options = read(CommonOptions, dict(parse_qsl(_parts(uri).query, keep_blank_values=True)))
    return [mask.shown for mask in _rules(options).idle(schemas)]


def _rules(options: CommonOptions) -> ColumnRules:
    return ColumnRules(options.leave_out + options.hashes + options.constants)


class _Read(NamedTuple):
    """`masking`: reads the salt; None: the sink has no column rules."""

    kind: SinkKind
    uri: SinkUri
    masking: Callable[[], Masking] | None


def _masking(kind: SinkKind, scheme: str, options: CommonOptions, own: Mapping[str, str]) -> Callable[[], Masking] | None:
    """Raises ConfigError for rules that the sink cannot keep."""
    rules = _rules(options)
    if not rules.masks:
        return None
    if options.hashes and not options.salt_file:
        raise ConfigError(
            f"a {scheme}: sink has hash= and no salt-file=",
            hint="openssl rand -hex 32 > salt; name that file by salt-file=: without a salt, who guesses a value finds its hash",
        )
    if kind.statements and (refused := options.leave_out + options.hashes):
        raise ConfigError(
            f"a {scheme}: sink carries out TiDB's own statements, so its tables keep TiDB's columns: {refused[0].shown} is not possible",
            hint=f"write constant={refused[0].rule}=>NULL, or another constant where the column is NOT NULL",
        )
    done = read(_Done, own).ddl_done if kind.statements else frozenset()
    return lambda: Masking.of(rules, options.salt_file, statements=kind.statements, done=done)


@dataclass(frozen=True, slots=True)
class _Done:
    ddl_done: frozenset[CommitTs] = commit_tss("ddl-done", "")


def _read(uri: str, log_id: str) -> _Read:
    parts = _parts(uri)
    if not parts.scheme and not parts.path.startswith("/"):
        raise SinkError(
            "a sink is neither a URI nor the whole path of a folder", hint=f"begin it with one of {_listed(_schemes())}, or write /var/out"
        )
    scheme = parts.scheme or "file"
    kind = ours(scheme) or _installed(scheme)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    if odd := sum(not _PARAMETER.fullmatch(name) for name in parameters):
        raise SinkError(f"a {scheme}: sink has {odd} parameters without a name of one behind its '?'", hint=_ENCODE)
    if unknown := sorted(parameters.keys() - kind.parameters - COMMON_PARAMETERS):
        known = _listed(kind.parameters | COMMON_PARAMETERS)
        intended = nearest(unknown[0], kind.parameters | COMMON_PARAMETERS) if len(unknown) == 1 else ""
        raise SinkError(f"a {scheme}: sink has no parameter {_listed(unknown)}{intended}", hint=f"known parameters: {known}")
    if parts.fragment:
        raise SinkError(f"a {scheme}: sink's URI has a '#'", hint=f"name a folder without '#'; {_ENCODE}")
    options = read(CommonOptions, parameters)
    own = {name: value for name, value in parameters.items() if name in kind.parameters}
    return _Read(kind, SinkUri(uri, parts, own, log_id), _masking(kind, scheme, options, own))


def _parts(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise SinkError(f"the URI of a {uri.partition(':')[0]}: sink is none", hint=_ENCODE) from error


def why_not_readable(uri: str, *, log_id: str) -> str:
    """Why the rows of its output cannot be read back, whatever is in it; empty for a sink with a reader. Raises as `open_sink`."""
    kind, sink_uri, _ = _read(uri, log_id)
    return "" if isinstance(kind.open(sink_uri), Readable) else kind.unreadable


def target_of(uri: str, *, log_id: str) -> Callable[[TableName], str] | None:
    """What of its target has a table's rows: two tables for which it is equal are mixed there, and nobody can tell whose a row is. None:
    rows name their table, or each table has a place of its own. Raises as `open_sink`.

    Of a kind that says nothing else, it is where the parameter `routes` leads, as the sink itself reads it. No file is read: it may be
    another machine's."""
    kind, sink_uri, _ = _read(uri, log_id)
    sink_uri = replace(sink_uri, parameters={name: value for name, value in sink_uri.parameters.items() if name != "password-file"})
    if kind.target is not None:
        return kind.target(sink_uri)
    if "routes" not in kind.parameters:
        return None
    routes = routes_of(sink_uri.parameters.get("routes", ""))
    return lambda name: str(routes.target(name).folded())


def seen_from_here(uri: str, *, log_id: str, elsewhere: bool) -> tuple[str, Callable[[TableName], str] | None]:
    """`why_not_readable` and `target_of`. `elsewhere`: a sink that only another machine can open is the merge worker's to judge, and counts
    as readable; what its tables share is known here all the same. Raises as `open_sink`."""
    target = target_of(uri, log_id=log_id)
    try:
        return why_not_readable(uri, log_id=log_id), target
    except TicdcDumpError:
        if not elsewhere:
            raise
        return "", target


def name_of(uri: str) -> str:
    """What a sink is called wherever it is shown. Raises SinkError for a name that is none, and for a URI that is none."""
    given = dict(parse_qsl(_parts(uri).query, keep_blank_values=True))
    return read(CommonOptions, given).name or output_of(uri)


def output_of(uri: str) -> str:
    """A sink's URI as it may be shown: its other parameters may be secrets. Two of which it is the same are one output."""
    return without_secrets(uri, but=_DISTINGUISH)


def leaves(uri: str) -> str:
    """How what is ours beside its output is removed; empty where there is nothing. Raises SinkError as `open_sink`."""
    kind, sink_uri, _ = _read(uri, "")
    return "" if kind.leaves is None else kind.leaves(sink_uri)


def maintained_of(uri: str) -> Maintained | None:
    """Its tables for `ticdc-dump maintain`; None for a target that does not consist of files. Raises SinkError as `open_sink`."""
    kind, sink_uri, _ = _read(uri, "")
    return None if kind.maintained is None else kind.maintained(sink_uri)


def ours(scheme: str) -> SinkKind | None:
    """This project's own; None where it has none of that scheme. Raises SinkError where its extra is not installed."""
    if scheme not in KINDS:
        return None
    module, _, name = KINDS[scheme].kind.partition(":")
    try:
        kind: SinkKind = getattr(import_module(f"spark_merge.sinks.{module}"), name)
    except ModuleNotFoundError as error:
        extra = KINDS[scheme].extra
        raise SinkError(
            f"a {scheme}: sink needs {error.name}, which is not installed",
            hint=f"pip install 'ticdc-dump[{extra}]', on Spark's workers too" if extra else "install ticdc-dump again, with what it needs",
        ) from error
    return kind


def load_without_extras() -> None:
    """Loads the modules of all sinks that need no extra, for a process that will be forked."""
    for scheme, named in KINDS.items():
        if not named.extra:
            ours(scheme)


def _installed(scheme: str) -> SinkKind:
    """A third party's."""
    result = entry_points(group=ENTRY_POINTS)
    for entry in result:
        if entry.name == scheme:
            kind = entry.load()
            if not isinstance(kind, SinkKind):
                raise SinkError(
                    f"{entry.value}, installed for {scheme}:, is no SinkKind", hint=f"mend or remove {entry.dist and entry.dist.name}"
                )
            return kind
    raise SinkError(f"no sink is known for {scheme}:{nearest(scheme, _schemes())}", hint=f"use one of {_listed(_schemes())}")


def _schemes() -> list[str]:
    return [f"{name}:" for name in {*KINDS, *(entry.name for entry in entry_points(group=ENTRY_POINTS))}]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
