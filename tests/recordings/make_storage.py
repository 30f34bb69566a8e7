"""Makes storage.tar.xz beside this file: python -m tests.recordings.make_storage ../shared/recordings

What TiCDC's own storage sink wrote to csv folders, which the compact copies of the recordings leave out: of `tz` all, of `ddl` (classic)
and `ddl-new` (new architecture) the schema files, indexes and checkpoints. In the archive a path is `{recording}/{path in storage-csv}`.
"""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

WHOLE, SCHEMAS = ("tz",), ("ddl", "ddl-new")
ARCHIVE = Path(__file__).with_name("storage.tar.xz")


def kept(recordings: Path) -> Iterator[tuple[str, bytes]]:
    for name in (*WHOLE, *SCHEMAS):
        folder = recordings / name / "storage" / "storage-csv"
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            if name in WHOLE or path.suffix != ".csv":
                yield f"{name}/{path.relative_to(folder)}", path.read_bytes()


def main(recordings: Path) -> None:
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for path, data in kept(recordings):
            about = tarfile.TarInfo(path)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
