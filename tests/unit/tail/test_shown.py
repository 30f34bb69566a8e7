"""Values as the sinks have them, and events as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.masks.salt import hashed, read_salt
from spark_merge.sinks.registry import masking_of
from spark_merge.tail.events import EventKind, LiveChange, TailEvent
from spark_merge.tail.shown import HIDDEN_REASON, ShownValues, event_json
from tests.unit.tail.logs import ORDERS, schema

TABLE = schema(ORDERS, 5)
ROW = ("a", "1", "secret")
SALT = "01" * 32


@pytest.fixture
def salt(tmp_path: Path) -> Path:
    path = tmp_path / "salt"
    path.write_text(SALT)
    path.chmod(0o600)
    return path


def shown(*uris: str, chars_max: int = 0) -> ShownValues:
    """Of sinks that are called 0, 1 and so on."""
    maskings = {str(at): masking.opened() for at, uri in enumerate(uris) if (masking := masking_of(uri, log_id="")) is not None}
    return ShownValues(maskings, chars_max=chars_max)


def test_a_masked_column_is_as_the_sink_has_it(salt: Path) -> None:
    assert shown("file:///o?format=jsonl").image(TABLE, ROW) == dict(zip(("id", "part", "v"), ROW, strict=True))
    assert shown("file:///o?format=jsonl&leave-out=shop.orders.v").image(TABLE, ROW) == {"id": "a", "part": "1"}
    assert shown("file:///o?format=jsonl&constant=shop.*.v%3D>NULL").image(TABLE, ROW)["v"] is None
    value = shown(f"file:///o?format=jsonl&hash=shop.*.v&salt-file={salt}").image(TABLE, ROW)["v"]
    assert value == hashed(read_salt(str(salt)), "secret")


def test_of_several_sinks_the_first_that_masks_a_column_says_how(salt: Path) -> None:
    plain, gone = "file:///o?format=jsonl", "file:///p?format=jsonl&leave-out=shop.orders.v"
    constant = "file:///q?format=jsonl&constant=shop.orders.v%3D>x"
    assert "v" not in shown(plain, gone, constant).image(TABLE, ROW)
    assert shown(plain, constant, gone).image(TABLE, ROW)["v"] == "x"


def test_a_sinks_row_is_without_what_only_other_sinks_mask() -> None:
    row = dict(zip(("id", "part", "v"), ROW, strict=True))
    both = shown("file:///o?format=jsonl", "file:///p?format=jsonl&constant=shop.orders.v%3D>x")
    assert both.sink_row("0", TABLE, row) == {"id": "a", "part": "1"}
    assert both.sink_row("1", TABLE, row | {"v": "x"})["v"] == "x"
    assert shown("file:///o?format=jsonl").sink_row("0", TABLE, row) == row


def row_event(**parts: object) -> TailEvent:
    place = {"kind": EventKind.LIVE, "seq": Seq(3), "commit_ts": CommitTs(470_000_000_000_000_000), "table": ORDERS, "schema": TABLE}
    return TailEvent(**(place | {"op": "update", "key": ("a", "1"), "before": ("a", "1", None), "after": ROW} | parts))  # type: ignore[arg-type]


def test_no_image_of_an_event_has_what_is_masked() -> None:
    change = LiveChange(CommitTs(9), "update", ROW, ROW)
    hiding = shown("file:///o?format=jsonl&leave-out=shop.orders.v")
    for event in (
        row_event(),
        row_event(kind=EventKind.DROPPED, before=ROW, change=change),
        row_event(kind=EventKind.SKIPPED, key=None, before=None, after=None, text="the value 'secret' is none"),
        row_event(kind=EventKind.UNDECODABLE, key=None, before=None, after=None, text="the value 'secret' is none"),
    ):
        assert "secret" in json.dumps(event_json(event, shown()))
        assert "secret" not in json.dumps(event_json(event, hiding))
    assert hiding.reason(event) == HIDDEN_REASON


def test_the_json_of_an_event_has_exact_texts() -> None:
    assert event_json(row_event(after=("a", "1", "\x1b[2J" + "x" * 5000)), shown()) == {
        "kind": "live", "seq": 3, "commit_ts": "470000000000000000", "time": "2026-10-25T05:55:14.843Z", "schema": "shop",
        "table": "orders", "op": "update", "key": {"id": "a", "part": "1"}, "before": {"id": "a", "part": "1", "v": None},
        "after": {"id": "a", "part": "1", "v": "\x1b[2J" + "x" * 5000},
    }  # fmt: skip


def test_values_are_cut_where_it_is_said() -> None:
    assert shown(chars_max=3).image(TABLE, ("abcd", "1", "abc")) == {"id": "abc…", "part": "1", "v": "abc"}
