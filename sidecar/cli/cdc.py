"""`cdc`, as scripts and hands know it, with the dump's commands in `cdc cli changefeed`.

    cdc cli changefeed dumpstart …            ours, with TiCDC's flags wherever cobra takes them
    cdc cli changefeed [help | --help]        the real one's output, our commands after it, its exit code
    cdc [cli [changefeed]] [help | --help]    our commands alone where there is no real one
    anything else                             the real cdc: same arguments, environment, output, exit code (exec)

- The real binary is TICDC_CDC_BINARY, else the next `cdc` on PATH that is not this program, in whatever environment it is
  installed. A wrapper around this program cannot send us round in circles: TICDC_DUMP_CDC_TRIED names what was tried.
- Commands are recognised among the arguments exactly as cobra does it (spf13/cobra command.go, stripFlags): what follows a flag
  without "=" is its value, unless the flag is known as a switch. What cobra would not find is passed on, wrong or right.
- Nothing but the standard library is loaded for what is passed on.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import NoReturn

from sidecar.cli.environment import GIVEN_ENVIRONMENT
from sidecar.shared.errors import with_hint

REAL_BINARY = "TICDC_CDC_BINARY"
TRIED = "TICDC_DUMP_CDC_TRIED"
EXIT_CANNOT_RUN, EXIT_NOT_FOUND = 126, 127
"""As a shell has them."""

COMMANDS = {
    "dumpstart": "Start a dump of the existing rows, interleaved with the live changes",
    "dumpset": "Change the settings of a running or paused dump",
    "dumppause": "Pause the dump",
    "dumpresume": "Resume a dump that was paused or has failed",
    "dumprestart": "Stop the dump and start the same one from the beginning",
    "dumpstop": "End the dump",
    "dumpquery": "Show the dump's progress, and what it is waiting for",
    "dumpverify": "Compare the sinks with TiDB while both change, and repair what differs",
    "dumplist": "List the last dumps and verifications, and who requested them",
}
ARCHITECTURE_SWITCHES = {"-x", "--newarch"}
"""The real one takes them out of its arguments wherever they are, before cobra sees them (pingcap/ticdc cmd/cdc/main.go)."""
CLI_SWITCHES = {"-i", "--interact"}
"""Switches of `cdc cli`, known from there on (pkg/cmd/cli/cli.go)."""
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
HEADING = b"Available Commands:"
MARKS_OF_OURS = (b"sidecar.cli.cdc", b"sidecar.control.cdc")
"""In the script that an installer makes for this program, whatever environment it is in; the second one up to version 0.1.0."""


def main() -> None:
    arguments = sys.argv[1:]
    words, rest = split_words(arguments)
    if words[:1] == ["help"]:  # `cdc help cli changefeed`, the same as with help behind
        words = [*words[1:3], "help", *words[3:]]
    match words:
        case ["cli", "changefeed", command, *_] if command in COMMANDS:
            _run_ours([command, *rest])
        case ["cli", "changefeed", "help", command, *_] if command in COMMANDS:
            _run_ours([command, "--help"])
        case [] | ["help"] | ["cli"] | ["cli", "help"] | ["cli", "changefeed"] | ["cli", "changefeed", "help"] if _is_missing(os.environ):
            _show_ours_alone()
        case ["cli", "changefeed"] | ["cli", "changefeed", "help"]:
            _run_with_our_section(real_binary(os.environ), arguments)
        case _:
            _become(real_binary(os.environ), arguments)


def split_words(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The words that are neither flags nor flags' values, up to one of our commands; and all other arguments, in their order."""
    words: list[str] = []
    others: list[str] = []
    left = [argument for argument in arguments if argument not in ARCHITECTURE_SWITCHES]
    while left and left[0] != "--" and not (words and words[-1] in COMMANDS):
        argument, *left = left
        if argument and not argument.startswith("-"):
            words.append(argument)
            continue
        others.append(argument)
        if _takes_value(argument) and not (words and argument in CLI_SWITCHES):
            others += left[:1]
            left = left[1:]
    return words, [other for other in others if other not in CLI_SWITCHES] + left


def _takes_value(argument: str) -> bool:
    """What cobra takes for a flag whose value is the next argument, where it does not know the flag."""
    return "=" not in argument and (argument.startswith("--") or (argument.startswith("-") and len(argument) == 2))


def _run_ours(arguments: list[str]) -> NoReturn:
    from sidecar.cli.dump_commands import run  # gRPC and typer are loaded for our commands only

    run([re.sub(r"^(-[A-Za-z])=", r"\1", argument) for argument in arguments], program="cdc cli changefeed")


# ---- the real one ------------------------------------------------------------------------------------------------------


def real_binary(environment: Mapping[str, str]) -> str:
    """Ends the process with a message and exit code 127 if there is none."""
    named = environment.get(REAL_BINARY, "")
    if named:
        if not _can_run(named):
            _end(EXIT_NOT_FOUND, f"{REAL_BINARY}={named} is not a program that can be run", "set it to the path of TiCDC's own cdc")
        if _is_this_program(named) or os.path.realpath(named) in _tried(environment):
            _end(EXIT_NOT_FOUND, f"{REAL_BINARY}={named} leads back to this wrapper", "set it to the path of TiCDC's own cdc")
        return named
    path = _on_path(environment)
    if path is None:
        _end(EXIT_NOT_FOUND, "TiCDC's own cdc is not on PATH", f"install it, or set {REAL_BINARY} to its path; the dump commands need none")
    return path


def _tried(environment: Mapping[str, str]) -> set[str]:
    return set(environment.get(TRIED, "").split(os.pathsep))


def _on_path(environment: Mapping[str, str]) -> str | None:
    tried = _tried(environment)
    paths = (os.path.join(folder or os.curdir, "cdc") for folder in environment.get("PATH", os.defpath).split(os.pathsep))
    return next((path for path in paths if _can_run(path) and not _is_this_program(path) and os.path.realpath(path) not in tried), None)


def _is_missing(environment: Mapping[str, str]) -> bool:
    """None is named, and none is on PATH."""
    return not environment.get(REAL_BINARY) and _on_path(environment) is None


def _show_ours_alone() -> NoReturn:
    usage = "Usage:\n  cdc cli changefeed [command]\n"
    sys.stdout.write(f'{usage}{our_section().decode()}\nUse "cdc cli changefeed [command] --help" for a command\'s options.\n')
    sys.stderr.write(f"TiCDC's own cdc is not on PATH, so its commands are not listed: install it, or set {REAL_BINARY} to its path\n")
    raise SystemExit(0)


def _can_run(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_this_program(path: str) -> bool:
    if os.path.realpath(path) == os.path.realpath(sys.argv[0]):
        return True
    try:
        with open(path, "rb") as file:
            script = file.read(4096)
            return any(mark in script for mark in MARKS_OF_OURS)
    except PermissionError:  # a program that may be run and not read is no script of ours
        return False


def _environment(binary: str) -> dict[str, str]:
    tried = [*filter(None, os.environ.get(TRIED, "").split(os.pathsep)), os.path.realpath(binary)]
    return {**GIVEN_ENVIRONMENT, TRIED: os.pathsep.join(tried)}


def _become(binary: str, arguments: list[str]) -> NoReturn:
    try:
        os.execve(binary, [binary, *arguments], _environment(binary))
    except OSError as error:
        _end(EXIT_CANNOT_RUN, f"{binary} cannot be run: {error.strerror}", f"set {REAL_BINARY} to the path of TiCDC's own cdc")


def _run_with_our_section(binary: str, arguments: list[str]) -> NoReturn:
    try:
        code, outputs = _carried_out([binary, *arguments], _environment(binary))
    except OSError as error:
        _end(EXIT_CANNOT_RUN, f"{binary} cannot be run: {error.strerror}", f"set {REAL_BINARY} to the path of TiCDC's own cdc")
    for stream, output in zip((sys.stdout.buffer, sys.stderr.buffer), outputs, strict=True):
        stream.write(output)
        if code == 0 and HEADING in output:
            stream.write(our_section())
        stream.flush()
    raise SystemExit(code if code >= 0 else 128 - code)


def _carried_out(command: list[str], environment: Mapping[str, str]) -> tuple[int, tuple[bytes, bytes]]:
    """Exit code and outputs. Who ends us means the real one: signals are its own, and it decides what becomes of them. One that comes
    before it runs is passed on as soon as it does; one that is ignored (nohup) stays so for both."""
    running: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _: object) -> None:
        for process in running:
            process.send_signal(number)
        if not running:
            early.append(number)

    for number in PASSED_ON:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    running.append(process)
    for signalled in early:
        process.send_signal(signalled)
    outputs = process.communicate()
    return process.returncode, outputs


def our_section() -> bytes:
    """As cobra lays its commands out."""
    width = max(map(len, COMMANDS))
    lines = ["", "Dump Commands (ticdc-dump):", *(f"  {name:<{width}} {text}" for name, text in COMMANDS.items()), ""]
    return "\n".join(lines).encode()


def _end(code: int, message: str, hint: str) -> NoReturn:
    sys.stderr.write(f"error: {with_hint(message, hint)}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
