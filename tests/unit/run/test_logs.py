"""What the processes say, where they say it, and in which form."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pymysql
import pytest
import structlog
from stamina.instrumentation import RetryDetails, set_on_retry_hooks

from sidecar.run.log_event import LogEvent
from sidecar.run.logs import RETRY_REPORTED_EVERY_S, RetriesReported, defects_reported, say, set_up
from sidecar.shared.config import LoggingSection, Tls
from sidecar.shared.errors import FeedLost, SourceError
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """`set_up` is for a whole process: pytest's own handlers are kept from it, and everything is put back."""
    root, ours = logging.getLogger(), logging.getLogger("ticdc-dump")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    root.handlers[:] = []
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    structlog.reset_defaults()
    set_on_retry_hooks(None)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_json_is_one_object_a_line_with_level_time_and_the_values(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="json"))
    structlog.get_logger("ticdc-dump").info("owner of the changefeed", epoch=3, text="two\nlines ü")
    (line,) = lines(capsys.readouterr().err)
    assert datetime.fromisoformat(line.pop("timestamp")).utcoffset() == timedelta(0)
    assert line == {"event": "owner of the changefeed", "level": "info", "epoch": 3, "text": "two\nlines ü"}


def test_text_is_a_plain_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="text"))
    structlog.get_logger("ticdc-dump").warning("the term ended", error="FeedLost")
    output = capsys.readouterr().err
    assert output.count("\n") == 1
    assert "the term ended" in output
    assert "error=FeedLost" in output
    assert "warning" in output
    assert "\x1b" not in output, "colours are for terminals"


def test_a_text_of_others_is_no_command_to_the_terminal_that_shows_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="text"))
    say(LogEvent("DDL\x1b[2J passed", {"query": "\x1b]0;owned\x07", "sinks": ["\x9b31m"], "rows": 3}))
    output = capsys.readouterr().err
    assert not any(char < " " or "\x7f" <= char < "\xa0" for char in output.rstrip("\n"))
    assert "]0;owned" in output
    assert "rows=3" in output


@pytest.mark.parametrize(
    ("level", "received"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_the_level_decides_which_of_our_lines_are_written(level: Any, received: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="json", level=level))
    log = structlog.get_logger("ticdc-dump")
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)(f"a line at {name}")
    assert [line["level"] for line in lines(capsys.readouterr().err)] == received


@pytest.mark.parametrize("level", ["debug", "error"])
def test_libraries_are_logged_from_warnings_on_in_the_same_form_whatever_our_level(level: Any, capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="json", level=level))
    logging.getLogger("grpc._server").info("chatter")
    logging.getLogger("grpc._server").warning("a port is %s", "odd")
    (line,) = lines(capsys.readouterr().err)
    assert (line["event"], line["level"]) == ("a port is odd", "warning")
    assert "timestamp" in line


def test_an_exception_of_ours_is_reported_with_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="json"))
    _fail(structlog.get_logger("ticdc-dump"))
    (line,) = lines(capsys.readouterr().err)
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: broken")


def test_an_exception_of_a_library_is_reported_with_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="json"))
    _fail(logging.getLogger("py4j"))
    (line,) = lines(capsys.readouterr().err)
    assert line["exception"].endswith("ValueError: broken")


def test_the_trace_of_a_library_does_not_show_the_values_of_its_variables(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="text"))
    _fail(logging.getLogger("py4j"), password="".join(["hun", "ter2"]))
    output = capsys.readouterr().err
    assert "ValueError: broken" in output
    assert "hunter2" not in output


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_is_written_to_standard_output(form: Any, capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format=form, level="debug"))
    structlog.get_logger("ticdc-dump").error("ours")
    logging.getLogger("py4j").error("a library's")
    output = capsys.readouterr()
    assert output.out == ""
    assert "ours" in output.err
    assert "a library's" in output.err


def test_setting_up_again_does_not_write_lines_twice(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        set_up(LoggingSection(format="json"))
    structlog.get_logger("ticdc-dump").info("once")
    assert len(lines(capsys.readouterr().err)) == 1


EVENTS = (
    LogEvent("table done", {"table": "shop.item", "rows": 5000, "seconds": 1.5}),
    LogEvent("dump failed", {"reason": "no rights"}, "warning"),
)


def test_events_are_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="json"))
    say(*EVENTS)
    done, failed = lines(capsys.readouterr().err)
    assert done.items() >= {"event": "table done", "level": "info", "table": "shop.item", "rows": 5000, "seconds": 1.5}.items()
    assert failed.items() >= {"event": "dump failed", "level": "warning", "reason": "no rights"}.items()


def test_events_are_one_line_each_with_their_values_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="text"))
    say(*EVENTS, LogEvent("DDL passed", {"query": "two\nlines"}))
    done, failed, ddl = capsys.readouterr().err.splitlines()
    assert done.split("table done")[1].split() == ["table=shop.item", "rows=5000", "seconds=1.5"]
    assert "warning" in failed
    assert "reason='no rights'" in failed
    assert "query='two\\nlines'" in ddl


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_defect_ends_the_process_with_a_line_that_says_so_and_its_trace(form: Any, capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format=form))
    with pytest.raises(SystemExit) as ended, defects_reported():
        raise ZeroDivisionError("no such thing")
    output = capsys.readouterr().err
    assert ended.value.code == 1
    assert output.count("a defect ended the process") == 1
    assert "ZeroDivisionError: no such thing" in output
    assert "Traceback" in output
    if form == "json":
        (line,) = lines(output)
        assert line.items() >= {"level": "error", "error": "ZeroDivisionError: no such thing", "exit_code": 1}.items()
        assert line["exception"].startswith("Traceback")


def test_an_error_of_ours_passes_for_the_command_reports_it(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection())
    with pytest.raises(FeedLost), defects_reported():
        raise FeedLost("no broker", hint="start one")
    assert capsys.readouterr().err == ""


def test_what_is_tried_again_is_one_line_that_says_what_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="json"))
    account = Account(host="tidb.example", port=4000, user="u", password="", tls=Tls(), statement_timeout_s=1.0, retry_s=0.3)

    def action() -> None:
        raise pymysql.err.OperationalError(2003, "Can't connect to MySQL server (Connection refused)")

    with pytest.raises(SourceError):
        carried_out(MysqlSession(account, Role.READ_SOURCE), action, doing="reading the schemas")
    (line,) = lines(capsys.readouterr().err)
    assert line["event"] == "tried again"
    assert "u@tidb.example:4000: reading the schemas: " in line["error"]
    assert "Connection refused" in line["error"]
    assert line["hint"]
    assert "stamina" not in str(line)


def test_an_error_of_ours_has_its_own_way_out_and_comes_again_after_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LoggingSection(format="json"))
    now_s = [0.0]
    reported = RetriesReported(lambda: now_s[0])
    for at_s, text in ((0.0, "etcd is away"), (1.0, "etcd is away"), (2.0, "TiKV is away"), (RETRY_REPORTED_EVERY_S, "etcd is away")):
        now_s[0] = at_s
        reported(RetryDetails("<context block>", (), {}, 1, 0.1, at_s, FeedLost(text, hint="start it")))
    results = lines(capsys.readouterr().err)
    assert [(line["error"], line["hint"]) for line in results] == [
        ("etcd is away", "start it"),
        ("TiKV is away", "start it"),
        ("etcd is away", "start it"),
    ]


def _fail(log: Any, password: str = "") -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("what failed")
    del password
