"""Settings that nobody can mean, of area 5: each in a file that is right but for it. They are tried on what `ticdc-dump run` looks at
before it asks anybody, in this process; where everything is tried, on the program itself too, with an etcd that nobody serves.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.keys import check_name
from sidecar.feeds.kafka.client import Cluster
from sidecar.run.app import Sidecar
from sidecar.run.metrics import MetricsServer, MetricsTally
from sidecar.shared.config import Config, read_config
from sidecar.shared.log.disjoint import check_disjoint
from sidecar.shared.mysql.account import Account
from sidecar.shared.process.listening import interceptors
from sidecar.shared.process.secret_files import unprotected
from sidecar.shared.ticdc.changefeed import ChangefeedName
from spark_merge.sinks.registry import open_sinks
from tests.tools.hostile.attempts import Attempt, Fault, Outcome, refuses, serves

PROGRAM = (sys.executable, "-m", "sidecar")
START_S = 60.0
"""Of a program that ends with an error at once: most of it is what it loads."""

SETTINGS = """
sinks = ["file://{folder}/out?format=jsonl"]
[changefeed]
id = "orders"
[etcd]
endpoints = ["127.0.0.1:1"]
[source]
host = "127.0.0.1"
user = "dumper"
[log]
uri = "{folder}/log"
[metrics]
listen = ""
"""

STARTED = 50
"""So many of the wrong ones are given to the program itself: each costs a second."""
LATE = ("source.password_file", "push.", "kafka.client", "metrics.listen")
"""Settings of what the program opens once etcd has answered."""

_ADDRESSES = ('"x"', '":"', '"127.0.0.1"', '"127.0.0.1:0"', '"127.0.0.1:70000"', '"http://h:1"', '"h:1x"', '"a b:1"', "8310")
WRONG: dict[str, tuple[str, ...]] = {
    "changefeed.id": ('""', "1", "[]", '"a/b"', '"../x"', '"ä"', '"a b"', '"a\\u0000"', '"' + "x" * 129 + '"'),
    "changefeed.namespace": ('"a/b"', '""', '"*"'),
    "changefeed.cluster": ('"a/b"', '"$(id)"'),
    "etcd.endpoints": ("[]", '[""]', '"127.0.0.1:1"', "[1]", '["http://127.0.0.1:2379"]'),
    "etcd.lease_s": ("0", "-1", "1e300", '"10"', "601"),
    "etcd.timeout_s": ("0", "-1.0", "inf", "nan", "1e300", "60"),
    "etcd.password_file": ('"/nowhere/x"', '"/"', '"/tmp/\\u0000"'),
    "etcd.tls": (
        '{ ca_file = "/tmp/\\u0000" }',
        '{ ca_file = "/nowhere" }',
        '{ cert_file = "c", key_file = "k" }',
        '{ ca_file = "/etc/hostname", cert_file = "c" }',
    ),
    "source.host": ('""', "1"),
    "source.port": ("0", "-1", "65536", '"4000"', "4000.5"),
    "source.password_file": ('"/nowhere/x"', '"/"'),
    "source.statement_timeout_s": ("0", "inf", "nan"),
    "source.retry_s": ("-1", "1e300"),
    "log.uri": (
        *('""', '"memory://log"', '"ftp://h/x"', '"file://tmp/x/y"', '"/log#a"', '"s3://"', '"s3:///x"', '"s3://b/p?acces-key=x"'),
        *('"/log?format=jsonl"', '"file:"'),
    ),
    "log.spill_folder": ('"/nowhere/x"', '"/etc/hostname"'),
    "log.held_bytes_max": ("0", "-1", str(1 << 62), "1.5"),
    "log.retain": ("1", '"yes"'),
    "kafka.server_tz": ('"Europe/Berlinn"', '"utc"', '"SYSTEM"', '"+08:00"', '"../../etc/passwd"', '"/etc/localtime"', '"Europe"', '""'),
    "kafka.begin": ('"yesterday"', "0"),
    "kafka.ambiguous": ('"both"',),
    "kafka.client": (
        *('{ nonsense = "x" }', '{ "group.id" = "x" }', '{ "enable.auto.commit" = "true" }', '{ "security.protocol" = "tls" }'),
        *('{ "ssl.ca.location" = "/nowhere" , "security.protocol" = "ssl" }', "{ retries = 1 }"),
    ),
    "kafka.queue_bytes_max": ("0", str(9 << 30)),
    "push.listen": ('"0.0.0.0:8312"', *_ADDRESSES[:4]),
    "push.silent_max_s": ("0", "inf"),
    "push.token_file": ('"/nowhere/token"', '"/dev/null"'),
    "tikv.outage_max_s": ("0", "inf"),
    "spark.memory": ('"2gb please"', '"0g"', '"-1g"', '"2 g"', "2"),
    "spark.worker_rows": ("-1", str(1 << 62)),
    "spark.managed": ("1",),
    "dump.chunk_rows": ("0", str(1 << 70), str(1 << 32), "-5"),
    "dump.readers": ("0", "65"),
    "dump.chunk_bytes_max": ("0", str(1 << 63)),
    "dump.delivery_bound_s": ("-1", "inf", "nan"),
    "control.listen": ('"0.0.0.0:8310"', '"10.1.2.3:8310"', *_ADDRESSES),
    "control.advertise": _ADDRESSES[:8],
    "control.token_file": ('"/nowhere/token"', '"/dev/null"', '"/etc"'),
    "files.umask": ('"099"', '"7"', "77", '"rwx"'),
    "logging.level": ('"loud"', "1"),
    "logging.format": ('"xml"',),
    "nowhere.at_all": ("1",),
    "changefeed.idd": ('"x"',),
}
LISTENS: tuple[str, ...] = ('"203.0.113.1:8311"', '"127.0.0.1:99999"', '"127.0.0.1"', '"127.0.0.1:-1"', '"127.0.0.1:x"')
"""Of the metrics."""
SINKS: tuple[str, ...] = (
    *("[]", '[""]', "1", '["ftp://x"]', '["/out?format=csv"]', '["/out?format="]', '["/out", "/out"]', '["/out?compression=zstd"]'),
    *('["file://host/out"]', '["/out#a"]', '["s3://"]', '["{folder}/log"]', '["{folder}/log/out"]', '["{folder}"]', '["console:x?y=1"]'),
    *('["/a?format=jsonl", "/a?format=jsonl#x"]', '["memory://x"]', '["javascript:alert(1)"]'),
)
NO_TOML: dict[str, bytes] = {
    "half a list": b"sinks = [",
    "a section twice": b"[log]\nuri = 'a'\n[log]\nuri = 'b'\n",
    "Latin-1": "changefeed.id = 'ä'".encode("latin-1"),
    "UTF-16": "changefeed.id = 'a'".encode("utf-16"),
    "NULs": b"\0" * 1000,
    "nothing": b"",
    "10,000 brackets": b"a = " + b"[" * 10_000,
    "a deep name": b"a" + b".a" * 2_000 + b" = 1",
    "JSON": b'{"sinks": []}',
    "1e400": b"etcd.timeout_s = 1e400",
}
RIGHT: dict[str, tuple[str, ...]] = {
    "changefeed.id": ('"a-b_c"',),
    "control.listen": ('"[::1]:8310"', '"localhost:8310"'),
    "kafka.server_tz": ('"Asia/Shanghai"', '"Etc/GMT+8"'),
    "log.uri": ('"file:///var/log/x"', '"s3://b/p?region=r&endpoint=http://127.0.0.1:1"'),
    "files.umask": ('"0027"',),
}


def begun(path: Path) -> Config:
    """What `run` looks at before it asks anybody, and what the parts look at that it makes."""
    config = read_config(path)
    open_sinks(config.sinks, log_id="")
    Sidecar(config, path).close()
    check_disjoint(config.log.uri, config.sinks)
    check_name(ChangefeedName(config.changefeed.cluster, config.changefeed.namespace, config.changefeed.id))
    list(unprotected(config))
    EtcdClient(config.etcd).close()
    Account.of(config.source)
    interceptors("push", config.push)
    Cluster("127.0.0.1:1", config.kafka.client)
    if config.metrics.listen:
        MetricsServer(config.metrics.listen, lambda: None, MetricsTally).close()
    return config


def with_setting(folder: Path, name: str, value: str) -> str:
    """SETTINGS, with one set to `value`."""
    text = SETTINGS.format(folder=folder)
    section, _, setting = name.partition(".")
    lines = [line for line in text.splitlines() if not (_section_of(text, line) == section and line.startswith(f"{setting} = "))]
    if f"[{section}]" not in lines:
        lines.append(f"[{section}]")
    lines.insert(lines.index(f"[{section}]") + 1, f"{setting} = {value}")
    return "\n".join(lines) + "\n"


def _section_of(text: str, line: str) -> str:
    before = text[: text.index(line)]
    return before.rpartition("[")[2].partition("]")[0] if "\n[" in before else ""


def attempts(folder: Path) -> Iterator[Attempt]:
    wrong = {
        **{f"{name} = {value:.60}": with_setting(folder, name, value) for name, values in WRONG.items() for value in values},
        **{f"metrics.listen = {value}": with_setting(folder, "metrics.listen", value) for value in LISTENS},
        **{f"sinks = {value}": _with_sinks(folder, value) for value in SINKS},
    }
    for number, (name, text) in enumerate(wrong.items()):
        yield refuses(name, partial(begun, _written(folder / f"wrong-{number}.toml", text.encode())))
    for number, (name, data) in enumerate(NO_TOML.items()):
        yield refuses(f"settings: {name}", partial(begun, _written(folder / f"none-{number}.toml", data)))
    for name, path in {"a folder": folder, "no file": folder / "nothing", "a name with NUL": Path("/tmp/\0")}.items():
        yield refuses(f"settings: {name}", partial(begun, path))
    right = [(f"{name} = {value}", with_setting(folder, name, value)) for name, values in RIGHT.items() for value in values]
    for number, (name, text) in enumerate(right):
        yield serves(name, partial(begun, _written(folder / f"right-{number}.toml", text.encode())))
    early = [name for name in wrong if not name.startswith(LATE)]
    for number, name in enumerate(early[:: max(1, len(early) // STARTED)]):
        path = _written(folder / f"started-{number}.toml", wrong[name].encode())
        yield Attempt(f"started: {name}", partial(_program, path), within_s=START_S + 5, whole=True)


def _with_sinks(folder: Path, value: str) -> str:
    lines = SETTINGS.format(folder=folder).splitlines()
    return "\n".join([f"sinks = {value.replace('{folder}', str(folder))}", *lines[2:]]) + "\n"


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _program(path: Path) -> Outcome:
    """It must end on its own, with an error of ours."""
    return ended(
        subprocess.Popen([*PROGRAM, "run", "--config", str(path)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ})
    )


def ended(process: subprocess.Popen[bytes], *, code: int = 3) -> Outcome:
    """What became of a program that must end with `code` and our words. One that continues has taken what it was given."""
    try:
        _, said = process.communicate(timeout=START_S)
    except subprocess.TimeoutExpired:
        process.kill()
        _, said = process.communicate()
        raise Fault(Outcome.ACCEPTED, f"it continues: {_tail(said)}") from None
    if process.returncode != code or b"Traceback" in said or b"what to do" not in said:
        raise Fault(Outcome.FOREIGN, f"exit code {process.returncode}: {_tail(said)}")
    return Outcome.REFUSED


def _tail(said: bytes) -> str:
    return said[-600:].decode(errors="replace")
