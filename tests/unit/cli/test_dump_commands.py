"""The commands' options and their words, without a sidecar."""

from __future__ import annotations

import json
import re

import pytest
import typer
from typer.testing import CliRunner

from sidecar.cli import cdc
from sidecar.cli.dump_commands import register
from sidecar.cli.dump_options import parse_keys, parse_where
from sidecar.control import client

APP = typer.Typer(rich_markup_mode=None)
register(APP)
COMMANDS = {str(command.callback.__name__): command for command in APP.registered_commands if command.callback is not None}


def test_the_wrapper_lists_exactly_the_commands_that_there_are() -> None:
    assert set(COMMANDS) == set(cdc.COMMANDS)
    assert len(COMMANDS) == 9


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_and_takes_ticdcs_flags(name: str) -> None:
    assert COMMANDS[name].callback.__doc__
    for flag in ("--help", "-h"):
        shown = CliRunner().invoke(APP, [name, flag])
        assert shown.exit_code == 0
        for option in ("--changefeed-id", "-c", "--namespace", "-n", "--pd", "--ca", "--cert", "--key", "--json"):
            assert "Exit codes: 0 " in shown.output
            assert re.search(rf"(^|[ ,/│]){option}\b", shown.output, re.MULTILINE), option


@pytest.mark.parametrize("given", [[], ["--sidecar", "127.0.0.1:1"]], ids=["alone", "with a sidecar"])
def test_one_that_names_ticdcs_server_alone_gets_a_hint_at_what_finds_the_sidecar(
    monkeypatch: pytest.MonkeyPatch, given: list[str]
) -> None:
    monkeypatch.setattr(client, "ADDRESS_DEFAULT", "127.0.0.1:1")
    called = ["dumpquery", "-c", "cf", "--server", "http://cdc:8300", "--timeout", "0.1", "--json", *given]
    shown = CliRunner().invoke(APP, called, env={"TICDC_DUMP_ADDR": ""})
    output = json.loads(shown.output)["error"]
    assert shown.exit_code == 5
    assert ("--server http://cdc:8300 is TiCDC's own" in output) is (not given)
    assert ("name PD with --pd" in output) is (not given)
    assert "--sidecar HOST:PORT" in output


@pytest.mark.parametrize(
    ("text", "table", "keys"),
    [
        ("shop.orders:[1,2]", "shop.orders", [["1"], ["2"]]),
        ('shop.orders:[1,2,["a","b"]]', "shop.orders", [["1"], ["2"], ["a", "b"]]),
        ("shop.orders : [18446744073709551615, -1.50]", "shop.orders", [["18446744073709551615"], ["-1.50"]]),
        ("shop.orders:[99999999999999999999999999]", "shop.orders", [["99999999999999999999999999"]]),
        ('shop.orders:["a:b.c"]', "shop.orders", [["a:b.c"]]),
        ('`sh.op`."or:ders":[[1, "x"]]', "sh.op.or:ders", [["1", "x"]]),
        ('`a``b`.t:["z"]', "a`b.t", [["z"]]),
        ("名.表:[1]", "名.表", [["1"]]),
    ],
)
def test_keys_are_read_as_they_are_written(text: str, table: str, keys: list[list[str]]) -> None:
    result = parse_keys(text)
    assert f"{result.schema}.{result.table}" == table
    assert [list(key.values) for key in result.keys] == keys


@pytest.mark.parametrize(
    "text",
    [
        *(
            "shop.orders",
            "orders:[1]",
            ".orders:[1]",
            "a.b.c:[1]",
            "shop.orders:",
            "shop.orders:1",
            'shop.orders:{"a":1}',
            "shop.orders:[1",
        ),
        *("shop.orders:[]", "shop.orders:[[]]", "shop.orders:[null]", "shop.orders:[true]", "shop.orders:[[[1]]]"),
    ],
)
def test_keys_that_are_none_are_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_keys(text)


def test_a_predicate_is_everything_after_the_first_colon() -> None:
    predicate = parse_where("shop.orders: name = 'a:b' AND x > 1 ")
    assert (predicate.schema, predicate.table, predicate.predicate) == ("shop", "orders", "name = 'a:b' AND x > 1")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["dumpverify", "--repair", "--delete-at-most", str(10**30)], "9223372036854775807"),
        (["dumpverify", "--repair", "--delete-at-most", "-1"], "0"),
        (["dumpstart", "--exact", "--delete-at-most", str(10**30)], "9223372036854775807"),
        (["dumpverify", "--delete-at-most", "5"], "give --repair too"),
        (["dumpverify", "--id", "last", "--delete-at-most", "5"], "give --repair too"),
        (["dumpstart", "--delete-at-most", "5"], "give --exact too"),
    ],
)
def test_a_bound_that_would_bound_nothing_or_that_no_message_holds_is_wrong_usage(given: list[str], says: str) -> None:
    shown = CliRunner().invoke(APP, [*given, "-c", "cf", "--sidecar", "127.0.0.1:1"])
    assert (shown.exit_code, "--delete-at-most" in shown.output) == (2, True)
    assert says in " ".join(shown.output.split())
