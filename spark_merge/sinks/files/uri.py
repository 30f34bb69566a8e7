"""A files sink by its URI: `/dir`, `file:///dir`, `s3://bucket/dir`, each with `?format=`; jsonl if it is not given.

Parameters of a storage are TiCDC's own (sidecar.log.storage).
"""

from __future__ import annotations

import os

from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.storage import open_folder
from sidecar.log.storage.folder import S3_PARAMETERS, place_problem
from spark_merge.contract import Sink
from spark_merge.sinks.files.layout import FILE_FORMATS, IDENTITY, storage_errors
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.kind import SinkKind, SinkUri
from spark_merge.sinks.parameters import Parameters


def _local(uri: SinkUri) -> Sink:
    return _files(uri, uri.text if uri.parts.scheme else os.path.abspath(uri.parts.path))  # tasks have a folder of their own


def _s3(uri: SinkUri) -> Sink:
    return _files(uri, uri.text)


def _files(uri: SinkUri, url: str) -> Sink:
    if problem := place_problem(uri.parts):
        raise SinkError(f"a {uri.parts.scheme or 'file'}: sink {problem[0]}", hint=problem[1])
    return FileSink(open_folder(url), log_id=uri.log_id, file_format=Parameters(uri.parameters).one_of("format", FILE_FORMATS))


def _holds_rows(uri: SinkUri) -> bool:
    """Files of somebody else: the folder is no output of ours."""
    folder = open_folder(uri.text if uri.parts.scheme else os.path.abspath(uri.parts.path))
    with storage_errors(folder):
        return not storage.exists(folder, IDENTITY) and bool(storage.list_names(folder, deep=True))


FILE = SinkKind(_local, frozenset({"format"}), _holds_rows)
S3 = SinkKind(_s3, S3_PARAMETERS | {"format"}, _holds_rows)
