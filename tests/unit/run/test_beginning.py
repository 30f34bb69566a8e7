"""When a new log may not begin now."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sidecar.config import Config
from sidecar.errors import ConfigError
from sidecar.run.beginning import check_beginning
from tests.unit.run.test_term import SETTINGS


def settings(begin: str = "", feed: str = "kafka") -> Config:
    sections: dict[str, Any] = {"log": {"uri": "/nowhere"}, "sinks": ["/a", "/b"], "kafka": {"begin": begin}, "feed": feed}
    return msgspec.convert(SETTINGS | sections, Config)


def test_the_default_is_refused_for_a_sink_that_somebody_else_has_fed_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match=r'sink 2 holds rows.*\n?.*kafka\.begin = "now".*"topic"'):
        check_beginning(settings(), "cf/1", lambda uri, log_id: (uri, log_id) == ("/b", "cf/1"))
    check_beginning(settings(), "cf/1", lambda *_: False)


@pytest.mark.parametrize("config", [settings("now"), settings("topic"), settings(feed="tikv")])
def test_a_choice_is_taken_and_key_values_have_none(config: Config) -> None:
    check_beginning(config, "cf/1", lambda *_: True)


def test_a_misspelt_choice_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="begin"):
        settings("nwo")
