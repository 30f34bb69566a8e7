"""The key of a row of which a message has the handle key alone, as canonical text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

import msgspec
import pyarrow as pa

from sidecar.shared.codecs.registry import CARRIERS
from sidecar.shared.columns.values import UnfitValue
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.nouns import Column

_HINT = (
    "set kafka.server_tz to the TiCDC server's --tz; if it is, let the changefeed send such rows whole (max-message-bytes, or claim-check)"
)


class _CellsModule(Protocol):
    """`sidecar/shared/columns/NAME.py` of a protocol."""

    def cell(self, value: Any, column: Column) -> Any: ...
    def texts(self, cells: Sequence[Any], column: Column, zone: ServerZone) -> pa.Array: ...


def key_texts(protocol: str, cells: Mapping[str, Any], columns: Sequence[Column], zone: ServerZone) -> Key:
    """Of one of CARRIERS. `zone` takes no moment of two: the other one could be another row's. Raises FeedUnsuitable for cells that are
    none of these columns."""
    codec = CARRIERS[protocol].codec
    assert codec is not None, "a carrier has a codec"
    module = cast(_CellsModule, import_module(f"sidecar.shared.columns.{codec.__name__.rpartition('.')[2]}"))
    texts = list[str]()
    for column in columns:
        try:
            text = module.texts([module.cell(cells[column.name], column)], column, zone)[0].as_py()
        except (KeyError, UnfitValue, msgspec.ValidationError) as error:
            what = "has no" if isinstance(error, KeyError) else f"does not have ({error}) a"
            raise FeedUnsuitable(f"the message {what} value of key column {column.name} ({column.kind})", hint=_HINT) from error
        if text is None:
            raise FeedUnsuitable(f"the message has NULL for key column {column.name}", hint=_HINT)
        texts.append(text)
    return tuple(texts)
