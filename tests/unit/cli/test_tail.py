"""`ticdc-dump tail` as an operator meets it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli import tail as command
from sidecar.shared.log.identity import claim_log
from sidecar.shared.log.storage import Folder, open_folder
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.delivery.sink_record import SinkId
from spark_merge.sinks.registry import open_sink, output_of
from spark_merge.testing.places import Here
from tests.support.merge_command import MergeSettings
from tests.unit.cli.test_cli import run
from tests.unit.tail.logs import ORDERS, WrittenLog, put, window
from tests.unit.tail.test_segment import chunk_of

Said = pytest.CaptureFixture[str]
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e\x9b1mred\r\nx"


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    log = open_folder(str(tmp_path / "log"))
    claim_log(log, "cf/1")
    return log


@pytest.fixture
def written(log: Folder) -> WrittenLog:
    """A row that a dump read and a live change replaced, one that was kept, and one of a hostile client's."""
    to = WrittenLog(log, {ORDERS: 1})
    chunk = chunk_of(log, ("a", "1", "old"), ("b", "1", "kept"))
    to.segment(put(ORDERS, 10, "a", "new", old="old"), windows=[window(5, 50, 0, chunk)])
    to.segment(
        put(ORDERS, 110, HOSTILE, HOSTILE * 1000), put(ORDERS, 120, "c", "x", old="x"), ddl=f"ALTER TABLE orders COMMENT '{HOSTILE}'"
    )
    return to


Tail = Callable[..., int]


@pytest.fixture
def tail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: Folder) -> Tail:
    def tailed(*arguments: str, sinks: tuple[str, ...] = ()) -> int:
        path = tmp_path / "sidecar.toml"
        path.write_text(MergeSettings(f"{tmp_path}/log", sinks or (f"sqlite://{tmp_path}/copy.db?name=copy",), "local[1]").toml())
        return run(monkeypatch, "tail", "shop.orders", "--config", str(path), *arguments)

    return tailed


def parsed(capsys: Said) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_line_an_event_says_where_it_is_from_and_why_it_was_dropped(written: WrittenLog, tail: Tail, capsys: Said) -> None:
    assert tail() == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "shop.orders: the log begins with segment 0: the log has every segment"
    at = "1970-01-01T00:00:00.000Z"
    place = f"dump {'d' * 16}, chunk chunks/{'d' * 16}/0000000001-00000001.parquet, window (5, 50]"
    assert lines[:3] == [
        f"{at} 10                  live        update shop.orders id 'a', part '1': v 'old' → 'new'",
        f"{at} 50                  dump        insert shop.orders id 'b', part '1': v 'kept'; {place}",
        f"{at} 50                  dropped     insert shop.orders id 'a', part '1': v 'old'; replaced in its window by the update at"
        f" commit-ts 10 ({at}): v 'old' → 'new'; {place}",
    ]
    assert "no value that is shown has changed" in lines[4]


def test_nothing_of_a_value_or_a_statement_is_carried_out_by_a_terminal(written: WrittenLog, tail: Tail, capsys: Said) -> None:
    assert tail() == 0
    output = capsys.readouterr().out
    assert len(output.splitlines()) == 7
    assert all(char.isprintable() or char == "\n" for char in output)
    assert max(map(len, output.splitlines())) < 1_000
    assert "\\x1b[2J\\x1b]0;owned\\x07\\u202e" in output
    assert tail("--json") == 0
    rows = parsed(capsys)
    assert [row["key"]["id"] for row in rows if row.get("commit_ts") == "110"] == [HOSTILE]
    assert [row["after"]["v"] for row in rows if row.get("commit_ts") == "110"] == [HOSTILE * 1000]
    assert rows[-1]["text"] == f"ALTER TABLE orders COMMENT '{HOSTILE}'"


def test_of_a_key_its_life_and_what_the_sinks_have(written: WrittenLog, tail: Tail, capsys: Said, tmp_path: Path, log: Folder) -> None:
    assert tail("--key", "a,1") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "sink copy: open: it has accepted nothing yet"
    changefeed = "cf/1#" + (tmp_path / "log" / "log.txt").read_text()
    uri = f"sqlite://{tmp_path}/copy.db?name=copy"
    with closing(open_sink(uri, log_id=changefeed)) as sink:
        delivery = Delivery(sink, JobSettings(log), Here(), sink_id=SinkId("copy", output_of(uri)))
        assert delivery.deliver()
    assert tail("--key", "a,1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[1:-1]] == ["live", "dropped", "ddl"]
    assert lines[-1] == "sink copy, at segment 1: equal: equal to the version of commit-ts 10; it has id 'a', part '1', v 'new'"
    with closing(sqlite3.connect(tmp_path / "copy.db")) as db, db:
        db.execute("""UPDATE "shop.orders" SET v = 'other' WHERE id = 'a'""")
    assert tail("--key", "a,1", "--json") == command.EXIT_DIFFERENT
    has = parsed(capsys)[-1]
    assert (has["kind"], has["verdict"], has["row"]) == ("sink", "different", {"id": "a", "part": "1", "v": "other"})


def test_a_masked_column_is_shown_as_the_sink_has_it(written: WrittenLog, tail: Tail, capsys: Said, tmp_path: Path) -> None:
    sinks = (f"sqlite://{tmp_path}/copy.db?name=copy", f"file://{tmp_path}/o?format=jsonl&name=lake&leave-out=shop.orders.v")
    assert tail(sinks=sinks) == 0
    output = capsys.readouterr().out
    assert "old" not in output
    assert "id 'a'" in output
    assert tail("--sink", "copy", sinks=sinks) == 0
    assert "v 'old' → 'new'" in capsys.readouterr().out


def test_the_number_of_events_and_where_they_begin(written: WrittenLog, tail: Tail, capsys: Said) -> None:
    for arguments, kinds in (
        (("--limit", "2"), ["live", "ddl"]),
        (("--since", "1"), ["live", "live", "ddl"]),
        (("--since", "1", "--limit", "1"), ["ddl"]),
        (("--limit", "0"), ["live", "dump", "dropped", "live", "live", "ddl"]),
        (("--value-chars", "1", "--limit", "0"), ["live", "dump", "dropped", "live", "live", "ddl"]),
    ):
        assert tail("--json", *arguments) == 0
        rows = parsed(capsys)
        assert [row["kind"] for row in rows] == ["begin", *kinds]
    assert rows[1]["after"]["v"] == "n…"


def test_what_comes_is_shown_until_it_is_interrupted(
    written: WrittenLog, tail: Tail, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(_: float) -> None:
        if len(written.manifests) > 3:
            raise KeyboardInterrupt
        written.segment(put(ORDERS, 110 + 100 * (len(written.manifests) - 1), "a", "later"))

    monkeypatch.setattr(time, "sleep", wait)
    assert tail("--limit", "1", "-f", "--json") == command.EXIT_INTERRUPTED
    assert [row["commit_ts"] for row in parsed(capsys)] == ["0", "200", "210", "310"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--key", "a"), "has 1 values, and the handle key of shop.orders has 2: id (text), part (int)"),
        (("--key", "a,b"), "'b' is no value of key column part"),
        (("--sink", "cop"), "the settings have no sink cop, did you mean copy?"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(
    written: WrittenLog, tail: Tail, capsys: Said, arguments: tuple[str, ...], why: str
) -> None:
    assert tail(*arguments) == 3
    assert why in capsys.readouterr().err


def test_an_empty_log_and_an_unknown_table(log: Folder, tail: Tail, capsys: Said, tmp_path: Path) -> None:
    assert tail() == 3
    assert "has no segment yet" in capsys.readouterr().err
    to = WrittenLog(log, {ORDERS._replace(table="order"): 1})
    to.segment()
    assert tail("--json") == 3
    (error,) = parsed(capsys)
    assert "has no table shop.orders, did you mean shop.order?" in error["error"]
    (tmp_path / "log" / "00000000000000000000.json").write_bytes(b"{")
    assert tail() == 3
    assert "is not readable" in capsys.readouterr().err
