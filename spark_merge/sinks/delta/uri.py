"""`delta:///folder?mode=append|merge`, `delta+s3://bucket/folder?…` with TiCDC's parameters of S3 (shared/log/storage/folder.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from sidecar.shared.errors import SinkError
from sidecar.shared.log.storage import Folder
from sidecar.shared.log.storage.folder import S3_PARAMETERS, place_problem
from sidecar.shared.model.nouns import CommitTs, TableName
from spark_merge.ddl.routes import Routes
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.delta.columns import Mode
from spark_merge.sinks.delta.places import table_place
from spark_merge.sinks.folder.layout import IDENTITY, PROBE
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.kit.folder_uri import has_files_of_others
from spark_merge.sinks.kit.options import commit_interval, commit_tss, names_of, one_of, option, read, routes

MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class DeltaSettings:
    folder: Folder
    mode: Mode = option("mode", one_of(*MODES), "append",
        "`append`: the log of changes. `merge`: the tables as they are.", shown="must be given")  # fmt: skip
    commit_s: float = commit_interval()
    routes: Routes = routes("Where tables go.")
    ddl_done: frozenset[CommitTs] = commit_tss("ddl-done", "DDLs that you carried out by hand.")
    again: frozenset[CommitTs] = commit_tss("ddl-anew", "With `merge`: DDLs whose tables begin again without rows.")

    def place(self, name: TableName) -> str:
        """`LakeSettings.place`, below the folder."""
        return table_place(self.routes.target(name))

    def compared(self, target: TableName) -> TableName:
        return target.folded()


def settings_of(uri: SinkUri) -> DeltaSettings:
    """Raises SinkError for what is not valid."""
    if "mode" not in uri.parameters:
        raise SinkError(
            f"a {uri.parts.scheme}: sink without a mode", hint="add ?mode=append: the log of changes; or mode=merge: the tables as they are"
        )
    return read(DeltaSettings, uri.parameters, folder=_folder(uri))


def holds_rows(uri: SinkUri) -> bool:
    return has_files_of_others(_folder(uri), IDENTITY, probe=PROBE)


def _folder(uri: SinkUri) -> Folder:
    scheme = "s3" if uri.parts.scheme == "delta+s3" else "file"
    if problem := place_problem(uri.parts._replace(scheme=scheme)):
        raise SinkError(
            f"a {uri.parts.scheme}: sink {problem[0]}", hint="write delta:///var/out?mode=…, or delta+s3://bucket/folder?mode=…"
        )
    return sink_folder(scheme + uri.text[len(uri.parts.scheme) :])


OPTIONS = (DeltaSettings,)
PARAMETERS = names_of(*OPTIONS)
PARAMETERS_S3 = names_of(*OPTIONS, S3_PARAMETERS)
