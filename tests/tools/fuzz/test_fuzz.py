"""A share of what `make fuzz` tries, and the frame itself."""

from __future__ import annotations

import time
from random import Random

import pytest

from sidecar.shared.codecs.registry import CARRIERS
from sidecar.shared.errors import MessageUnreadable
from tests.tools.fuzz import binlogs, campaign, json_protocols, key_values, seeds
from tests.tools.fuzz.campaign import TARGETS, Batch, carried_out, table
from tests.tools.fuzz.verdict import Counts, Fault, ours

BATCHES = 10


@pytest.mark.recordings
@pytest.mark.parametrize("target", TARGETS)
def test_damaged_messages_are_read_as_the_slow_reader_does_or_refused(target: str) -> None:
    counts = Counts()
    for number in range(BATCHES):
        result = carried_out(Batch(target, 1, number))
        assert isinstance(result, Counts), result
        counts.add(result)
    assert counts.messages == BATCHES * campaign.BATCH_SIZE
    assert counts.equal > counts.messages / 20
    assert sum(counts.refused.values()) > counts.messages / 5
    assert counts.only_slow < counts.messages / 8, "what is refused is refused for a reason"


@pytest.mark.recordings
@pytest.mark.parametrize("feed", json_protocols.PROTOCOLS)
def test_recorded_messages_are_read_alike_undamaged(feed: str) -> None:
    messages = Random(0).sample(seeds.seeds(feed).messages, k=300)
    assert sum(len(json_protocols.whole(feed, message)) for message in messages) > 100


@pytest.mark.recordings
def test_recorded_key_values_are_taken_undamaged() -> None:
    for rows in seeds.entries():
        outcomes = [one for entry in rows[:20] for one in key_values.whole(entry)]
        assert outcomes
        assert not [one for one in outcomes if isinstance(one, MessageUnreadable)]


@pytest.mark.recordings
def test_recorded_transactions_are_taken_undamaged() -> None:
    for versions, mutations in seeds.mutations():
        outcomes = [one for mutation in mutations[:20] for one in binlogs.whole(versions[-1], mutation)]
        assert outcomes
        assert not [one for one in outcomes if isinstance(one, MessageUnreadable)]


def test_every_protocol_that_carries_a_dump_is_damaged() -> None:
    encodings = {f"{name}/avro" for name, protocol in CARRIERS.items() if protocol.codec_avro is not None}
    assert json_protocols.PROTOCOLS.keys() == CARRIERS.keys() | encodings


def test_a_batch_is_the_same_whenever_it_is_made() -> None:
    assert Batch("kv", 3, 4).random().random() == Batch("kv", 3, 4).random().random() != Batch("kv", 3, 5).random().random()


def test_an_error_that_is_not_ours_is_a_fault_with_its_bytes() -> None:
    def breaks() -> object:
        raise KeyError("a defect")

    with pytest.raises(Fault, match=r"codec: KeyError is no error of ours: 'a defect'\n  00ff\n  null"):
        ours(breaks, "codec", b"\0\xff", None)


def stuck(random: Random, size: int) -> Counts:  # as a target
    time.sleep(60)
    return Counts()


def test_what_hangs_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "stands", stuck)
    monkeypatch.setattr(campaign, "BATCH_S", 1)
    result = carried_out(Batch("stands", 0, 12))
    assert isinstance(result, str)
    assert result.startswith("no end within 1 s")
    assert "--only stands --seed 0 --batch 12" in result


def test_a_process_that_dies_is_a_fault_with_its_batch_and_another_goes_on() -> None:
    worker = campaign._Worker()
    try:
        batch = Batch("ddl-jobs", 0, 3, size=1)
        worker.give(batch)
        worker._process.kill()
        result = worker.result() if worker.pipe.poll(60) else "nothing"
        assert isinstance(result, str)
        assert result.startswith("the process died: exit code -9")
        assert batch.again() in result
        worker.give(batch)
        assert worker.pipe.poll(60)
        assert isinstance(worker.result(), Counts)
    finally:
        worker.end()


def test_the_table_has_a_line_a_target() -> None:
    rows = campaign.Result(Counts(messages=500, equal=100, rows=90), ["x"], 2.0)
    rows.counts.refused["MessageUnreadable"] += 400
    assert "| kv | 500 | 100 | MessageUnreadable 400 | 0 | 90 | 1 | 250 |" in table({"kv": rows})
