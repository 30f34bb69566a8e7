"""How a folder is named: `file:///var/log/x`, a bare path, `memory://…` in tests, or
`s3://bucket/prefix?endpoint=…&region=…&access-key=…&secret-access-key=…` (TiCDC's own parameter names; keys are better left to the
environment or the machine's role). It knows no storage: nothing is opened, and nothing is asked.

A folder holds no secret, so that none travels with what is pickled to a Spark task. The secret of a URL's access key is kept in the
environment of the process that read the URL: processes that it starts afterwards have it too, Spark's workers of a local master among
them, and another machine's do not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder on any storage. Picklable: Spark's tasks open it anew. `options` are the storage's, without secrets."""

    protocol: str
    root: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def __str__(self) -> str:
        return f"{self.protocol}://{self.root}"


def open_folder(url: str) -> Folder:
    """The folder a URL names; parameters that are not the storage's own (`format=…`) are left to the caller."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return Folder("file", (parts.path or url).rstrip("/"))
    root = (parts.netloc + parts.path).rstrip("/")
    if parts.scheme != "s3":
        return Folder(parts.scheme, root)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    client = {name: query[parameter] for name, parameter in (("endpoint_url", "endpoint"), ("region_name", "region")) if parameter in query}
    keys = {"key": query["access-key"]} if "access-key" in query else {}
    if keys:
        os.environ[secret_variable(keys["key"])] = query.get("secret-access-key", "")
    return Folder("s3", root, {"use_listings_cache": False, "skip_instance_cache": False, **keys, "client_kwargs": client})


def secret_variable(access_key: str) -> str:
    """The environment variable that holds the secret of a URL's access key. A hash, as an access key may have letters that shells drop."""
    return f"TICDC_DUMP_S3_SECRET_{sha256(access_key.encode()).hexdigest()[:16]}"
