"""A definition in a file is looked at while others write it: what it says counts once it has said it twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest

from sidecar.adapters.etcd.keys import Keys
from sidecar.run import changefeed_watch
from sidecar.run.changefeed_watch import ChangefeedWatch, read_changefeed, settled_changefeed
from sidecar.shared.config import Config, read_config
from sidecar.shared.errors import ConfigError, FeedChanged

NOBODY = cast("Keys", None)
"""What a file says is not queried of etcd."""


class Looks:
    """An event that is never set until all of `writes` are done, one before each look."""

    def __init__(self, *writes: Callable[[], object]) -> None:
        self._writes = list(writes)

    def wait(self, _: float) -> bool:
        if not self._writes:
            return True
        self._writes.pop(0)()
        return False


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.toml"


@pytest.fixture
def config(tmp_path: Path, file: Path) -> Config:
    path = tmp_path / "sidecar.toml"
    path.write_text(f"""
sinks = ["console:"]
changefeed = {{ id = "orders", file = "{file}" }}
etcd = {{ folder = "{tmp_path}/state" }}
source = {{ host = "h", user = "u" }}
log = {{ uri = "{tmp_path}/log" }}
""")
    file.write_text(text())
    return read_config(path)


def text(rules: str = "shop.*", more: str = "") -> str:
    return f'sink-uri = "kafka://k:9092/t?protocol=open-protocol"\n{more}[filter]\nrules = ["{rules}"]\n'


def look(config: Config, monkeypatch: pytest.MonkeyPatch, *writes: Callable[[], object]) -> list[str]:
    """What was noted."""
    noted: list[str] = []
    monkeypatch.setattr(changefeed_watch, "note", noted.append)
    watch = ChangefeedWatch(NOBODY, config, read_changefeed(NOBODY, config))
    watch.close()
    watch._look(cast("Event", Looks(*writes)))
    return noted


def test_another_definition_counts_at_the_second_look(config: Config, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write: Any = file.write_text
    half, whole = text("*.*"), text("app.*")
    assert look(config, monkeypatch, lambda: write(half), lambda: write(text())) == [], "it was being written"
    assert look(config, monkeypatch, lambda: write(half), lambda: write(whole), lambda: write(text())) == []
    with pytest.raises(FeedChanged, match=f"changed in {file}"):
        look(config, monkeypatch, lambda: write(half), lambda: write(whole), lambda: None)


def test_what_is_no_definition_changes_nothing_and_is_reported_once(config: Config, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write: Any = file.write_text
    assert look(config, monkeypatch, lambda: write("{"), lambda: write(text())) == []
    (noted,) = look(config, monkeypatch, lambda: write("{"), file.unlink, lambda: write(""), lambda: write(text()))
    assert str(file) in noted
    assert "the definition is the one that it had" in noted
    with pytest.raises(FeedChanged):
        look(config, monkeypatch, lambda: write("{"), lambda: write(text("app.*")), lambda: None)


def test_at_the_start_of_a_term_it_must_be_one(config: Config, file: Path) -> None:
    file.write_text("{")
    with pytest.raises(ConfigError, match=str(file)):
        read_changefeed(NOBODY, config)


def test_what_says_nothing_of_the_stream_is_no_change(config: Config, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write: Any = file.write_text
    assert look(config, monkeypatch, lambda: write(text(more='state = "failed"\n')), lambda: None) == []


def test_a_term_begins_with_what_is_there_twice_or_with_what_was_there_before(
    config: Config, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is written, a file ends anywhere."""
    noted: list[str] = []
    monkeypatch.setattr(changefeed_watch, "note", noted.append)
    before = read_changefeed(NOBODY, config)
    later = iter([text("*.*"), "{", text("app.*"), text("app.*")])
    monkeypatch.setattr("time.sleep", lambda _: file.write_text(next(later)))
    assert settled_changefeed(NOBODY, config, before) == before
    file.write_text(text("b.*"))
    assert settled_changefeed(NOBODY, config, before) == before, "it was still being written"
    file.write_text(text("b.*"))
    assert settled_changefeed(NOBODY, config, before) == before, "and was no definition"
    assert [str(file) in one for one in noted] == [True]
    assert settled_changefeed(NOBODY, config, before) == before
    file.write_text(text("app.*"))
    assert settled_changefeed(NOBODY, config, before).filter.rules == ("app.*",)
