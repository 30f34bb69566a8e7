"""A disk that is full, read-only, gone or failing, of area 4: every kind of write, and every answer of an operating system. A write that
failed leaves nothing behind, says whether waiting helps, and passes once the disk is well again.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.spill import FileSpill
from sidecar.shared.log.storage import local, log_folder, open_folder
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Rank, Seq
from tests.tools.hostile.attempts import Attempt, Fault, Outcome, refuses

PASSES = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EIO, errno.EINTR, errno.ESTALE),
    *(errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ECONNRESET),
)
"""It continues automatically when these have passed: room is made, a server comes back."""
STAYS = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EFBIG, errno.ENOTSUP, 9_999)
"""An operator has to do something."""
FILE_BYTES_MAX = 1_000
CHANGE = Change(CommitTs(1), Rank.PUT, "shop", "orders", b"k", b"v", Lane("kafka/orders/1"), 1)
MANIFEST = Manifest(
    Seq(0), 1, CommitTs(0), CommitTs(1), None, 0, 0, {}, "schemas/x.json", "canal-json", progress={"text": "x" * FILE_BYTES_MAX}
)
ROWS = pa.table({"id": [os.urandom(64).hex() for _ in range(1_000)]})
WRITES: dict[str, Callable[[FolderLog], object]] = {
    "rows": lambda log: log.write_data(
        Seq(0), epoch=1, codec="canal-json", changes=[CHANGE._replace(value=os.urandom(99)) for _ in range(1_000)]
    ),
    "a manifest": lambda log: log.commit(MANIFEST),
    "schemas": lambda log: log.write_schemas({}),
    "a chunk": lambda log: write_chunk(log.folder, "chunks/d/0000000001-00000001.parquet", ROWS),
}
PLACES: dict[str, str] = {
    "in /proc": "/proc/nowhere/log",
    "in /sys": "/sys/nowhere/log",
    "in a device": "/dev/null/log",
    "a device": "/dev/null",
    "a name of 300": "{folder}/" + "x" * 300,
    "a path of 5,000": "{folder}" + f"/{'x' * 250}" * 20,
    "NUL": "{folder}/a\0b",
    "a file": "{folder}/file",
    "in a file": "{folder}/file/log",
    "a link to nothing": "{folder}/dangling",
    "a link to itself": "{folder}/loop",
}


def attempts(folder: Path) -> Iterator[Attempt]:
    folder.mkdir()
    for what, write in WRITES.items():
        for number in (*PASSES, *STAYS):
            name = f"disk: {errno.errorcode.get(number, number)} of {what}"
            yield Attempt(name, partial(_failing, folder / f"{what}-{number}", write, number))
    (folder / "file").touch()
    (folder / "dangling").symlink_to("/proc/nowhere")
    (folder / "loop").symlink_to(folder / "loop")
    for name, place in PLACES.items():
        yield refuses(f"disk: a log in {name}", partial(_opened, Path(place.format(folder=folder))))
    for name, place in PLACES.items():
        yield refuses(f"disk: a spill in {name}", partial(_spilled, place.format(folder=folder)))
    yield Attempt("disk: files that may not grow", partial(_bounded, folder / "bounded"), within_s=60.0, inputs=len(WRITES), whole=True)


def _opened(path: Path) -> object:
    log = FolderLog(log_folder(str(path)))
    log.recover(epoch=1)
    return log.write_schemas({})


def _spilled(path: str) -> object:
    return list(FileSpill(path).write([CHANGE]))


def _failing(path: Path, write: Callable[[FolderLog], object], number: int) -> Outcome:
    log = FolderLog(open_folder(str(path)))
    log.recover(epoch=1)
    before = _files(path)
    with patch.object(local, "_sync_file", side_effect=OSError(number, os.strerror(number))):
        try:
            write(log)
        except TicdcDumpError as error:
            if error.retryable is not (number in PASSES):
                raise Fault(Outcome.FOREIGN, f"retryable is {error.retryable}: {error}") from None
        else:
            raise Fault(Outcome.ACCEPTED, "it says that it is durable")
    if _files(path) != before:
        raise Fault(Outcome.LEAK, f"left behind: {_files(path) - before}")
    write(log)
    return Outcome.REFUSED


def _files(path: Path) -> set[Path]:
    return {item for item in path.rglob("*") if item.is_file()}


BOUNDED = """
import resource, signal, sys
from pathlib import Path
from sidecar.shared.errors import TicdcDumpError
from tests.tools.hostile import disks
log = disks.FolderLog(disks.open_folder(sys.argv[1]))
log.recover(epoch=1)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writes = {name: write for name, write in disks.WRITES.items() if name != "schemas"}
for size in (0, disks.FILE_BYTES_MAX):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    for name, write in (writes if size else disks.WRITES).items():
        try:
            write(log)
        except TicdcDumpError:
            continue
        sys.exit(f"{name} was written into {size} bytes")
left = [path for path in Path(sys.argv[1]).rglob("*") if path.is_file() and path.name != "exclusive.probe"]
sys.exit(f"left behind: {left}" if left else 0)
"""


def _bounded(path: Path) -> Outcome:
    """Real writes that come short, by the bound that a shell sets with `ulimit -f`: in a process of its own, whose files it bounds."""
    done = subprocess.run([sys.executable, "-c", BOUNDED, str(path)], capture_output=True, text=True, timeout=50, check=False)
    if done.returncode != 0:
        raise Fault(Outcome.FOREIGN, done.stderr[-800:])
    return Outcome.REFUSED
