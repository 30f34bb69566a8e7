from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import IO, Any, ClassVar

import pytest
from aiohttp import ClientPayloadError
from botocore.exceptions import (  # type: ignore[import-untyped]  # botocore ships no types
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    MetadataRetrievalError,
    NoCredentialsError,
    ReadTimeoutError,
)
from fsspec.asyn import get_loop

from sidecar.shared.errors import ConfigError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import (
    Folder,
    bare,
    create_exclusively,
    list_names,
    local,
    memory,
    new_file,
    new_files,
    read_file,
    read_files,
    remove,
    s3,
    write_atomically,
)
from sidecar.shared.log.storage.dispatch import _BACKENDS, FILES_ENDED_AT_ONCE_MAX
from sidecar.shared.process.kept_secrets import variable
from tests.support.eventually import PATIENCE_S


def open_folder(url: str) -> Folder:
    """As it is before it is anybody's: the storage's own errors."""
    return storage.open_folder(url).opened_for(bare)


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """Of a name that a glob would misread. S3 is in tests/contract/test_segment_log.py."""
    return open_folder(str(tmp_path / "a[1]*") if request.param == "local" else f"memory://storage{tmp_path}")


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "protocol", "root"),
    [
        ("/var/log/x/", "file", "/var/log/x"),
        ("relative/x", "file", "relative/x"),
        ("file:///var/log/x", "file", "/var/log/x"),
        ("s3://bucket/pre/fix/", "s3", "bucket/pre/fix"),
        ("s3://bucket", "s3", "bucket"),
        ("memory://x/y", "memory", "x/y"),
    ],
)
def test_a_url_names_a_folder(url: str, protocol: str, root: str) -> None:
    result = open_folder(url)
    assert (result.protocol, result.root) == (protocol, root)
    assert result.path("n") == f"{root}/n"
    assert pickle.loads(pickle.dumps(result)) == result


def test_secrets_are_not_shown() -> None:
    result = open_folder("s3://b/p?access-key=AKIA&secret-access-key=hush&endpoint=http://e:1&region=r&format=csv")
    assert result.options["client_kwargs"] == {"endpoint_url": "http://e:1", "region_name": "r"}
    assert "hush" not in f"{result} {result!r}"
    assert "hush" not in str(pickle.loads(pickle.dumps(result)).options)


def test_a_url_s_secret_is_known_where_it_was_read_and_to_processes_started_after_that() -> None:
    result = open_folder("s3://b/p?access-key=A.K-1&secret-access-key=hush&endpoint=http://e:1&region=r")
    assert (s3.fs(result).key, s3.fs(result).secret) == ("A.K-1", "hush")
    command = "import pickle, sys; from sidecar.shared.log.storage import s3; print(s3.fs(pickle.load(sys.stdin.buffer)).secret)"
    reported = subprocess.run(
        [sys.executable, "-c", command], input=pickle.dumps(result), capture_output=True, timeout=PATIENCE_S, check=True
    )
    assert reported.stdout.decode().strip() == "hush"


def test_a_process_without_the_secret_says_whose_it_is_and_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    result = open_folder("s3://b/p?access-key=AKIB&secret-access-key=hush")
    monkeypatch.delenv(variable("s3", "AKIB"))
    with pytest.raises(ConfigError, match="secret of access key AKIB is not known") as refused:
        read_file(result, "x")
    assert "out of the URIs" in refused.value.hint


# ---- reading and writing ----------------------------------------------------------------------------------------------


def test_what_is_written_is_read_listed_and_removed(folder: Folder) -> None:
    assert list_names(folder, deep=True) == []
    write_atomically(folder, "b", b"1")
    write_atomically(folder, "deep/er/a", b"2")
    write_atomically(folder, "b", b"3")
    assert read_file(folder, "b") == b"3"
    assert read_files(folder, ["b", "nothing", "deep/er/a"]) == {"b": b"3", "deep/er/a": b"2"}
    assert list_names(folder, deep=False) == ["b"]
    assert list_names(folder, deep=True) == ["b", "deep/er/a"]
    assert storage.exists(folder, "b")
    remove(folder, ["nothing", "b"])
    assert not storage.exists(folder, "b")
    assert list_names(folder, deep=True) == ["deep/er/a"]
    with pytest.raises(FileNotFoundError):
        read_file(folder, "b")


def test_a_file_that_fails_half_way_is_not_there_and_the_old_one_stays(folder: Folder) -> None:
    write_atomically(folder, "a", b"old")

    def interrupted() -> None:
        with new_file(folder, "a") as file:
            file.write(b"new" * 100_000)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert read_file(folder, "a") == b"old"
    assert list_names(folder, deep=True) == ["a"]


def test_only_the_first_creates(folder: Folder) -> None:
    assert create_exclusively(folder, "new/a", b"first")
    assert not create_exclusively(folder, "new/a", b"second")
    assert create_exclusively(folder, "new/a", b"first"), "equal bytes are the same writer's repeat"
    assert read_file(folder, "new/a") == b"first"
    assert list_names(folder, deep=True) == ["new/a"]


def test_folders_are_distinguished_from_files(folder: Folder) -> None:
    with pytest.raises(storage.Absent):
        storage.list_folders(folder)
    for name in ("a", "x/a", "x/y/a", "z/a"):
        write_atomically(folder, name, b"1")
    assert storage.list_folders(folder) == ["x", "z"]


def test_a_file_is_read_from_any_place_in_it(folder: Folder) -> None:
    write_atomically(folder, "x/a", b"0123456789")
    with storage.open_to_read(folder, "x/a") as file:
        file.seek(-3, os.SEEK_END)
        assert file.read() == b"789"
        file.seek(1)
        assert file.read(2) == b"12"
    with pytest.raises(storage.Absent), storage.open_to_read(folder, "x/b"):
        pass


def test_files_written_in_order_are_all_there(folder: Folder) -> None:
    storage.write_in_order(folder, [("x/b", b"1"), ("x/a", b"2")])
    assert read_files(folder, list_names(folder, deep=True)) == {"x/a": b"2", "x/b": b"1"}
    storage.make_durable(folder, ["x/a", "x/b"])


def test_a_relative_folder_is_listed_by_relative_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atomically(open_folder("log"), "x/a", b"1")
    assert list_names(open_folder("log"), deep=True) == ["x/a"]


def test_temporary_names_are_known_and_hidden(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path))
    with new_file(folder, "x/a.parquet") as file:
        file.write(b"1")
        (name,) = list_names(folder, deep=True)
    assert storage.is_temporary(name)
    assert name.startswith("x/.")
    assert not storage.is_temporary("x/a.parquet")


def test_a_copy_is_the_file_under_another_name_and_takes_no_ones_place(folder: Folder) -> None:
    storage.write_all(folder, {"a": b"1", "x/b": b"2"})
    storage.copy_files(folder, [("a", "y/1"), ("x/b", "y/2"), ("a", "z/1")])
    storage.copy_files(folder, [("a", "y/2")])
    storage.remove(folder, ["a", "x/b"])
    assert read_files(folder, ["y/1", "y/2", "z/1"]) == {"y/1": b"1", "y/2": b"2", "z/1": b"1"}
    with pytest.raises(storage.Absent):
        storage.copy_files(folder, [("a", "y/3")])


def test_a_storage_whose_writes_are_not_known_is_refused() -> None:
    for write in (write_atomically, create_exclusively):
        with pytest.raises(OSError, match="not known here") as refused:
            write(Folder("github", "x", meaning=bare), "a", b"")
        assert refused.value.errno == errno.ENOTSUP


# ---- durability: the calls and their order ------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that durability rests on, in order, and whether they met a file or a folder."""
    seen: list[str] = []

    def watch(name: str) -> None:
        real: Callable[..., Any] = getattr(os, name)

        def call(*args: Any) -> Any:
            kind = ("folder" if os.path.isdir(f"/proc/self/fd/{args[0]}") else "file") if name == "fsync" else ""
            seen.append(f"{name} {kind}".strip())
            return real(*args)

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "replace", "link"):
        watch(name)
    return seen


def test_a_replaced_file_is_durable_before_and_its_name_after(tmp_path: Path, calls: list[str]) -> None:
    write_atomically(open_folder(str(tmp_path)), "a", b"1")
    assert calls == ["fsync file", "replace", "fsync folder"]


def test_a_created_file_is_durable_before_and_its_name_after(tmp_path: Path, calls: list[str]) -> None:
    create_exclusively(open_folder(str(tmp_path)), "a", b"1")
    assert calls == ["fsync file", "link", "fsync folder"]


def test_new_folders_are_durable_too(tmp_path: Path, calls: list[str]) -> None:
    write_atomically(open_folder(str(tmp_path)), "x/y/a", b"1")
    assert calls == ["fsync folder", "fsync folder", "fsync file", "replace", "fsync folder"]


# ---- errors -------------------------------------------------------------------------------------------------------------


def client_error(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "the text says nothing"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "X")


def as_s3fs_raises(code: str, status: int = 400) -> OSError:
    error = OSError(errno.EIO, "the text says nothing")
    error.__cause__ = client_error(code, status)
    return error


ERRORS_OF_THE_SYSTEM = [
    (OSError(errno.ENOSPC, ""), storage.Full),
    (OSError(errno.EDQUOT, ""), storage.Full),
    (ConnectionRefusedError(), storage.Unreachable),
    (TimeoutError(), storage.Unreachable),
    (OSError(errno.EHOSTUNREACH, "no route"), storage.Unreachable),
    (OSError(errno.ESTALE, "the server forgot it"), storage.Unreachable),
    (OSError(errno.ENOENT, "gone"), storage.Absent),
    (FileNotFoundError(), storage.Absent),
    (OSError(errno.EACCES, "not allowed"), storage.Refused),
    (OSError(errno.EIO, "No space left"), storage.Unreachable),
    (OSError("of nothing"), storage.Refused),
]
TRANSIENT = [
    ("TooManyRequests", 429),
    ("429", 429),
    ("SlowDown", 503),
    ("SlowDown", 400),
    ("Throttling", 400),
    ("ThrottlingException", 400),
    ("RequestLimitExceeded", 503),
    ("BandwidthLimitExceeded", 509),
    ("RequestTimeout", 400),
    ("RequestTimeout", 408),
    ("RequestTimeTooSkewed", 403),
    ("ExpiredToken", 400),
    ("TokenRefreshRequired", 400),
    ("OperationAborted", 409),
    ("ConditionalRequestConflict", 409),
    ("BadDigest", 400),
    ("IncompleteBody", 400),
]
REFUSED = [("AccessDenied", 403), ("InvalidAccessKeyId", 403), ("SignatureDoesNotMatch", 403), ("Nonsense", 400), ("409", 409)]
ERRORS_OF_S3 = [
    *ERRORS_OF_THE_SYSTEM,
    (as_s3fs_raises("XMinioStorageFull", 507), storage.Full),
    (as_s3fs_raises("QuotaExceeded", 403), storage.Full),
    (as_s3fs_raises("Unheard", 507), storage.Full),
    (client_error("XMinioStorageFull", 400), storage.Full),
    (EndpointConnectionError(endpoint_url="http://s3"), storage.Unreachable),
    (ReadTimeoutError(endpoint_url="http://s3"), storage.Unreachable),
    (client_error("SlowDown", 503), storage.Unreachable),
    (as_s3fs_raises("InternalError", 500), storage.Unreachable),
    *((as_s3fs_raises(code, status), storage.Unreachable) for code, status in TRANSIENT),
    (client_error("RequestTimeTooSkewed", 403), storage.Unreachable),
    (ClientPayloadError("the body ended too early"), storage.Unreachable),
    *((as_s3fs_raises(code, status), storage.Refused) for code, status in REFUSED),
    (client_error("AccessDenied", 403), storage.Refused),
    (NoCredentialsError(), storage.Refused),
    (CredentialRetrievalError(provider="sso", error_msg="timed out"), storage.Unreachable),
    (MetadataRetrievalError(error_msg="timed out"), storage.Unreachable),
    (client_error("IDPCommunicationError", 400), storage.Unreachable),
]


def all_calls(folder: Folder) -> dict[str, Callable[[], object]]:
    """Whatever a back end can be asked for."""

    def read() -> None:
        with storage.open_to_read(folder, "a") as file:
            file.read()

    return {
        "list_names": lambda: storage.list_names(folder, deep=True),
        "list_files": lambda: storage.list_files(folder),
        "list_changes": lambda: storage.list_changes(folder, None),
        "list_folders": lambda: storage.list_folders(folder),
        "exists": lambda: storage.exists(folder, "a"),
        "read_file": lambda: storage.read_file(folder, "a"),
        "open_to_read": read,
        "new_file": lambda: storage.write_atomically(folder, "a", b"1"),
        "write_in_order": lambda: storage.write_in_order(folder, [("a", b"1")]),
        "create": lambda: storage.create_exclusively(folder, "a", b"1"),
        "remove": lambda: storage.remove(folder, ["a"]),
    }


CALLS = tuple(all_calls(Folder("file", "")))


def reported(call: Callable[[], object]) -> type[Exception]:
    with pytest.raises(storage.StorageError) as raised:
        call()
    return raised.type


@pytest.mark.parametrize(("error", "kind"), ERRORS_OF_THE_SYSTEM)
def test_a_local_error_is_reported_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, kind: type[storage.StorageError]
) -> None:
    def fails(*_: object) -> None:
        raise error

    folder = open_folder(str(tmp_path))
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(kind) as raised:
        write_atomically(folder, "a", b"1")
    assert raised.type is kind
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("name", CALLS)
def test_whatever_fails_in_a_local_folder_ends_in_an_error_of_the_storage(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("a file where the folder should be")
    assert reported(all_calls(open_folder(f"{tmp_path}/file"))[name]) is storage.Refused


def every_operation(folder: Folder) -> dict[str, Callable[[], object]]:
    """`all_calls`, and those that are made of several of a back end's."""

    def new() -> None:
        with new_files(folder) as new_file, new_file("a"):
            pass

    return all_calls(folder) | {
        "read_files": lambda: read_files(folder, ["a", "b"]),
        "read_if_there": lambda: storage.read_if_there(folder, "a"),
        "read_start": lambda: storage.read_start(folder, "a", 1),
        "new_files": new,
        "make_durable": lambda: storage.make_durable(folder, ["a"]),
        "write_all": lambda: storage.write_all(folder, {"a": b"1"}),
        "copy_files": lambda: storage.copy_files(folder, [("a", "b")]),
        "keeps_exclusive": lambda: storage.keeps_exclusive(folder, "a"),
        "volume_bytes": lambda: storage.volume_bytes(folder),
        "is_old_temporary": lambda: storage.is_old_temporary(folder, ".a.tmp"),
    }


def test_of_every_operation_there_is_a_call() -> None:
    of_names = {"bare", "by_errno", "is_temporary", "log_error", "log_folder", "open_folder"}
    functions = {name for name in storage.__all__ if name[0].islower()} - of_names
    assert functions == {*every_operation(Folder("file", "")), "write_atomically", "create_exclusively"} - {"create"}


@pytest.mark.parametrize("name", every_operation(Folder("file", "")))
def test_an_error_of_any_operation_is_what_it_means_to_the_reader_of_the_folder(name: str) -> None:
    causes = list[storage.StorageError]()

    def meaning(place: object, _: str, error: Exception) -> Exception:
        assert str(place) == "github://x"
        assert isinstance(error, storage.Refused)
        causes.append(error)
        return LookupError("to this reader")

    with pytest.raises(LookupError) as raised:
        every_operation(Folder("github", "x", meaning=meaning))[name]()
    assert [raised.value.__cause__] == causes


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("error", "kind"), ERRORS_OF_S3)
def test_an_error_of_s3_is_reported_by_its_code(
    fake_s3: Callable[[object], Folder], error: Exception, kind: type[storage.StorageError], name: str
) -> None:
    call = all_calls(fake_s3(BrokenS3(error)))[name]
    if name == "exists" and kind is storage.Absent:
        assert call() is False, "that a file is not there is an answer"
    else:
        assert reported(call) is kind


class BrokenS3:
    """An S3 of which every call fails."""

    loop = get_loop()

    def __init__(self, error: Exception) -> None:
        self.error = error

    def split_path(self, path: str) -> tuple[str, str, None]:
        return "b", path, None

    def __getattr__(self, _: str) -> Callable[..., None]:
        def fails(*_: object, **__: object) -> None:
            raise self.error

        return fails


class FakeS3:
    """An S3 that answers with `errors` first."""

    undeleted: ClassVar[dict[str, str]] = {"refused": "AccessDenied", "busy": "SlowDown", "broken": "InternalError"}

    def __init__(self, errors: list[OSError], *, kept: bytes | None) -> None:
        self.errors, self.kept = iter(errors), kept
        self.asked = 0

    def pipe_file(self, path: str, data: bytes, *, mode: str) -> None:
        assert mode == "create"
        self.asked += 1
        for error in self.errors:
            raise error
        self.kept = data

    def cat_file(self, path: str, *, max_concurrency: int) -> bytes:
        assert max_concurrency == 1, "one request for a small file"
        if self.kept is None:
            raise FileNotFoundError(path)
        return self.kept

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.partition("/")
        return bucket, key, None

    def call_s3(self, method: str, **requested: Any) -> dict[str, Any]:
        keys = [item["Key"] for item in requested["Delete"]["Objects"]]
        return {"Errors": [{"Key": key, "Code": self.undeleted[key]} for key in keys if key in self.undeleted]}


@pytest.fixture
def fake_s3(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], Folder]:
    def use(fake: object) -> Folder:
        monkeypatch.setattr(s3, "fs", lambda _: fake)
        return Folder("s3", "b", meaning=bare)

    return use


TAKEN = [FileExistsError(errno.EEXIST, ""), as_s3fs_raises("PreconditionFailed", 412), as_s3fs_raises("412", 412)]


@pytest.mark.parametrize("error", TAKEN)
def test_a_lost_answer_is_found_by_reading_back(fake_s3: Callable[[object], Folder], error: OSError) -> None:
    assert create_exclusively(fake_s3(FakeS3([error], kept=b"mine")), "a", b"mine")


@pytest.mark.parametrize("error", TAKEN)
def test_a_refused_put_is_another_writers(fake_s3: Callable[[object], Folder], error: OSError) -> None:
    assert not create_exclusively(fake_s3(FakeS3([error], kept=b"theirs")), "a", b"mine")
    assert not create_exclusively(fake_s3(FakeS3([error], kept=None)), "a", b"mine"), "theirs, and removed since"


def test_a_put_that_met_another_in_flight_is_sent_again(fake_s3: Callable[[object], Folder]) -> None:
    fake = FakeS3([as_s3fs_raises("ConditionalRequestConflict", 409)] * 2, kept=None)
    assert create_exclusively(fake_s3(fake), "a", b"mine")
    assert fake.asked == 3


def test_a_put_that_meets_others_for_ever_can_be_tried_again(fake_s3: Callable[[object], Folder]) -> None:
    fake = FakeS3([as_s3fs_raises("ConditionalRequestConflict", 409)] * 99, kept=None)
    with pytest.raises(storage.Unreachable, match="says nothing"):
        create_exclusively(fake_s3(fake), "a", b"mine")
    assert fake.asked == s3.CONFLICT_TRIES


def test_another_error_of_s3_is_raised(fake_s3: Callable[[object], Folder]) -> None:
    with pytest.raises(OSError, match="says nothing"):
        create_exclusively(fake_s3(FakeS3([as_s3fs_raises("AccessDenied", 403)], kept=None)), "a", b"mine")


def test_an_object_that_s3_does_not_delete_is_an_error(fake_s3: Callable[[object], Folder]) -> None:
    folder = fake_s3(FakeS3([], kept=None))
    remove(folder, [f"n{number}" for number in range(2500)])
    for name in ("busy", "broken"):
        with pytest.raises(storage.Unreachable, match=f"did not delete 1 objects: {FakeS3.undeleted[name]}"):
            remove(folder, ["a", name])
    with pytest.raises(storage.Refused, match="did not delete 2 objects: SlowDown, busy"):
        remove(folder, ["a", "busy", "refused"])


def test_memory_is_one_for_the_whole_process_and_reports_what_is_not_there() -> None:
    """Two folders of one URL are the same: a former owner and the next one."""
    one, other = open_folder("memory://shared/out"), open_folder("memory://shared/out")
    assert memory.create(one, "a", b"1")
    assert not memory.create(other, "a", b"2")
    assert memory.read_file(other, "a") == b"1"
    memory.remove(one, ["a"])
    with pytest.raises(storage.Absent):
        memory.read_file(other, "a")


# ---- many files ------------------------------------------------------------------------------------------------------


class FarAway:
    """The memory's back end, as one that waits for the network: of `together` files the ends wait for each other."""

    READS_AT_ONCE_MAX = 16

    def __init__(self, together: int, broken: str = "") -> None:
        self.meeting, self.broken = Barrier(together, timeout=PATIENCE_S), broken
        self.held: set[str] = set()
        self.held_max = 0

    @contextmanager
    def new_file(self, folder: Folder, name: str, *, durable: bool) -> Iterator[IO[bytes]]:
        with memory.new_file(folder, name, durable=durable) as file:
            self.held.add(name)
            self.held_max = max(self.held_max, len(self.held))
            yield file
            self.meeting.wait()
            if name == self.broken:
                raise storage.Unreachable("gone")
        self.held.remove(name)


def write_files(folder: Folder, names: Iterable[str], *, failing_at: str = "") -> None:
    with new_files(folder) as new_file:
        for name in names:
            with new_file(name) as file:
                file.write(name.encode())
                if name == failing_at:
                    raise ZeroDivisionError


def test_ends_of_files_far_away_wait_side_by_side_and_so_many_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    far = FarAway(FILES_ENDED_AT_ONCE_MAX)
    monkeypatch.setitem(_BACKENDS, "memory", far)
    folder = open_folder("memory://far")
    names = [f"{number}" for number in range(3 * FILES_ENDED_AT_ONCE_MAX)]
    write_files(folder, names)
    assert far.held_max <= FILES_ENDED_AT_ONCE_MAX
    assert {name: memory.read_file(folder, name) for name in names} == {name: name.encode() for name in names}


def test_a_file_far_away_that_does_not_end_is_reported_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_BACKENDS, "memory", FarAway(1, broken="b"))
    folder = storage.open_folder("memory://far").opened_for(lambda _, name, error: LookupError(f"{name}: {error}"))
    with pytest.raises(LookupError, match="b: gone"):
        write_files(folder, "abc")


def test_a_file_far_away_is_given_up_where_its_writer_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_BACKENDS, "memory", FarAway(1))
    folder = open_folder("memory://given-up")
    with pytest.raises(ZeroDivisionError):
        write_files(folder, ["whole", "half"], failing_at="half")
    assert memory.list_names(folder, deep=True, beginning="") == ["whole"]


def test_files_of_a_disk_are_durable_when_the_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(local, "make_durable", lambda _, names: synced.extend(names))
    with new_files(open_folder(str(tmp_path))) as new_file:
        for name in ("a", "b"):
            with new_file(name):
                pass
        assert not synced
    assert synced == ["a", "b"]
