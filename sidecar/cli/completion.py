"""`ticdc-dump completion SHELL`: what the shell completes, out of the command line's own parser.

The script has all commands, their options and the words that an option may have, so that a TAB starts no process. Where nothing of these
fits, and for the values of other options, the shell completes names of files. zsh reads bash's script (bashcompinit). `make pages` writes
the scripts to deploy/completion, which packages install where the shells look for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from sidecar.cli.usage import CONTEXT, Command, Use, first_sentence

PROGRAM = "ticdc-dump"
HELP: tuple[str, ...] = tuple(CONTEXT["help_option_names"])


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True, slots=True)
class CompletedOption:
    """`names`: as they are written, `--config`, `-c`. `words`: those that its value is one of; None: any value."""

    names: tuple[str, ...]
    description: str
    takes_value: bool = False
    words: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """`words`: those that its arguments are one of. `name` empty: the program itself."""

    name: str
    description: str
    options: tuple[CompletedOption, ...]
    words: tuple[str, ...] = ()


def completed(group: Any) -> list[CompletedCommand]:
    """The program, then its commands. `group`: as the parser has it."""
    shown = [command for command in group.commands.values() if not command.hidden]
    program = CompletedCommand("", "", _options(group), tuple(str(command.name) for command in shown))
    return [program, *(_completed(command) for command in shown)]


def _completed(command: Any) -> CompletedCommand:
    words = [word for param in command.params if param.param_type_name == "argument" for word in _words(param) or ()]
    return CompletedCommand(str(command.name), first_sentence(command.help or ""), _options(command), tuple(words))


def _options(command: Any) -> tuple[CompletedOption, ...]:
    shown = [param for param in command.params if param.param_type_name == "option" and not param.hidden]
    options = [CompletedOption((*one.opts, *one.secondary_opts), one.help or "", not one.is_flag, _words(one)) for one in shown]
    return (*options, CompletedOption(HELP, "Show the help and exit."))


def _words(param: Any) -> tuple[str, ...] | None:
    choices = param.type_descriptor.choices
    return None if choices is None else tuple(map(str, choices))


_ZSH_AUTOLOADED = "[[ $zsh_eval_context[-1] != loadautofunc ]] || _bash_complete -o default -F _ticdc_dump\n"
"""A file of `fpath` is read at the first TAB: it answers that one, too."""


def script(shell: Shell, commands: Sequence[CompletedCommand]) -> str:
    match shell:
        case Shell.BASH:
            return _bash(commands)
        case Shell.ZSH:
            return f"#compdef {PROGRAM}\nautoload -U +X bashcompinit && bashcompinit\n{_bash(commands)}{_ZSH_AUTOLOADED}"
        case Shell.FISH:
            return "\n".join(_fish(commands)) + "\n"


def _bash(commands: Sequence[CompletedCommand]) -> str:
    named = "|".join(one.name for one in commands if one.name)
    values, words = [], []
    for one in commands:
        names = [name for option in one.options for name in option.names]
        words.append(f"        '{one.name}') words='{' '.join((*one.words, *names))}' ;;")
        for option in one.options:
            if option.takes_value:
                places = "|".join(f"'{one.name} {name}'" for name in option.names)
                values.append(f"        {places}) words='{' '.join(option.words or ())}' ;;")
    return "\n".join(
        [
            "_ticdc_dump() {",
            '    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="" words="" word',
            '    for word in "${COMP_WORDS[@]:1:$((COMP_CWORD-1))}"; do',
            f'        case "$word" in {named}) command="$word"; break ;; esac',
            "    done",
            '    case "$command $before" in',
            *values,
            '        *) case "$command" in',
            *words,
            "        esac ;;",
            "    esac",
            '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            f"complete -o default -F _ticdc_dump {PROGRAM}",
            "",
        ]
    )


def _fish(commands: Sequence[CompletedCommand]) -> Iterator[str]:
    for one in commands:
        where = f"-n '__fish_seen_subcommand_from {one.name}'" if one.name else "-n __fish_use_subcommand"
        for option in one.options:
            names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
            value = f" -x -a {_quoted(' '.join(option.words))}" if option.words else " -r -F" if option.takes_value else ""
            yield f"complete -c {PROGRAM} {where} {' '.join(names)}{value} -d {_quoted(first_sentence(option.description))}"
        if one.words and one.name:
            yield f"complete -c {PROGRAM} {where} -f -a {_quoted(' '.join(one.words))}"
        if one.name:
            yield f"complete -c {PROGRAM} -n __fish_use_subcommand -f -a {one.name} -d {_quoted(one.description)}"


def _quoted(text: str) -> str:
    return "'" + re.sub(r"(['\\])", r"\\\1", text) + "'"


def completion(
    context: typer.Context, shell: Annotated[Shell, typer.Argument(help="Of this shell: bash, zsh or fish.", show_choices=False)]
) -> None:
    """Print what makes the shell complete the commands and options of ticdc-dump."""
    typer.echo(script(shell, completed(context.find_root().command)), nl=False)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(name="completion", cls=Command, rich_help_panel=Use.PREPARE)(completion)
