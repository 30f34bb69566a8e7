"""What a listing says of the files in a folder, and what two listings of it differ in. It knows no storage.

A tag distinguishes two contents that a file has had under one name: another tag is another content, or the same one written again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class FileEntry(NamedTuple):
    """`name` is relative to the folder that was listed. `modified_ms` is Unix time by the storage's own clock."""

    name: str
    size: int
    tag: str
    modified_ms: int


class Known:
    """What a back end remembers of a listing, for the next one of the same folder: only the back end reads it, and nobody changes it."""


class Changes(NamedTuple):
    """`now`: the entries that are new or differ. `gone`: names that are not there any more. `known`: for the next listing."""

    now: list[FileEntry]
    gone: list[str]
    known: Known


def differing(before: Mapping[str, FileEntry], after: Mapping[str, FileEntry]) -> tuple[list[FileEntry], list[str]]:
    """What is new or differs in `after`, and the names that are in `before` only, in any order."""
    now = [entry for name, entry in after.items() if before.get(name) != entry]
    return now, [name for name in before if name not in after]
