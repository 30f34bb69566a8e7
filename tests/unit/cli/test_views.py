"""A replay for people: the same looks as lines and as a picture."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from sidecar.cli.terminal import View, moment
from sidecar.cli.views import RATE_OVER_S, ReplayLooks
from sidecar.replay.status import ReplayStatus
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, ts_at
from sidecar.shared.model.progress import DumpState, Progress, TableProgress

ORDERS = TableName("shop", "orders")
AT = ts_at(1_795_232_130_250)
PROGRESS = Progress(
    dump_id="a" * 16,
    state=DumpState.RUNNING,
    brackets=Brackets.WATERMARK,
    chunk_rows=100,
    epoch=1,
    revision=1,
    seq=Seq(3),
    tables=(TableProgress(ORDERS, chunks=2, rows=150), TableProgress(TableName("shop", "done"), spans=(), complete_at=AT)),
)
STATUS = ReplayStatus(
    phase="playing",
    elapsed_s=4.0,
    played=0.5,
    resolved_ts=AT,
    changes=1000,
    repeats=7,
    dump_rows=150,
    dropped=3,
    open_windows=1,
    logged=9,
    delivered=8,
    crashes=0,
    progress=PROGRESS,
    estimates={ORDERS: 300},
)


def shown(console: Console, *statuses: ReplayStatus) -> str:
    looks = ReplayLooks()
    with View(console, lambda: 0.0) as view:
        for status in statuses:
            view.show(looks.look(status))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_without_a_terminal_a_line_comes_at_once_at_every_change_of_phase_only() -> None:
    statuses = [STATUS, replace(STATUS, changes=1001), replace(STATUS, phase="delivering", crashes=2), replace(STATUS, phase="delivering")]
    lines = shown(Console(file=io.StringIO(), width=300), *statuses).splitlines()
    assert [line.split()[1] for line in lines] == ["playing", "delivering"]
    assert "resolved 03:35:30.250" in lines[0]
    assert "1,000 live changes (0/s)  150 dump rows (0/s), 3 dropped in windows  dump running 1/2 tables  1 windows open" in lines[0]
    assert lines[1].endswith("2 crashes")


def test_in_a_terminal_the_last_look_is_the_picture_that_stays() -> None:
    later = replace(STATUS, elapsed_s=STATUS.elapsed_s + 2 * RATE_OVER_S, changes=4000)
    text = shown(Console(file=io.StringIO(), width=150, height=40, force_terminal=True, no_color=True), STATUS, later)
    for part in ("50 % of the recording", "4,000  (1,000/s)", "8 of 9 delivered", "shop.orders", f"complete at {moment(AT)}"):
        assert part in text, part


def test_a_console_that_is_to_be_quiet_is_not_redrawn() -> None:
    assert shown(Console(file=io.StringIO(), force_terminal=True, quiet=True), STATUS) == ""


def test_a_moment_of_no_tso_is_a_dash() -> None:
    assert moment(CommitTs(0)) == "-"
