"""What differs between a commit and the files on disk, as symbols and as files that are no Python.

A symbol is changed where its text differs (source.py). A name that is gone, and a fixture that is none any more or is for others, is a
change of what its module executes: nothing in the new text leads from its users to it. A file that is gone changes the package around it.
Comments, layout, and what only `if TYPE_CHECKING:` sees are no change.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.choice.graph import Symbol, module_of
from tests.choice.source import ALL, BODY, TOPS, Source, texts_of
from tests.turns import checked_git, git


@dataclass(frozen=True, slots=True)
class Change:
    """`others`: changed files that are no modules of the product or the tests, by their path from the root."""

    symbols: frozenset[Symbol]
    others: tuple[str, ...]
    files: int


def changed(root: Path, commit: str, now: str = "") -> Change:
    """From `commit` to the commit `now`; without one, to what is on disk, untracked files included. Raises ValueError for a commit that is
    not there, and for a file that is no Python."""
    if missing := [one for one in (commit, now) if one and not git(root, "cat-file", "-t", f"{one}^{{commit}}")]:
        raise ValueError(f"{missing[0]} is not in this repository's history")
    names = {*checked_git(root, "diff", "--name-only", "--no-renames", commit, *([now] if now else []))}
    if not now:
        names |= {*checked_git(root, "ls-files", "--others", "--exclude-standard")}
    symbols: set[Symbol] = set()
    others = []
    for name in sorted(names):
        if is_module(name):
            try:
                symbols |= _changed(module_of(Path(name)), _text(root, commit, name), _text(root, now, name))
            except SyntaxError as error:
                raise ValueError(f"{name} is no Python: {error}") from error
        else:
            others.append(name)
    return Change(frozenset(symbols), tuple(others), len(names))


def is_module(name: str) -> bool:
    return name.endswith(".py") and any(name.startswith(f"{folder}/{top}/".lstrip("/")) for top, folder in TOPS.items())


def _text(root: Path, commit: str, name: str) -> str | None:
    """None: there is no such file."""
    if not commit:
        return (root / name).read_text() if (root / name).is_file() else None
    return "\n".join(git(root, "show", f"{commit}:{name}")) if git(root, "ls-tree", commit, "--", name) else None


def _changed(module: str, before: str | None, now: str | None) -> set[Symbol]:
    if now is None:
        around = module.rpartition(".")[0]
        return {Symbol(place, name) for place in (module, around) for name in (ALL, BODY)}
    old, new = texts_of(before or ""), texts_of(now)
    were, are = Source.of(before or "").fixtures, Source.of(now).fixtures
    symbols = {Symbol(module, name) for name in new if new[name] != old.get(name)}
    if old.keys() - new.keys() or any(were[name] != are.get(name) for name in were):
        symbols |= {Symbol(module, ALL), Symbol(module, BODY)}
    return symbols
