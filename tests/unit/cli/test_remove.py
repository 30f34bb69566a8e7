"""Before anything is removed somebody says yes."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.cli import remove
from sidecar.cli.main import main
from sidecar.run import leaving
from sidecar.run.leaving import KeptBehind, LeftBehind, Reach
from sidecar.shared.config import Config, EtcdSection, TikvSection
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.unit.run.test_term import SETTINGS

KEPT = KeptBehind(
    ChangefeedName("default", "default", "orders"), ("/r/1",), ("/r/1/epoch",), ("ticdc-dump-x",), (LeftBehind("a log", "delete it"),)
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[KeptBehind]:
    behinds: list[KeptBehind] = []

    def taken(client: EtcdClient, reach: Reach, kept: KeptBehind) -> None:
        assert reach.name == kept.name
        behinds.append(kept)

    monkeypatch.setattr(leaving, "look", lambda client, reach: KEPT)
    monkeypatch.setattr(leaving, "remove", taken)
    return behinds


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, typed: str | None = None) -> object:
    monkeypatch.setattr(sys, "argv", ["ticdc-dump", "remove", "-c", "orders", "--pd", "127.0.0.1:1", *arguments])
    monkeypatch.setattr(sys, "stdin", io.StringIO() if typed is None else Terminal(typed))
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


@pytest.mark.parametrize(("typed", "code", "times"), [("y\n", 0, 1), ("n\n", 2, 0), ("\n", 2, 0)])
def test_on_a_terminal_it_must_be_confirmed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], removed: list[KeptBehind], typed: str, code: int, times: int
) -> None:
    assert run(monkeypatch, typed=typed) == code
    assert len(removed) == times
    output = capsys.readouterr().out
    assert output.index("etcd key /r/1/epoch") < output.index("Remove it?"), "what would go is seen first"


def test_without_a_terminal_a_yes_is_given_with_the_command(monkeypatch: pytest.MonkeyPatch, removed: list[KeptBehind]) -> None:
    assert run(monkeypatch) == 2
    assert run(monkeypatch, "--json", typed="y\n") == 2
    assert not removed
    assert run(monkeypatch, "--yes") == 0
    assert removed == [KEPT]


def test_people_read_what_goes_and_what_stays_with_the_way_to_remove_it() -> None:
    assert remove.to_be_removed(KEPT) == [
        "changefeed default/default/orders:",
        "  etcd key /r/1/epoch",
        "  PD's service safe point ticdc-dump-x, if there is one",
    ]
    history = tuple(f"/r/1/history/{number:016x}/entry" for number in range(1_000))
    reported = remove.to_be_removed(replace(KEPT, keys=(*KEPT.keys, *history)))
    assert reported[1:3] == ["  etcd key /r/1/epoch", "  the history of 1,000 dumps and verifications in etcd"]
    assert remove.staying(KEPT) == ["what stays:", "  a log", "    delete it"]


@pytest.mark.parametrize("is_defined", [False, True])
@pytest.mark.parametrize("namespace", ["default", "ns"])
@pytest.mark.parametrize("has_settings", [False, True])
def test_what_others_may_use_is_named_with_them_and_the_filter_rule_comes_first(
    *, is_defined: bool, namespace: str, has_settings: bool, tmp_path: Path
) -> None:
    """N3: the changefeed was to be removed without a word that others may read what it writes."""
    name = ChangefeedName("default", namespace, "orders")
    config = msgspec.convert(SETTINGS | {"log": {"uri": f"file://{tmp_path}/log"}}, Config) if has_settings else None
    reach = Reach(name, EtcdSection(endpoints=("h:1",)), TikvSection(), config)
    left = list(leaving._left(reach, is_defined=is_defined))
    steps = [one.how for one in left]
    shared = [step for step in steps if any(word in step for word in ("changefeed remove", "DROP DATABASE", "DROP USER"))]
    assert len(shared) == 1 + is_defined + has_settings
    assert all("other" in step.lower() and step.startswith(("if no ", "only if nothing else")) for step in shared)
    rule = [number for number, step in enumerate(steps) if "update" in step]
    assert len(rule) == is_defined
    commands = [step for step in steps if "cdc cli" in step]
    assert all(("-n ns" in step) == (namespace == "ns") for step in commands), "another namespace may have a changefeed of this id"
    if is_defined:
        assert rule[0] < min(number for number, step in enumerate(steps) if "changefeed_dump" in step and ";" in step and number != rule[0])


def test_settings_say_where_pd_is_and_a_feed_of_its_own_is_believed(tmp_path: Path) -> None:
    from sidecar.shared.config import read_config

    path = tmp_path / "sidecar.toml"
    least = 'sinks = ["/o"]\nchangefeed = { id = "orders" }\netcd = { endpoints = ["pd:2379"] }\n'
    least += 'source = { host = "h", user = "u" }\nlog = { uri = "/l" }\n'
    path.write_text(least)
    assert leaving.reach_of(read_config(path)).pd.pd == ("pd:2379",)
    path.write_text(least + 'tikv = { pd = ["other:2379"] }\n')
    assert leaving.reach_of(read_config(path)).pd.pd == ("other:2379",)
