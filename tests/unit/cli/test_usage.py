"""The help of the whole command line, and what is said of wrong usage."""

from __future__ import annotations

import re
import sys

import pytest

from sidecar.cli.main import app, main
from sidecar.cli.usage import Use, first_sentence


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


@pytest.mark.parametrize("name", ["init", "check", "run", "merge", "pump", "replay", "skip", "remove", "dumpstart"])
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
    code, reported = run(monkeypatch, capsys, *given, *(["-c", "orders"] if given[0] != "replay" else []))
    assert code == 2
    assert says in reported
    assert "Input should" not in reported
    assert "Value error" not in reported
