"""The help of the whole command line, and what is said of wrong usage."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from sidecar.cli.main import app, main
from sidecar.cli.usage import PARTS_OF_NAMES, Command, Use, first_sentence
from tests.support.hostile_ids import HOSTILE


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    """The exit code, and all that was written."""
    monkeypatch.setattr(sys, "argv", ["ticdc-dump", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    written = capsys.readouterr()
    return ended.value.code, written.out + written.err


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_has_each_command_once_below_its_use_with_its_whole_first_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    code, shown = run(monkeypatch, capsys, flag)
    assert code == 0
    assert "..." not in shown.partition("Options:")[2]
    text, names = " ".join(shown.split()), []
    for command in app.registered_commands:
        body = command.callback
        assert body is not None
        names.append(command.name or body.__name__)
        assert f"{names[-1]} {first_sentence(body.__doc__ or '')}" in text
    assert len(re.findall(r"^  (\w+)  ", shown, re.MULTILINE)) == len(names)
    places = [shown.index(f"\n{use}:\n") for use in Use]
    assert places == sorted(places)
    assert shown.index("  init ") < shown.index("  run ") < shown.index("  dumpstart ") < shown.index("  replay ")


@pytest.mark.parametrize("name", ["init", "check", "run", "merge", "pump", "replay", "skip", "holes", "tail", "remove", "dumpstart"])
def test_every_command_has_the_short_flag_of_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code, shown = run(monkeypatch, capsys, name, "-h")
    assert code == 0
    assert f"ticdc-dump {name} " in shown


def test_a_sentence_ends_at_its_full_stop() -> None:
    assert first_sentence("See v1.2 of\n  it. And more.") == "See v1.2 of it."
    assert first_sentence("without one") == "without one"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["dumpset", "--chunk-rows", "abc"], "'--chunk-rows': 'abc' is no whole number"),
        (["dumpset", "--chunk-rows", "-1"], "'--chunk-rows': -1 is less than 0"),
        (["dumpset", "--readers", "99999"], "'--readers': 99999 is more than "),
        (["dumpquery", "--timeout", "soon"], "'--timeout': 'soon' is no number"),
        (["dumpstart", "--brackets", "marks"], "'--brackets': 'marks' is not one of 'watermark', 'snapshot'"),
        (["replay", "x", "--crashes", "1.5"], "'--crashes': '1.5' is no whole number"),
        (["dumpstart", "--delete-at-most", "5"], "--delete-at-most: it bounds a repair: give --exact too"),
    ],
)
def test_what_a_value_lacks_is_said_in_words_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: list[str], says: str
) -> None:
    code, output = run(monkeypatch, capsys, *given, *(["-c", "orders"] if given[0] != "replay" else []))
    assert code == 2
    assert says in output
    assert "Input should" not in output
    assert "Value error" not in output


# ---- values ------------------------------------------------------------------------------------------------------------

GROUP: Any = typer.main.get_command(app)
OPTIONS = [(name, param) for name, command in GROUP.commands.items() for param in command.params if not getattr(param, "is_flag", False)]
MAY_BE_EMPTY = {"server": "TiCDC's", "user": "TiCDC's", "password": "TiCDC's", "log_level": "TiCDC's"}
"""Of the commands of a dump, with the reason: see DumpCommand. Another one is added here and there, with its own."""
NEEDED = {"--changefeed-id": "cf", "--config": "no-such.toml", "--rows": "1", "--row-bytes": "1", "--tables": "1", "--writes": "1"}


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    """As `run`, of a group that is made once."""
    with pytest.raises(SystemExit) as end:
        GROUP.main([*arguments], prog_name="ticdc-dump")
    written = capsys.readouterr()
    return end.value.code, written.out + written.err


def words_with(name: str, param: Any, text: str) -> list[str]:
    """The command with this value of `param` and whatever else it needs."""
    words = [name]
    for other in GROUP.commands[name].params:
        if other is not param and other.required:
            words += (
                [max(other.opts, key=len), NEEDED[max(other.opts, key=len)]] if other.opts[0].startswith("-") else ["no-such-recording"]
            )
    return [*words, *([f"{max(param.opts, key=len)}={text}"] if param.opts[0].startswith("-") else ["--", text])]


@pytest.mark.parametrize(("name", "param"), OPTIONS, ids=lambda value: value if isinstance(value, str) else value.name)
def test_a_value_that_is_empty_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, param: Any
) -> None:
    """Of every option and argument of every command, but those that are listed."""
    command = GROUP.commands[name]
    assert isinstance(command, Command)
    if param.name in command.may_be_empty:
        assert param.name in MAY_BE_EMPTY
        assert param.hidden
        return
    monkeypatch.chdir(tmp_path)
    for text in ("", " ", "\t", ",", " , "):
        code, output = ended(capsys, *words_with(name, param, text))
        assert code == 2, (text, output)
        assert max(param.opts, key=len).strip("-") in output.lower().rpartition("error: ")[2], (text, output)
    assert not [*tmp_path.iterdir()]


IGNORED = ("--timeout", "0.1", "--user=", "--password=", "--server=", "--log-level=")


def test_an_empty_variable_of_the_environment_is_none_and_a_blank_one_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TICDC_DUMP_ADDR", " ")
    code, output = ended(capsys, "dumpquery", "-c", "cf")
    assert (code, "TICDC_DUMP_ADDR" in output) == (2, True)
    monkeypatch.setenv("TICDC_DUMP_ADDR", "")
    code, output = ended(capsys, "dumpquery", "-c", "cf", "--timeout", "0.1")
    assert (code, "localhost" in output or "127.0.0.1" in output) == (5, True), output
    code, output = ended(capsys, "dumpquery", "-c", "cf", "--timeout", "0.1", "--user=", "--password=", "--server=", "--log-level=")
    assert code == 5, output


NAMES = [(name, param) for name, param in OPTIONS if param.name in PARTS_OF_NAMES]


def test_every_option_that_becomes_a_part_of_a_name_is_checked() -> None:
    flags = {"--id", "--changefeed-id", "--namespace", "--keyspace", "--cluster-id"}
    named = {(name, param.name) for name, param in OPTIONS if flags & {*param.opts}}
    assert named == {(name, param.name) for name, param in NAMES}
    assert {name for name, param in NAMES if "--id" in param.opts} > {"dumpquery", "dumpstop", "dumpverify"}


@pytest.mark.parametrize(("name", "param"), NAMES, ids=lambda value: value if isinstance(value, str) else value.name)
def test_a_hostile_id_is_wrong_usage_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, param: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in HOSTILE:
        if PARTS_OF_NAMES[param.name](text):
            code, output = ended(capsys, *words_with(name, param, text))
            assert code == 2, (text, output)
            assert param.opts[0] in output.rpartition("Error: ")[2]
            assert "expected letters" in output or not text.strip()
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "name", sorted(name for name, command in GROUP.commands.items() if any(p.name == "as_json" for p in command.params))
)
@pytest.mark.parametrize("wrong", [["--no-such-option"], ["--config="], ["--id="], ["--tables=,", "--rows=x"], ["one", "two", "three"]])
def test_wrong_usage_is_an_object_too_where_a_program_asks_for_json(
    capsys: pytest.CaptureFixture[str], name: str, wrong: list[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        GROUP.main([name, *wrong, "--json"], prog_name="ticdc-dump")
    written = capsys.readouterr()
    assert end.value.code == 2
    result = json.loads(written.out)
    assert (result["ok"], result["exit_reason"], [*result]) == (False, "usage", ["ok", "exit_reason", "error"])
    assert result["error"] in written.err, "people read it, too"


@pytest.mark.parametrize("wrong", [["--no-such-option"], ["no-such-command"]])
def test_wrong_usage_of_no_command_is_an_object_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ticdc-dump", *wrong, "--json"])
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out)["exit_reason"] == "usage"


def test_without_json_standard_output_is_empty(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["ticdc-dump", "dumpstart", "-c", "cf", "--tables", ","])
    with pytest.raises(SystemExit):
        main()
    written = capsys.readouterr()
    assert (written.out, "--tables" in written.err) == ("", True)
