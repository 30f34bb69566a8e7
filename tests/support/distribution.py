"""`make dist`: the wheel and the source distribution, of the tracked files of this folder; byte for byte the same wherever they are built.

    python -m tests.support.distribution FOLDER      builds both twice, compares them, and writes them to FOLDER

- Only tracked files are built, as they are in the folder. Each has the time of the last commit and a mode that git knows.
- The wheel is built from the source distribution, so that gives the same wheel.
- setuptools writes the time and the owner of the build into the archive; `_settled` takes them out.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
_BUILD = """
import os, sys
from setuptools import build_meta
os.umask(0o022)
getattr(build_meta, f"build_{sys.argv[1]}")(sys.argv[2])
"""


class Differing(Exception):
    """Two builds of the same files are not the same."""


def epoch() -> int:
    """Seconds since 1970 of the last commit."""
    return int(_git("log", "-1", "--format=%ct"))


def tracked() -> list[Path]:
    """Relative to the repository; what is removed and not committed is none."""
    return [Path(name) for name in _git("ls-files", "-z").split("\0") if name and (ROOT / name).is_file()]


def build(source: Path, out: Path) -> tuple[Path, Path]:
    """Source distribution and wheel, in `out`. `source`: a new folder, for what they are made of."""
    for name in tracked():
        place = source / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes((ROOT / name).read_bytes())
        place.chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)
    run_backend("sdist", source, out)
    (sdist,) = out.glob("*.tar.gz")
    _settled(sdist)
    with TemporaryDirectory() as unpacked:
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        (folder,) = Path(unpacked).iterdir()
        run_backend("wheel", folder, out)
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def run_backend(what: str, source: Path, out: Path) -> None:
    """`what`: wheel or sdist. Raises RuntimeError with what the build printed."""
    out.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch())}
    command = [sys.executable, "-W", "ignore", "-c", _BUILD, what, str(out.resolve())]
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


def _settled(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        parts = [(part, archive.extractfile(part)) for part in sorted(archive.getmembers(), key=lambda part: part.name)]
        texts = [(part, b"" if text is None else text.read()) for part, text in parts]
    with gzip.GzipFile(sdist, "wb", mtime=epoch()) as packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for part, text in texts:
            one = tarfile.TarInfo(part.name)
            one.type, one.size, one.mode, one.mtime = part.type, len(text), 0o755 if part.mode & 0o100 else 0o644, epoch()
            archive.addfile(one, io.BytesIO(text))


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main(out: Path) -> None:
    with TemporaryDirectory() as place:
        first = build(Path(place, "here"), Path(place, "first"))
        again = build(Path(place, "somewhere", "else"), Path(place, "again"))
        if wrong := [one.name for one, other in zip(first, again, strict=True) if one.read_bytes() != other.read_bytes()]:
            raise Differing(f"two builds of the same files differ: {', '.join(wrong)}")
        out.mkdir(parents=True, exist_ok=True)
        for one in first:
            (out / one.name).write_bytes(one.read_bytes())
            print(f"{out / one.name}: {one.stat().st_size:,} bytes")  # noqa: T201  # a command


if __name__ == "__main__":
    main(Path(sys.argv[1]))
