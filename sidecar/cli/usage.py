"""How the command line is laid out and how wrong usage is reported, for all its commands: the group that they are in.

- `-h` is `--help` everywhere. The help lists commands by what they are for, each with its whole short description.
- What a value lacks is said in our words: typer has it checked by pydantic, whose errors have a type for each kind.
- **A value of an option or an argument says something.** One that is empty, or has blanks and commas only, is wrong usage, whatever the
  option would mean without it: a script whose variable is empty must not do what nobody requested. `Command` checks it for every command;
  the options that may be empty are its `may_be_empty`.
- What becomes a part of a key or of a file's name is checked as it is parsed, by the name of the option (PARTS_OF_NAMES).
- Wrong usage ends with exit code 2 and a text on standard error. With `--json` it is one object on standard output, too.
"""

from __future__ import annotations

import json
import os
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from sidecar.control.answers import EXIT_USAGE

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
"""Settings of a group, which its commands inherit."""


class Use(StrEnum):
    """What a command is for: each is declared with one as its `rich_help_panel`. In the order of the help."""

    PREPARE = "Prepare"
    RUN = "Run"
    DUMP = "Dump and verify"
    RARE = "Try, repair, remove"


class Command(TyperCommand):
    """`may_be_empty`: names of options whose empty value is as none, each for the reason that is beside it."""

    may_be_empty: ClassVar[frozenset[str]] = frozenset()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        rest: list[str] = super().parse_args(ctx, args)
        params: list[Any] = self.params
        for param in params:
            value = given.get(param.name)
            value = os.environ.get(param.envvar or "") or None if value is None else value
            if why := "" if value is None else self._lack(param.name, value):
                raise typer.BadParameter(why, ctx=ctx, param=param)
        return rest

    def _lack(self, name: str, value: object) -> str:
        """`value`: as it was written, a list of those of an option that is repeated. What is wrong with it; empty: nothing."""
        texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
        if name not in self.may_be_empty and any(not text.strip(BLANK) for text in texts):
            return "it is empty: give a value, or leave it out"
        return next((why for text in texts if name in PARTS_OF_NAMES and (why := PARTS_OF_NAMES[name](text))), "")


BLANK = f"{string.whitespace},"
"""Of a value, what says nothing: commas separate parts of it."""


def _no_id(value: str) -> str:
    """What is wrong with it, as the service would say; empty: nothing."""
    from sidecar.control.fields import identifies

    return identifies(value)


def _no_name(value: str) -> str:
    """As `_no_id`."""
    from sidecar.control.fields import shown
    from sidecar.shared.ticdc.changefeed import NAME, NAME_FORM

    return "" if re.fullmatch(NAME, value) else f"{shown(value)} is no name of TiCDC's: expected {NAME_FORM}"


PARTS_OF_NAMES: Mapping[str, Callable[[str], str]] = {
    "dump_id": _no_id,
    "operation_id": _no_id,
    "changefeed_id": _no_name,
    "namespace": _no_name,
    "cluster_id": _no_name,
}


class Commands(TyperGroup):
    """Its own `--help`, where it is not given, is False and not None: for None typer asks pydantic for a boolean, which takes as long to
    load as everything else that a command's help needs."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section for each use, each command with its first sentence in full."""
        commands = [
            command for name in self.list_commands(ctx) if (command := self.get_command(ctx, name)) is not None and not command.hidden
        ]
        for use in Use:
            if rows := [(str(command.name), first_sentence(command.help or "")) for command in commands if _use_of(command) is use]:
                with formatter.section(use.value):
                    formatter.write_dl(rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[GIVEN] = list(args)
        with _usage_reported(ctx.meta[GIVEN]):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _usage_reported(ctx.meta[GIVEN]):
            try:
                return super().invoke(ctx)
            except typer.BadParameter as error:
                error.message = in_words(error)
                raise


GIVEN = "sidecar.cli.usage"
"""Of a context's `meta`: the arguments."""


@contextmanager
def _usage_reported(arguments: Sequence[str]) -> Iterator[None]:
    """typer reports it on standard error, for people."""
    try:
        yield
    except typer.TyperException as error:
        if getattr(error, "exit_code", 0) == EXIT_USAGE and "--json" in arguments:
            typer.echo(error_json("usage", getattr(error, "format_message", error.__str__)()))
        raise


def error_json(reason: str, text: str) -> str:
    """What ended a command, for programs. `reason`: one word."""
    return json.dumps({"ok": False, "exit_reason": reason, "error": text})


def _use_of(command: Any) -> Use:
    return Use(command.rich_help_panel)


def first_sentence(text: str) -> str:
    match = re.match(r".*?\.(?=\s|$)", " ".join(text.split()))
    return match[0] if match else text


def in_words(error: typer.BadParameter) -> str:
    """Its message, where it is pydantic's in other words."""
    errors = getattr(error.__cause__, "errors", None)  # pydantic's own, which is not loaded for a look at its type
    if errors is None:
        return error.message
    (first, *_) = errors()
    given, bound = first["input"], first.get("ctx", {})
    match first["type"]:
        case "int_parsing" | "int_type" | "int_from_float" | "int_parsing_size":
            return f"{given!r} is no whole number"
        case "float_parsing" | "float_type":
            return f"{given!r} is no number"
        case "greater_than_equal":
            return f"{given} is less than {bound['ge']}"
        case "less_than_equal":
            return f"{given} is more than {bound['le']}"
        case "value_error":
            return str(bound["error"])
        case _:
            return error.message
