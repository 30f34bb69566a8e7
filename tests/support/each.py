"""One test of many small checks, where passing each on to a test worker would take longer than the check."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def each(of: Iterable[T]) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """The decorated check is a test of each of these. It fails with the messages of all that fail, a line each."""
    items = list(of)
    assert items, "there is nothing to check"

    def made(check: Callable[[T], None]) -> Callable[[], None]:
        def test() -> None:
            wrong = []
            for item in items:
                try:
                    check(item)
                except Exception as error:  # noqa: BLE001  # the others are checked, too
                    wrong.append(f"{item}: {type(error).__name__}: {error}".partition("\n")[0])
            assert not wrong, "\n".join([f"{len(wrong)} of {len(items)}:", *wrong])

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return made
