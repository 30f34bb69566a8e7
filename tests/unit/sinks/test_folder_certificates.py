"""Certificates in an output: of which dumps, when, and what is in them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.log import storage
from sidecar.shared.log.certificate import write_certificate
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Seq
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.folder.certificates import OutputCertificates
from tests.support.deliveries import Segments, change, deliver

LOG_ID = "cf#" + "0" * 32


class Place:
    def __init__(self, folder: Path) -> None:
        self.log, self.out = (open_folder(str(folder / name)) for name in ("log", "out"))
        self.sink = FileSink(self.out, log_id=LOG_ID, file_format="jsonl")
        self.sink.open(epoch=None)

    def certify(self, dump_id: str, first: int, last: int, *sinks: str) -> str:
        head = {"dump_id": dump_id, "first_seq": first, "last_seq": last, "scope": {"sinks": sinks}}
        write_certificate(self.log, head, tables=(), chunks=(), segments=())
        result = json.loads(storage.read_file(self.log, f"certificates/{dump_id}.json"))
        return str(result["sha256"])

    def deliver(self, *seqs: int) -> None:
        deliver(self.sink, Segments(seqs, [change(seq, 10 * seq, after=["1", "x"]) for seq in seqs]), log=self.log)

    def written(self, dump_id: str) -> dict[str, Any] | None:
        data = storage.read_files(self.out, [f"_certificates/{dump_id}.json"]).get(f"_certificates/{dump_id}.json")
        return None if data is None else json.loads(data)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def sum_of(folder: Folder, name: str) -> str:
    return hashlib.sha256(storage.read_file(folder, name)).hexdigest()


def test_it_has_the_sums_of_the_segments_and_of_the_logs_certificate(place: Place) -> None:
    place.deliver(1, 2, 3)
    own = place.certify("d", 0, 2)
    place.sink.certify(place.log, "copy", Seq(3))
    result = place.written("d")
    assert result is not None
    assert (result["dump_id"], result["certificate"], result["output"]) == ("d", own, LOG_ID)
    assert result["segments"] == [[seq, sum_of(place.out, f"_segments/{seq:020d}.json")] for seq in (1, 2)], "it began with segment 1"
    data = storage.read_file(place.out, "_certificates/d.json")
    before, _, last = data.rpartition(b',\n"sha256": "')
    assert last == hashlib.sha256(before).hexdigest().encode() + b'"}\n'


def test_it_waits_for_the_last_segment_and_is_of_dumps_that_the_sink_receives(place: Place) -> None:
    place.deliver(1, 2)
    place.certify("late", 1, 3)
    place.certify("other", 1, 2, "another")
    place.certify("mine", 1, 2, "another", "copy")
    certificates = OutputCertificates(place.out, place.log, name="copy", log_id=LOG_ID)
    assert certificates.write(Seq(2)) == ["mine"]
    place.deliver(3)
    assert certificates.write(Seq(3)) == ["late"]
    assert certificates.write(Seq(3)) == []
    assert OutputCertificates(place.out, place.log, name="copy", log_id=LOG_ID).write(Seq(3)) == [], "a later worker finds it"
    assert place.written("other") is None


def test_one_that_cannot_be_read_is_left_for_the_checker(place: Place) -> None:
    place.deliver(1)
    storage.write_atomically(place.log, "certificates/broken.json", b"{")
    place.certify("d", 1, 1)
    assert OutputCertificates(place.out, place.log, name="copy", log_id=LOG_ID).write(Seq(1)) == ["d"]


def test_the_files_of_a_segment_are_hashed_as_they_are_written(place: Place) -> None:
    place.deliver(1)
    segment = json.loads(storage.read_file(place.out, "_segments/00000000000000000001.json"))
    assert [file["sha256"] for file in segment["files"]] == [sum_of(place.out, file["path"]) for file in segment["files"]] != []
