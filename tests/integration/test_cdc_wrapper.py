"""`cdc` in the place of TiCDC's own: what is not ours reaches the real one unchanged, and its answers come back unchanged.

TiCDC's own binary cannot be had here. Its double is a script that answers with what the real one of both architectures was
recorded to print (recording `cluster`), and tells how it was run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli.cdc import COMMANDS, REAL_BINARY, TRIED, our_section
from tests.support.eventually import PATIENCE_S
from tests.support.recordings import recorded_cluster
from tests.unit.control.serving import Owner, Serving

HELP = b"""Manage changefeed (changefeed is a replication task)

Usage:
  cdc cli changefeed [command]

Available Commands:
  create      Create a new replication task (changefeed)

"""
DOUBLE = """#!{python}
import json, os, sys
answers = json.load(open({answers!r}))
told = dict(argv=sys.argv[1:], environment=dict(os.environ), pid=os.getpid(), stdin="" if sys.stdin.isatty() else sys.stdin.read())
json.dump(told, open({told!r}, "w"))
answer = answers.get(" ".join(sys.argv[1:]), dict(exit=0, stdout="the real one\\n", stderr=""))
sys.stdout.write(answer["stdout"])
sys.stderr.write(answer["stderr"])
sys.exit(answer["exit"])
"""


@dataclass
class Machine:
    """A folder with the wrapper, as an installer makes its script, and another with the double. Both are on PATH."""

    folder: Path
    path: list[Path]

    def double(self, name: str = "real", answers: Mapping[str, Any] | None = None) -> Path:
        """The double's program, in a folder of its own."""
        program = self.folder / name / "cdc"
        program.parent.mkdir(exist_ok=True)
        (program.parent / "answers.json").write_text(json.dumps(answers or {}))
        text = DOUBLE.format(python=sys.executable, answers=str(program.parent / "answers.json"), told=str(program.parent / "told.json"))
        return script(program, text)

    def reported(self, name: str = "real") -> dict[str, Any]:
        result: dict[str, Any] = json.loads((self.folder / name / "told.json").read_text())
        return result

    def was_run(self, name: str = "real") -> bool:
        return (self.folder / name / "told.json").exists()

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
        command = [str(self.folder / "ours" / "cdc"), *arguments]
        given = {"PATH": os.pathsep.join(map(str, self.path)), "LANG": "C.UTF-8"} | environment
        return subprocess.run(command, env=given, input=stdin.encode(), capture_output=True, check=False, timeout=PATIENCE_S)


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def ours(folder: Path) -> Path:
    return script(folder / "cdc", f"#!{sys.executable}\nimport sys\nfrom sidecar.cli.cdc import main\nsys.exit(main())\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    ours(tmp_path / "ours")
    made = Machine(tmp_path, [tmp_path / "ours", tmp_path / "real"])
    made.double()
    return made


def recorded(architecture: str) -> dict[str, Any]:
    return {f"cli {command}": answer for command, answer in recorded_cluster(architecture)["cli"].items()}


# ---- passed on -------------------------------------------------------------------------------------------------------------


@pytest.mark.recordings
@pytest.mark.parametrize("architecture", ["classic", "new"])
def test_every_recorded_answer_comes_back_byte_for_byte(machine: Machine, architecture: str) -> None:
    answers = recorded(architecture)
    machine.double(answers=answers)
    foreign = {command: answer for command, answer in answers.items() if "dumpstart" not in command}
    assert len(foreign) == 8
    for command, answer in foreign.items():
        done = machine(*command.split(" "))
        assert machine.reported()["argv"] == command.split(" ")
        assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (answer["exit"], answer["stdout"], answer["stderr"])


def test_arguments_environment_and_input_arrive_as_they_are(machine: Machine) -> None:
    arguments = ["cli", "changefeed", "create", "--sink-uri=kafka://h/t?a=b&c=d", "", "two words", "--", "-c", "ü", "*", "dumpstart"]
    done = machine(*arguments, stdin="y\n", TICDC_PASSWORD="pä ss", EMPTY="")
    assert (done.returncode, done.stdout) == (0, b"the real one\n")
    reported = machine.reported()
    assert reported["argv"] == arguments
    assert reported["stdin"] == "y\n"
    given = {"PATH": os.pathsep.join(map(str, machine.path)), "LANG": "C.UTF-8", "TICDC_PASSWORD": "pä ss", "EMPTY": ""}
    assert {name: value for name, value in reported["environment"].items() if name not in (TRIED, "LC_CTYPE")} == given


def test_the_real_one_takes_the_wrappers_place_and_is_no_child(machine: Machine) -> None:
    command = [str(machine.folder / "ours" / "cdc"), "server"]
    with subprocess.Popen(
        command, env={"PATH": os.pathsep.join(map(str, machine.path))}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as running:
        assert running.wait(PATIENCE_S) == 0
    assert machine.reported()["pid"] == running.pid


PASSED_ON = (
    *("", "version", "server --addr 127.0.0.1:8300", "--help", "help", "help cli", "cli", "cli -i", "cli capture list"),
    *("cli changefeed dumpstrat -c x", "cli changefeed -- dumpstart", "cli changefeed query -c dumpquery"),
    *("cli changefeed list --help", "cli changefeed help list", "__complete cli ''"),
)


@pytest.mark.parametrize("line", PASSED_ON)
def test_what_is_not_ours_is_passed_on(machine: Machine, line: str) -> None:
    assert machine(*line.split()).stdout == b"the real one\n"
    assert machine.reported()["argv"] == line.split()


def test_passing_on_loads_nothing_heavy() -> None:
    text = "import sys, sidecar.cli.cdc; print(sorted({'grpc', 'typer', 'rich', 'pyarrow', 'msgspec'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert done.stdout == "[]\n"


# ---- which one is the real one ---------------------------------------------------------------------------------------------


def test_the_setting_comes_before_path(machine: Machine) -> None:
    other = machine.double("other")
    machine("version", **{REAL_BINARY: str(other)})
    assert machine.was_run("other")
    assert not machine.was_run()


def test_the_first_on_path_that_is_another_program_is_run(machine: Machine) -> None:
    """Before it: this program under a link, this program installed elsewhere, a folder, a file that may not be run, nothing."""
    link = machine.folder / "link"
    link.mkdir()
    (link / "cdc").symlink_to(machine.folder / "ours" / "cdc")
    ours(machine.folder / "venv2")
    (machine.folder / "folder" / "cdc").mkdir(parents=True)
    script(machine.folder / "plain" / "cdc", "no program").chmod(0o644)
    before = [machine.folder / name for name in ("link", "ours", "venv2", "folder", "plain", "absent")]
    machine.path[:] = [*before, machine.folder / "real"]
    machine("version")
    assert machine.was_run()


def test_a_link_to_the_real_one_is_run(machine: Machine) -> None:
    (machine.folder / "link").mkdir()
    (machine.folder / "link" / "cdc").symlink_to(machine.folder / "real" / "cdc")
    machine.path[:] = [machine.folder / "ours", machine.folder / "link"]
    machine("version")
    assert machine.was_run()


def test_a_wrapper_around_this_program_does_not_send_it_round_in_circles(machine: Machine) -> None:
    shim = script(machine.folder / "shim" / "cdc", f'#!/bin/sh\nexec "{machine.folder}/ours/cdc" "$@"\n')
    machine.path[:] = [shim.parent, machine.folder / "ours", machine.folder / "real"]
    assert machine("version").stdout == b"the real one\n"
    assert machine.was_run()
    machine.path.pop()
    done = machine("version")
    assert done.returncode == 127
    assert b"not on PATH" in done.stderr


def test_a_setting_that_leads_back_is_refused(machine: Machine) -> None:
    shim = script(machine.folder / "shim" / "cdc", f'#!/bin/sh\nexec "{machine.folder}/ours/cdc" "$@"\n')
    for named in (machine.folder / "ours" / "cdc", ours(machine.folder / "venv2"), shim):
        done = machine("version", **{REAL_BINARY: str(named)})
        assert done.returncode == 127
        assert b"leads back to this wrapper" in done.stderr


def test_without_a_real_one_it_says_so_and_the_dumps_commands_work_all_the_same(machine: Machine) -> None:
    machine.path.pop()
    for arguments in (["cli", "changefeed", "list"], ["version"], ["cli", "capture", "--help"]):
        done = machine(*arguments)
        assert (done.returncode, done.stdout) == (127, b"")
        assert REAL_BINARY.encode() in done.stderr
    assert machine("cli", "changefeed", "dumpstart", "--help").returncode == 0


@pytest.mark.parametrize(
    "line", ["", "--help", "help", "cli", "help cli", "cli changefeed", "cli changefeed --help", "help cli changefeed"]
)
def test_without_a_real_one_help_lists_the_dumps_commands(machine: Machine, line: str) -> None:
    machine.path.pop()
    done = machine(*line.split())
    assert done.returncode == 0
    assert our_section() in done.stdout
    assert REAL_BINARY.encode() in done.stderr
    named = machine(*line.split(), **{REAL_BINARY: str(machine.folder / "absent")})
    assert (named.returncode, named.stdout) == (127, b"")


def test_a_setting_that_cannot_be_run_is_reported(machine: Machine) -> None:
    assert machine("version", **{REAL_BINARY: str(machine.folder / "absent")}).returncode == 127
    broken = script(machine.folder / "broken" / "cdc", "\x00no program")
    for arguments in (["version"], ["cli", "changefeed"]):
        done = machine(*arguments, **{REAL_BINARY: str(broken)})
        assert done.returncode == 126
        assert b"cannot be run" in done.stderr


# ---- ours ------------------------------------------------------------------------------------------------------------------

ASKING_FOR_HELP = [
    "cli changefeed",
    "cli changefeed --help",
    "cli changefeed -h",
    "cli changefeed help",
    "help cli changefeed",
    "cli --pd x changefeed",
]


@pytest.mark.parametrize("line", ASKING_FOR_HELP)
def test_the_real_ones_help_is_followed_by_our_commands(machine: Machine, line: str) -> None:
    machine.double(answers={line: {"exit": 0, "stdout": HELP.decode(), "stderr": ""}})
    done = machine(*line.split())
    assert (done.returncode, done.stdout, done.stderr) == (0, HELP + our_section(), b"")
    assert machine.reported()["argv"] == line.split()
    assert all(f"  {name} ".encode() in done.stdout for name in COMMANDS)


@pytest.mark.recordings
@pytest.mark.parametrize("architecture", ["classic", "new"])
def test_the_recorded_usage_is_followed_by_our_commands_on_its_own_stream(machine: Machine, architecture: str) -> None:
    usage = recorded(architecture)["cli changefeed dumpstart -c x"]["stdout"]
    machine.double(answers={"cli changefeed": {"exit": 0, "stdout": "", "stderr": usage}})
    done = machine("cli", "changefeed")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", usage.encode() + our_section())


WAITS = """#!{python}
import os, pathlib, signal, sys, time
def told(number, _):
    print("stopped by", number, flush=True)
    sys.exit(7)
signal.signal(int(sys.argv[-1].partition("=")[2]), told)
pathlib.Path({ready!r}).write_text(str(os.getpid()))
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_ends_us_while_it_shows_its_help_ends_the_real_one(machine: Machine, number: signal.Signals) -> None:
    ready = machine.folder / "ready"
    os.mkfifo(ready)
    script(machine.folder / "real" / "cdc", WAITS.format(python=sys.executable, ready=str(ready)))
    command = [str(machine.folder / "ours" / "cdc"), "cli", "changefeed", "--help", f"--of-the-double={int(number)}"]
    given = {"PATH": os.pathsep.join(map(str, machine.path)), "LANG": "C.UTF-8"}
    with subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as wrapper:
        ready.read_text()
        wrapper.send_signal(number)
        out, err = wrapper.communicate(timeout=PATIENCE_S)
    assert (wrapper.returncode, out, err) == (7, f"stopped by {int(number)}\n".encode(), b"")


def test_an_error_of_the_real_one_stays_as_it_is(machine: Machine) -> None:
    answer = {"exit": 1, "stdout": HELP.decode(), "stderr": "Error: unknown flag: --bogus\nunknown flag: --bogus\n"}
    machine.double(answers={"cli changefeed --bogus": answer})
    done = machine("cli", "changefeed", "--bogus")
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, HELP, answer["stderr"])


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_has_help_that_shows_how_it_is_called(machine: Machine, name: str) -> None:
    done = machine("cli", "changefeed", name, "--help")
    assert done.returncode == 0
    assert f"Usage: cdc cli changefeed {name}".encode() in done.stdout
    assert not machine.was_run()


def test_help_for_a_command_is_that_commands(machine: Machine) -> None:
    for line in ("cli changefeed help dumpstart", "help cli changefeed dumpstart"):
        assert b"Usage: cdc cli changefeed dumpstart" in machine(*line.split()).stdout
    assert not machine.was_run()


def test_flags_of_ours_that_do_not_exist_are_wrong_usage(machine: Machine) -> None:
    done = machine("cli", "changefeed", "dumpstart", "-c", "x", "--bogus")
    assert done.returncode == 2
    assert b"--bogus" in done.stderr
    assert not machine.was_run()


@pytest.mark.xdist_group("control")
@pytest.mark.parametrize(
    "line",
    [
        "cli changefeed dumpstart --changefeed-id=cf",
        "--server http://h:8300 cli --log-level=warn changefeed -c=cf dumpstart --namespace default",
        "-x cli changefeed dumpstart -c cf -k default",
    ],
)
def test_a_script_starts_a_dump_with_flags_wherever_cdc_takes_them(machine: Machine, line: str) -> None:
    with Owner() as owner, Serving(owner.served()) as serving:
        done = machine(*line.split(), TICDC_DUMP_ADDR=serving.address)
        assert (done.returncode, done.stderr) == (0, b"")
        assert len(owner.carried_out) == 1
        refused = machine(*line.replace("dumpstart", "dumppause --id=9999999999999999").split(), TICDC_DUMP_ADDR=serving.address)
        assert refused.returncode == 3
        assert b"there is no dump 9999999999999999" in refused.stderr
    assert not machine.was_run()
