"""The settings in effect, as a page shows them: no secret is among them, and no part of one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import NODEFAULT, Struct, structs

from sidecar.report.figures import amount
from sidecar.shared.config import Config
from sidecar.shared.process.kept_secrets import without_secrets

FEEDS = ("kafka", "push", "storage", "tikv", "binlog")
HIDDEN = "••••••"
SHOWN_PARAMETERS = ("format", "protocol", "mode", "name", "routes")
"""Of URIs: what says which rows a sink gets, and how it is called."""
_SECRET = re.compile(r"pass|secret|token|credential|jaas|private|key(?!space)|auth|kinit", re.IGNORECASE)
"""In the name of a librdkafka setting or of one that this version does not know as harmless."""


class SettingsGroup(NamedTuple):
    """`rows`: names and values. `is_used` False: of feeds that are not the one by which changes come."""

    title: str
    rows: Sequence[tuple[str, str]]
    is_used: bool = True


def grouped_settings(config: Config) -> list[SettingsGroup]:
    """First those that are not as they are by default, then the defaults by their sections."""
    given, usual = list[tuple[str, str]](), dict[str, list[tuple[str, str]]]()
    for name, value, is_default in shown_settings(config):
        (usual.setdefault(name.split(".", 1)[0], []) if is_default else given).append((name, value))
    unused = [row for name in FEEDS if name != config.feed for row in usual.pop(name, [])]
    groups = [SettingsGroup("Given", given), *(SettingsGroup(name, rows) for name, rows in usual.items())]
    return [*groups, SettingsGroup("Feeds that are not used", unused, is_used=False)]


def shown_settings(config: Config) -> Iterator[tuple[str, str, bool]]:
    """Name, value, and whether it is the default. Files of secrets are named, their contents are not read."""
    yield from _of("", msgspec.to_builtins(config), _defaults(config))


def _defaults(of: Struct) -> dict[str, Any]:
    """Without what has to be given."""
    defaults = {}
    for one in structs.fields(of):
        value = getattr(of, one.name)
        if one.default is not NODEFAULT or one.default_factory is not NODEFAULT:
            defaults[one.name] = msgspec.to_builtins(one.default if one.default is not NODEFAULT else one.default_factory())
        elif isinstance(value, Struct):
            defaults[one.name] = _defaults(value)
    return defaults


def _of(prefix: str, settings: dict[str, Any], default: Any) -> Iterator[tuple[str, str, bool]]:
    for name, value in settings.items():
        usual = default.get(name, NODEFAULT) if isinstance(default, dict) else NODEFAULT
        whole = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            yield from _of(f"{whole}.", value, usual)
        else:
            yield whole, _shown(whole, value), value == usual


def _shown(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_shown(name, one) for one in value)
    if value and name.startswith("kafka.client.") and _SECRET.search(name.removeprefix("kafka.client.")):
        return HIDDEN
    if isinstance(value, str) and "://" in value:
        return without_secrets(value, but=SHOWN_PARAMETERS)
    if isinstance(value, int) and not isinstance(value, bool) and name.endswith("bytes_max"):
        return f"{value} ({amount(value)})"
    if value in ("", {}):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
