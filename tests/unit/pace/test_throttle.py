"""The pace that operators set, dump by dump."""

from __future__ import annotations

from sidecar.pace.throttle import Throttle
from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.messages import Brackets, ChunkRead, Pace, ReadChunk, SourceFailed
from sidecar.shared.model.nouns import Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress

TABLE = TableName("s", "t")


def dump(dump_id: str, rows_per_s: int, state: DumpState = DumpState.RUNNING) -> Progress:
    return Progress(dump_id, state, Brackets.WATERMARK, 10, 1, 1, Seq(0), (), pace=Pace(rows_per_s=rows_per_s))


def asked(dump_id: str, number: int) -> ReadChunk:
    return ReadChunk(dump_id, 1, number, TABLE, None, None, 10, Brackets.WATERMARK)


def read(number: int, rows: int) -> ChunkRead:
    return ChunkRead(number, ChunkFile(TABLE, f"chunk {number}", rows, 0, None, None, None), exhausted=False)


def test_each_dump_pays_for_its_own_chunks() -> None:
    throttle, dumps = Throttle(), [dump("slow", 10), dump("fast", 0)]
    throttle.requested([asked("slow", 1), asked("fast", 2)])
    throttle.pay([read(1, 30), read(2, 1_000)], dumps, now_s=100.0)
    assert throttle.held(dumps, 100.0) == {"slow"}
    assert throttle.wait_s(dumps, 100.0) == 0.0, "the other one may read on"
    assert throttle.wait_s(dumps[:1], 101.0) == 2.0
    assert throttle.held(dumps, 103.0) == frozenset()


def test_what_is_read_before_the_last_chunk_is_paid_for_adds_up() -> None:
    throttle, dumps = Throttle(), [dump("slow", 10)]
    throttle.requested([asked("slow", 1), asked("slow", 2), asked("slow", 3)])
    throttle.pay([read(1, 30), read(2, 20)], dumps, now_s=100.0)
    assert throttle.wait_s(dumps, 100.0) == 5.0
    throttle.pay([SourceFailed(asked("slow", 3), "no", "")], dumps, now_s=100.0)
    assert throttle.wait_s(dumps, 100.0) == 5.0, "a SELECT that failed has no rows"
    assert throttle.wait_s([dump("slow", 10, DumpState.PAUSED)], 100.0) == 0.0


def test_a_dump_that_is_forgotten_owes_nothing() -> None:
    throttle = Throttle()
    throttle.requested([asked("gone", 1), asked("gone", 2)])
    throttle.pay([read(1, 30)], [dump("gone", 10)], now_s=100.0)
    throttle.pay([read(2, 30)], [dump("other", 10)], now_s=100.0)
    assert throttle.held([dump("gone", 10)], 100.0) == frozenset()
