"""A real MySQL as the tests' shared server, for who has one: the program that `TICDC_DUMP_MYSQLD` names (9.7.4 was that of Debian
unstable's `mysql-server-core`, unpacked into a folder). It is for the tests of the SQL sink, `tests/integration/test_sql_*.py`; a rig's
source and a target of settings of its own stay MariaDB."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.services.mariadb import START_S_MAX, MariaDb

PROGRAM = os.environ.get("TICDC_DUMP_MYSQLD", "")
"""Of MySQL 8.4 or later; empty: the server is MariaDB."""

_NOT_MYSQLS = ("ssl", "key-buffer-size", "aria-pagecache-buffer-size", "innodb-log-file-size", "binlog-format")
_OWN: Mapping[str, str] = {
    "innodb-flush-method": "nosync", "innodb-doublewrite": "OFF", "innodb-redo-log-capacity": "32M",
    "mysqlx": "OFF", "secure-file-priv": "", "tls-version": "",
}  # fmt: skip


class MySql(MariaDb):
    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, settings={**_OWN, **(settings or {})})
        self._settings = {name: value for name, value in self._settings.items() if name not in _NOT_MYSQLS}

    def _command(self) -> list[str]:
        command = [PROGRAM, "--no-defaults", f"--datadir={self._data}"]
        return [*command, f"--user={pwd.getpwuid(os.getuid()).pw_name}"] if os.getuid() == 0 else command

    def _bootstrap(self) -> None:
        shutil.rmtree(self._data, ignore_errors=True)
        with self._log.open("ab") as log:
            command = [*self._command(), "--initialize-insecure"]
            done = subprocess.run(command, stdout=log, stderr=log, timeout=START_S_MAX, check=False)
        if done.returncode:
            raise RuntimeError(f"MySQL could not be initialised ({done.returncode}): {self._tail()}")
