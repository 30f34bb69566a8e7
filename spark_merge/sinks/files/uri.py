"""A files sink by its URI: `/dir`, `file:///dir`, `s3://bucket/dir`, each with `?format=`."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.shared.log.storage.folder import S3_PARAMETERS
from spark_merge.port.contract import Sink
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.folder.layout import FILE_FORMATS, IDENTITY, PROBE, FileFormat
from spark_merge.sinks.kit.folder_uri import checked_folder, folder_of, has_files_of_others
from spark_merge.sinks.kit.options import names_of, one_of, option, read


@dataclass(frozen=True, slots=True)
class FileOptions:
    file_format: FileFormat = option("format", one_of(*FILE_FORMATS), FILE_FORMATS[0], "The format of the data files.")


def _open(uri: SinkUri) -> Sink:
    return FileSink(checked_folder(uri), log_id=uri.log_id, file_format=read(FileOptions, uri.parameters).file_format)


def _holds_rows(uri: SinkUri) -> bool:
    return has_files_of_others(folder_of(uri), IDENTITY, probe=PROBE)


FILE = SinkKind(_open, names_of(FileOptions), _holds_rows)
S3 = SinkKind(_open, names_of(FileOptions, S3_PARAMETERS), _holds_rows)
