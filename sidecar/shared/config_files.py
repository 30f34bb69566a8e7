"""Files that settings name: a secret's, and a changefeed's definition."""

from __future__ import annotations

from pathlib import Path

from sidecar.shared.errors import ConfigError

DEFINITION_BYTES_MAX = 4 << 20
"""Of a changefeed's definition in a file; TiCDC's are some kilobytes."""


def read_secret(path: str) -> str:
    """The text of a secret's file without its last newline; empty for no file. Raises ConfigError."""
    if not path:
        return ""
    try:
        return Path(path).read_text().rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise ConfigError(f"the file of a secret {path} cannot be read: {error}", hint="make it a text file for this user") from error


def read_definition(path: str) -> str:
    """The text of `changefeed.file`, a regular file. Raises ConfigError."""
    try:
        if Path(path).exists() and not (Path(path).is_file() and Path(path).stat().st_size <= DEFINITION_BYTES_MAX):
            raise ValueError(f"it is no file of at most {DEFINITION_BYTES_MAX} bytes")
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="name the file of the changefeed's definition") from error
