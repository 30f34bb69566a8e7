"""A real MariaDB 11.4 in a folder of its own: the stand-in for TiDB that speaks its protocol and writes a binlog.

The binlog is what the live rig publishes as a changefeed would: whole rows with column names (`binlog_row_metadata=FULL`).
The account `user` may do everything from anywhere; it is made by the init file, which runs at each start.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymysql

from sidecar.shared.config import SourceSection
from tests.support.services.freezing import freeze
from tests.support.services.jars import mariadb_home
from tests.support.services.ports import free_ports

START_S_MAX = 600.0
STOP_S_MAX = 300.0

_SETTINGS: Mapping[str, str] = {
    "skip-name-resolve": "ON",
    "character-set-server": "utf8mb4",
    "collation-server": "utf8mb4_bin",
    "default-time-zone": "+00:00",
    "sql-mode": "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
    "max-allowed-packet": "64M",
    "max-connections": "200",
    "ssl": "OFF",
    "innodb-buffer-pool-size": "48M",
    "innodb-log-file-size": "32M",
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-stats-on-metadata": "OFF",
    "performance-schema": "OFF",
    "key-buffer-size": "1M",
    "aria-pagecache-buffer-size": "1M",
    "server-id": "1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "sync-binlog": "0",
}
"""sql-mode is TiDB's default. Buffers are small: several servers share a test machine. Without ssl OFF each start makes a key
and a certificate, which costs seven seconds of CPU."""


class MariaDb:
    """`with MariaDb(folder) as db`. Data are in `folder`; the socket is not: its path must be shorter than pytest's folders. Nor
    are temporary tables in the system's folder, where one server would remove another's.

    `settings` are more of mariadbd's, or others.
    """

    host = "127.0.0.1"
    user = "tester"
    password = "p@ss:w/ord #1%"

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self._settings = {**_SETTINGS, **(settings or {})}
        self._home = mariadb_home()
        self._process: subprocess.Popen[bytes] | None = None
        self._short: Path | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        if self._short is not None:
            shutil.rmtree(self._short, ignore_errors=True)
            self._short = None

    @property
    def runs(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None, "MariaDB is not running"
        return self._process.pid

    def start(self) -> None:
        """Start over what is in the folder and wait until it answers. Raises RuntimeError with the end of its log."""
        assert self._process is None, "MariaDB is running"
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self._data / "mysql").is_dir():
            self._bootstrap()
        self._short = self._short or Path(tempfile.mkdtemp(prefix="mdb-"))
        command = [*self._command(), f"--port={self.port}", f"--bind-address={self.host}", f"--socket={self._short / 's'}"]
        command += [f"--pid-file={self._short / 'pid'}", f"--tmpdir={self._short}", f"--init-file={self._write_accounts()}"]
        command += [f"--{name}={value}" for name, value in self._settings.items()]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Gracefully (SIGTERM)."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL; nothing if it is not running."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        freeze(self.pid)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        """A new connection with autocommit; `options` are pymysql's and win."""
        account: dict[str, Any] = {"host": self.host, "port": self.port, "user": self.user, "password": self.password}
        return pymysql.connect(**{**account, "charset": "utf8mb4", "autocommit": True, "max_allowed_packet": 64 << 20, **options})

    def execute(self, *statements: str) -> tuple[tuple[Any, ...], ...]:
        """Carry out the statements on a connection of their own; the rows of the last one."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return tuple(cursor.fetchall())

    def settings(self, **options: Any) -> SourceSection:
        """The sidecar's `source` section for this server; `options` are its other settings and win."""
        secret = self.folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o600)
        account = {"host": self.host, "port": self.port, "user": self.user, "password_file": str(secret)}
        return SourceSection(**{**account, **options})

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _log(self) -> Path:
        return self.folder / "mariadb.log"

    def _command(self) -> list[str]:
        """`--no-defaults` first: nothing of this machine's own MySQL settings gets in."""
        share = self._home / "share"
        command = [str(self._home / "bin" / "mariadbd"), "--no-defaults", f"--basedir={self._home}", f"--datadir={self._data}"]
        command += [f"--lc-messages-dir={share}", f"--character-sets-dir={share / 'charsets'}", "--innodb-undo-tablespaces=0"]
        return [*command, f"--user={pwd.getpwuid(os.getuid()).pw_name}"] if os.getuid() == 0 else command

    def _bootstrap(self) -> None:
        """What mariadb-install-db does, without the help tables and the sys schema."""
        fresh = self.folder / "data.tmp"
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(self._data, ignore_errors=True)
        fresh.mkdir()
        scripts = ("mariadb_system_tables.sql", "mariadb_performance_tables.sql", "mariadb_system_tables_data.sql")
        head = "create database mysql;\nuse mysql;\nset @auth_root_socket=NULL;\n"
        sql = head.encode() + b"\n".join((self._home / "share" / name).read_bytes() for name in scripts)
        command = [part if not part.startswith("--datadir=") else f"--datadir={fresh}" for part in self._command()]
        command.append(f"--tmpdir={self.folder}")  # not the system's: a server that starts removes the temporary tables of all others
        with self._log.open("ab") as log:
            done = subprocess.run([*command, "--bootstrap"], input=sql, stdout=log, stderr=log, timeout=START_S_MAX, check=False)
        if done.returncode:
            raise RuntimeError(f"MariaDB could not be initialised ({done.returncode}): {self._tail()}")
        fresh.rename(self._data)

    def _write_accounts(self) -> Path:
        accounts = self.folder / "accounts.sql"
        password = self.password.replace("'", "''")
        create = f"create user if not exists '{self.user}'@'%' identified by '{password}';\n"
        accounts.write_text(f"{create}grant all on *.* to '{self.user}'@'%' with grant option;\n")
        return accounts

    def _wait_until_it_answers(self) -> None:
        give_up = time.monotonic() + START_S_MAX
        while True:
            assert self._process is not None
            if self._process.poll() is not None:
                status, self._process = self._process.returncode, None
                raise RuntimeError(f"MariaDB ended with {status}: {self._tail()}")
            try:
                self.connect(connect_timeout=2).close()
                return
            except pymysql.err.OperationalError as error:
                if time.monotonic() > give_up:
                    self.kill()
                    raise RuntimeError(f"MariaDB did not answer in {START_S_MAX:.0f} s: {self._tail()}") from error
            time.sleep(0.05)  # there is no event when a port opens

    def _end(self, with_signal: signal.Signals) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(with_signal)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S_MAX)

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""
