"""What a protocol's reader gives back, and how it refuses: before any lane or position is known.

An **image** is one version of a row. A reader takes the message bytes of rows of one table and gives all their images as
columns of canonical text, images in the order of their rows, plus which image is each row's before and after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from sidecar.shared.columns.values import UnfitValue
from sidecar.shared.errors import FeedError, FeedUnsuitable, MessageUnreadable

NO_IMAGE = -1

SCHEMA_HINT = (
    "let the changefeed send the columns that it sent before (sink.column-selectors as they were); if it does, the schema has changed and"
    " the one known here is another: restart the changefeed's sidecar so that it reads the schema again, and report it"
)
UNREADABLE_HINT = "check that nothing but TiCDC writes to the feed; if so, report this message: this TiCDC version is not known"


class RowUnusable(Exception):
    """Row number `row` of the input cannot be decoded. `kind` is the error to raise once the row's place is known."""

    def __init__(self, row: int, text: str, *, kind: type[FeedError], hint: str) -> None:
        super().__init__(text)
        self.row = row
        self.kind = kind
        self.hint = hint

    def behind(self, first: int) -> RowUnusable:
        """The same, of rows that begin at row `first` of the input."""
        self.row += first
        return self


def unreadable(row: int, text: str) -> RowUnusable:
    return RowUnusable(row, text, kind=MessageUnreadable, hint=UNREADABLE_HINT)


def schema_differs(row: int, text: str) -> RowUnusable:
    return RowUnusable(row, text, kind=FeedUnsuitable, hint=SCHEMA_HINT)


def unfit_in(row: int, column: str, unfit: UnfitValue) -> RowUnusable:
    return RowUnusable(row, f"column {column}: {unfit}", kind=FeedUnsuitable, hint=unfit.hint or SCHEMA_HINT)


@dataclass(frozen=True, slots=True)
class Images:
    """`columns`: one pa.StringArray a column of the schema, one entry an image. `before` and `after`: each row's image
    number, or NO_IMAGE."""

    columns: list[pa.Array]
    before: list[int]
    after: list[int]


@dataclass(frozen=True, slots=True)
class Cells:
    """As Images, before the values are texts: each column has what the protocol's parser gave for it."""

    columns: Sequence[Sequence[Any]]
    before: list[int]
    after: list[int]


def by_column(structs: Iterable[Any], width: int) -> list[tuple[Any, ...]]:
    """The `width` fields of these msgspec structs, a tuple a field: one call a struct, where attrgetter is one a value."""
    return list(zip(*map(msgspec.structs.astuple, structs), strict=True)) or [()] * width


def row_of_image(image: int, before: Sequence[int], after: Sequence[int]) -> int:
    return before.index(image) if image in before else after.index(image)
