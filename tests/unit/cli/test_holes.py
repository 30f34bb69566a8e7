"""`ticdc-dump holes` as an operator meets it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.cli.holes import holes
from sidecar.shared.log.filled import read_words
from sidecar.shared.log.identity import claim_log, own_id
from sidecar.shared.log.sink_tables import read_sink_tables, write_sink_tables
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkTables
from spark_merge.delivery.complete import filled
from tests.support.merge_command import MergeSettings
from tests.unit.cli.test_cli import run

Said = pytest.CaptureFixture[str]
A, B = TableName("shop", "orders"), TableName("shop", "item")
IMPORTED = OpenHole(HoleCause.IMPORT, CommitTs(470_000_000_000_000_000), Seq(7), vanished=False, text="IMPORT INTO orders")
GONE = OpenHole(HoleCause.FLASHBACK, CommitTs(480_000_000_000_000_000), Seq(9), vanished=True, text="FLASHBACK CLUSTER")


@pytest.fixture(autouse=True)
def _rights() -> Iterator[None]:
    """The command sets its process's, as what stays does."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    """Of two sinks and one that was removed from the settings."""
    log = open_folder(str(tmp_path / "log"))
    claim_log(log, "cf/1")
    for sink, there in (("lake", {A: IMPORTED, B: GONE}), ("copy", {A: replace(IMPORTED, seq=Seq(12))}), ("old", {A: IMPORTED})):
        write_sink_tables(log, SinkTables(sink, "", Seq(0), None, Seq(13), None, holes=there), log_id=own_id(log))
    return log


@pytest.fixture
def config(log: Folder, tmp_path: Path) -> str:
    path = tmp_path / "sidecar.toml"
    sinks = tuple(f"file://{tmp_path}/{name}?format=jsonl&name={name}" for name in ("lake", "copy", "new"))
    path.write_text(MergeSettings(f"{tmp_path}/log", sinks, "local[1]").toml())
    return str(path)


def test_open_holes_of_the_settings_sinks_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str) -> None:
    assert run(monkeypatch, "holes", "--config", config) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" since")[0] for line in lines] == [
        "shop.orders in sink lake", "shop.orders in sink copy", "shop.item in sink lake",
    ]  # fmt: skip
    assert "noticed in segment 7: import: IMPORT INTO orders; dumpstart --holes fills it" in lines[0]
    assert "noticed in segment 12: " in lines[1]
    assert "rows may be gone in TiDB" in lines[2]
    assert run(monkeypatch, "holes", "--config", config, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["filled"] == []
    assert [(one["sink"], one["table"], one["seq"]) for one in result["holes"]] == [
        ("lake", "item", 9), ("lake", "orders", 7), ("copy", "orders", 12),
    ]  # fmt: skip
    assert result["holes"][0] == {
        "sink": "lake", "schema": "shop", "table": "item", "seq": 9, "since_tso": str(GONE.since_ts), "cause": "flashback",
        "text": "FLASHBACK CLUSTER", "vanished": True,
    }  # fmt: skip


def test_a_word_is_of_the_holes_that_are_listed_and_has_a_name(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str, log: Folder
) -> None:
    assert run(monkeypatch, "holes", "--config", config, "--filled", "shop.orders", "--reason", "restored by hand") == 0
    out = capsys.readouterr().out
    assert "filled: shop.orders in sink lake, noticed up to segment 7: import: IMPORT INTO orders [" in out
    assert "applies it with the next batch" in out
    words = read_words(log)
    assert [(word.sink, word.table, word.upto_seq, word.reason) for word in words] == [
        ("lake", A, 7, "restored by hand"), ("copy", A, 12, "restored by hand"),
    ]  # fmt: skip
    assert all("@" in word.by and word.at_ms for word in words)
    tables = read_sink_tables(log, ["lake"])["lake"]
    assert set(filled(tables, words).holes) == {B}
    assert set(filled(replace(tables, holes={A: replace(IMPORTED, seq=Seq(8))}), words).holes) == {A}, "a later one"
    assert run(monkeypatch, "holes", "--config", config) == 0
    assert f"filled: shop.orders in sink lake, noticed up to segment 7 [{words[0].by}]: restored by hand" in capsys.readouterr().out


def test_a_word_for_one_sink_is_of_no_other(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str, log: Folder) -> None:
    arguments = ("holes", "--config", config, "--filled", "shop.orders", "--sink", "copy", "--seq", "12", "--reason", "x", "--json")
    assert run(monkeypatch, *arguments) == 0
    [one] = json.loads(capsys.readouterr().out)["filled"]
    assert (one["sink"], one["schema"], one["table"], one["upto_seq"], one["reason"]) == ("copy", "shop", "orders", 12, "x")
    assert [word.sink for word in read_words(log)] == ["copy"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("shop.nothing",), "table shop.nothing has no hole in any sink that is open"),
        (("shop.item", "--sink", "copy"), "table shop.item has no hole in sink copy that is open"),
        (("shop.orders", "--sink", "old"), "table shop.orders has no hole in sink old that is open"),
        (("shop.orders", "--seq", "7"), "a hole of shop.orders was noticed in segment 12, after segment 7"),
    ],
)
def test_what_has_no_such_hole_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str, log: Folder, arguments: tuple[str, ...], why: str
) -> None:
    assert run(monkeypatch, "holes", "--config", config, "--filled", *arguments, "--reason", "x") == 3
    assert why in capsys.readouterr().err
    assert run(monkeypatch, "holes", "--config", config, "--filled", *arguments, "--reason", "x", "--json") == 3
    assert json.loads(capsys.readouterr().out)["ok"] is False
    assert read_words(log) == []


def test_another_user_than_the_logs_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str, log: Folder) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(log.root).st_uid + 1)
    assert run(monkeypatch, "holes", "--config", config, "--filled", "shop.orders", "--reason", "x") == 3
    assert "-- ticdc-dump holes …" in capsys.readouterr().err
    assert read_words(log) == []
    assert run(monkeypatch, "holes", "--config", config) == 0


def test_without_a_hole_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str, log: Folder) -> None:
    for sink in ("lake", "copy"):
        write_sink_tables(log, SinkTables(sink, "", Seq(0), None, Seq(13), None), log_id=own_id(log))
    assert run(monkeypatch, "holes", "--config", config) == 0
    assert capsys.readouterr().out == "no table has a hole that is open in a sink\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--filled", "shop.orders"),
        ("--reason", "x"),
        ("--sink", "lake"),
        ("--seq", "7"),
        ("--filled", "shop.orders", "--reason", " "),
        ("--filled", "shop.orders", "--reason", "two\nlines"),
        ("--filled", "shop.orders", "--reason", "x" * 257),
        ("--filled", "shop.orders", "--reason", "x", "--seq", "-1"),
    ],
)
def test_anything_else_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str, arguments: tuple[str, ...]) -> None:
    assert run(monkeypatch, "holes", "--config", config, *arguments) == 2


def test_help_says_what_ends_a_hole(monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    assert run(monkeypatch, "holes", "--help") == 0
    assert "".join((holes.__doc__ or "").split()) in "".join(capsys.readouterr().out.split())
