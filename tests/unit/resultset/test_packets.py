"""Rows from packets, however the network cuts them: held equal to reading them one by one."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from typing import Any

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.resultset import packets
from sidecar.shared.resultset.packets import read_packets, read_up_to

PACKET_MAX = 0xFFFFFF
END = b"\xfe" + struct.pack("<HH", 0, 2)
ERROR = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"


class Pieces(RawIOBase):
    """A stream that gives these bytes at most so many at a time, in turn, and nothing after them."""

    def __init__(self, data: bytes, sizes: Sequence[int]) -> None:
        self.left, self.sizes, self.at = data, sizes, 0

    def readinto(self, buffer: Any) -> int:
        wanted = min(self.sizes[self.at % len(self.sizes)], len(buffer))
        self.at += 1
        piece, self.left = self.left[:wanted], self.left[wanted:]
        buffer[: len(piece)] = piece
        return len(piece)


class Sent:
    """A session whose SELECTs bring these packets."""

    def __init__(self, data: bytes, sizes: Sequence[int] = (1 << 16,), *, begun: int = 1) -> None:
        self.begun, self.stream, self.closed = data[:begun], Pieces(data[begun:], sizes), False

    @contextmanager
    def packets(self, sql: str) -> Iterator[tuple[bytes, RawIOBase]]:
        try:
            yield self.begun, self.stream
        except BaseException:
            self.closed = True
            raise


def packet(content: bytes) -> bytes:
    parts = [content[at : at + PACKET_MAX] for at in range(0, len(content) + 1, PACKET_MAX)]
    return b"".join(struct.pack("<I", len(part) | number % 256 << 24) + part for number, part in enumerate(parts))


def cell(text: str | None) -> bytes:
    if text is None:
        return b"\xfb"
    data = text.encode()
    for code, count in ((None, 1), (252, 2), (253, 3), (254, 8)):
        if len(data) < (251 if code is None else 1 << 8 * count):
            return (b"" if code is None else bytes([code])) + len(data).to_bytes(count, "little") + data
    raise AssertionError("no text is as long")


def sent(rows: Sequence[Sequence[str | None]], end: bytes = END) -> bytes:
    return b"".join(packet(b"".join(map(cell, row))) for row in rows) + packet(end)


def read(session: Sent, columns: int) -> list[tuple[str | None, ...]]:
    return list(zip(*(column.to_pylist() for column in read_packets(session, "SELECT", columns).columns), strict=True))


TEXTS = (
    st.none() | st.text(max_size=9) | st.sampled_from([249, 250, 251, 252, 253, 254, 255, 256, 65_535, 65_536]).map(lambda size: "x" * size)
)


@given(
    rows=st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[TEXTS] * width), min_size=1, max_size=30)),
    sizes=st.lists(st.sampled_from([1, 3, 4, 5, 100, 4096]), min_size=1, max_size=5),
    begun=st.sampled_from([1, 4, 5, 64]),
    block=st.sampled_from([64, 100, 1 << 12, 1 << 20]),
)
def test_rows_come_whole_however_they_are_cut(rows: list[tuple[str | None, ...]], sizes: list[int], begun: int, block: int) -> None:
    if sum(len(text or "") for row in rows for text in row) > 10_000:
        sizes = [size * 4096 for size in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packets, "BLOCK_BYTES", block)
        assert read(Sent(sent(rows), sizes, begun=begun), len(rows[0])) == rows


@pytest.mark.parametrize("bytes_max", [None, 0, 150, 5_000, 1 << 20])
def test_rows_up_to_a_bound_are_whole_rows_and_one_at_least(bytes_max: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "BLOCK_BYTES", 64)
    rows = [(str(number), "x" * (number % 7) ** 4) for number in range(60)]
    session = Sent(sent(rows), [4096])
    result, whole = read_up_to(session, "SELECT", 2, bytes_max=bytes_max)
    texts = list(zip(*(column.to_pylist() for column in result.columns), strict=True))
    assert texts == rows[: len(texts)]
    assert whole == (len(texts) == len(rows)) == (bytes_max in (None, 1 << 20))
    assert session.closed == (not whole), "the server is still sending"
    if bytes_max is not None and not whole:
        assert 0 < sum(len(text) for row in texts[:-9] for text in row) <= bytes_max or len(texts) <= 9, "a block of 64 bytes is 9 rows"


def test_no_row_at_all_is_a_table_of_the_columns() -> None:
    result = read_packets(Sent(sent([])), "SELECT", 2)
    assert (result.num_rows, result.column_names) == (0, ["c0", "c1"])


@pytest.mark.parametrize("size", [PACKET_MAX - 9, PACKET_MAX - 5, PACKET_MAX - 4, PACKET_MAX - 3, PACKET_MAX, 2 * PACKET_MAX + 7])
def test_a_row_of_several_packets_is_one(size: int) -> None:
    rows = [("1", "a"), ("2", "b" * size), ("3", None), ("4", "\xfe")]
    assert read(Sent(sent(rows), [1 << 18]), 2) == rows


@pytest.mark.parametrize("count", [0, 3])
def test_an_error_among_the_rows_is_raised_with_its_code(count: int) -> None:
    with pytest.raises(pymysql.err.MySQLError, match="1317"):
        read_packets(Sent(sent([("x",)] * count, ERROR)), "SELECT", 1)


def test_a_connection_that_ends_among_the_rows_is_lost() -> None:
    whole = sent([("x",)] * 3)
    for cut in (1, 4, 6, len(whole) - 1):
        with pytest.raises(pymysql.err.OperationalError, match="2013"):
            read_packets(Sent(whole[:cut]), "SELECT", 1)


def test_a_server_that_is_silent_for_too_long_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: Pieces, __: Any) -> int:
        raise TimeoutError("timed out")

    monkeypatch.setattr(Pieces, "readinto", silent)
    with pytest.raises(pymysql.err.OperationalError, match=r"2013.*timed out"):
        read_packets(Sent(sent([("x",)])), "SELECT", 1)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        read_packets(Sent(packet(b"\x01a") + packet(b"\x02\xff\xfe") + packet(END)), "SELECT", 1)


def test_a_server_that_is_silent_before_the_first_row_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: Pieces, __: Any) -> int:
        raise TimeoutError("timed out")

    monkeypatch.setattr(Pieces, "readinto", silent)
    monkeypatch.setattr(Pieces, "readable", lambda _: True)
    with pytest.raises(pymysql.err.OperationalError, match=r"2013.*timed out"):
        packets.pieces(BufferedReader(Pieces(b"", [1])))
