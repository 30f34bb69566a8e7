"""What a shell completes by the script that the command prints, in the shells that are here."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sidecar.cli.completion import PROGRAM, CompletedCommand, Shell, completed, script
from sidecar.cli.main import app
from tests.support.eventually import PATIENCE_S

GROUP: Any = typer.main.get_command(app)
COMMANDS = completed(GROUP)
OFFERED = """
for words in "${lines[@]}"; do
    COMP_WORDS=($words) COMP_CWORD=$(($(set -- $words; echo $#) - 1)) COMPREPLY=()
    [[ $words == *" " ]] && { COMP_WORDS+=(""); COMP_CWORD=$((COMP_CWORD + 1)); }
    _ticdc_dump
    echo "${COMPREPLY[*]}"
done
"""


def in_bash(*lines: str) -> list[set[str]]:
    """What bash offers at the end of each line."""
    program = f"{script(Shell.BASH, COMMANDS)}\nlines=({' '.join(map(shlex.quote, lines))})\n{OFFERED}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    assert done.stderr == ""
    return [set(line.split()) for line in done.stdout.splitlines()]


def words_of(command: CompletedCommand) -> set[str]:
    return {*command.words, *(name for option in command.options for name in option.names)}


def test_bash_offers_the_commands_and_of_each_command_its_options() -> None:
    offered = in_bash(*(f"{PROGRAM} {one.name} ".replace("  ", " ") for one in COMMANDS))
    assert offered == [words_of(one) for one in COMMANDS]
    shown = {name for name, command in GROUP.commands.items() if not command.hidden}
    assert {one.name for one in COMMANDS if one.name} == shown <= offered[0]
    assert {"dumpverify", "check", "--version", "-h"} <= offered[0]


def test_bash_offers_the_values_of_an_option_and_the_shell_those_that_can_be_anything() -> None:
    """Whatever was written before, and a value that is the word of a command."""
    options = [(one.name, option, name) for one in COMMANDS for option in one.options for name in option.names if option.takes_value]
    assert len(options) > 100
    offered = in_bash(*(f"{PROGRAM} {command} --json {name} " for command, _, name in options))
    assert offered == [set(option.words or ()) for _, option, _ in options]
    assert {"watermark", "snapshot"} in offered
    assert set() in offered


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (f"{PROGRAM} dumpp", {"dumppause"}),
        (f"{PROGRAM} dumpstart --br", {"--brackets"}),
        (f"{PROGRAM} dumpstart --brackets s", {"snapshot"}),
        (f"{PROGRAM} completion f", {"fish"}),
        (f"{PROGRAM} check --config check --no-", {"--no-write"}),
        (f"{PROGRAM} no-such-command ", words_of(COMMANDS[0])),
    ],
)
def test_bash_offers_what_begins_as_the_word_does(line: str, offered: set[str]) -> None:
    assert in_bash(line) == [offered]


@pytest.mark.parametrize("shell", list(Shell))
def test_the_command_prints_the_script_of_each_shell(shell: Shell) -> None:
    done = CliRunner().invoke(app, ["completion", shell])
    assert (done.exit_code, done.output) == (0, script(shell, COMMANDS))


@pytest.mark.parametrize("shell", [shell for shell in Shell if shutil.which(shell)])
def test_each_shell_that_is_here_takes_its_script(shell: Shell) -> None:
    """zsh has its completions after compinit only."""
    begins = "autoload -U compinit && compinit -D\n" if shell is Shell.ZSH else ""
    done = subprocess.run([shell, "-c", begins + script(shell, COMMANDS)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_zsh_completes_by_a_file_of_its_path_from_the_first_tab_on(tmp_path: Path) -> None:
    """A terminal of zsh's own; a TAB there after the beginning of a word. What it ends with is the last line."""
    (tmp_path / "_ticdc-dump").write_text(script(Shell.ZSH, COMMANDS))
    program = f"""
        zmodload zsh/zpty; zpty inner zsh -f -i
        zpty -w inner 'PS1= PS2=; fpath=({tmp_path} $fpath); autoload -U compinit; compinit -D; echo rea""dy'
        zpty -r inner line '*ready*'
        zpty -n -w inner $'ticdc-dump dumppa\t'; zpty -r inner line '*dumppause*'; echo "$line"; zpty -d inner"""
    done = subprocess.run(["zsh", "-f", "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert done.stdout.rstrip().endswith("dumppause"), done.stdout


def test_fish_has_a_line_for_each_command_and_each_option() -> None:
    lines = script(Shell.FISH, COMMANDS).splitlines()
    assert len(lines) == sum(len(one.options) + bool(one.name) + bool(one.name and one.words) for one in COMMANDS)
    text = r"[^'\\]|'(?:[^'\\]|\\.)*'"
    assert [line for line in lines if not re.fullmatch(rf"complete -c {PROGRAM} (?:{text})*", line)] == []
