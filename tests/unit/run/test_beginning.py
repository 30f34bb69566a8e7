"""When a new log may not begin now."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sidecar.run.beginning import check_beginning, undelivered_dumps
from sidecar.shared.config import Config
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import Seq
from sidecar.shared.model.progress import DumpState, Progress
from sidecar.shared.model.sink_delivery import SinkDelivery
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


def dump_for(state: DumpState, *sinks: str) -> Progress:
    return Progress("1" * 16, state, Brackets.WATERMARK, 10, 1, 1, Seq(7), (), sinks=sinks)


@pytest.mark.parametrize(
    ("dump", "accepted", "said"),
    [
        (dump_for(DumpState.RUNNING), 3, ""),
        (dump_for(DumpState.RUNNING, "lake"), 3, ""),
        (dump_for(DumpState.RUNNING, "lake", "old"), 3, "is for old, and no sink has that name: the sinks are lake"),
        (dump_for(DumpState.FAILED, "old"), 3, "no sink has that name now: the sinks are lake: it does not continue"),
        (dump_for(DumpState.FINISHED, "old"), 6, "up to segment 7, old had not received all of it"),
        (dump_for(DumpState.FINISHED, "old"), None, "old had not received all of it"),
        (dump_for(DumpState.FINISHED, "old"), 7, ""),
        (dump_for(DumpState.STOPPED, "old"), 3, ""),
    ],
)
def test_a_dump_for_a_sink_that_has_another_name_now_is_reported(dump: Progress, accepted: int | None, said: str) -> None:
    reported = [SinkDelivery("old", None if accepted is None else Seq(accepted))]
    results = list(undelivered_dumps([dump], {"lake": ""}, reported))
    assert [said in line for line in results] == ([True] if said else [])
    if dump.state is DumpState.FINISHED:
        assert list(undelivered_dumps([dump], {"lake": ""}, [])) == []
