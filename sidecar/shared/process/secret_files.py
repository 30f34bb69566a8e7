"""Whether the files of secrets are as private as secrets are: a warning at the start and in the preflight, never an error.

A file of ours is ours alone. One of another user (root's, with the service's group) may be read by its group, for that is how this
process reads it. Certificates are no secrets; keys are.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from sidecar.shared.config import Config
from sidecar.shared.process.checks import Checking, ok, warning

SECRETS = ("password_file", "token_file", "key_file")
IN_SINKS = ("password-file", "token-file", "salt-file", "key")
"""Parameters of sinks' URIs; `key`: of Kafka's TLS."""

MEND = "chmod 600 (or 640, if it is root's and this process is in its group); in Kubernetes defaultMode: 0440 with fsGroup"


def unprotected(config: Config) -> Iterator[tuple[str, str, str]]:
    """Setting, file and mode of each secret that others than this process may read or write. Without files that cannot be looked at."""
    for setting, path in [*_named(config), *_in_sinks(config.sinks)]:
        try:
            status = Path(path).stat()
        except (OSError, ValueError):  # the latter for a NUL in it
            continue
        others = stat.S_IRWXO | stat.S_IRWXG
        if status.st_uid != os.geteuid():
            others &= ~(stat.S_IRGRP | stat.S_IXGRP)
        if status.st_mode & others:
            yield setting, path, f"{stat.S_IMODE(status.st_mode):04o}"


def check(config: Config) -> Checking[None]:
    clean = True
    for setting, path, mode in unprotected(config):
        clean = False
        yield warning(f"{path} may be read or written by others (mode {mode})", setting=setting, hint=MEND)
    if clean:
        yield ok("no file of a secret is open to others")


def _in_sinks(uris: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, uri in enumerate(uris, 1):
        yield from ((f"{name} of sinks (number {number})", path) for name, path in parse_qsl(urlsplit(uri).query) if name in IN_SINKS)


def _named(section: Struct, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every file of a secret that a setting names, whichever section it is in."""
    for name in section.__struct_fields__:
        setting = getattr(section, name)
        if isinstance(setting, Struct):
            yield from _named(setting, f"{prefix}{name}.")
        elif name.endswith(SECRETS) and setting:
            yield f"{prefix}{name}", setting
