"""The settings in effect, as a page shows them: no secret is among them, and no part of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from sidecar.config import Config
from sidecar.process.kept_secrets import without_secrets

REQUIRED = ("changefeed", "etcd", "source", "log", "sinks")
HIDDEN = "••••••"
_SECRET = re.compile(r"pass|secret|token|credential|jaas|private|key(?!space)|auth|kinit", re.IGNORECASE)
"""In the name of a librdkafka setting or of one that this version does not know as harmless."""


def shown_settings(config: Config) -> Iterator[tuple[str, str, bool]]:
    """Name, value, and whether it is the default. Files of secrets are named, their contents are not read."""
    required = {name: getattr(config, name) for name in REQUIRED}
    yield from _of("", msgspec.to_builtins(config), msgspec.to_builtins(Config(**required)))


def _of(prefix: str, found: dict[str, Any], default: Any) -> Iterator[tuple[str, str, bool]]:
    for name, value in found.items():
        usual = default.get(name) if isinstance(default, dict) else None
        whole = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            yield from _of(f"{whole}.", value, usual)
        else:
            yield whole, _shown(whole, value), value == usual and not _is_required(whole)


def _is_required(name: str) -> bool:
    """Those that `default` was made with."""
    return name.split(".", 1)[0] in REQUIRED


def _shown(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_shown(name, one) for one in value)
    if value and name.startswith("kafka.client.") and _SECRET.search(name.removeprefix("kafka.client.")):
        return HIDDEN
    if isinstance(value, str) and "://" in value:
        return without_secrets(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
