"""The file that `init` writes is TOML whatever is in a value or a comment, and has nothing that needs not be there."""

from __future__ import annotations

import tomllib

import pytest

from sidecar.setup.settings import ChosenSetting, differing, host_port, settings_text, toml_value
from sidecar.shared.errors import ConfigError

LETTERS = "".join(map(chr, [*range(0x300), *range(0x2000, 0x2070), 0xFEFF, 0xFFFE, 0xFFFF, 0x1F600, 0x10FFFF]))


def test_every_letter_is_read_back_as_it_was_given() -> None:
    for value in (LETTERS, *LETTERS, '"""', "\\", "a\\u0000", "'''"):
        result = tomllib.loads(f"x = {toml_value(ChosenSetting('log.uri', value, ''))}\ny = 1\n")
        assert result == {"x": value, "y": 1}


def test_a_comment_is_one_line_whatever_is_in_it() -> None:
    evil = f"a\n[source]\nhost = 'x'\r\nb\x85c\u2028d {LETTERS}"
    text = settings_text([ChosenSetting("changefeed.id", "orders", evil)], [evil])
    assert tomllib.loads(text) == {"changefeed": {"id": "orders"}}


def test_lists_and_numbers_are_written_as_such() -> None:
    chosen = [ChosenSetting("etcd.endpoints", ('a"b', "c"), "x"), ChosenSetting("source.port", 4001, "y")]
    assert tomllib.loads(settings_text(chosen, [])) == {"etcd": {"endpoints": ['a"b', "c"]}, "source": {"port": 4001}}


def test_what_is_no_unicode_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"source\.user is not text in UTF-8"):
        settings_text([ChosenSetting("source.user", "a\udcff", "x")], [])


def test_what_equals_a_default_is_not_written_and_the_rest_is_in_the_order_of_the_settings() -> None:
    chosen = [
        ChosenSetting("source.port", 4000, ""),
        ChosenSetting("etcd.tls.ca_file", "ca.pem", ""),
        ChosenSetting("etcd.tls.key_file", "", ""),
        ChosenSetting("changefeed.namespace", "default", ""),
        ChosenSetting("log.uri", "/log", ""),
        ChosenSetting("source.host", "h", ""),
        ChosenSetting("etcd.endpoints", ("h:1",), ""),
        ChosenSetting("feed", "kafka", ""),
        ChosenSetting("sinks", ("console:",), ""),
        ChosenSetting("changefeed.id", "orders", ""),
        ChosenSetting("push.form", "messages", ""),
        ChosenSetting("tikv.pd", (), ""),
    ]
    kept = [one.setting for one in differing(chosen)]
    assert kept == ["sinks", "changefeed.id", "etcd.endpoints", "etcd.tls.ca_file", "source.host", "log.uri", "push.form"]
    assert list(tomllib.loads(settings_text(differing(chosen), []))) == ["sinks", "changefeed", "etcd", "source", "log", "push"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tidb", ("tidb", 4000)),
        (" tidb:4001 ", ("tidb", 4001)),
        ("[::1]:1", ("::1", 1)),
        ("[::1]", ("::1", 4000)),
        ("10.0.0.1", ("10.0.0.1", 4000)),
    ],
)
def test_an_address_of_tidb_may_leave_its_port_out(text: str, address: tuple[str, int]) -> None:
    assert host_port(text) == address


@pytest.mark.parametrize("text", ["", "a b", "h:", "h:0", "h:70000", "::1", "http://h:4000", "u@h:1", "h:x"])
def test_what_is_no_address_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="is no address of TiDB"):
        host_port(text)
