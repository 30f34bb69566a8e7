from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.feeds.storage.listing import Listing
from sidecar.shared.log.storage import Folder, Unreachable, memory, open_folder, remove, write_all


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return open_folder(f"memory://bucket{tmp_path}").opened_for(lambda _, __, error: LookupError(f"of this feed: {error}"))


def names(listing: Listing) -> tuple[list[str], list[str]]:
    now, gone, _ = listing.changes()
    return [entry.name for entry in now], gone


def test_each_call_reports_what_differs_from_the_call_before(folder: Folder) -> None:
    listing = Listing(folder)
    write_all(folder, {"b": b"1", "a/x": b"1", "c": b"1"})
    assert names(listing) == (["a/x", "b", "c"], [])
    assert names(listing) == ([], [])
    write_all(folder, {"b": b"2"})
    remove(folder, ["c", "a/x"])
    assert names(listing) == (["b"], ["a/x", "c"])
    assert names(Listing(folder)) == (["b"], [])


def test_a_call_that_fails_loses_nothing_and_says_what_it_means_to_the_feed(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = Listing(folder)
    write_all(folder, {"a": b"1"})
    listing.changes()
    write_all(folder, {"b": b"1"})
    with monkeypatch.context() as broken:

        def fails(*_: object) -> None:
            raise Unreachable("away")

        broken.setattr(memory, "list_changes", fails)
        with pytest.raises(LookupError, match="of this feed: away"):
            listing.changes()
    assert names(listing) == (["b"], [])
