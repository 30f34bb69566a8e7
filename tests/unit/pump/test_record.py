"""Binlogs as messages and as records."""

from __future__ import annotations

import pytest

from sidecar.pump.record import COMMIT, PREWRITE, ROLLBACK, Binlog, PumpRecord, binlog_of, header, made, record_at, streamed
from ticdc_dump.binlog import binlog_pb2


def test_a_record_is_what_was_written_and_nothing_else_is_one() -> None:
    binlog = Binlog(COMMIT, 5, 7, b"payload")
    data = b"before" + header(binlog, 6) + binlog.payload
    assert record_at(data, 6) == PumpRecord(binlog, 6, len(data) - 6)
    assert record_at(data, 5) is None
    for at in range(6, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        assert record_at(bytes(damaged), 6) is None
        assert record_at(data[:at], 6) is None


def test_a_fake_is_written_as_go_writes_it() -> None:
    """Fields that are not nullable are there though they are 0."""
    fake = made(ROLLBACK, 300, 300)
    assert fake.payload == bytes.fromhex("0802 10ac02 18ac02 3800 4000")
    assert fake.is_fake
    assert binlog_of(fake.payload) == fake


def test_an_empty_payload_is_a_probe_and_no_fake() -> None:
    assert binlog_of(b"") == Binlog(PREWRITE, 0, 0, b"")
    assert not binlog_of(b"").is_fake


@pytest.mark.parametrize(
    "of",
    [
        binlog_pb2.Binlog(tp=binlog_pb2.Prewrite, start_ts=5, prewrite_key=b"key", prewrite_value=b"\x08\x01", ddl_job_id=0),
        binlog_pb2.Binlog(tp=binlog_pb2.Prewrite, start_ts=5, prewrite_key=b"key", ddl_query=b"DROP", ddl_job_id=9, ddl_schema_state=1),
    ],
)
def test_a_drainer_gets_the_commit_with_the_prewrites_value(of: binlog_pb2.Binlog) -> None:
    end = binlog_pb2.Binlog(tp=binlog_pb2.Commit, start_ts=5, commit_ts=7, prewrite_key=b"sent by TiDB")
    result = binlog_pb2.Binlog.FromString(streamed(end.SerializeToString(), of.SerializeToString()))
    assert (result.tp, result.start_ts, result.commit_ts, result.prewrite_key) == (binlog_pb2.Commit, 5, 7, b"sent by TiDB")
    assert (result.prewrite_value, result.ddl_query) == (of.prewrite_value, of.ddl_query)
    assert (result.ddl_job_id, result.ddl_schema_state) == (of.ddl_job_id, of.ddl_schema_state)
    assert result.HasField("ddl_query") == of.HasField("ddl_query")
