"""Area 3: secrets, each with a text that is nowhere else, given to a real sidecar with its worker and Spark; then they are looked for in
everything that others may see: logs, answers of commands, `check`, metrics, keys of etcd, objects of an S3, arguments and environments of
processes, what their ports answer to a stranger, and files that others may read.

An S3 secret in a URI is in the environment of the worker, by design (shared/log/storage/folder.py): there it is not looked for. What is
sent to the worker's ports is garbage of several protocols: nobody here speaks Java.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import quote
from urllib.request import urlopen

from sidecar.adapters.etcd.keys import ROOT
from sidecar.replay.recording import Recording
from sidecar.shared.config import SourceSection
from sidecar.shared.log import storage
from sidecar.shared.log.delivery_report import DELIVERED_NAME, SPARK_READY, report_from_json
from sidecar.shared.log.storage import open_folder
from tests.support.recorded_tidb import recorded_tidb
from tests.support.recordings import recording
from tests.support.services.etcd import Etcd
from tests.support.services.ports import free_ports
from tests.support.services.s3 import KEYS, S3
from tests.tools.hostile.attempts import Area, Attempt, Fault, Outcome
from tests.tools.hostile.push_process import ID, put_changefeed
from tests.tools.rig.sidecar_process import BIN, SidecarProcess

SINK = "the changefeed's sink URI"
SECRETS = {
    "etcd.password_file": "ETCD-hush-7f3a91c2",
    "source.password_file": "TIDB-hush-51be0d44",
    "control.token_file": "CONTROL-hush-0123456789abcdef",
    "push.token_file": "PUSH-hush-0123456789abcdef",
    "kafka.sasl_password_file": "KAFKA-hush-88d1ce20",
    SINK: "SINK-hush-6610aa3b",
    "log.uri": KEYS["AWS_SECRET_ACCESS_KEY"],
}
BY_DESIGN = frozenset({KEYS["AWS_SECRET_ACCESS_KEY"]})
"""In the environment of processes."""
START_S, PLACE_S, PORT_S, POLL_S = 180.0, 120.0, 1.0, 0.5
STRANGERS = (
    b"",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\0\0\0\x15\x03" + bytes(16),
    b"\xac\xed\0\5" + bytes(64),
    b"\x16\x03\x01\0\5hello",
)
"""HTTP, a frame of Spark's, a Java object, TLS."""

Texts = Iterator[tuple[str, bytes]]


class Target:
    def __init__(self, folder: Path, process: SidecarProcess, etcd: Etcd, s3: S3, metrics_port: int) -> None:
        self.folder, self.process, self.etcd, self.s3, self.metrics_port = folder, process, etcd, s3, metrics_port

    def processes(self) -> list[int]:
        """The sidecar's, with everything that it started."""
        results, parents = {self.process.pid}, {pid: _parent(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}
        while more := {pid for pid, parent in parents.items() if parent in results} - results:
            results |= more
        return sorted(results)

    def said(self, *command: str) -> bytes:
        environment = os.environ | {"TICDC_DUMP_ADDR": self.process.address, "TICDC_DUMP_TOKEN": SECRETS["control.token_file"]}
        done = subprocess.run([str(BIN / command[0]), *command[1:]], capture_output=True, timeout=PLACE_S, check=False, env=environment)
        return done.stdout + done.stderr

    # ---- places ------------------------------------------------------------------------------------------------------------

    def logs(self) -> Texts:
        yield "the log", self.process.log.read_bytes()

    def dumps(self, command: str) -> Texts:
        for more in ((), ("--json",)):
            yield f"{command} {' '.join(more)}", self.said("cdc", "cli", "changefeed", command, "-c", ID, *more)

    def refusals(self) -> Texts:
        for more in (("--token-file", str(self.folder / "push.token")), ("--pd", self.etcd.endpoints[0]), ("--ca", "/nowhere")):
            yield " ".join(more), self.said("cdc", "cli", "changefeed", "dumpquery", "-c", ID, "--timeout", "1", *more)

    def checks(self) -> Texts:
        for more in ((), ("--json",)):
            with redirect_stderr(StringIO()):  # TiDB's double knows less than `check` asks
                said = self.said("ticdc-dump", "check", "--config", str(self.process.config), "--wait", "1", *more)
            yield f"check {' '.join(more)}", said

    def metrics(self) -> Texts:
        for path in ("metrics", "healthz"):
            with urlopen(f"http://127.0.0.1:{self.metrics_port}/{path}", timeout=PLACE_S) as answer:
                yield path, answer.read()

    def keys(self) -> Texts:
        """Without TiCDC's own, which has the sink URI's."""
        yield "etcd", self.etcd.etcdctl("get", "--prefix", "--", ROOT).encode()

    def objects(self) -> Texts:
        folder = open_folder(self.s3.uri("hostile", keys=True))
        for name in storage.list_names(folder, deep=True):
            yield name, name.encode() + storage.read_file(folder, name)

    def of_processes(self, what: str) -> Texts:
        for pid in self.processes():
            with suppress(FileNotFoundError, ProcessLookupError):
                yield f"{what} of {pid}", Path(f"/proc/{pid}/{what}").read_bytes()

    def ports(self) -> Texts:
        """Of everything that listens, to a caller that knows nothing."""
        for port in sorted({port for pid in self.processes() for port in _listening(pid)}):
            for said in STRANGERS:
                yield f"port {port}", b"answer: " + _requested(port, said)

    def files(self) -> Texts:
        """Which others than this user may read, below the folders that it writes in."""
        yield "files of others", b"looked at"
        for path in (item for place in ("aside", "spill") for item in (self.folder / place).rglob("*") if item.is_file()):
            with suppress(FileNotFoundError):
                if path.stat().st_mode & 0o077:
                    yield str(path), path.read_bytes()


def _parent(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _listening(pid: int) -> Iterator[int]:
    inodes = set[str]()
    with suppress(OSError):
        for handle in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                inodes.add(os.readlink(f"/proc/{pid}/fd/{handle}"))
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                    yield int(fields[1].rpartition(":")[2], 16)


def _requested(port: int, said: bytes) -> bytes:
    answer = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PORT_S) as connection:
        connection.sendall(said)
        while more := connection.recv(65_536):
            answer += more
    return answer


# ---- the attempts ----------------------------------------------------------------------------------------------------------


@contextmanager
def opened() -> Iterator[Sequence[Attempt]]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        for place in ("aside", "spill"):
            (folder / place).mkdir()
        played, ports = Recording(recording("demo")), free_ports(3)
        etcd = stack.enter_context(Etcd(folder / "etcd"))
        source = stack.enter_context(recorded_tidb(played, folder))
        s3 = stack.enter_context(S3())
        put_changefeed(etcd, played, sink_uri=f"kafka://root:{SECRETS[SINK]}@127.0.0.1:1/topic?protocol=open-protocol")
        etcd.enable_auth(SECRETS["etcd.password_file"])
        process = stack.enter_context(_Aside(_settings(folder, etcd, source, s3, ports), folder / "sidecar.log"))
        target = Target(folder, process, etcd, s3, ports[2])
        _wait(target)
        yield [*_attempts(target)]


class _Aside(SidecarProcess):
    """What Spark writes aside is in a folder of ours."""

    def start(self) -> None:
        place = {"SPARK_LOCAL_DIRS": str(self.config.parent / "aside"), "TMPDIR": str(self.config.parent / "aside")}
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [str(BIN / "ticdc-dump"), "run", "--config", str(self.config)],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=os.environ | place,
            )


def _wait(target: Target) -> None:
    """It owns the changefeed, and its worker's Spark is ready: then everything that has a secret has used it."""
    reports, until_s = open_folder(target.s3.uri("hostile/log", keys=True)), monotonic() + START_S
    while monotonic() < until_s and target.process.ended() is None:
        data = storage.read_files(reports, [DELIVERED_NAME]).get(DELIVERED_NAME)
        if data is not None and report_from_json(data).spark == SPARK_READY:
            return
        sleep(POLL_S)
    raise RuntimeError(f"no Spark; the sidecar ended with {target.process.ended()}: {target.process.log.read_text()[-3000:]}")


def _attempts(target: Target) -> Iterator[Attempt]:
    places: dict[str, Callable[[], Texts]] = {
        "dumpquery": partial(target.dumps, "dumpquery"),
        "dumplist": partial(target.dumps, "dumplist"),
        "refused calls": target.refusals,
        "check": target.checks,
        "metrics": target.metrics,
        "etcd": target.keys,
        "S3": target.objects,
        "arguments": partial(target.of_processes, "cmdline"),
        "environments": partial(target.of_processes, "environ"),
        "ports": target.ports,
        "files that others may read": target.files,
        "logs": target.logs,
    }
    for name, texts in places.items():
        allowed = BY_DESIGN if name == "environments" else frozenset[str]()
        yield Attempt(f"secrets in {name}", partial(_searched, texts, allowed), within_s=2 * PLACE_S, inputs=len(SECRETS) - len(allowed))


def _searched(texts: Callable[[], Texts], allowed: frozenset[str]) -> Outcome:
    searched = 0
    for place, text in texts():
        searched += len(text)
        for setting, secret in SECRETS.items():
            if secret not in allowed and any(form in text for form in _forms(secret)):
                raise Fault(Outcome.LEAK, f"the secret of {setting} is in {place}")
    if not searched:
        raise Fault(Outcome.FOREIGN, "nothing was there to be searched")
    return Outcome.HARMLESS


def _forms(secret: str) -> Iterator[bytes]:
    """As it is, quoted, and in base64."""
    yield secret.encode()
    yield quote(secret, safe="").encode()
    yield base64.b64encode(secret.encode())


def _settings(folder: Path, etcd: Etcd, source: SourceSection, s3: S3, ports: Sequence[int]) -> Path:
    for setting, secret in SECRETS.items():
        if setting.endswith("_file"):
            file = folder / setting.removesuffix("_file")
            file.touch(0o600)
            file.write_text(secret)
    path = folder / "sidecar.toml"
    path.write_text(f"""
sinks = ["{s3.uri("hostile/out", keys=True)}&format=jsonl"]
feed = "push"
changefeed.id = "{ID}"
etcd = {{ endpoints = {json.dumps(etcd.endpoints)}, user = "root", password_file = "{folder}/etcd.password" }}
push = {{ listen = "127.0.0.1:{ports[0]}", token_file = "{folder}/push.token" }}
kafka.sasl_password_file = "{folder}/kafka.sasl_password"
control = {{ listen = "127.0.0.1:{ports[1]}", token_file = "{folder}/control.token" }}
metrics.listen = "127.0.0.1:{ports[2]}"
logging = {{ level = "debug", format = "json" }}
spark = {{ master = "local[1]", memory = "512m", worker_rows = 0 }}

[log]
uri = "{s3.uri("hostile/log", keys=True)}"
spill_folder = "{folder}/spill"

[source]
host = "{source.host}"
port = {source.port}
status_port = {source.status_port}
user = "{source.user}"
password_file = "{folder}/source.password"
""")
    return path


AREA = Area("secrets", 7 * 11, opened, whole=True)
