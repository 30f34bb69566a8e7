"""`ticdc-dump tail` on the log of a recorded stream: all that was dropped, and the same rows as the sinks have."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from sidecar.cli.tail import EXIT_DIFFERENT
from sidecar.shared.model.nouns import TableName
from spark_merge.log.undecodable import Decoding
from spark_merge.sinks.files.reader import read_output
from spark_merge.tail.events import EventKind, TailEvent
from spark_merge.tail.segment import TailScope
from spark_merge.tail.stream import Since, TableStream
from spark_merge.tail.wanted import table_named
from tests.support.merge_command import MergeSettings
from tests.support.played import Played
from tests.unit.cli.test_cli import run

KEYS = 12
"""Of a table, looked up in the sink by the command."""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tail")


@pytest.fixture(scope="module")
def played(output: Path) -> Played:
    """With a pause, crashes, and a sink that finds keys."""
    sinks = (f"file://{output}/rows?format=jsonl", f"sqlite://{output}/copy.db?name=copy")
    return Played(output, seed=3, crashes=2, sinks=sinks)


def events_of(played: Played, table: TableName) -> list[TailEvent]:
    followed, _ = table_named(played.replay.log, str(table))
    return list(TableStream(TailScope(played.replay.log, Decoding()), followed, Since()).all())


def tables_of(played: Played) -> list[TableName]:
    return sorted(played.replay.recording.truth(played.replay.recording.end_ts))


def test_the_events_are_the_rows_of_the_output_and_what_it_dropped(played: Played) -> None:
    assert played.replay.verified is not None
    rows, dropped = Counter[tuple[str, ...]](), 0
    for row in read_output(played.replay.verified):
        rows[row["table"], row["origin"], row["op"], row["commit_ts"], json.dumps(row["after"])] += 1
    counted = Counter[tuple[str, ...]]()
    for table in tables_of(played):
        for event in events_of(played, table):
            dropped += event.kind is EventKind.DROPPED
            if event.is_version and event.schema is not None:
                after = event.after and dict(zip(event.schema.column_names(), event.after, strict=True))
                origin = "log" if event.kind is EventKind.LIVE else "dump"
                counted[table.table, origin, event.op, str(event.commit_ts), json.dumps(after)] += 1
    assert counted == rows
    assert dropped == sum(played.report.dropped.values()) > 0


def test_the_sink_has_what_the_log_says_of_each_key(
    played: Played, output: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = output / "sidecar.toml"
    sink = f"sqlite://{output}/copy.db?name=copy"
    config.write_text(MergeSettings(f"{output}/out/log", (sink,), "local[1]").toml())
    looked_at, there = 0, None
    for table in tables_of(played)[:3]:
        keys = sorted({event.key for event in events_of(played, table) if event.key is not None})
        for key in Random(1).sample(keys, min(KEYS, len(keys))):
            assert run(monkeypatch, "tail", str(table), "--config", str(config), "--json", f"--key={json.dumps(key)}") == 0
            *_, has = (json.loads(line) for line in capsys.readouterr().out.splitlines())
            assert (has["sink"], has["verdict"]) == ("copy", "equal"), has
            looked_at += 1
            there = (table, key) if has["row"] else there
    assert looked_at
    assert there is not None
    table, key = there
    with closing(sqlite3.connect(output / "copy.db")) as db, db:
        db.execute(f'DELETE FROM "{table}"')
    assert run(monkeypatch, "tail", str(table), "--config", str(config), "--json", f"--key={json.dumps(key)}") == EXIT_DIFFERENT
