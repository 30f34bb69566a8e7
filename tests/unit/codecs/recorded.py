"""A recorded feed of a real cluster as messages, and the marks its dump made."""

from __future__ import annotations

import json

import pyarrow.parquet as pq

from sidecar.shared.codecs.contract import Codec
from sidecar.shared.model.nouns import MARK_TABLE, Change, Lane, Message
from tests.support.recordings import recording


def messages(name: str, feed: str) -> list[Message]:
    rows = pq.read_table(recording(name) / "kafka" / f"{feed}.parquet").to_pylist()
    return [Message(Lane(f"kafka/{feed}/{row['partition']}"), row["offset"], row["key"], row["value"]) for row in rows]


def changes(codec: Codec, recorded: list[Message]) -> list[Change]:
    return [event for message in recorded for event in codec.envelopes(message) if isinstance(event, Change)]


def mark_changes(codec: Codec, recorded: list[Message]) -> list[Change]:
    return [change for change in changes(codec, recorded) if (change.schema, change.table) == MARK_TABLE]


def bracket_marks(name: str) -> set[tuple[str, int, int]]:
    """uuid, kind and commit_ts of each window's marks, as the dump noted them."""
    windows = json.loads((recording(name) / "dump" / "windows.json").read_text())["windows"]
    lows = {(window["low"], 1, int(window["low_commit_ts"])) for window in windows}
    return lows | {(window["high"], 2, int(window["high_commit_ts"])) for window in windows}
