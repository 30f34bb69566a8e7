"""The tables of deploy/COMMANDS.md, out of the command line's own parser: one between each pair of marks.

<!-- command NAME: begin -->  …  <!-- command NAME: end -->      the help and the options of a command
<!-- every dump command: begin --> … <!-- every dump command: end -->  the options that all commands of a dump have

An option that several commands have in the same words is described at the first of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import typer

from sidecar.cli.dump_call import common_params
from sidecar.cli.main import app

_BLOCK = re.compile(r"(<!-- (command [a-z]+|every dump command): begin -->\n).*?(<!-- \2: end -->)", re.DOTALL)


def commands() -> dict[str, Any]:
    """Every command of `ticdc-dump` by its name."""
    result = typer.main.get_command(app)
    return {name: command for name, command in result.commands.items() if not command.hidden}  # type: ignore[attr-defined]  # a group's


def renewed(page: str) -> str:
    """`page` with the tables as the parser has them. Raises ValueError unless each command has one pair of marks."""
    blocks = {f"command {name}": (text_of(command), own_params(command)) for name, command in commands().items()}
    blocks["every dump command"] = ("", common_params())
    named = [match[2] for match in _BLOCK.finditer(page)]
    if sorted(named) != sorted(blocks):
        raise ValueError(f"deploy/COMMANDS.md has marks for {sorted(named)}, the command line has {sorted(blocks)}")
    first: dict[str, str] = {}
    return _BLOCK.sub(lambda match: f"{match[1]}\n{_described(match[2], *blocks[match[2]], first)}\n\n{match[3]}", page)


def text_of(command: Any) -> str:
    return " ".join(command.help.split("\n\n")[0].split())


def own_params(command: Any) -> list[Any]:
    return [param for param in command.params if not any(param is common for common in common_params())]


def _described(block: str, text: str, params: Iterable[Any], first: dict[str, str]) -> str:
    """A block; options that an earlier one has in the same words are named only. `first`: in which block each row is, added to."""
    name = block.removeprefix("command ")
    shown = [(param, _row(param)) for param in params if not getattr(param, "hidden", False)]
    again: dict[str, list[str]] = {}
    for param, row in shown:
        if row in first:
            again.setdefault(first[row], []).append(f"`{param.opts[0]}`")
    rows = [row for _, row in shown if row not in first]
    first.update(dict.fromkeys(rows, name))
    table = "\n".join(["| option | meaning |", "|---|---|", *rows]) if rows else ""
    as_above = "; ".join(f"{', '.join(options)} as of {above}" for above, options in again.items())
    return "\n\n".join(part for part in (text, table, as_above and f"Also {as_above}.") if part)


def _row(param: Any) -> str:
    if param.param_type_name == "argument":
        names = f"`{param.name.upper()}`"
    else:
        names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    if getattr(param, "envvar", None):
        names += f", `{param.envvar}`"
    default = " Required." if param.required else f" Default: `{_escaped(default_of(param))}`." if default_of(param) else ""
    return f"| {names} | {_escaped(param.help or '')}{default} |"


def default_of(param: Any) -> str:
    """As it is written; empty where a reader need not know it."""
    return "" if param.required or param.default in (None, "", False) else "on" if param.default is True else str(param.default)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")
