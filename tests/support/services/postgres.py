"""A real PostgreSQL where Debian's packages have installed one (`apt-get install postgresql`): for readers of what the product writes.

It does not run as root: its data are in a folder of their own, which belongs to the user `postgres` then.
"""

from __future__ import annotations

import csv
import io
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.services.ports import free_ports

START_S_MAX = 300.0
ANSWER_S_MAX = 300.0
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


class Postgres:
    """`with Postgres() as db`."""

    host, user, password = "127.0.0.1", "tester", "secret"
    NULL = "<NULL>"
    """Of `copied`."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Raises RuntimeError with what is missing, or with the end of its log."""
        if not PROGRAMS:
            raise RuntimeError("there is no PostgreSQL here: apt-get install postgresql")
        self._folder = folder = Path(tempfile.mkdtemp(prefix="pg-"))
        programs, account = PROGRAMS[-1].parent, tuple[str, ...]()
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            account = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
        command = [*account, str(programs / "initdb"), "-D", f"{folder}/data", "-U", self.user, "-A", "trust", "--no-sync", "-E", "UTF8"]
        done = subprocess.run([*command, "--locale=C"], capture_output=True, text=True, timeout=START_S_MAX, check=False, cwd=folder)
        if done.returncode:
            raise RuntimeError(f"PostgreSQL could not be initialised: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        settings = {"port": str(self.port), "listen_addresses": self.host, "unix_socket_directories": str(folder), "fsync": "off"}
        command = [*account, str(programs / "postgres"), "-D", f"{folder}/data", *(f"--{name}={value}" for name, value in settings.items())]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
        deadline_s = time.monotonic() + START_S_MAX
        while self._psql("SELECT 1").returncode:
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                log_text = (folder / "log").read_text()[-2000:]
                self.__exit__()
                raise RuntimeError(f"PostgreSQL does not start: {log_text}")
            time.sleep(0.1)  # only its answer shows it
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def csv(self, query: str) -> list[list[str]]:
        """NULL is an empty text."""
        return list(csv.reader(io.StringIO(self._answer(query, options=("--csv", "-t")))))

    def copied(self, query: str) -> str:
        """As `COPY … TO STDOUT` writes CSV, in UTC, NULL as `NULL`."""
        return self._answer("SET TIME ZONE 'UTC'", f"COPY ({query}) TO STDOUT (FORMAT csv, NULL '{self.NULL}')")

    def _answer(self, *statements: str, options: Sequence[str] = ()) -> str:
        done = self._psql(*statements, options=options)
        if done.returncode:
            raise RuntimeError(f"{statements}: {done.stderr}")
        return done.stdout

    def _psql(self, *statements: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        command = ["psql", "-X", "-q", "-h", self.host, "-p", str(self.port), "-U", self.user, "-d", "postgres", *options]
        command += [f"--command={statement}" for statement in ("\\set ON_ERROR_STOP on", *statements)]
        return subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S_MAX, check=False)
