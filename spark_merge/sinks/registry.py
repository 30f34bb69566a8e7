"""A sink's URI to the sink: the one list of what there is, so that an error can name it.

    file:///var/out?format=jsonl   /var/out?format=parquet   s3://bucket/out?format=parquet&endpoint=…   console:

A scheme that is not in the list is looked for among the installed packages' entry points (kind.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import entry_points
from urllib.parse import parse_qsl, urlsplit

from sidecar.errors import SinkError
from spark_merge.contract import Sink
from spark_merge.sinks.console.sink import CONSOLE
from spark_merge.sinks.files.uri import FILE, S3
from spark_merge.sinks.kind import ENTRY_POINTS, SinkKind, SinkUri

_KINDS = {
    "file": FILE,
    "s3": S3,
    "console": CONSOLE,
}


def open_sink(uri: str, *, log_id: str) -> Sink:
    """The sink that `uri` names, for the log `log_id`; nothing is read or written yet.

    Raises SinkError for an unknown scheme, format or parameter, naming the known ones (and no parameter's value: it may
    be a secret).
    """
    parts = urlsplit(uri)
    scheme = parts.scheme or "file"
    kind = _KINDS.get(scheme) or _installed(scheme)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(parameters.keys() - kind.parameters):
        known = _listed(kind.parameters) or "none"
        raise SinkError(f"a {scheme}: sink has no parameter {_listed(unknown)}", hint=f"known parameters: {known}")
    if parts.fragment:
        raise SinkError(f"a {scheme}: sink's URI has a '#'", hint="name a folder without '#'")
    return kind.open(SinkUri(uri, parts, parameters, log_id))


def _installed(scheme: str) -> SinkKind:
    """A third party's."""
    found = entry_points(group=ENTRY_POINTS)
    for entry in found:
        if entry.name == scheme:
            kind = entry.load()
            if not isinstance(kind, SinkKind):
                raise SinkError(
                    f"{entry.value}, installed for {scheme}:, is no SinkKind", hint=f"mend or remove {entry.dist and entry.dist.name}"
                )
            return kind
    known = sorted({*_KINDS, *(entry.name for entry in found)})
    raise SinkError(f"no sink is known for {scheme}:", hint=f"use one of {_listed(f'{name}:' for name in known)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
