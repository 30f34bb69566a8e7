"""URL to file system: the one place that knows how a folder is named and opened. A leaf: imports fsspec only.

`file:///var/log/x`, a bare path, `s3://bucket/prefix?endpoint=…&region=…&access-key=…&secret-access-key=…` (TiCDC's own
parameter names; keys are better left to the environment or the machine's role), `memory://…` in tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import fsspec


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder on any storage. Picklable: Spark's tasks open it anew. `options` may hold secrets and is not shown."""

    protocol: str
    root: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    def fs(self) -> Any:
        return fsspec.filesystem(self.protocol, **self.options)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def __str__(self) -> str:
        return f"{self.protocol}://{self.root}"


def open_folder(url: str) -> Folder:
    """The folder a URL names; parameters that are not the storage's own (`format=…`) are left to the caller."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return Folder("file", (parts.path or url).rstrip("/"), {"auto_mkdir": True})
    if parts.scheme == "s3":
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": False}
        if "access-key" in query:
            options |= {"key": query["access-key"], "secret": query.get("secret-access-key", "")}
        client = {
            name: query[parameter] for name, parameter in (("endpoint_url", "endpoint"), ("region_name", "region")) if parameter in query
        }
        return Folder("s3", (parts.netloc + parts.path).rstrip("/"), options | {"client_kwargs": client})
    return Folder(parts.scheme, (parts.netloc + parts.path).rstrip("/"), {})
