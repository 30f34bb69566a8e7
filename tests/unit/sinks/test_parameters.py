"""What a URI's parameters may be, in all sinks alike, and what their errors say."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from sidecar.errors import SinkError
from spark_merge.sinks.parameters import Parameters


def given(text: str, *, any_case: bool = False) -> Parameters:
    return Parameters({"name": text}, any_case)


NONE = Parameters({})
DAYS = ("none", "day")


def test_what_is_not_given_is_the_default() -> None:
    assert (NONE.text("name"), NONE.text("name", "x")) == ("", "x")
    assert (NONE.one_of("name", DAYS), NONE.one_of("name", DAYS, "day")) == ("none", "day")
    assert (NONE.flag("name", otherwise=True), NONE.flag("name", otherwise=False)) == (True, False)
    assert (NONE.number("name", 5, 9), NONE.real("name", 0.5, 1, least=0)) == (5, 0.5)
    assert (NONE.seconds("name", 0.5, least=0), NONE.bare_seconds("name", 90)) == (0.5, 90)
    assert (NONE.commit_tss("name"), NONE.routes().schemas) == (frozenset(), {})


def test_what_is_given_is_read() -> None:
    assert given("day").one_of("name", DAYS) == "day"
    assert given("False", any_case=True).flag("name", otherwise=True) is False
    assert given("09").number("name", 5, 9) == 9
    assert given("2e9").real("name", 1, 1e10, least=0) == 2e9
    assert (given("1m30s").seconds("name", 1), given("0s").seconds("name", 5, 600, least=2, or_none=True)) == (90, 0)
    assert (given("7").bare_seconds("name", 1), given("2m").bare_seconds("name", 1), given("1.5s").bare_seconds("name", 1)) == (7, 120, 1)
    assert given("5, 7,,").commit_tss("name") == {5, 7}


@pytest.mark.parametrize(
    ("text", "read", "told"),
    [
        ("hour", lambda found: found.one_of("name", DAYS), "name='hour' is none of none, day|name=none"),
        ("DAY", lambda found: found.one_of("name", DAYS), "none of none, day"),
        ("True", lambda found: found.flag("name", otherwise=True), "name='True' is none of true, false"),
        ("", lambda found: found.flag("name", otherwise=True), "name='' is none of"),
        ("10", lambda found: found.number("name", 5, 9), "name='10' is no number from 1 to 9|name=5"),
        ("0", lambda found: found.number("name", 5, 9), "no number from 1 to 9"),
        ("+5", lambda found: found.number("name", 5, 9), "no number"),
        ("٣", lambda found: found.number("name", 5, 9), "no number"),
        ("9" * 5000, lambda found: found.number("name", 5, 9), f"name='{'9' * 40}' is no number"),
        ("nan", lambda found: found.real("name", 10737418240, 1 << 59, least=0), "no number from 0 to|name=10737418240"),
        ("-1", lambda found: found.real("name", 1, 9, least=0.01), "no number from 0.01 to 9"),
        ("x", lambda found: found.real("name", 1, 9, least=0.01), "name='x' is no number"),
        ("30", lambda found: found.seconds("name", 90), "name='30' is no time of 1s or more|name=90s"),
        ("0.5s", lambda found: found.seconds("name", 120), "no time of 1s or more|name=2m"),
        ("61m", lambda found: found.seconds("name", 10, 3600, least=0), "no time from 0s to 1h|name=10s"),
        ("1s", lambda found: found.seconds("name", 5, 600, least=2, or_none=True), "neither 0s nor a time from 2s to 10m|name=5s"),
        ("0", lambda found: found.bare_seconds("name", 60, 3600), "name='0s' is no time from 1s to 1h|name=1m"),
        ("5,x", lambda found: found.commit_tss("name"), "name='5,x' is no list of commit_ts"),
        ("A", lambda found: found.matching("name", re.compile("[a-z]"), "a", expected="letter", hint="b"), "name='A' is no letter|b"),
    ],
)  # fmt: skip
def test_an_error_names_the_parameter_what_it_may_be_and_an_example(text: str, read: Callable[[Parameters], object], told: str) -> None:
    message, _, example = told.partition("|")
    with pytest.raises(SinkError) as refused:
        read(given(text))
    assert message in refused.value.message
    assert example in refused.value.hint


def test_routes_and_certificates() -> None:
    with pytest.raises(SinkError, match="route"):
        Parameters({"routes": "shop"}).routes()
    for name in ("ssl-cert", "ssl-key"):
        with pytest.raises(SinkError, match=f"{name} without ssl-ca"):
            Parameters({name: "/c"}).check_tls("mysql")
        Parameters({name: "/c"}).check_tls("mysql+ssl")
        Parameters({name: "/c", "ssl-ca": "/ca"}).check_tls("mysql")
