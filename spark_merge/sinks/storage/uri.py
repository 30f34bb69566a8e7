"""A storage output by its URI: `file:///dir?protocol=csv&…`, `s3://bucket/dir?protocol=canal-json&…`. `options` says what may follow; the
storage's own parameters are those of the files sink.
"""

from __future__ import annotations

import os

from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder, open_folder
from sidecar.log.storage.folder import place_problem
from spark_merge.contract import Sink
from spark_merge.sinks.files.layout import storage_errors
from spark_merge.sinks.kind import SinkUri
from spark_merge.sinks.storage.layout import IDENTITY, OURS
from spark_merge.sinks.storage.options import options_of
from spark_merge.sinks.storage.sink import StorageSink


def open_storage(uri: SinkUri) -> Sink:
    """Raises SinkError, ConfigError for a URI that cannot be meant."""
    if "format" in uri.parameters:
        raise SinkError(
            f"a {uri.parts.scheme or 'file'}: sink has both format and protocol",
            hint="give format=jsonl or format=parquet for our own files, or protocol=csv or protocol=canal-json for TiCDC's layout",
        )
    if problem := place_problem(uri.parts):
        raise SinkError(f"a {uri.parts.scheme or 'file'}: sink {problem[0]}", hint=problem[1])
    return StorageSink(_folder(uri), options_of(uri.parameters), log_id=uri.log_id)


def storage_holds_rows(uri: SinkUri) -> bool:
    """Files of somebody else: TiCDC's, where the sidecar takes its place."""
    folder = _folder(uri)
    with storage_errors(folder):
        return not storage.exists(folder, IDENTITY) and bool(storage.list_names(folder, deep=True))


def storage_leaves(uri: SinkUri) -> str:
    return f"remove {_folder(uri)}/{OURS}: it holds the position, for a sink that is not to go on"


def _folder(uri: SinkUri) -> Folder:
    return open_folder(uri.text if uri.parts.scheme else os.path.abspath(uri.parts.path))  # tasks have a folder of their own
