"""Files that TiCDC writes, as this machine reaches them: the folder of its storage sink, and of rows that are larger than a message."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

from sidecar.shared.errors import ConfigError, FeedUnsuitable
from sidecar.shared.log.storage import Exhausted, Folder, StorageError, Unreachable, open_folder
from sidecar.shared.log.storage.folder import S3_PARAMETERS, checked_folder
from sidecar.shared.ticdc.changefeed import ChangefeedSinkUri

_GCS = "s3://bucket/prefix?endpoint=https://storage.googleapis.com, with an HMAC key of Google's as S3's keys"
_ELSEWHERE = {"gcs": _GCS, "gs": _GCS}


def folder_at(uri: ChangefeedSinkUri, *, ours: str, setting: str) -> Folder:
    """Where TiCDC writes by `uri`. `ours`: the value of `setting`, which says where that is for this machine; empty: the same. Raises
    ConfigError."""
    if ours:
        folder = checked_folder(ours, setting)
    elif uri.scheme == "file":
        folder = Folder("file", f"/{uri.path}")
    elif uri.scheme == "s3" and uri.hosts:
        opened = open_folder(f"s3://{uri.hosts[0]}?{urlencode(_s3_parameters(uri.parameters))}")
        folder = replace(opened, root="/".join((uri.hosts[0], uri.path)))
    else:
        raise ConfigError(
            f"TiCDC writes to {uri.scheme}://, which is not read by that name",
            hint=f"set {setting} to the same folder as {_ELSEWHERE.get(uri.scheme, 'this machine has it, mounted')}",
        )
    return replace(folder, root=folder.root.rstrip("/")).opened_for(feed_error)


def _s3_parameters(parameters: dict[str, str]) -> dict[str, str]:
    """Those that we have too. Keys of a session are not enough without its token, which the environment has."""
    given = {name.replace("_", "-"): value for name, value in parameters.items()}  # TiCDC takes either
    ours = {name: value for name, value in given.items() if name in S3_PARAMETERS and value}
    if given.get("session-token"):
        return {name: value for name, value in ours.items() if name not in ("access-key", "secret-access-key")}
    return {name: value.replace(" ", "+") for name, value in ours.items()}  # TiCDC takes a + as it is, and none of them has a blank


def feed_error(place: object, name: str, error: Exception, *, waits: bool = True) -> Exception:
    """Of a storage: where the caller waits, one that passes as it is; else FeedUnsuitable."""
    if not isinstance(error, StorageError) or (waits and isinstance(error, Unreachable | Exhausted)):
        return error
    return FeedUnsuitable(
        f"{place}{f'/{name}' if name else ''} cannot be read: {error}",
        hint="let this process list and read the folder that TiCDC writes (its URI, credentials), then start again",
    )
