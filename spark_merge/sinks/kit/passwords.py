"""The password of a server that tasks connect to too: it never travels with a task.

A file that each host has, named by `password-file`; or what the URI says, kept in this process and those that it starts
(sidecar/shared/process/kept_secrets.py); or a variable of the environment.
"""

from __future__ import annotations

import os
from urllib.parse import unquote

from sidecar.shared.errors import SinkError
from sidecar.shared.process.kept_secrets import keep, kept


def keep_password(server: object, reported: str | None, *, kind: str, file: str, variable: str) -> None:
    """`server`: its text has the user: two accounts of one server have two passwords. `reported`: the URI's, percent-encoded; None: what
    another URI brought of this account stays, else the environment may have it. Raises as `password_of`."""
    if not file and (reported is not None or not kept(kind, str(server))):
        keep(kind, str(server), os.environ.get(variable, "") if reported is None else unquote(reported))
    password_of(server, kind=kind, file=file, variable=variable)


def password_of(server: object, *, kind: str, file: str, variable: str) -> str:
    """`kind`: under which it is kept, by the server's text; `file` may be empty. Raises SinkError in a process that has it no way."""
    if file:
        return _text_of(file)
    password = kept(kind, str(server))
    password = os.environ.get(variable) if password is None else password
    if password is None:
        raise SinkError(
            f"{server}: its password is not known to this process: what a URI says is not sent to a cluster's tasks",
            hint=f"put it into a file on every host and name that by password-file=, or set {variable} in the executors' environment",
        )
    return password


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise SinkError(f"password-file {path} cannot be read: {error}", hint="make it a text file for this user, on every host") from error
