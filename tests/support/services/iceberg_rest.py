"""A real REST catalog: Apache Iceberg's own server for tests, which has its tables in SQLite and writes metadata files itself.

It can be killed, frozen and started again over what it had, at one port. It listens at every address of the machine, which no setting
changes.
"""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from tests.support.services.freezing import freeze, thaw
from tests.support.services.jars import jars
from tests.support.services.java import QUICK_JAVA
from tests.support.services.ports import free_port

POM = Path(__file__).with_name("iceberg-rest-pom.xml")
START_S_MAX = 300.0
JVM = ("-Xmx256m", *QUICK_JAVA)
_OF_SPARK = ("hadoop-client-*.jar", "log4j-*.jar", "slf4j-*.jar")


class IcebergRest:
    """`with IcebergRest(folder) as catalog`. The warehouse is in the folder, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    @property
    def runs(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Returns when it answers; it ends with the thread that started it. Raises RuntimeError with the end of its log."""
        assert self._process is None, "it is running"
        self.folder.mkdir(parents=True, exist_ok=True)
        spark = [str(jar) for pattern in _OF_SPARK for jar in (Path(pyspark.__file__).parent / "jars").glob(pattern)]
        command = ["setpriv", "--pdeathsig", "KILL", "java", *JVM, "-cp", ":".join([f"{jars(POM)}/*", *spark])]
        settings = {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_URI": f"jdbc:sqlite:{self.folder}/catalog.db",
            "CATALOG_WAREHOUSE": f"file://{self.folder}/warehouse",
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "org.apache.iceberg.rest.RESTCatalogServer"],
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline_s = time.monotonic() + START_S_MAX
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.kill()
                raise RuntimeError(f"the REST catalog does not start: {self._log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.05)  # only its answer shows it

    def kill(self) -> None:
        """SIGKILL; nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def freeze(self) -> None:
        assert self._process is not None
        freeze(self._process.pid)

    def thaw(self) -> None:
        assert self._process is not None
        thaw(self._process.pid)

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _answers(self) -> bool:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(f"{self.uri}/v1/config", timeout=START_S_MAX) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
