"""What a URI's parameters may be, in all sinks alike, what their errors say, and how a dataclass declares them."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from sidecar.shared.errors import SinkError
from spark_merge.ddl.routes import Routes
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.kit.options import (
    Option,
    ValueKind,
    block,
    commit_tss,
    flag,
    is_word,
    matching,
    names_of,
    number,
    one_of,
    option,
    options_in,
    read,
    real,
    routes,
    seconds,
    text,
    texts_of,
    unset_or,
    whole_seconds,
)
from spark_merge.sinks.kit.server import CertifiedServer, server_of


@dataclass(frozen=True, slots=True)
class Limits:
    rows: int = option("rows", number(1, 9), 5, "Rows.")
    pause_s: float = option("pause", seconds(0), 0.5, "A pause.")


@dataclass(frozen=True, slots=True)
class Settings:
    place: str
    name: str = option("name", text(), "", "A name.")
    shards: int | None = option("shards", unset_or(number(1, 9), 1), None, "Shards.")
    done: frozenset[int] = commit_tss("done", "DDLs.")
    routes: Routes = routes("Where tables are.")
    limits: Limits = block(Limits)


def test_what_is_not_given_is_the_default_and_what_is_given_is_read() -> None:
    assert read(Settings, {}, place="here") == Settings("here", "", None, frozenset(), Routes(), Limits(5, 0.5))
    given = {"name": "x", "shards": "3", "done": "5, 7,,", "routes": "a.*=>b.*", "rows": "09", "pause": "1m", "of-others": "1"}
    settings = read(Settings, given, place="here")
    assert (settings.name, settings.shards, settings.done, settings.limits) == ("x", 3, frozenset({5, 7}), Limits(9, 60))
    assert settings.routes.schema("a") == "b"
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_names_are_those_of_the_declarations() -> None:
    assert [one.name for one in options_in(Settings)] == ["name", "shards", "done", "routes", "rows", "pause"]
    assert names_of(Limits, {"endpoint": "A server."}) == {"rows", "pause", "endpoint"}
    assert texts_of(Limits(3, 90)) == {"rows": "3", "pause": "90s"}


DAYS = one_of("none", "day")


@pytest.mark.parametrize(
    ("given", "kind", "value"),
    [
        ("day", DAYS, "day"),
        ("False", flag(any_case=True), False),
        ("gzip", is_word("gzip", "none", "gzip"), True),
        ("09", number(5, 9), 9),
        ("2e9", real(0, 1e10), 2e9),
        ("1m30s", seconds(), 90),
        ("0s", seconds(2, 600, or_zero=True), 0),
        ("7", whole_seconds(or_bare=True), 7),
        ("2m", whole_seconds(or_bare=True), 120),
        ("1.5s", whole_seconds(), 1),
    ],
)
def test_a_value_is_read(given: str, kind: ValueKind[Any], value: object) -> None:
    assert Option("name", kind, None, "").read(given) == value


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (DAYS, "day", "day"),
        (flag(), True, "true"),
        (is_word("gzip", "none", "gzip"), False, "none"),
        (number(1, 9), 5, "5"),
        (real(0, 1 << 59), 10737418240, "10737418240"),
        (whole_seconds(), 120, "2m"),
        (unset_or(number(1, 9), 1), None, ""),
    ],
)
def test_a_default_is_shown_as_a_uri_has_it(kind: ValueKind[Any], value: object, shown: str) -> None:
    assert Option("name", kind, value, "").default_text() == shown


@pytest.mark.parametrize(
    ("given", "kind", "default", "text"),
    [
        ("hour", DAYS, "day", "name='hour' is none of none, day|name=none"),
        ("DAY", DAYS, "day", "none of none, day"),
        ("True", flag(), True, "name='True' is none of true, false"),
        ("", flag(), True, "name='' is none of"),
        ("10", number(1, 9), 5, "name='10' is no number from 1 to 9|name=5"),
        ("0", number(1, 9), 5, "no number from 1 to 9"),
        ("0", unset_or(number(1, 9), 1), None, "no number from 1 to 9|write name=1"),
        ("+5", number(1, 9), 5, "no number"),
        ("٣", number(1, 9), 5, "no number"),
        ("9" * 5000, number(1, 9), 5, f"name='{'9' * 40}' is no number"),
        ("nan", real(0, 1 << 59), 10737418240, "no number from 0 to|name=10737418240"),
        ("-1", real(0.01, 9), 1, "no number from 0.01 to 9"),
        ("x", real(0.01, 9), 1, "name='x' is no number"),
        ("30", seconds(), 90, "name='30' is no time of 1s or more|name=90s"),
        ("0.5s", seconds(), 120, "no time of 1s or more|name=2m"),
        ("61m", seconds(0, 3600), 10, "no time from 0s to 1h|name=10s"),
        ("1s", seconds(2, 600, or_zero=True), 5, "neither 0s nor a time from 2s to 10m|name=5s"),
        ("0", whole_seconds(3600, or_bare=True), 60, "name='0' is no time from 1s to 1h|name=1m"),
        ("A", matching(re.compile("[a-z]"), "letter", values="a letter", hint="b"), "a", "name='A' is no letter|b"),
    ],
)
def test_an_error_names_the_parameter_what_it_may_be_and_an_example(given: str, kind: ValueKind[Any], default: object, text: str) -> None:
    message, _, example = text.partition("|")
    with pytest.raises(SinkError) as refused:
        Option("name", kind, default, "").read(given)
    assert message in refused.value.message
    assert example in refused.value.hint


def test_lists_and_routes_are_refused_by_name() -> None:
    with pytest.raises(SinkError, match="done='5,x' is no list of commit_ts"):
        read(Settings, {"done": "5,x"}, place="here")
    with pytest.raises(SinkError, match="route"):
        read(Settings, {"routes": "shop"}, place="here")


class Secured(CertifiedServer):
    SECRET_KIND = "test-options"
    PASSWORD = "OF_THE_TEST"


def server(given: str, **parameters: str) -> Secured:
    parameters = {name.replace("_", "-"): value for name, value in parameters.items()}
    return server_of(Secured, SinkUri(given, urlsplit(given), parameters, "log-1"), (("h", 1),))


def test_a_servers_certificate_needs_tls() -> None:
    for name in ("ssl-cert", "ssl-key"):
        with pytest.raises(SinkError, match=f"{name} without ssl-ca"):
            server("mysql://h", **{name: "/c"})
        assert server("mysql+ssl://h", **{name: "/c"}).tls
        assert server("mysql://h", **{name: "/c", "ssl-ca": "/ca"}).tls
    assert not server("mysql://h").tls


def test_files_of_tls_that_cannot_be_used_are_named() -> None:
    with pytest.raises(SinkError, match="u@h:1: the files of TLS cannot be used"):
        server("mysql://u:p@h", ssl_ca="/nowhere/ca.pem").tls_context()


def test_a_password_of_the_uri_goes_before_the_file_and_without_an_account_there_is_none() -> None:
    secured = server("mysql://u:a%2Fb@h", password_file="/nowhere")
    assert (str(secured), secured.password(), secured.password_file) == ("u@h:1", "a/b", "")
    assert str(server("mysql://h")) == "h:1"
    with pytest.raises(SinkError, match="cannot be read"):
        server("mysql://u@h", password_file="/nowhere")
