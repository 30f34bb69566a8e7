"""The service's texts as the console says them."""

from __future__ import annotations

import pytest

from sidecar.console.commands import COMMANDS
from sidecar.console.words import BUTTONS, dump_names, with_buttons
from sidecar.shared.errors import with_hint
from ticdc_dump.v1 import control_pb2 as pb


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("paused: dumpresume continues", "paused: “Resume” continues"),
        ("throttled: by the pace that dumpstart or dumpset set", "throttled: by the pace that “New dump” or “Change its pace” set"),
        ("remove its cause, then dumpresume", "remove its cause, then “Resume”"),
        ("see dumpstart --dry-run for its tables", "see “Show what it would do” of a new dump for its tables"),
        ("dumpresume with smaller chunks", "“Resume” with smaller chunks"),
        ("use dumpstart --where", "use dumpstart --where"),
        ("use dumpstart, with --sink for one of them", "use dumpstart, with --sink for one of them"),
        ("dumpverify --id 1 --repair", "dumpverify --id 1 --repair"),
        ("table dumpstarts", "table dumpstarts"),
    ],
)
def test_a_command_is_the_button_that_does_the_same(text: str, shown: str) -> None:
    assert with_buttons(text) == shown


def test_every_command_that_is_a_button_has_its_name() -> None:
    assert {f"dump{name}" for name in COMMANDS} <= set(BUTTONS)


def test_a_dump_is_named_by_its_tables() -> None:
    summaries = [pb.DumpSummary(dump_id=one, tables=tables) for one, tables in (("a", 3), ("b", 1), ("c", 2), ("d", 1))]
    status = pb.DumpStatus(
        dump_id="c", dumps=summaries, tables=[pb.TableStatus(schema="s", table="t"), pb.TableStatus(schema="s", table="u")]
    )
    scope = pb.OperationScope(tables=["s.x", "s.y"], table_count=1_200)
    names = dump_names(status, {"a": pb.Operation(id="a", scope=scope), "other": pb.Operation(id="other")})
    assert names == {"a": "s.x and 1,199 more", "b": "1 table", "c": "s.t and 1 more", "d": "1 table"}


@pytest.mark.parametrize("message", ["it is away", "it is away."])
def test_a_hint_is_a_sentence_of_its_own(message: str) -> None:
    """N28."""
    assert with_buttons(with_hint(message, "start it")) == "it is away. What to do: start it"
