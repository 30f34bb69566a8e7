"""deploy/man/ticdc-dump.1, out of the command line's own parser: every command with its options, those of all dump commands once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import sidecar
from sidecar.cli.completion import PROGRAM
from sidecar.cli.dump_call import common_params
from sidecar.cli.dump_commands import EXIT_CODES
from sidecar.cli.main import app
from sidecar.cli.usage import Use
from tests.support.commands_page import commands, default_of, own_params, text_of

SUMMARY = str(app.info.help).rstrip(".")


def page() -> str:
    return "\n".join([*_head(), *_commands(), *_end()]) + "\n"


def _head() -> Iterator[str]:
    yield f'.TH {PROGRAM.upper()} 1 "" "{PROGRAM} {sidecar.__version__}"'
    yield ".SH NAME"
    yield _escaped(f"{PROGRAM} - {SUMMARY[0].lower()}{SUMMARY[1:]}")
    yield ".SH SYNOPSIS"
    yield f".B {_escaped(PROGRAM)}"
    yield ".I COMMAND\n[OPTIONS]"


def _commands() -> Iterator[str]:
    """By what they are for, in the order of the help."""
    common: list[Any] = list(common_params())
    for use in Use:
        yield f'.SH "{use.value.upper()}"'
        for name, command in commands().items():
            if command.rich_help_panel == use:
                yield f".SS {_escaped(' '.join([name, *(one.name.upper() for one in command.params if _is_argument(one))]))}"
                yield _escaped(text_of(command))
                yield from _options(own_params(command))
                if own_params(command) != command.params:
                    yield ".PP\nAnd the options of every dump command, below."
    yield '.SH "OPTIONS OF EVERY DUMP COMMAND"'
    yield from _options(common)


def _end() -> Iterator[str]:
    yield '.SH "EXIT STATUS"'
    yield _escaped(EXIT_CODES.removeprefix("Exit codes: "))
    yield ".PP\nOther codes of single commands: deploy/TROUBLESHOOT.md."
    yield '.SH "SEE ALSO"'
    yield _escaped(
        "deploy/README.md, deploy/TROUBLESHOOT.md and deploy/config.example.toml, which packages install in share/doc/ticdc-dump."
    )


def _options(params: Iterable[Any]) -> Iterator[str]:
    for param in (one for one in params if not getattr(one, "hidden", False)):
        names = [param.name.upper()] if _is_argument(param) else [*param.opts, *param.secondary_opts]
        yield f".TP\n.B {_escaped(', '.join(names))}"
        variable = getattr(param, "envvar", None)
        notes = ["Required."] if param.required else [f"Default: {default}."] if (default := default_of(param)) else []
        yield _escaped(" ".join([param.help or "", *notes, *([f"Also by the variable {variable}."] if variable else [])]))


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _escaped(text: str) -> str:
    """As roff reads it as text: a line that begins as a request, backslashes, and hyphens that are typed."""
    return re.sub(r"^(['.])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.MULTILINE)
