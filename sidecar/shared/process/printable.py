"""Texts of others on a terminal of ours: names, DDLs and errors come from clusters, senders and operators, and a terminal takes control
characters for commands. Programs get every text as it is, in JSON, which escapes them.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""C0, DEL and C1, but for tabs and line ends: what is left of an escape sequence is seen, and does nothing."""


def printable(text: str) -> str:
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    """For a comment or a list, which a line end would leave."""
    return printable(" ".join(text.split()))
