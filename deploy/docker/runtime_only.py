"""Which of the installed distributions ticdc-dump does not need at run time: one name a line, for `pip uninstall`.

requirements.lock holds everything, the development tools among them, so that one file with hashes decides every version. An image
installs all of it, verified, and then takes away what no requirement of ticdc-dump leads to, by the distributions' own metadata.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution, distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

KEPT = frozenset({"pip"})
"""The tool that takes the others away."""


def needed(root: str) -> set[str]:
    """The canonical names of `root` and of everything that it requires on this platform: all extras of its own (the image has every
    sink), and of others those that are asked for.

    Raises PackageNotFoundError for a requirement that is not installed: the lock is older than pyproject.toml.
    """
    todo: list[tuple[str, frozenset[str]]] = [(canonicalize_name(root), frozenset(_extras(root)))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for requirement in map(Requirement, _requires(name)):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
                todo.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in seen}


def _requires(name: str) -> Iterable[str]:
    try:
        return distribution(name).requires or ()
    except PackageNotFoundError as error:
        raise PackageNotFoundError(f"{name} is required and not installed: lock the dependencies anew (make lock)") from error


def _extras(name: str) -> Iterable[str]:
    return distribution(name).metadata.get_all("Provides-Extra") or ()


def not_needed(root: str) -> list[str]:
    installed = {canonicalize_name(found.metadata["Name"]) for found in distributions()}
    return sorted(installed - needed(root) - KEPT)


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}\n" for name in not_needed("ticdc-dump")))
