"""Merge workers that cannot work, of area 5: started for real, each must end on its own, by an exit code of its own, and say why: on
standard error, or in its report beside the log, where the sidecar that minds it reads it. None of them gets as far as a Spark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from sidecar.shared.log.delivery_report import DELIVERED_NAME
from sidecar.shared.log.identity import claim_log
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.sinks.folder.layout import IDENTITY, LOG, FolderIdentity
from tests.tools.hostile.attempts import Attempt, Fault, Outcome
from tests.tools.hostile.settings import PROGRAM, SETTINGS, with_setting

ENDS_S = 120.0
"""Most of it is what a worker loads, on a machine that may be loaded."""
ID = "cf/1"
Made = Callable[[Path], str]
"""Prepares a folder that has a log of three segments, and returns the settings' text."""


def attempts(folder: Path) -> Iterator[Attempt]:
    made: dict[str, Made] = {
        "settings that are none": lambda _: "sinks = [",
        "a sink that is none": lambda here: SETTINGS.format(folder=here).replace("file://", "ftp://"),
        "a format that is none": lambda here: SETTINGS.format(folder=here).replace("jsonl", "csv"),
        "a sink in the log": lambda here: SETTINGS.format(folder=here).replace("/out?", "/log/out?"),
        "a sink that is a file": partial(_written, "out", b"x"),
        "an output of another log": _other_output,
        "a log that is a file": lambda here: with_setting(here, "log.uri", f'"{_file(here / "file")}"'),
        "a log in a file": lambda here: with_setting(here, "log.uri", f'"{_file(here / "file")}/log"'),
        "a log in /proc": lambda here: with_setting(here, "log.uri", '"/proc/nowhere/log"'),
        "an id that is no log's": partial(_written, "log/log.txt", b"x" * 32),
        "an id that is no text": partial(_written, "log/log.txt", b"\xff" * 32),
        "a manifest that is none": partial(_written, f"log/{manifest_name(Seq(0))}", b"[" * 10_000),
        "a manifest that is a folder": _folder_for_a_manifest,
        "a manifest of another segment": partial(_renamed, 0, 5),
        "a gap": partial(_renamed, 1, 9),
        "no beginning": partial(_removed, 0),
    }
    for number, (name, make) in enumerate(made.items()):
        yield Attempt(f"worker: {name}", partial(_started, folder / f"worker-{number}", make), within_s=ENDS_S + 5, whole=True)
    yield Attempt("worker: a report that is none", partial(_goes_on, folder / "worker-report"), within_s=ENDS_S + 5, whole=True)


def _log(here: Path) -> None:
    log = FolderLog(open_folder(str(here / "log")))
    log.recover(epoch=1)
    claim_log(log.folder, ID)
    schemas = log.write_schemas({})
    for seq in range(3):
        log.commit(Manifest(Seq(seq), 1, CommitTs(seq), CommitTs(seq + 1), None, 0, 0, {}, schemas, "canal-json", id=f"{seq:032x}"))


def _command(here: Path, text: str) -> list[str]:
    path = here / "sidecar.toml"
    path.write_text(text)
    return [*PROGRAM, "merge", "--config", str(path), "--log-id", ID, "--end-with-stdin"]


def _environment(here: Path) -> dict[str, str]:
    """Without a Java: what is wrong is reported before one is needed."""
    without = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    return without | {"PATH": "/nowhere", "SPARK_LOCAL_DIRS": str(here)}


def _started(here: Path, make: Made) -> Outcome:
    here.mkdir()
    _log(here)
    text = make(here)
    process = subprocess.Popen(
        _command(here, text), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_environment(here)
    )
    try:
        process.wait(ENDS_S)
    except subprocess.TimeoutExpired:
        raise Fault(Outcome.HANG, f"it continues: {_report(here)}") from None
    finally:
        process.kill()
        _, said = process.communicate()
    if process.returncode != 3 or b"what to do" not in said:
        raise Fault(Outcome.FOREIGN, f"exit code {process.returncode}: {_report(here)}: {said[-600:].decode(errors='replace')}")
    return Outcome.REFUSED


def _goes_on(here: Path) -> Outcome:
    """A report is a projection: the worker's own replaces it. It ends with its standard input."""
    here.mkdir()
    _log(here)
    (here / "log" / DELIVERED_NAME).write_bytes(b"{" * 1000)
    command = _command(here, SETTINGS.format(folder=here))
    done = subprocess.run(
        command, input=b"", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_environment(here), timeout=ENDS_S, check=False
    )
    if done.returncode < 0:
        raise Fault(Outcome.FOREIGN, f"exit code {done.returncode}: {done.stderr[-600:].decode(errors='replace')}")
    return Outcome.HARMLESS


def _report(here: Path) -> str:
    path = here / "log" / DELIVERED_NAME
    return path.read_text()[:600] if path.is_file() else "no report"


def _file(path: Path) -> Path:
    path.write_bytes(b"x")
    return path


def _written(name: str, data: bytes, here: Path) -> str:
    (here / name).write_bytes(data)
    return SETTINGS.format(folder=here)


def _other_output(here: Path) -> str:
    (here / "out").mkdir()
    (here / "out" / IDENTITY).write_bytes(LOG.to_json(FolderIdentity(f"other/1#{'0' * 32}", "jsonl", 1, 1)))
    return SETTINGS.format(folder=here)


def _folder_for_a_manifest(here: Path) -> str:
    path = here / "log" / manifest_name(Seq(0))
    path.unlink()
    path.mkdir()
    return SETTINGS.format(folder=here)


def _renamed(seq: int, to: int, here: Path) -> str:
    (here / "log" / manifest_name(Seq(seq))).replace(here / "log" / manifest_name(Seq(to)))
    return SETTINGS.format(folder=here)


def _removed(seq: int, here: Path) -> str:
    (here / "log" / manifest_name(Seq(seq))).unlink()
    return SETTINGS.format(folder=here)
