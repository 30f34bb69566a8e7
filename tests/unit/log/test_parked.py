"""Messages that an operator parks: known by their place and their bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.parked import (
    FOLDER,
    STOPPED_AT,
    Parked,
    StoppedAt,
    digest,
    park,
    read_parked,
    read_stopped,
    write_stopped,
)
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Lane, Message, TableName

STOPPED = StoppedAt(Lane("kafka/t/0"), 7, None, b"\xff\x00", "message kafka/t/0@7: expected JSON", 1_700_000_000_000)
PARKED = Parked(STOPPED, (TableName("s", "t"),), "alice@db1", 1_700_000_000_001)

parts = st.none() | st.binary(max_size=4)
messages = st.builds(Message, st.sampled_from(["a", "a/1"]).map(Lane), st.integers(0, 11), parts, parts)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    assert (read_stopped(log), read_parked(log)) == (None, [])
    for stopped in (replace(STOPPED, position=1 << 63, key=b""), STOPPED):
        write_stopped(log, stopped)
        assert read_stopped(log) == stopped
    assert park(log, PARKED)
    assert read_parked(log) == [PARKED]
    assert park(log, every := replace(PARKED, stopped=replace(STOPPED, position=8), tables=None, parked_ms=1))
    assert read_parked(log) == [every, PARKED]


def test_a_decision_is_not_changed(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    assert park(log, PARKED)
    assert not park(log, replace(PARKED, tables=None, by="bob@db1"))
    assert read_parked(log) == [PARKED]


@given(messages, messages)
def test_two_messages_are_one_where_place_and_bytes_are(one: Message, other: Message) -> None:
    assert (digest(one) == digest(other)) == (one == other)
    assert digest(one._replace(after_gap=True)) == digest(one)


@pytest.mark.parametrize("name", [STOPPED_AT, f"{FOLDER}/x.json"])
def test_a_file_that_cannot_be_read_is_an_error_with_the_way_out(tmp_path: Path, name: str) -> None:
    log = open_folder(str(tmp_path))
    storage.create_exclusively(log, name, b'{"lane":1}')
    with pytest.raises(LogBroken, match="is not readable") as error:
        read_stopped(log) if name == STOPPED_AT else read_parked(log)
    assert "restore it" in error.value.hint
