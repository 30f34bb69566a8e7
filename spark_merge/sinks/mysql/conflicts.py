"""Which changes must stay in order, and which worker has them: as TiDB-Binlog's drainer (pkg/loader/causality.go), over groups of changes.

- A change's keys are the values of all the target's primary and unique keys in its old and its new image. Two changes that have a key in
  common go to one worker, in their order. A change whose keys are with two workers waits until all have committed, and then everything is
  forgotten.
- Drainer remembers which group a key is of; here it is the worker, so two groups of one worker are no conflict, and a key that meets one
  group alone is that group's next change: fewer flushes, the same end.
- What was committed together and has keys in common is one group: a swap of unique values, and both halves of a row whose key moves, are in
  one transaction.
- A key with a NULL meets none. Texts are compared as the target does: without trailing spaces, by the weights of the column's collation,
  which the target itself returns (`Weigh`); of a prefix key only what is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from zlib import crc32

from sidecar.shared.model.nouns import Column
from spark_merge.sinks.mysql.tables import TargetTable, UniqueKeyPart

Image: TypeAlias = "Sequence[str | None]"
Key: TypeAlias = Hashable
Weigh: TypeAlias = Callable[[str, Sequence[str]], Mapping[str, str]]
"""Collation and texts to each text's weights: equal where the target takes two texts for one."""

KEYS_MAX = 200_000
"""Keys that are remembered: some 40 MB. Beyond, all workers flush and all is forgotten."""


def keys_of(table: TargetTable, columns: Sequence[Column], images: Sequence[Image], weigh: Weigh) -> list[list[Key]]:
    """Of each image its keys, in the target's table `table`. One key that all rows have where the unique keys are not known."""
    if table.unique is None:
        return [[(table.name,)] for _ in images]
    results: list[list[Key]] = [[] for _ in images]
    for number, parts in enumerate(table.unique):
        values = [_values(part, columns[part.column], images, weigh) for part in parts]
        for keys, key in zip(results, zip(*values, strict=True), strict=True):
            if None not in key:
                keys.append((table.name, number, *key))
    return results


def _values(part: UniqueKeyPart, column: Column, images: Sequence[Image], weigh: Weigh) -> list[str | None]:
    texts = [image[part.column] for image in images]
    match column.kind:
        case "text":
            if part.length >= 0:
                texts = [None if text is None else text[: part.length] for text in texts]
            texts = [None if text is None else text.rstrip(" ") for text in texts]
            if not part.collation:
                return texts
            weights = weigh(part.collation, sorted({text for text in texts if text is not None}))
            return [None if text is None else weights[text] for text in texts]
        case "binary":
            return texts if part.length < 0 else [None if text is None else text[: 2 * part.length] for text in texts]
        case "float" | "double":
            return [None if text is None else repr(float(text) + 0.0) for text in texts]  # -0 is 0
        case _:
            return texts


class TablePieces(NamedTuple):
    """Changes of one commit_ts that meet, by their place in it, and all their keys."""

    places: list[int]
    keys: list[Key]


def together(changes: Sequence[Iterable[Key]]) -> list[TablePieces]:
    """The changes of one commit_ts in groups that have no key in common, in the order of their first ones."""
    leader = list(range(len(changes)))

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    first_of: dict[Key, int] = {}
    for place, keys in enumerate(changes):
        for key in keys:
            a, b = find(first_of.setdefault(key, place)), find(place)
            leader[max(a, b)] = min(a, b)
    groups: dict[int, TablePieces] = {}
    for place, keys in enumerate(changes):
        group = groups.setdefault(find(place), TablePieces([], []))
        group.places.append(place)
        group.keys.extend(keys)
    return list(groups.values())


class Causality:
    """Which worker has a key since all were last flushed. The same changes in the same order go to the same workers, anywhere."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._known: dict[Key, int] = {}

    def worker(self, keys: Sequence[Key]) -> int | None:
        """None: they are with more than one, or too many are known; flush all, `clear`, and ask again."""
        met = {self._known[key] for key in keys if key in self._known}
        if len(met) > 1 or (self._known and len(self._known) + len(keys) > KEYS_MAX):
            return None
        worker = met.pop() if met else crc32(repr(keys[0]).encode()) % self._workers if keys else 0
        for key in keys:
            self._known[key] = worker
        return worker

    def clear(self) -> None:
        self._known.clear()
