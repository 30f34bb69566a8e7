"""What the text of a setting is: an address, a URI, a zone."""

from __future__ import annotations

from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def is_uri(text: str) -> bool:
    try:
        return bool(urlsplit(text))
    except ValueError:
        return False


def is_zone(name: str) -> bool:
    try:
        return bool(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):  # the last one: a folder of the database
        return False


def is_address(text: str) -> bool:
    """`host:port`, with a port that others can connect to."""
    host, _, port = text.rpartition(":")
    whole = host.startswith("[") and host.endswith("]") if ":" in host else host.strip("[]") == host
    bare = host.strip("[]")
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= 65535
    return whole and bool(bare) and not any(letter.isspace() or letter in "/@?#" for letter in bare) and is_port
