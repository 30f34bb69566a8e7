"""What a terminal is told: texts of others do nothing to it, what we say ourselves does."""

from __future__ import annotations

import re

import pytest
from rich.text import Text

from sidecar.cli import terminal
from sidecar.cli.dump_view import look, preview_view, status_view
from sidecar.cli.history_view import history_view
from sidecar.cli.terminal import TerminalLook, View, console_for, tell
from sidecar.shared.errors import ConfigError
from sidecar.shared.process.printable import printable
from ticdc_dump.v1 import control_pb2 as pb

EVIL = "a\x1b]0;owned\x07b\x1b[2Jc\x9b31md\x00e\rf\x7f"
SEEN = "a]0;ownedb[2Jc31mdef"
OURS = re.compile(r"\x1b\[[0-9;?]*[mhlKAJ]")
"""Colours, and what redraws a picture in its place."""

STATUS = pb.DumpStatus(
    changefeed=pb.Changefeed(id=EVIL),
    dump_id="d" * 16,
    state=pb.DUMP_STATE_RUNNING,
    owner=EVIL,
    reason=EVIL,
    last_error=EVIL,
    waiting_for=EVIL,
    last_ddl=EVIL,
    last_ddl_tso=470609343168643082,
    tables=[pb.TableStatus(schema=EVIL, table=EVIL, rows=1)],
    lanes=[pb.LaneStatus(lane=EVIL, resolved_tso=1, lag_s=9.0), pb.LaneStatus(lane="b", resolved_tso=2)],
    sinks=[pb.SinkStatus(sink=EVIL)],
)

ASKER = pb.Asker(name=EVIL, address=EVIL, reason=EVIL)
OPERATION = pb.Operation(
    id=EVIL,
    scope=pb.OperationScope(tables=[EVIL], table_count=1, sinks=[EVIL]),
    asked_by=ASKER,
    result=EVIL,
    commands=[pb.OperationCommand(command=EVIL, asked_by=ASKER)],
)


def no_commands(output: str) -> bool:
    return not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", OURS.sub("", output).replace("\r\n", "\n").replace("\r", ""))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (EVIL, SEEN),
        ("täble\n\t表\u2028", "täble\n\t表\u2028"),
        ("".join(map(chr, range(0xA0))), "\t\n" + "".join(map(chr, range(32, 127)))),
    ],
)
def test_control_characters_are_left_out_and_all_else_stays(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("in_terminal", [True, False])
def test_no_text_of_others_reaches_a_terminal_as_a_command(
    in_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("FORCE_COLOR", "1") if in_terminal else monkeypatch.setenv("TTY_COMPATIBLE", "0")
    console = console_for(as_json=False)
    assert console.is_terminal is in_terminal
    preview = pb.DumpPreview(tables=[pb.TablePreview(schema=EVIL, table=EVIL, refused=EVIL)], refusals=[EVIL])
    for one in (status_view(STATUS), history_view([OPERATION]), preview_view(preview), EVIL, Text(EVIL, style="red")):
        console.print(one)
    with View(console) as view:
        view.show(look(STATUS))
        view.show(TerminalLook("done", picture=lambda: Text("done", style="green"), line=lambda: "done"))
    output = capsys.readouterr().out
    assert SEEN in output
    assert "done" in output
    assert no_commands(output), repr(output)
    assert ("\x1b[" in output) is in_terminal, "what we colour stays coloured"


def test_an_error_reaches_a_terminal_as_text_and_a_program_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    error = ConfigError(EVIL, hint=EVIL)
    tell(error, reason="error", as_json=False)
    assert capsys.readouterr().err == f"error: {SEEN}\n  what to do: {SEEN}\n"
    tell(error, reason="error", as_json=True)
    assert "\x1b" not in (output := capsys.readouterr().out)
    assert "\\u001b]0;owned" in output
    assert terminal.moment(0) == "-"


def test_no_line_of_a_pipe_ends_in_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    table = pb.TableStatus(schema="shop", table="orders", rows=5, rows_estimated=10, chunks=1)
    console_for(as_json=False).print(status_view(pb.DumpStatus(dump_id="d" * 16, tables=[table])))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    assert [line for line in lines if line != line.rstrip()] == []
