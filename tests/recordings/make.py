"""Makes the compact copies beside this file of the whole recordings: python -m tests.recordings.make ../shared/recordings

What a copy holds, and what makes it small:

- Everything that tests or the product's replay read, in its original order and with every row. Left out, for nothing reads them: the
  storage sinks' folders, claim-check files, Kafka feeds in protocols that the product does not read, and the DDL jobs of a TiDB-Binlog's
  cluster once more as HTTP tells them.
- A recording tells the same rows many times: every feed, TiKV's messages, the entries made of them, each truth. So the files are stored
  plain (Parquet without compression and dictionaries, gzip without compression), and one LZMA stream over all of them finds the
  repetitions, which compression of each file by itself cannot.

The same source, pyarrow and liblzma give the same bytes. `--check` makes nothing: it holds the copies against the source, every table
of a Parquet file and every byte of the others.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

COMPACT = Path(__file__).resolve().parent
STREAMS = (
    "shop",
    "shop-new",
    "ddl",
    "ddl-new",
    "restart",
    "large",
    "rowformats",
    "filter",
    "tz",
    "binlog",
    "binlog-faults",
    "binlog-dups",
    "binlog-ddl2",
    "zero",
    "holes",
)
ANSWERS = "cluster"
"""Not a stream: two small files, copied as they are."""

PROTOCOLS_READ = {"open-protocol", "canal-json", "simple"}
FOLDERS_UNREAD = {"storage", "claim"}
FILES_UNREAD = {"ddl_history_http.json.gz"}
"""The jobs of ddl_history.jsonl as another door of TiDB tells them."""

LZMA = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 64 << 20}]
"""The dictionary reaches over the whole of the largest recording. Whoever unpacks needs as much memory."""

WHOLE = 1 << 30
"""One row group, one page."""


def kept_files(folder: Path) -> list[Path]:
    """Of one recording, in the order of the copy; relative to `folder`."""
    unread = set(_feeds_unread(folder))
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [path for path in paths if path.parts[0] not in FOLDERS_UNREAD and path.name not in FILES_UNREAD and path not in unread]


def _feeds_unread(folder: Path) -> Iterator[Path]:
    for feed in json.loads((folder / "recording.json").read_bytes()).get("feeds", {}).values():
        if isinstance(feed, str):  # `holes` has the changefeed's id alone, and no feed that is not read
            continue
        (protocol,) = parse_qs(urlsplit(feed["sink_uri"]).query)["protocol"]
        if feed["kind"] == "kafka" and protocol not in PROTOCOLS_READ:
            yield Path(feed["file"])


def plain(path: Path) -> bytes:
    """The same content, stored so that repetitions can be seen."""
    if path.suffix == ".gz":
        return gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=0, mtime=0)
    if path.suffix != ".parquet":
        return path.read_bytes()
    made = io.BytesIO()
    table = pq.read_table(path).combine_chunks()
    pq.write_table(
        table, made, compression="none", use_dictionary=False, write_statistics=False, row_group_size=WHOLE, data_page_size=WHOLE
    )
    return made.getvalue()


def pack(folder: Path) -> bytes:
    """One recording as an archive of `<name>/…`."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in kept_files(folder):
            data = plain(folder / path)
            entry = tarfile.TarInfo(f"{folder.name}/{path.as_posix()}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return lzma.compress(tar.getvalue(), check=lzma.CHECK_CRC64, filters=LZMA)


def differences(folder: Path, archive: bytes) -> Iterator[str]:
    """Where the copy does not hold what the recording holds."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:xz") as opened:
        result = {entry.name: opened.extractfile(entry) for entry in opened if entry.isfile()}
        for path in kept_files(folder):
            file = result.pop(f"{folder.name}/{path.as_posix()}", None)
            if file is None:
                yield f"{folder.name}/{path} is not in the copy"
            elif not _same(folder / path, file.read()):
                yield f"{folder.name}/{path} differs"
        yield from (f"{name} is in the copy alone" for name in result)


def _same(path: Path, copy: bytes) -> bool:
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes()) == gzip.decompress(copy)
    if path.suffix == ".parquet":
        return bool(pq.read_table(path).equals(pq.read_table(pa.BufferReader(copy)), check_metadata=True))
    return path.read_bytes() == copy


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.recordings.make")
    parser.add_argument("source", type=Path, help="the folder of the whole recordings")
    parser.add_argument("--to", type=Path, default=COMPACT, help="where the copies are (tests/recordings)")
    parser.add_argument("--check", action="store_true", help="make nothing, hold the copies against the source")
    parser.add_argument("names", nargs="*", default=[], help=f"some of {', '.join(STREAMS)}; none: all, and {ANSWERS}")
    given = parser.parse_intermixed_args(arguments)
    wrong = 0
    for name in given.names or STREAMS:
        copy = given.to / f"{name}.tar.xz"
        if not given.check:
            copy.write_bytes(pack(given.source / name))
        reported = list(differences(given.source / name, copy.read_bytes()))
        wrong += len(reported)
        print(f"{name}: {copy.stat().st_size:,} bytes", *reported, sep="\n  ")  # noqa: T201  (a command's output)
    for path in [] if given.names else sorted((given.source / ANSWERS).iterdir()):
        copy = given.to / ANSWERS / path.name
        if not given.check:
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(path.read_bytes())
        if copy.read_bytes() != path.read_bytes():
            wrong += 1
            print(f"{ANSWERS}/{path.name} differs")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
