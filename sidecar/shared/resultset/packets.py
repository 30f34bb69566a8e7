"""A SELECT's rows from the server's own packets to text columns, without a Python object a value.

    socket ─► buffer ─► where each row begins (_walk) ─► where each cell is (_cells) ─► one Arrow array a column

- A row's packet holds its cells one behind the other, each as text behind its length, 251 for NULL (the protocol's text result set).
  So the cells of a block of rows, taken row by row, rise in the buffer: they are one Arrow array over the buffer itself, of
  which each column takes its own.
- Rows are made into columns while the server sends more: a block at a time, in a buffer that is used again.
- Only the last packet can be the one that ends the rows or reports an error, for the server sends nothing after it.
- A row of 16 MiB or more comes in several packets.

Source: MariaDB's and MySQL's protocol documentation, "Text Resultset Row", "Protocol packet"; PyMySQL's connections.py.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from io import BufferedReader, RawIOBase
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pymysql

BLOCK_BYTES = 1 << 20
"""Bytes of rows that become columns at a time: small enough for a core's cache, large enough that numpy's calls cost nothing a row."""

_HEAD_BYTES = 4
_SIZE_MAX = 0xFFFFFF
"""A packet of this size is continued by the next one; so it is also the mask of the size in a packet's head."""

_NULL = 251
_LONG = ((252, 2), (253, 3), (254, 8))
"""First bytes of a length that does not fit into one, with the bytes that hold it then."""

_END, _END_BYTES_MAX, _ERROR = 0xFE, 8, 0xFF

_head = struct.Struct("<I").unpack_from

_Numbers = npt.NDArray[np.int64]


class PacketSession(Protocol):
    def packets(self, sql: str, /) -> AbstractContextManager[tuple[bytes, RawIOBase]]:
        """`pieces` of what is `sent`. The body reads up to the packet that ends the rows or reports an error; if it raises, the connection
        is closed."""


def sent(connection: pymysql.Connection[Any], sql: str) -> BufferedReader:
    """The stream in which a SELECT's rows come. PyMySQL reads none of them. Raises pymysql's errors."""
    connection.query(sql, unbuffered=True)
    answer, connection._result = connection._result, None
    assert answer is not None, "a query has an answer"
    answer.unbuffered_active, answer.connection = False, None  # else PyMySQL would read the rows itself when it goes
    stream: BufferedReader = connection._rfile
    return stream


def pieces(stream: BufferedReader) -> tuple[bytes, RawIOBase]:
    """What it has read already, however large that is, or what comes next; and the stream of all others. Raises pymysql's errors."""
    try:
        return stream.read1(), stream.raw  # type: ignore[return-value]  # typeshed's protocol: it is the socket's RawIOBase
    except OSError as error:
        raise _lost(f" ({error})") from error


def read_packets(session: PacketSession, sql: str, columns: int) -> pa.Table:
    """All rows of `read_blocks`."""
    return read_up_to(session, sql, columns, bytes_max=None)[0]


def read_up_to(session: PacketSession, sql: str, columns: int, *, bytes_max: int | None) -> tuple[pa.Table, bool]:
    """The first rows of `read_blocks`, up to and with the block in which they have become more than `bytes_max`; and whether these are all.
    The server is still sending where they are not, so the connection is closed then."""
    batches, size = list[pa.RecordBatch](), 0
    with closing(read_blocks(session, sql, columns)) as blocks:
        for block in blocks:
            batches.append(block)
            size += block.nbytes
            if bytes_max is not None and size > bytes_max:
                return pa.Table.from_batches(batches), False
    return pa.Table.from_batches(batches, schema=_texts_of(columns)), True


def read_blocks(session: PacketSession, sql: str, columns: int) -> Generator[pa.RecordBatch]:
    """Some BLOCK_BYTES of rows at a time, or one row that is longer: one string column for each of the SELECT's, named c0, c1, … Raises
    pymysql's errors, UnicodeDecodeError for bytes that are no UTF-8; the connection is closed then, and if not all is read."""
    schema = _texts_of(columns)
    with session.packets(sql) as (begun, stream):
        for data, starts in _blocks(begun, stream):
            yield pa.RecordBatch.from_arrays(_texts(data, starts, columns), schema=schema)


def _texts_of(columns: int) -> pa.Schema:
    return pa.schema([(f"c{number}", pa.string()) for number in range(columns)])


# ---- packets --------------------------------------------------------------------------------------------------------


def _blocks(begun: bytes, stream: RawIOBase) -> Iterator[tuple[bytearray, list[int]]]:
    """Whole rows: a buffer, and where in it each row's cells begin. The buffer is valid until the next block is requested."""
    buffer = bytearray(BLOCK_BYTES)
    buffer[: len(begun)] = begun
    have, done = len(begun), 0
    starts: list[int] = []
    while True:
        done = _walk(buffer, have, done, starts)
        ended = done == have and bool(starts) and _ends(buffer, starts, have)
        if ended:
            starts.pop()
        if ended or have == len(buffer):
            whole = len(starts) if ended else _whole_rows(buffer, starts)
            if whole:
                yield _joined(buffer, starts[:whole])
            if ended:
                return
            have, done, starts = _keep(buffer, have, done, starts, whole)
        have += _receive(stream, buffer, have)


def _receive(stream: RawIOBase, buffer: bytearray, have: int) -> int:
    try:
        with memoryview(buffer) as view:
            got = stream.readinto(view[have:])
    except OSError as error:
        raise _lost(f" ({error})") from error
    if not got:
        raise _lost("")
    return got


def _lost(why: str) -> pymysql.err.OperationalError:
    return pymysql.err.OperationalError(2013, f"Lost connection to the server while it sent rows{why}")


def _walk(buffer: bytearray, have: int, at: int, starts: list[int]) -> int:
    """Add where the content of each complete packet from `at` on begins; returns where the first one that is not complete does."""
    add = starts.append
    while at + _HEAD_BYTES <= have:
        end = at + _HEAD_BYTES + (_head(buffer, at)[0] & _SIZE_MAX)
        if end > have:
            break
        add(at + _HEAD_BYTES)
        at = end
    return at


def _ends(buffer: bytearray, starts: list[int], have: int) -> bool:
    """Whether the last packet ends the rows. Raises the error that it reports."""
    start = starts[-1]
    if have == start or (len(starts) > 1 and _size(buffer, starts[-2]) == _SIZE_MAX):
        return False  # the last part of a long row
    if buffer[start] == _ERROR:
        pymysql.err.raise_mysql_exception(bytes(buffer[start:have]))
    return buffer[start] == _END and have - start <= _END_BYTES_MAX


def _size(buffer: bytearray, start: int) -> int:
    return int(_head(buffer, start - _HEAD_BYTES)[0]) & _SIZE_MAX


def _whole_rows(buffer: bytearray, starts: list[int]) -> int:
    """How many of these packets hold whole rows, with no part of a row that continues in the next packet."""
    whole = len(starts)
    while whole and _size(buffer, starts[whole - 1]) == _SIZE_MAX:
        whole -= 1
    return whole


def _keep(buffer: bytearray, have: int, done: int, starts: list[int], whole: int) -> tuple[int, int, list[int]]:
    """Move what is no whole row to the front of the buffer, which grows if a row fills it."""
    cut = (starts[whole] if whole < len(starts) else done + _HEAD_BYTES) - _HEAD_BYTES
    if cut == 0:
        buffer.extend(bytes(len(buffer)))
    else:
        buffer[: have - cut] = buffer[cut:have]
    return have - cut, done - cut, [start - cut for start in starts[whole:]]


def _joined(buffer: bytearray, starts: list[int]) -> tuple[bytearray, list[int]]:
    """The rows' bytes in one piece each: as they are, unless one came in several packets."""
    if not np.any(np.diff(starts) >= _SIZE_MAX):
        return buffer, starts
    joined, joined_starts, goes_on = bytearray(), [], False
    for start in starts:
        if not goes_on:
            joined_starts.append(len(joined))
        size = _size(buffer, start)
        joined += memoryview(buffer)[start : start + size]
        goes_on = size == _SIZE_MAX
    return joined, joined_starts


# ---- cells ----------------------------------------------------------------------------------------------------------


def _texts(data: bytearray, starts: Sequence[int], width: int) -> list[pa.Array]:
    offsets, nulls = _cells(np.frombuffer(data, np.uint8), np.array(starts, np.int64), width)
    cells = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    first = np.arange(len(starts), dtype=np.int64) * (2 * width)
    return [_utf8(cells.take(pa.array(first + 2 * column, mask=nulls[column]))) for column in range(width)]


def _cells(data: npt.NDArray[np.uint8], at: _Numbers, width: int) -> tuple[npt.NDArray[np.int32], list[npt.NDArray[np.bool_] | None]]:
    """Row by row, where each cell begins and ends: offsets of an array of a cell, what stands behind it, the next cell, …; and for
    each column where it is NULL."""
    bounds = np.empty((len(at), width, 2), np.int32)
    nulls: list[npt.NDArray[np.bool_] | None] = []
    for column in range(width):
        sizes = data[at].astype(np.int64)
        at = at + 1
        nulls.append(_read_long_sizes(data, at, sizes) if sizes.max() >= _NULL else None)
        bounds[:, column, 0] = at
        at += sizes
        bounds[:, column, 1] = at
    return np.append(bounds.reshape(-1), bounds[-1, -1, -1]), nulls


def _read_long_sizes(data: npt.NDArray[np.uint8], at: _Numbers, sizes: _Numbers) -> npt.NDArray[np.bool_]:
    """Put the sizes themselves in place of the first bytes that announce them, move `at` behind them; returns where NULL is."""
    first = sizes.copy()
    is_null: npt.NDArray[np.bool_] = first == _NULL
    sizes[is_null] = 0
    for code, count in _LONG:
        rows = np.flatnonzero(first == code)
        places = at[rows]
        sizes[rows] = sum((data[places + byte].astype(np.int64) << (8 * byte) for byte in range(count)), np.zeros(len(rows), np.int64))
        at[rows] += count
    return is_null


def _utf8(cells: pa.Array) -> pa.Array:
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        _refuse(cells)


def _refuse(cells: Any) -> NoReturn:
    for value in cells.to_pylist():
        if value is not None:
            value.decode()
    raise AssertionError("one of them is no UTF-8")
