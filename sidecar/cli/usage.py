"""How the command line is laid out and how wrong usage is reported, for all its commands: the group that they are in.

- `-h` is `--help` everywhere. The help lists commands by what they are for, each with its whole short description.
- What a value lacks is said in our words: typer has it checked by pydantic, whose errors have a type for each kind.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

import typer
from typer.core import TyperGroup

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
"""Settings of a group, which its commands inherit."""


class Use(StrEnum):
    """What a command is for: each is declared with one as its `rich_help_panel`. In the order of the help."""

    PREPARE = "Prepare"
    RUN = "Run"
    DUMP = "Dump and verify"
    RARE = "Try, repair, remove"


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
        results = [
            command for name in self.list_commands(ctx) if (command := self.get_command(ctx, name)) is not None and not command.hidden
        ]
        for use in Use:
            if rows := [(str(command.name), first_sentence(command.help or "")) for command in results if _use_of(command) is use]:
                with formatter.section(use.value):
                    formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = in_words(error)
            raise


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
