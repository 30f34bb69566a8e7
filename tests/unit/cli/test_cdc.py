"""Which arguments are ours: commands are found as cobra finds them, and what cobra would not find is passed on."""

from __future__ import annotations

import pytest

from sidecar.cli.cdc import COMMANDS, our_section, split_words


@pytest.mark.parametrize(
    ("line", "words", "others"),
    [
        ("cli changefeed dumpstart -c x", "cli changefeed dumpstart", "-c x"),
        ("cli changefeed dumpstart --changefeed-id=x --json", "cli changefeed dumpstart", "--changefeed-id=x --json"),
        ("--pd http://h:1 cli changefeed dumppause -c x", "cli changefeed dumppause", "--pd http://h:1 -c x"),
        ("cli --pd http://h:1 changefeed --ca=a dumpquery --watch", "cli changefeed dumpquery", "--pd http://h:1 --ca=a --watch"),
        ("cli -c x changefeed dumpstop", "cli changefeed dumpstop", "-c x"),
        ("cli changefeed -n ns dumplist", "cli changefeed dumplist", "-n ns"),
        ("cli -i changefeed dumpstart -c x", "cli changefeed dumpstart", "-c x"),
        ("cli --interact changefeed -i dumpstart -c x", "cli changefeed dumpstart", "-c x"),
        ("-x cli changefeed dumpstart -c x", "cli changefeed dumpstart", "-c x"),
        ("cli changefeed dumpstart --newarch -c x", "cli changefeed dumpstart", "-c x"),
        ("cli changefeed dumpstart -- -c", "cli changefeed dumpstart", "-- -c"),
        ("cli changefeed dumpstart -c x extra", "cli changefeed dumpstart", "-c x extra"),
    ],
)
def test_our_commands_are_found_with_flags_in_any_place(line: str, words: str, others: str) -> None:
    assert split_words(line.split()) == (words.split(), others.split())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cli changefeed list", "cli changefeed list"),
        ("cli changefeed", "cli changefeed"),
        ("cli changefeed --help", "cli changefeed"),
        ("cli changefeed --help dumpstart", "cli changefeed"),
        ("cli changefeed --json dumpstart", "cli changefeed"),
        ("-i cli changefeed dumpstart", "changefeed dumpstart"),
        ("--help cli changefeed dumpstart", "changefeed dumpstart"),
        ("cli changefeed query -c dumpstart", "cli changefeed query"),
        ("cli changefeed -c dumpstart", "cli changefeed"),
        ("cli changefeed dumpstrat -c x", "cli changefeed dumpstrat"),
        ("cli changefeed DUMPSTART", "cli changefeed DUMPSTART"),
        ("cli -- changefeed dumpstart", "cli"),
        ("cli capture dumpstart", "cli capture dumpstart"),
        ("server --addr a:1", "server"),
        ("", ""),
    ],
)
def test_what_cobra_would_not_take_for_our_command_is_not_ours(line: str, words: str) -> None:
    assert split_words(line.split())[0] == words.split()


def test_empty_arguments_are_no_words_and_are_not_lost() -> None:
    assert split_words(["cli", "", "changefeed", "dumpstart", "--where", ""]) == (["cli", "changefeed", "dumpstart"], ["", "--where", ""])


def test_the_section_lists_every_command() -> None:
    lines = our_section().decode().splitlines()
    assert [line.split()[0] for line in lines[2:]] == list(COMMANDS)
