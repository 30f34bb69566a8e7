"""A files sink by its URI: `/dir`, `file:///dir`, `s3://bucket/dir`, each with `?format=`; jsonl if it is not given.

Parameters of a storage are TiCDC's own (sidecar.log.storage).
"""

from __future__ import annotations

import os

from sidecar.errors import SinkError
from sidecar.log.storage import open_folder
from spark_merge.contract import Sink
from spark_merge.sinks.files.layout import FILE_FORMATS
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.kind import SinkKind, SinkUri


def _local(uri: SinkUri) -> Sink:
    parts = uri.parts
    if parts.netloc or not parts.path or (parts.scheme and not parts.path.startswith("/")):
        raise SinkError("a file: sink needs the whole path of a folder", hint="write /var/out, or with three slashes file:///var/out")
    return _files(uri, uri.text if parts.scheme else os.path.abspath(parts.path))  # tasks have a folder of their own


def _s3(uri: SinkUri) -> Sink:
    if not uri.parts.netloc:
        raise SinkError("an s3: sink needs a bucket", hint="write s3://bucket/folder")
    return _files(uri, uri.text)


def _files(uri: SinkUri, url: str) -> Sink:
    found = uri.parameters.get("format", "jsonl")
    for file_format in FILE_FORMATS:
        if found == file_format:
            return FileSink(open_folder(url), log_id=uri.log_id, file_format=file_format)
    raise SinkError(f"no file format {found!r} is known", hint=f"use one of {', '.join(sorted(FILE_FORMATS))}")


FILE = SinkKind(_local, frozenset({"format"}))
S3 = SinkKind(_s3, frozenset({"format", "endpoint", "region", "access-key", "secret-access-key"}))
