"""Parts of long lists: pages that are made here, with a search, so that none grows with the number of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")

SHOWN = 100


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """`first`: the number of the first one shown, from 0, of `count`. `query`: what leads to another page, without its number."""

    shown: Sequence[T]
    first: int
    count: int
    number: int
    pages: int
    query: tuple[tuple[str, str], ...]
    name: str = "page"

    def address(self, number: int) -> str:
        return f"?{urlencode((*self.query, (self.name, number)))}"


def part(items: Sequence[T], params: Sequence[tuple[str, str]], *, name: str = "page", size: int = SHOWN) -> ListPage[T]:
    """`params`: of the request, of which `name` is the page's number from 1; what is none is the first page."""
    given = next((value for key, value in params if key == name), "")
    pages = max(-(-len(items) // size), 1)
    number = min(max(int(given), 1), pages) if given.isdecimal() and len(given) < 10 else 1
    first = (number - 1) * size
    rest = tuple((key, value) for key, value in params if key != name)
    return ListPage(items[first : first + size], first, len(items), number, pages, rest, name)
