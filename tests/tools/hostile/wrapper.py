"""Area 6: `cdc` in the place of TiCDC's own, which is a double that says how it was run. What is not ours must reach it as it is, no PATH
may send it round in circles, who ends us ends it, and our own commands refuse what they cannot mean: for each that is a process.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from sidecar.cli.cdc import REAL_BINARY, TRIED
from tests.tools.hostile.attempts import Area, Attempt, Fault, Outcome
from tests.unit.control.serving import Owner, Serving

CALL_S = 60.0
MARK = "the real one, with "
DOUBLE = f"""#!{sys.executable}
import json, os, signal, sys
if sys.argv[-1].startswith("--wait="):
    def ended(number, _):
        print("stopped by", number, flush=True)
        sys.exit(7)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ended)
    open(sys.argv[-1].partition("=")[2], "w").write("ready")
    signal.pause()
print({MARK!r} + json.dumps([sys.argv[1:], sys.stdin.isatty(), os.environ.get("GIVEN")]), flush=True)
sys.exit(int(os.environ.get("EXIT", "0")))
"""
OURS = f"#!{sys.executable}\nimport sys\nfrom sidecar.cli.cdc import main\nsys.exit(main())\n"


class Machine:
    """Folders with programs named cdc, in the order of PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ours = self.script("ours", OURS)
        self.real = self.script("real", DOUBLE)

    def script(self, name: str, text: str | bytes, mode: int = 0o755) -> Path:
        path = self.folder / name / "cdc"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    def environment(self, *folders: str, **given: str) -> dict[str, str]:
        return {"PATH": os.pathsep.join(str(self.folder / name) if name else "" for name in folders), "LANG": "C.UTF-8"} | given

    def run(self, arguments: Sequence[str | bytes], environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
        """Raises Fault for an end that nobody would understand."""
        try:
            done = subprocess.run(
                [str(self.ours), *arguments], env=environment, input=b"", capture_output=True, check=False, timeout=CALL_S, cwd=self.folder
            )
        except subprocess.TimeoutExpired as error:
            raise Fault(Outcome.HANG, str(error)) from None
        if b"Traceback" in done.stderr or done.returncode < 0:
            raise Fault(Outcome.FOREIGN, f"exit code {done.returncode}: {done.stderr[-600:].decode(errors='replace')}")
        return done


@contextmanager
def opened() -> Iterator[Sequence[Attempt]]:
    with tempfile.TemporaryDirectory() as name, Owner() as owner, Serving(owner.served()) as serving:
        machine = Machine(Path(name))
        yield [*arguments(machine), *paths(machine), *signals(machine), *terminal(machine), *calls(machine, serving.address)]


# ---- what is passed on ---------------------------------------------------------------------------------------------------

ARGUMENTS: dict[str, list[str | bytes]] = {
    "none": [],
    "empty ones": ["", "", ""],
    "blanks and quotes": ["a b", "'", '"', "\\", "$(id)", "`id`", "*", "~", "\t", "\n", "\r"],
    "no UTF-8": [b"\xff\xfe", b"cli\xff"],
    "a very long one": ["cli", "capture", "x" * 100_000],
    "10,000": ["x"] * 10_000,
    "dashes": ["-", "--", "---", "--=", "-=", "-c", "--"],
    "dumpstart as a value": ["cli", "changefeed", "query", "-c", "dumpstart"],
    "dumpstart behind --": ["cli", "changefeed", "--", "dumpstart"],
    "dumpstart spelt otherwise": ["cli", "changefeed", "DumpStart", "-c", "x"],
    "dumpstart of another": ["cli", "capture", "dumpstart"],
    "escapes": ["cli", "\x1b]0;x\x07", "\x1b[2J"],
    "our own option": ["--config", "/etc/passwd", "cli", "changefeed", "list"],
    "another's module": ["-m", "sidecar", "run"],
    "full-width words": ["ｃｌｉ", "ｃｈａｎｇｅｆｅｅｄ", "ｄｕｍｐｓｔａｒｔ"],
}


def arguments(machine: Machine) -> Iterator[Attempt]:
    for name, given in ARGUMENTS.items():
        yield _attempt(f"arguments: {name}", partial(_passed_on, machine, given), whole=name not in ("none", "empty ones"))
    for code in (1, 2, 77, 255):
        yield _attempt(f"exit code {code}", partial(_exit_code, machine, code))


def _attempt(name: str, tried: Callable[[], Outcome], *, whole: bool = True) -> Attempt:
    return Attempt(name, tried, within_s=2 * CALL_S, whole=whole)


def _passed_on(machine: Machine, given: Sequence[str | bytes]) -> Outcome:
    done = machine.run(given, machine.environment("ours", "real", GIVEN="ä\n"))
    wanted = [os.fsdecode(argument) for argument in given]
    if done.returncode != 0 or _reported(done) != [wanted, False, "ä\n"]:
        raise Fault(Outcome.ACCEPTED, f"{done.returncode}: {done.stdout[:300]!r} {done.stderr[:300]!r}")
    return Outcome.HARMLESS


def _reported(done: subprocess.CompletedProcess[bytes]) -> object:
    said = done.stdout.decode(errors="replace")
    return json.loads(said.removeprefix(MARK)) if said.startswith(MARK) else said


def _exit_code(machine: Machine, code: int) -> Outcome:
    done = machine.run(["version"], machine.environment("ours", "real", EXIT=str(code)))
    if done.returncode != code:
        raise Fault(Outcome.ACCEPTED, f"{done.returncode} instead of {code}")
    return Outcome.HARMLESS


# ---- where the real one is -----------------------------------------------------------------------------------------------


def paths(machine: Machine) -> Iterator[Attempt]:
    ours, real = str(machine.ours), str(machine.real)
    machine.script("shim", f'#!/bin/sh\nexec "{ours}" "$@"\n')
    machine.script("shim2", f'#!/bin/sh\nexec "{machine.folder}/shim/cdc" "$@"\n')
    machine.script("again", OURS)
    machine.script("plain", "no program", 0o644)
    machine.script("garbage", b"\0no program")
    machine.script("empty", b"")
    machine.script("lost", "#!/nowhere/interpreter\n")
    (machine.folder / "folder" / "cdc").mkdir(parents=True)
    for name, target in {"link": ours, "loop": "cdc", "dangling": "/nowhere/cdc", "to_real": real}.items():
        (machine.folder / name).mkdir()
        (machine.folder / name / "cdc").symlink_to(target)
    result = {
        "a link to ours before it": ("link", "ours", "real"),
        "ours again before it": ("again", "ours", "real"),
        "a shim around ours before it": ("shim", "ours", "real"),
        "two shims before it": ("shim2", "shim", "ours", "real"),
        "a folder of that name before it": ("folder", "ours", "real"),
        "a file that may not be run before it": ("plain", "ours", "real"),
        "a link to itself before it": ("loop", "ours", "real"),
        "a link to nothing before it": ("dangling", "ours", "real"),
        "a link to it": ("ours", "to_real"),
        "nothing between colons before it": ("", "ours", "real"),
        "500 folders before it": (*(f"none-{number}" for number in range(500)), "real"),
    }
    for name, folders in result.items():
        yield _attempt(f"path: {name}", partial(_ends, machine, machine.environment(*folders), 0))
    missing: dict[str, tuple[dict[str, str], int]] = {
        "ours alone": (machine.environment("ours"), 127),
        "shims alone": (machine.environment("shim", "shim2", "ours", "again", "link"), 127),
        "no PATH": ({"LANG": "C.UTF-8"}, 127),
        "an empty PATH": ({"PATH": "", "LANG": "C.UTF-8"}, 127),
        "garbage": (machine.environment("ours", "garbage"), 126),
        "an interpreter that is not there": (machine.environment("ours", "lost"), 126),
        "an empty file": (machine.environment("ours", "empty"), 126),
        **{
            f"{REAL_BINARY} is {name}": (machine.environment("ours", "real", **{REAL_BINARY: path}), 127)
            for name, path in {
                "ours": ours,
                "a shim": str(machine.folder / "shim" / "cdc"),
                "a folder": str(machine.folder),
                "nothing that is there": "/nowhere/cdc",
                "a file that may not be run": str(machine.folder / "plain" / "cdc"),
            }.items()
        },
        f"{TRIED} names all": (machine.environment("ours", "real", **{TRIED: real}), 127),
    }
    for name, (environment, code) in missing.items():
        yield _attempt(f"path: {name}", partial(_ends, machine, environment, code), whole=name != "ours alone")


def _ends(machine: Machine, environment: dict[str, str], code: int) -> Outcome:
    done = machine.run(["version"], environment)
    if done.returncode != code or (code and (b"what to do" not in done.stderr or done.stdout)):
        raise Fault(Outcome.FOREIGN if code else Outcome.ACCEPTED, f"{done.returncode}: {done.stdout[:300]!r} {done.stderr[-300:]!r}")
    if code == 0 and _reported(done) != [["version"], False, None]:
        raise Fault(Outcome.ACCEPTED, f"another one was run: {done.stdout[:300]!r}")
    return Outcome.REFUSED if code else Outcome.HARMLESS


# ---- who ends it, and a terminal -------------------------------------------------------------------------------------------


def signals(machine: Machine) -> Iterator[Attempt]:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        for line in (["server"], ["cli", "changefeed", "--help"]):
            name = f"signals: {number.name} at {' '.join(line)}"
            yield _attempt(name, partial(_ended, machine, line, number))


def _ended(machine: Machine, line: list[str], number: signal.Signals) -> Outcome:
    """The real one gets it, decides, and nothing of it is left."""
    ready = machine.folder / f"ready-{number}-{line[0]}"
    os.mkfifo(ready)
    command = [str(machine.ours), *line, f"--wait={ready}"]
    with subprocess.Popen(
        command, env=machine.environment("ours", "real"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        try:
            ready.read_text()
            running.send_signal(number)
            out, err = running.communicate(timeout=CALL_S)
        finally:
            running.kill()
    if (running.returncode, out, err) != (7, f"stopped by {int(number)}\n".encode(), b""):
        raise Fault(Outcome.FOREIGN, f"{running.returncode}: {out!r} {err[-300:]!r}")
    return Outcome.HARMLESS


def terminal(machine: Machine) -> Iterator[Attempt]:
    yield _attempt("a terminal", partial(_at_a_terminal, machine))


def _at_a_terminal(machine: Machine) -> Outcome:
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [str(machine.ours), "cli", "-i"], env=machine.environment("ours", "real"), stdin=theirs, stdout=subprocess.PIPE
        ) as running:
            out, _ = running.communicate(timeout=CALL_S)
    finally:
        for end in (ours, theirs):
            with suppress(OSError):
                os.close(end)
    if _reported(subprocess.CompletedProcess([], 0, out, b"")) != [["cli", "-i"], True, None]:
        raise Fault(Outcome.ACCEPTED, repr(out[:300]))
    return Outcome.HARMLESS


# ---- our own commands ------------------------------------------------------------------------------------------------------

OPTIONS: dict[str, tuple[list[str], int]] = {
    "no changefeed": (["dumpquery"], 2),
    "an option that is none": (["dumpstart", "-c", "cf", "--bogus"], 2),
    "a word too many": (["dumpstart", "-c", "cf", "more"], 2),
    "a timeout of -1": (["dumpquery", "-c", "cf", "--timeout", "-1"], 2),
    "a timeout of words": (["dumpquery", "-c", "cf", "--timeout", "soon"], 2),
    "keys that are none": (["dumpstart", "-c", "cf", "--keys", "shop.orders:[1"], 2),
    "a where without a table": (["dumpstart", "-c", "cf", "--where", "id > 1"], 2),
    "another changefeed": (["dumpquery", "-c", "other"], 4),
    "a changefeed of escapes": (["dumpquery", "-c", "\x1b[2J"], 4),
    "a where of elsewhere": (["dumpstart", "-c", "cf", "--where", "shop.orders:id in (select 1)"], 3),
    "a token file that is not there": (["dumpquery", "-c", "cf", "--token-file", "/nowhere"], 3),
    "a CA that is not there": (["dumpquery", "-c", "cf", "--ca", "/nowhere"], 3),
    "a PD that is none": (["dumpquery", "-c", "cf", "--sidecar", "", "--pd", "http://127.0.0.1:1", "--timeout", "0.2"], 5),
}


def calls(machine: Machine, address: str) -> Iterator[Attempt]:
    for name, (given, code) in OPTIONS.items():
        yield _attempt(f"call: {name}", partial(_called, machine, given, code, machine.environment("ours", TICDC_DUMP_ADDR=address)))
    for text in ("x", "127.0.0.1:1", "127.0.0.1:99999", "\x1b[31m:1", "http://127.0.0.1:1"):
        environment = machine.environment("ours", TICDC_DUMP_ADDR=text)
        yield _attempt(f"call: to {text!r}", partial(_called, machine, ["dumpquery", "-c", "cf", "--timeout", "0.2"], None, environment))
    for name, token in {"two lines": "x\ny", "an umlaut": "ä" * 20, "64 KiB": "x" * (1 << 16)}.items():
        environment = machine.environment("ours", TICDC_DUMP_ADDR=address, TICDC_DUMP_TOKEN=token)
        yield _attempt(f"call: a token of {name}", partial(_called, machine, ["dumpquery", "-c", "cf"], 3, environment))


def _called(machine: Machine, given: list[str], code: int | None, environment: dict[str, str]) -> Outcome:
    """`code` None: any that says it failed. No escape of others reaches the terminal."""
    done = machine.run(["cli", "changefeed", *given], environment)
    if done.returncode in (0, 1) or code not in (None, done.returncode):
        raise Fault(Outcome.ACCEPTED if done.returncode == 0 else Outcome.FOREIGN, f"{done.returncode}: {done.stderr[-400:]!r}")
    if b"\x1b" in done.stderr + done.stdout:
        raise Fault(Outcome.LEAK, f"an escape: {(done.stderr + done.stdout)[-400:]!r}")
    return Outcome.REFUSED


AREA = Area("cdc", 43, opened)
