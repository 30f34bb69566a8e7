"""`delta:///folder?mode=append|merge`, `delta+s3://bucket/folder?…` with TiCDC's parameters of S3 (sidecar/log/storage/folder.py), and
`routes=` as the SQL sink's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder, open_folder
from sidecar.log.storage.folder import S3_PARAMETERS, place_problem
from spark_merge.ddl.routes import Routes
from spark_merge.sinks.delta.columns import Mode
from spark_merge.sinks.files.layout import IDENTITY, storage_errors
from spark_merge.sinks.kind import SinkUri
from spark_merge.sinks.parameters import Parameters

PARAMETERS = frozenset({"mode", "routes", "ddl-done", "commit-interval"})
PARAMETERS_S3 = PARAMETERS | S3_PARAMETERS
MODES: tuple[Mode, ...] = get_args(Mode)
COMMIT_S, COMMIT_S_MAX = 10.0, 3600.0


@dataclass(frozen=True, slots=True)
class Settings:
    folder: Folder
    mode: Mode
    routes: Routes
    ddl_done: frozenset[int]
    commit_s: float = COMMIT_S


def settings_of(uri: SinkUri) -> Settings:
    """Raises SinkError for what cannot be meant."""
    found = Parameters(uri.parameters)
    if "mode" not in uri.parameters:
        raise SinkError(
            f"a {uri.parts.scheme}: sink without a mode", hint="add ?mode=append: the log of changes; or mode=merge: the tables as they are"
        )
    return Settings(
        _folder(uri),
        found.one_of("mode", MODES),
        found.routes(),
        found.commit_tss("ddl-done"),
        found.seconds("commit-interval", COMMIT_S, COMMIT_S_MAX, least=0),
    )


def holds_rows(uri: SinkUri) -> bool:
    """Files of somebody else: the folder is no output of ours."""
    folder = _folder(uri)
    with storage_errors(folder):
        return not storage.exists(folder, IDENTITY) and bool(storage.list_names(folder, deep=True))


def _folder(uri: SinkUri) -> Folder:
    scheme = "s3" if uri.parts.scheme == "delta+s3" else "file"
    if problem := place_problem(uri.parts._replace(scheme=scheme)):
        raise SinkError(
            f"a {uri.parts.scheme}: sink {problem[0]}", hint="write delta:///var/out?mode=…, or delta+s3://bucket/folder?mode=…"
        )
    return open_folder(scheme + uri.text[len(uri.parts.scheme) :])
