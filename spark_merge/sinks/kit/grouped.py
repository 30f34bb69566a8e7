"""Texts of which a request holds only some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def grouped(texts: Iterable[str], *, bytes_max: int, rows_max: int | None = None) -> Iterator[list[str]]:
    """Each text in one group, in their order; no group is empty, and one text may be larger than a group."""
    group, size = list[str](), 0
    for text in texts:
        if group and (len(group) == rows_max or size + len(text) > bytes_max):
            yield group
            group, size = [], 0
        group.append(text)
        size += len(text)
    if group:
        yield group
