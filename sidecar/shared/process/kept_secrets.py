"""Secrets that a URI brought, in the environment of the process that read it: processes that it starts afterwards have them too, Spark's
workers of a local master among them, and another machine's do not. What is pickled to a task names a secret and never holds one.

`kind` and `of` say whose it is: `s3` and the access key, `kafka` and the user. A URI is shown to people as `without_secrets` has it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from hashlib import sha256
from urllib.parse import SplitResult, urlsplit, urlunsplit


def variable(kind: str, of: str) -> str:
    """Its name: a hash, as `of` may have letters that shells drop."""
    return f"TICDC_DUMP_{kind.upper()}_SECRET_{sha256(of.encode()).hexdigest()[:16]}"


def keep(kind: str, of: str, secret: str) -> None:
    os.environ[variable(kind, of)] = secret


def kept(kind: str, of: str) -> str | None:
    """None where this process, or the one that started it, has not read the URI: a cluster's tasks."""
    return os.environ.get(variable(kind, of))


def without_secrets(uri: str, *, but: Collection[str] = ("format",)) -> str:
    """A sink's or folder's URI without account and parameters; those of `but` stay. Nothing but the scheme of one whose password has a
    letter that ends it: what follows may be the rest of it."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    if _is_torn(parts, host):
        return f"{parts.scheme}://…"
    shown = "&".join(part for part in parts.query.split("&") if part.partition("=")[0] in but)
    return urlunsplit((parts.scheme, host, parts.path, shown, ""))


def _is_torn(parts: SplitResult, host: str) -> bool:
    if ":" not in host.rpartition("]")[2]:
        return False
    ports = [one.rpartition(":")[2] for one in host.split(",")]
    behind = "@" not in parts.netloc and "@" in parts.path + parts.query + parts.fragment
    return behind or not all(map(str.isdecimal, ports))
