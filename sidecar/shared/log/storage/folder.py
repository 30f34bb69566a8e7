"""How a folder is named: `file:///var/log/x`, a bare path, `memory://…` in tests, or
`s3://bucket/prefix?endpoint=…&region=…&access-key=…&secret-access-key=…` (TiCDC's own parameter names; keys are better left to the
environment or the machine's role). It knows no storage: nothing is opened, and nothing is requested.

A folder holds no secret, so that none travels with what is pickled to a Spark task: that of a URL's access key is kept as
process/kept_secrets.py says.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from sidecar.shared.errors import ConfigError, nearest
from sidecar.shared.log.storage.errors import Meaning, log_error
from sidecar.shared.process.kept_secrets import keep

S3_PARAMETERS = {
    "endpoint": "The URL of the server, where it is not AWS's.",
    "region": "Default: of the environment.",
    "access-key": "The access key. Default, and better: the environment's, or the machine's role.",
    "secret-access-key": "Its secret. It is not sent to a cluster's tasks.",
}
"""The parameters of a URL of S3, with their meaning."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder on any storage. Picklable: Spark's tasks open it again. `options` are the storage's, without secrets. `meaning`: of the
    storage's errors to whom it was opened for."""

    protocol: str
    root: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)
    meaning: Meaning = field(default=log_error, repr=False, compare=False)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def opened_for(self, meaning: Meaning) -> Folder:
        return replace(self, meaning=meaning)

    def __str__(self) -> str:
        return f"{self.protocol}://{self.root}"


def open_folder(url: str) -> Folder:
    """The folder a URL names; parameters that are not the storage's own (`format=…`) are left to the caller."""
    parts = urlsplit(url)
    scheme = ("s3" if parts.netloc else "file") if parts.scheme == "grpc" else parts.scheme  # whose folder is a disk's or a bucket's
    if scheme in ("", "file"):
        return Folder("file", (parts.path or url).rstrip("/"))
    root = (parts.netloc + parts.path).rstrip("/")
    if scheme != "s3":
        return Folder(parts.scheme, root)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    client = {name: query[parameter] for name, parameter in (("endpoint_url", "endpoint"), ("region_name", "region")) if parameter in query}
    keys = {"key": query["access-key"]} if "access-key" in query else {}
    if keys:
        keep("s3", keys["key"], query.get("secret-access-key", ""))
    return Folder("s3", root, {"use_listings_cache": False, "skip_instance_cache": False, **keys, "client_kwargs": client})


def place_problem(parts: SplitResult) -> tuple[str, str] | None:
    """Why a `file:` or `s3:` URL, or a bare path, cannot be an intended folder, and the way out. An address behind `file://`
    would be dropped, and what follows a `#` as well; a relative path would be another folder for a process that is started elsewhere."""
    if parts.fragment:
        return "has a '#'", "name a folder without '#'"
    if "\0" in parts.path:
        return "has a NUL", "name a folder without NUL"
    if parts.scheme == "s3" or (parts.scheme == "grpc" and parts.netloc):
        return None if parts.netloc else ("needs a bucket", "write s3://bucket/folder")
    if parts.netloc or not parts.path.startswith("/"):
        return "needs the whole path of a folder", "write /var/out, or with three slashes file:///var/out"
    return None


def log_folder(uri: str) -> Folder:
    """The folder of a log that outlives processes and machines. Raises as `checked_folder`."""
    return checked_folder(uri, "log.uri, which names the place of the log,")


def checked_folder(uri: str, setting: str) -> Folder:
    """On a disk or in S3. Raises ConfigError, which shows no parameter's value: it may be a secret."""
    parts = urlsplit(uri)
    known = {"": frozenset[str](), "file": frozenset[str](), "s3": frozenset(S3_PARAMETERS)}
    if parts.scheme not in known:
        what, hint = f"is of a scheme {parts.scheme}:, which is not used here", "name a folder, or s3://bucket/prefix"
    elif unknown := sorted(parse_qs(parts.query, keep_blank_values=True).keys() - known[parts.scheme]):
        what = f"has no parameter {', '.join(unknown)}{nearest(unknown[0], known[parts.scheme]) if len(unknown) == 1 else ''}"
        hint = f"known parameters: {', '.join(sorted(known[parts.scheme])) or 'none'}"
    elif problem := place_problem(parts):
        what, hint = problem
    else:
        return open_folder(uri)
    raise ConfigError(f"{setting} {what}", hint=hint)
