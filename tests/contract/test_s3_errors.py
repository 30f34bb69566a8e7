"""What a log on S3 does with the errors that a server may answer: which of them a term tries again, and that the fence holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from s3fs import S3FileSystem

from sidecar.shared.errors import LogBroken, LogTaken, LogUnreachable
from sidecar.shared.log import storage
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.manifest import from_json
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.log.storage import s3 as storage_of_s3
from sidecar.shared.model.nouns import Seq
from tests.contract.test_segment_log import CHUNK, change, manifest
from tests.support.services.s3 import KEYS, S3, ErrorAnswer

FOLDERS = count()
TRANSIENT = [
    (429, "TooManyRequests"),
    (503, "SlowDown"),
    (500, "InternalError"),
    (400, "ThrottlingException"),
    (400, "RequestTimeout"),
    (400, "ExpiredToken"),
    (403, "RequestTimeTooSkewed"),
    (409, "OperationAborted"),
    (409, "ConditionalRequestConflict"),
]
REFUSED = [(403, "AccessDenied"), (403, "SignatureDoesNotMatch"), (400, "Nonsense")]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with S3() as server:
        yield server


@pytest.fixture
def folder(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Of a client that asks once: its own tries would hide an error that comes once, and take many seconds for one that stays."""
    monkeypatch.setattr(storage_of_s3, "REQUEST_TRIES", 1)
    return asked(s3, monkeypatch, times=1)


def asked(s3: S3, monkeypatch: pytest.MonkeyPatch, *, times: int) -> Folder:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", str(times))
    monkeypatch.setattr(S3FileSystem, "connect_timeout", 60)  # the server here may wait for a processor
    S3FileSystem.clear_instance_cache()
    return open_folder(s3.uri(f"errors-{next(FOLDERS)}", keys=True))


def owner(folder: Folder, *, epoch: int) -> FolderLog:
    log = FolderLog(folder)
    log.recover(epoch=epoch)
    return log


def all_requested(folder: Folder, log: FolderLog) -> dict[str, Callable[[], object]]:
    """Each by itself, as the log, the worker and its tasks ask."""

    def read() -> None:
        with storage.open_to_read(folder, "a") as file:
            file.read()

    return {
        "recover": lambda: FolderLog(folder).recover(epoch=2),
        "write_data": lambda: log.write_data(Seq(1), epoch=1, codec="canal-json", changes=[change(11)]),
        "write_chunk": lambda: write_chunk(folder, "chunks/1", CHUNK),
        "commit": lambda: log.commit(manifest(1)),
        "list_names": lambda: storage.list_names(folder, deep=False),
        "list_files": lambda: storage.list_files(folder),
        "exists": lambda: storage.exists(folder, "a"),
        "read_file": lambda: storage.read_file(folder, "a"),
        "open_to_read": read,
        "copy": lambda: storage.copy_files(folder, [("a", "b")]),
        "remove": lambda: storage.remove(folder, ["b"]),
    }


@pytest.mark.parametrize(("status", "code"), TRANSIENT)
def test_an_error_that_passes_ends_the_term_and_the_next_one_continues(s3: S3, folder: Folder, status: int, code: str) -> None:
    log = owner(folder, epoch=1)
    log.commit(manifest(0))
    storage.write_atomically(folder, "a", b"1")
    with s3.answering(ErrorAnswer(status, code), for_ever=True):
        for name, ask in all_requested(folder, log).items():
            with pytest.raises(LogUnreachable) as error:
                ask()
            assert error.value.retryable, name
    later = FolderLog(folder)
    assert later.recover(epoch=2) == manifest(0)
    later.commit(manifest(1, epoch=2))


@pytest.mark.parametrize(("status", "code"), REFUSED)
def test_a_refusal_ends_the_process(s3: S3, folder: Folder, status: int, code: str) -> None:
    log = owner(folder, epoch=1)
    storage.write_atomically(folder, "a", b"1")
    log.commit(manifest(0))
    with s3.answering(ErrorAnswer(status, code), for_ever=True):
        for name, ask in all_requested(folder, log).items():
            with pytest.raises(LogBroken) as error:
                ask()
            assert not error.value.retryable, name


@pytest.mark.parametrize("ask", ["exists", "open_to_read", "copy"])
def test_a_refusal_without_a_code_that_is_gone_when_it_is_tried_again_has_passed(s3: S3, folder: Folder, ask: str) -> None:
    """The answer to a HEAD has no body, so no code."""
    log = owner(folder, epoch=1)
    storage.write_atomically(folder, "a", b"1")
    with s3.answering(ErrorAnswer(403, "RequestTimeTooSkewed")), pytest.raises(LogUnreachable):
        all_requested(folder, log)[ask]()


def test_a_listing_that_ends_too_early_is_made_again_later(s3: S3, folder: Folder) -> None:
    storage.write_atomically(folder, "a", b"1")
    with s3.answering(ErrorAnswer(cut=True, methods=frozenset({"GET"})), for_ever=True), pytest.raises(LogUnreachable):
        storage.list_files(folder)
    assert [entry.name for entry in storage.list_files(folder)] == ["a"]


@pytest.mark.parametrize("answer", [ErrorAnswer(200, "InternalError"), ErrorAnswer(200, "SlowDown")])
def test_an_error_under_the_status_of_a_listing_has_passed(s3: S3, folder: Folder, answer: ErrorAnswer) -> None:
    with s3.answering(answer, for_ever=True), pytest.raises(LogUnreachable):
        storage.list_files(folder)


def test_a_file_that_ends_too_early_is_read_again_later(s3: S3, folder: Folder) -> None:
    storage.write_atomically(folder, "a", b"1")
    asks = all_requested(folder, FolderLog(folder))
    for name in ("read_file", "open_to_read"):
        with s3.answering(ErrorAnswer(cut=True, methods=frozenset({"GET"})), for_ever=True), pytest.raises(LogUnreachable):
            asks[name]()
    assert storage.read_file(folder, "a") == b"1"


def test_credentials_that_were_renewed_are_read_again(s3: S3, folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    here = open_folder(s3.uri(f"errors-{next(FOLDERS)}"))
    keys.write_text("[default]\naws_access_key_id = OLD\naws_secret_access_key = x\n")
    storage.write_atomically(here, "a", b"1")
    with s3.answering(ErrorAnswer(400, "ExpiredToken", signed_by="OLD"), for_ever=True):
        with pytest.raises(LogUnreachable):
            storage.read_file(here, "a")
        keys.write_text("[default]\naws_access_key_id = RENEWED\naws_secret_access_key = x\n")
        assert storage.read_file(here, "a") == b"1"


# ---- the fence ------------------------------------------------------------------------------------------------------


UNKNOWN = [(503, "SlowDown"), (500, "InternalError"), (409, "OperationAborted"), (400, "RequestTimeout")]


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(("status", "code"), UNKNOWN)
def test_a_commit_of_unknown_outcome_is_neither_won_nor_lost(s3: S3, folder: Folder, status: int, code: str, *, done: bool) -> None:
    """The next term reads from the log which of the two it is."""
    log = owner(folder, epoch=1)
    log.commit(manifest(0))
    with s3.answering(ErrorAnswer(status, code, done=done)), pytest.raises(LogUnreachable):
        log.commit(manifest(1))
    later = FolderLog(folder)
    last = later.recover(epoch=2)
    assert last is not None
    assert replace(last, previous="") == manifest(int(done))
    later.commit(manifest(1 + done, epoch=2))


@pytest.mark.parametrize(("status", "code"), [(500, "InternalError"), (429, "TooManyRequests")])
def test_a_commit_that_the_client_sent_twice_is_won_once(s3: S3, monkeypatch: pytest.MonkeyPatch, status: int, code: str) -> None:
    """The first PUT was carried out, so the second one meets the file of this very owner."""
    folder = asked(s3, monkeypatch, times=3)
    log = owner(folder, epoch=1)
    with s3.answering(ErrorAnswer(status, code, done=True)):
        log.commit(manifest(0))
    assert FolderLog(folder).recover(epoch=1) == manifest(0)


def test_a_previous_owner_whose_commit_is_tried_again_has_lost(s3: S3, folder: Folder) -> None:
    log = owner(folder, epoch=1)
    log.commit(manifest(0))
    owner(folder, epoch=2).commit(manifest(1, epoch=2))
    with s3.answering(ErrorAnswer(409, "ConditionalRequestConflict")), pytest.raises(LogTaken):
        log.commit(manifest(1))
    with s3.answering(ErrorAnswer(503, "SlowDown")), pytest.raises(LogUnreachable):
        log.commit(manifest(1))
    with pytest.raises(LogTaken):
        log.commit(manifest(1))
    there = from_json(storage.read_file(folder, manifest_name(Seq(1))), name="1")
    assert replace(there, previous="") == manifest(1, epoch=2)
