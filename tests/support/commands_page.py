"""The tables of deploy/COMMANDS.md, out of the command line's own parser: one between each pair of marks.

<!-- command NAME: begin -->  …  <!-- command NAME: end -->      the help and the options of a command
<!-- every dump command: begin --> … <!-- every dump command: end -->  the options that all commands of a dump have
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
    tables = {f"command {name}": _described(command) for name, command in commands().items()}
    tables["every dump command"] = _table(common_params())
    named = [match[2] for match in _BLOCK.finditer(page)]
    if sorted(named) != sorted(tables):
        raise ValueError(f"deploy/COMMANDS.md has marks for {sorted(named)}, the command line has {sorted(tables)}")
    return _BLOCK.sub(lambda match: f"{match[1]}\n{tables[match[2]]}\n\n{match[3]}", page)


def _described(command: Any) -> str:
    own = [param for param in command.params if not any(param is common for common in common_params())]
    text = " ".join(command.help.split("\n\n")[0].split())
    return f"{text}\n\n{_table(own)}" if own else text


def _table(params: Iterable[Any]) -> str:
    rows = [_row(param) for param in params if not getattr(param, "hidden", False)]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def _row(param: Any) -> str:
    if param.param_type_name == "argument":
        names = f"`{param.name.upper()}`"
    else:
        names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    if getattr(param, "envvar", None):
        names += f", `{param.envvar}`"
    return f"| {names} | {_default(param)} | {_escaped(param.help or '')} |"


def _default(param: Any) -> str:
    if param.required:
        return "required"
    return "" if param.default in (None, "", False) else f"`{'on' if param.default is True else _escaped(str(param.default))}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")
