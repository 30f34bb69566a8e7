"""A message's JSON with the columns of the handle key alone. What stays keeps its bytes: so a message that TiCDC sent and one that is
encoded here are reduced in one way, to what TiCDC itself would have written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from msgspec import Raw, json

Quoted: TypeAlias = "Callable[[str], str]"
"""A text in JSON, with its quotes, as the protocol's writer has it."""

fields_of = json.Decoder(dict[str, Raw]).decode
"""Of an object, in their order."""


def json_object(fields: Iterable[tuple[str, bytes | Raw]], quoted: Quoted) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (quoted(name).encode(), value) for name, value in fields)


def key_columns(columns: Raw, key: Collection[str], quoted: Quoted) -> bytes:
    """Of an object with a field for each column."""
    return json_object(((name, value) for name, value in fields_of(columns).items() if name in key), quoted)
