"""A real OpenSearch 2.19 node on 127.0.0.1, by codelibs' runner: the server itself in one JVM, without security.

The runner takes no port above 9299, so its ports are not those of ports.py; each is claimed in the same way.
"""

from __future__ import annotations

import contextlib
import errno
import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.services.freezing import freeze, thaw
from tests.support.services.jars import jars
from tests.support.services.java import QUICK_JAVA
from tests.support.services.ports import free_port

POM = Path(__file__).with_name("opensearch-pom.xml")
PORTS = range(9201, 9300)

START_S_MAX = 600.0
"""Twelve seconds alone on a machine of this kind."""

STOP_S_MAX = 300.0
REQUEST_S = 300.0
HEAP_MB = 512

JVM = (*QUICK_JAVA, "-Djava.awt.headless=true")

_READY = "wait_for_status=yellow&wait_for_no_initializing_shards=true&timeout=5s"

_claims: list[socket.socket] = []


class OpenSearchNode:
    """`with OpenSearchNode(folder) as node`."""

    def __init__(self, folder: Path, *, heap_mb: int = HEAP_MB) -> None:
        self.folder, self.heap_mb = folder, heap_mb
        self.port = _claimed()
        self._process: subprocess.Popen[bytes] | None = None
        config = folder / "config"
        config.mkdir(parents=True, exist_ok=True)
        settings = {
            "network.host": "127.0.0.1",
            "transport.port": str(free_port()),
            "discovery.type": "single-node",
            "node.processors": "2",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            "action.destructive_requires_name": "false",
        }
        (config / "opensearch.yml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> OpenSearchNode:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Returns when it answers, and all that it had can be written."""
        command = ["java", f"-Xmx{self.heap_mb}m", f"-Xms{self.heap_mb}m", *JVM, "-cp", f"{jars(POM)}/*"]
        command += ["org.codelibs.opensearch.runner.OpenSearchRunner", "-numOfNode", "1", "-baseHttpPort", str(self.port - 1)]
        command += ["-basePath", str(self.folder), "-confPath", str(self.folder / "config")]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline_s = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline_s and self._process.poll() is None:
            with contextlib.suppress(OSError):
                if self.ask("GET", f"/_cluster/health?{_READY}")["status"] != "red":
                    return
            time.sleep(0.1)
        self.kill()
        raise RuntimeError(f"OpenSearch did not start: {(self.folder / 'server.log').read_text(errors='replace')[-4000:]}")

    def stop(self) -> None:
        """Graceful: everything is flushed."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        assert self._process is not None
        freeze(self._process.pid)

    def thaw(self) -> None:
        assert self._process is not None
        thaw(self._process.pid)

    def text(self, method: str, path: str, body: object = None) -> str:
        """Raises OSError: urllib's HTTPError for what it refuses."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.host}{path}", data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answered:
            result: bytes = answered.read()
        return result.decode()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        return json.loads(self.text(method, path, body))

    def remove(self, pattern: str) -> None:
        """All indices that match, where there are any."""
        with contextlib.suppress(urllib.error.HTTPError):
            self.ask("DELETE", f"/{pattern}?expand_wildcards=all&ignore_unavailable=true")

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(how)
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_S_MAX)


def _claimed() -> int:
    """A port that is this process's for its life, as ports.py claims its block."""
    for port in PORTS:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0ticdc-dump tests have port {port}")
            socket.create_server(("127.0.0.1", port)).close()
        except OSError as error:
            claim.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        _claims.append(claim)
        return port
    raise RuntimeError(f"no port from {PORTS.start} to {PORTS.stop - 1} is free")
