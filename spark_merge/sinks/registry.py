"""A sink's URI to the sink: the one list of what there is, so that an error can name it.

    file:///var/out?format=jsonl   /var/out?format=parquet   s3://bucket/out?format=parquet&endpoint=…   console:

Parameters of a storage are TiCDC's own (sidecar.storage); `format` is jsonl if it is not given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlsplit

from sidecar.errors import SinkError
from sidecar.storage import open_folder
from spark_merge.contract import Sink
from spark_merge.sinks.console import ConsoleSink
from spark_merge.sinks.files import FileSink
from spark_merge.sinks.layout import FILE_FORMATS


@dataclass(frozen=True, slots=True)
class _Kind:
    """`parameters`: what may stand behind the `?`."""

    open: Callable[[str, dict[str, str], str], Sink]
    parameters: frozenset[str] = frozenset()


def open_sink(uri: str, *, log_id: str) -> Sink:
    """The sink that `uri` names, for the log `log_id`; nothing is read or written yet.

    Raises SinkError for an unknown scheme, format or parameter, naming the known ones (and no parameter's value: it may
    be a secret).
    """
    parts = urlsplit(uri)
    scheme = parts.scheme or "file"
    kind = _KINDS.get(scheme)
    if kind is None:
        raise SinkError(f"no sink is known for {scheme}:", hint=f"use one of {_listed(f'{known}:' for known in _KINDS)}")
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(parameters.keys() - kind.parameters):
        known = _listed(kind.parameters) or "none"
        raise SinkError(f"a {scheme}: sink has no parameter {_listed(unknown)}", hint=f"known parameters: {known}")
    _check_place(scheme, parts)
    return kind.open(uri, parameters, log_id)


def _check_place(scheme: str, parts: SplitResult) -> None:
    if parts.fragment:
        raise SinkError(f"a {scheme}: sink's URI has a '#'", hint="name a folder without '#'")
    if scheme == "file" and (parts.netloc or not parts.path or (parts.scheme and not parts.path.startswith("/"))):
        raise SinkError("a file: sink needs the whole path of a folder", hint="write /var/out, or with three slashes file:///var/out")
    if scheme == "s3" and not parts.netloc:
        raise SinkError("an s3: sink needs a bucket", hint="write s3://bucket/folder")


def _open_files(uri: str, parameters: dict[str, str], log_id: str) -> Sink:
    found = parameters.get("format", "jsonl")
    for file_format in FILE_FORMATS:
        if found == file_format:
            url = uri if urlsplit(uri).scheme else os.path.abspath(urlsplit(uri).path)  # tasks have a folder of their own
            return FileSink(open_folder(url), log_id=log_id, file_format=file_format)
    raise SinkError(f"no file format {found!r} is known", hint=f"use one of {_listed(FILE_FORMATS)}")


def _open_console(_uri: str, _parameters: dict[str, str], _log_id: str) -> Sink:
    return ConsoleSink()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


_KINDS = {
    "file": _Kind(_open_files, frozenset({"format"})),
    "s3": _Kind(_open_files, frozenset({"format", "endpoint", "region", "access-key", "secret-access-key"})),
    "console": _Kind(_open_console),
}
