"""Who writes beside the log from the command line: the user that the log is of, by name."""

from __future__ import annotations

import getpass
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sidecar.shared.log.storage import Folder


def check_owner(log: Folder, command: str) -> None:
    """What another user writes there the merge worker may not be able to read, and would end of. Raises RefusedRequest."""
    from sidecar.shared.errors import RefusedRequest

    if log.protocol == "file" and os.path.isdir(log.root) and (owner := os.stat(log.root).st_uid) != os.geteuid():
        raise RefusedRequest(
            f"the log {log} is user {owner}'s, and this is user {os.geteuid()}",
            hint=f'do it as the sidecar\'s user: runuser -u "$(id -nu {owner})" -- ticdc-dump {command} …',
        )


def user_here() -> str:
    """user@host."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
