"""A compact copy holds what its recording holds, is made the same each time, and is found, unpacked and told where the whole is absent."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from tests.conftest import skip_reasons
from tests.recordings.make import COMPACT, STREAMS, differences, kept_files, main, pack
from tests.support import recordings


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small part of `demo`, and what no test reads: a storage sink's folder and a feed in a foreign protocol."""
    whole, folder = COMPACT / "demo", tmp_path / "whole" / "demo"
    for name in ("kafka", "kv", "storage"):
        (folder / name).mkdir(parents=True)
    for feed in ("open-protocol", "canal-json"):
        pq.write_table(pq.read_table(whole / "kafka" / f"{feed}.parquet").slice(0, 50), folder / "kafka" / f"{feed}.parquet")
    shutil.copy(folder / "kafka" / "canal-json.parquet", folder / "kafka" / "other.parquet")
    (folder / "kv" / "eventfeed.bin.gz").write_bytes(gzip.compress(b"some messages" * 100))
    shutil.copy(whole / "kv" / "eventfeed.json", folder / "kv")
    (folder / "storage" / "1.csv").write_text("1,2\n")
    reported = json.loads((whole / "recording.json").read_text())
    reported["feeds"]["other"] = {"kind": "kafka", "sink_uri": "kafka://h:1/t?protocol=debezium", "file": "kafka/other.parquet"}
    (folder / "recording.json").write_text(json.dumps(reported))
    return folder


def test_a_copy_holds_everything_that_is_read_and_is_made_the_same_again(source: Path) -> None:
    files = {str(path) for path in kept_files(source)}
    assert files == {
        "recording.json", "kafka/open-protocol.parquet", "kafka/canal-json.parquet", "kv/eventfeed.bin.gz", "kv/eventfeed.json",
    }  # fmt: skip
    copy = pack(source)
    assert list(differences(source, copy)) == []
    assert pack(source) == copy


def test_what_a_copy_does_not_hold_is_found(source: Path, tmp_path: Path) -> None:
    (tmp_path / "demo.tar.xz").write_bytes(pack(source))
    shutil.copy(source / "kafka" / "open-protocol.parquet", source / "kafka" / "canal-json.parquet")
    (source / "kv" / "eventfeed.bin.gz").write_bytes(gzip.compress(b"other"))
    (source / "kv" / "eventfeed.json").unlink()
    (source / "new.json").write_text("{}")
    results = set(differences(source, (tmp_path / "demo.tar.xz").read_bytes()))
    assert results == {
        "demo/kafka/canal-json.parquet differs",
        "demo/kv/eventfeed.bin.gz differs",
        "demo/new.json is not in the copy",
        "demo/kv/eventfeed.json is in the copy alone",
    }
    assert main([str(source.parent), "--to", str(tmp_path), "--check", "demo"]) == 1


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one packed recording and nothing beside it."""
    monkeypatch.setenv("TICDC_DUMP_RECORDINGS", str(tmp_path / "absent"))
    monkeypatch.setattr(recordings, "_COMPACT", tmp_path / "compact")
    monkeypatch.setattr(recordings, "_UNPACKED", tmp_path / "build")
    (tmp_path / "compact").mkdir()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "recording.json").write_text("{}")
    with tarfile.open(tmp_path / "compact" / "more.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "more", "more")
    return tmp_path


found = recordings.recording.__wrapped__
"""Without its memory."""


def test_a_bare_clone_unpacks_a_copy_once(clone: Path) -> None:
    folder = found("more")
    assert folder.is_relative_to(clone / "build")
    assert (folder / "recording.json").read_text() == "{}"
    (folder / "here").touch()
    assert (found("more") / "here").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["more"], "nothing half made is left"


def test_who_unpacks_at_the_same_time_and_is_late_takes_what_is_there(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def late(made: Path, folder: Path) -> Path:
        shutil.copytree(made, folder)
        return rename(made, folder)

    monkeypatch.setattr(Path, "rename", late)
    assert (found("more") / "recording.json").is_file()


def test_the_whole_set_wins_and_what_nobody_has_fails(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICDC_DUMP_RECORDINGS", str(clone))
    assert found("more") == clone / "more"
    with pytest.raises(pytest.fail.Exception, match="the recording 'none' is absent"):
        found("none")


@pytest.mark.parametrize("name", STREAMS)
def test_every_recording_is_in_the_repository(name: str) -> None:
    assert (COMPACT / f"{name}.tar.xz").is_file()


def test_skips_are_counted_by_reason() -> None:
    reports = [SimpleNamespace(longrepr=("f.py", 1, f"Skipped: {reason}")) for reason in ("no tmpfs", "no tmpfs", "x")]
    assert skip_reasons(reports) == {"no tmpfs": 2, "x": 1}
