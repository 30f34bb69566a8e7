"""Transcripts of the core, as text: a reason in prose, input lines, `----`, and what must come out (style, habit 14).

    # why this matters

    next
    ----
    send mark 0 low

Blocks end at an empty line; where a block has several input lines, each is repeated above what it caused. What may stand
above `----` is told in `dump_player.py` for dump_*.txt, in `sequence_player.py` for sequence_*.txt, and so on.
A bug of a DDL, of an expression or of SQL text gets a block in ddl_*.txt, effects_*.txt, expr_*.txt or sql_*.txt: the statement and `----`.
`pytest tests/scenarios --rewrite` writes what comes out into the files: read the difference before you keep it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.ddl_player import DdlPlayer
from tests.scenarios.dump_player import DumpPlayer
from tests.scenarios.effects_player import EffectsPlayer
from tests.scenarios.expr_player import ExprPlayer
from tests.scenarios.f1_player import F1Player
from tests.scenarios.rounds_player import RoundsPlayer
from tests.scenarios.sequence_player import SequencePlayer
from tests.scenarios.sql_player import SqlPlayer

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))
Play = Callable[[str], list[str]]


def player(scenario: Path) -> Play:
    kind, _, _ = scenario.name.partition("_")
    players: dict[str, Callable[[], Play]] = {
        "ddl": lambda: DdlPlayer().play,
        "dump": lambda: DumpPlayer().play,
        "effects": lambda: EffectsPlayer().play,
        "expr": lambda: ExprPlayer().play,
        "f1": lambda: F1Player().play,
        "rounds": lambda: RoundsPlayer().play,
        "sequence": lambda: SequencePlayer().play,
        "sql": lambda: SqlPlayer().play,
    }
    return players[kind]()


def played(text: str, play: Play) -> str:
    """The text with its expected parts replaced by what comes out."""
    lines: list[str] = []
    inputs: list[str] = []
    expected = False
    for line in text.splitlines():
        if line == "----":
            lines += [line, *_outcome(inputs, play)]
            inputs, expected = [], True
            continue
        if not line:
            assert not inputs, f"no ---- below: {inputs}"
            expected = False
        if not expected:
            lines.append(line)
            inputs += [line] if line and not line.startswith("#") else []
    assert not inputs, f"no ---- below: {inputs}"
    return "\n".join(lines) + "\n"


def _outcome(inputs: list[str], play: Play) -> list[str]:
    if len(inputs) == 1:
        return play(inputs[0])
    reported = [(requested, play(requested)) for requested in inputs]
    return [line for requested, out in reported if out for line in (f"> {requested}", *(f"  {said}" for said in out))]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(scenario: Path, rewrite: bool) -> None:
    text = scenario.read_text()
    assert text.startswith("# "), "a scenario opens with its reason"
    result = played(text, player(scenario))
    if rewrite:
        scenario.write_text(result)
    else:
        assert result.splitlines() == text.splitlines()


def test_rewriting_keeps_everything_but_what_comes_out() -> None:
    text = "# why\n\n# first\nsay a\nsay b\n----\nwrong\nand more\n\n# empty\nhush\n----\nwrong\n"

    def play(line: str) -> list[str]:
        return [line.removeprefix("say ")] if line.startswith("say") else []

    assert played(text, play) == "# why\n\n# first\nsay a\nsay b\n----\n> say a\n  a\n> say b\n  b\n\n# empty\nhush\n----\n"
    assert played(played(text, play), play) == played(text, play)


def test_input_without_its_line_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no ---- below"):
        played("# why\n\nsay a\n\nsay b\n----\n", lambda line: [line])
