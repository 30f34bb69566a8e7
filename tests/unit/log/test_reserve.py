"""The room that a log keeps for the day on which its volume is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.shared.errors import StorageFull
from sidecar.shared.log import storage
from sidecar.shared.log.delivery_report import DELIVERED_NAME
from sidecar.shared.log.layout import retained_name
from sidecar.shared.log.reserve import RESERVE_BYTES, RESERVE_NAME, give_up, take
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Seq
from tests.support.volumes import fill, small_volume


def test_once_it_is_given_up_a_report_and_a_note_have_room(tmp_path: Path) -> None:
    with small_volume(tmp_path / "disk", size="2m") as volume:
        folder = open_folder(str(volume))
        take(folder)
        take(folder)
        assert (volume / RESERVE_NAME).stat().st_size == RESERVE_BYTES
        filler = fill(volume)
        with pytest.raises(StorageFull):
            storage.write_atomically(folder, DELIVERED_NAME, b"{}" * 50_000)
        give_up(folder)
        give_up(folder)
        for text in (b"{}" * 50_000, b"[]" * 50_000):
            storage.write_atomically(folder, DELIVERED_NAME, text)
        storage.write_atomically(folder, retained_name(Seq(3)), b"")
        with pytest.raises(StorageFull) as full:
            take(folder)
        assert full.value.place == str(folder)
        assert not (volume / RESERVE_NAME).exists()
        filler.unlink()
        take(folder)
        assert (volume / RESERVE_NAME).exists()


def test_a_storage_that_is_no_volume_keeps_none() -> None:
    folder = Folder("memory", "reserve-of-none")
    take(folder)
    assert storage.list_names(folder, deep=True) == []
    give_up(folder)
