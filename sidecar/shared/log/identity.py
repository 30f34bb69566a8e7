"""Whose log a folder holds, and which log it is.

    changefeed.txt   the changefeed and its incarnation (`Changefeed.log_id`)        log.txt   the log's own id, drawn by who needs it first

Both are created exclusively and never change. What a log leaves elsewhere carries the id: a dump's progress, a sink's output, the
reports of the merge worker. So a new log in the place of another is distinguished from it, though the changefeed is the same.

A log of 0.2.0 or before has no id until it is written on; what it left elsewhere names the changefeed alone, and is taken on once
(`continues`).
"""

from __future__ import annotations

import re
import secrets

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.layout import WAY_OUT
from sidecar.shared.log.storage import Folder

CHANGEFEED_NAME = "changefeed.txt"
OWN_ID_NAME = "log.txt"

_OWN_ID = re.compile(r"[0-9a-f]{32}")
_PART = "#"


def claim_log(folder: Folder, changefeed: str) -> str:
    """Mark the log as this changefeed's, and return its own id. Raises LogBroken for a folder that is another's."""
    _put_once(folder, CHANGEFEED_NAME, changefeed)
    text = storage.read_file(folder, CHANGEFEED_NAME).decode(errors="replace")
    if text != changefeed:
        raise LogBroken(
            f"the log {folder} is of changefeed {text}, and this sidecar serves {changefeed}",
            hint="give each changefeed a log folder of its own; a changefeed that was removed and made again is a new one",
        )
    return own_id(folder)


def own_id(folder: Folder) -> str:
    """The log's own id; one that has none gets it."""
    _put_once(folder, OWN_ID_NAME, secrets.token_hex(16))
    return known_id(folder)


def _put_once(folder: Folder, name: str, text: str) -> None:
    """The file is there and durable, with this text or an earlier one. On a volume without room that needs none where it is there."""
    if storage.exists(folder, name):
        storage.make_durable(folder, [name])
    else:
        storage.create_exclusively(folder, name, text.encode())


def known_id(folder: Folder) -> str:
    """The log's own id, empty where it has none yet; nothing is written."""
    data = storage.read_files(folder, [OWN_ID_NAME]).get(OWN_ID_NAME)
    if data is None:
        return ""
    text = data.decode(errors="replace")
    if not _OWN_ID.fullmatch(text):
        raise LogBroken(
            f"{folder}/{OWN_ID_NAME} holds {text[:40]!r}, which is no log's id",
            hint=WAY_OUT,
        )
    return text


def name_of(changefeed: str, own: str) -> str:
    """What the log is called where its output is kept. `changefeed` may be such a name already, as people find it in an output."""
    return f"{changefeed.partition(_PART)[0]}{_PART}{own}"


def continues(value: str, name: str) -> bool:
    """Whether what is marked with `value` is of the log called `name`, or of its changefeed by a version that gave logs no id."""
    return value == name or (_PART in name and value == name.rpartition(_PART)[0])


def own_of(name: str) -> str:
    """The log's own id out of its name, empty where it has none."""
    return name.partition(_PART)[2]
