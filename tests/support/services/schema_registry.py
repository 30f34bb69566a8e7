"""A real schema registry with Confluent's interface: Apicurio's, whose schemas are in a file, so they survive it."""

from __future__ import annotations

import json
import subprocess
import tarfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.support.services.jars import jars, made_once
from tests.support.services.java import QUICK_JAVA
from tests.support.services.ports import free_port

REGISTRY_POM = Path(__file__).with_name("schema-registry-pom.xml")
REGISTRY_START_S_MAX = 300.0
REGISTRY_JVM = ("-Xmx256m", *QUICK_JAVA)


class ApicurioRegistry:
    """`with ApicurioRegistry(folder) as registry`. It takes any schema, unless `set_compatibility` says otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Returns when it answers. Raises RuntimeError with the end of its log."""
        assert self._process is None, "it is running"
        self.folder.mkdir(parents=True, exist_ok=True)
        home = made_once("schema-registry", REGISTRY_POM, _unpack)
        (runner,) = home.glob("*-runner.jar")
        settings = {
            "quarkus.http.port": self.port,
            "quarkus.http.host": "127.0.0.1",
            "quarkus.datasource.jdbc.url": f"jdbc:h2:file:{self.folder}/schemas;WRITE_DELAY=0",
        }
        command = ["java", *REGISTRY_JVM, *(f"-D{name}={value}" for name, value in settings.items()), "-jar", str(runner)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline_s = time.monotonic() + REGISTRY_START_S_MAX
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.kill()
                raise RuntimeError(f"the schema registry does not start: {self._log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.05)  # only its answer shows it

    def kill(self) -> None:
        """SIGKILL; nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def set_compatibility(self, level: str, subject: str = "") -> None:
        """Of all subjects, or of one."""
        self.asked("PUT", f"/config/{subject}" if subject else "/config", {"compatibility": level})

    def subjects(self) -> list[str]:
        return sorted(self.asked("GET", "/subjects"))

    def schemas(self, subject: str) -> list[str]:
        """In the order of their versions."""
        versions = self.asked("GET", f"/subjects/{subject}/versions")
        return [self.asked("GET", f"/subjects/{subject}/versions/{version}")["schema"] for version in versions]

    def asked(self, method: str, path: str, body: Any = None) -> Any:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with direct.open(request, timeout=REGISTRY_START_S_MAX) as answer:
            return json.load(answer)

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _answers(self) -> bool:
        try:
            self.subjects()
        except (OSError, ValueError):
            return False
        return True


def _unpack(folder: Path) -> None:
    (archive,) = jars(REGISTRY_POM).glob("apicurio-registry-app-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
