"""One port for two protocols: bytes are passed on as they are, and who is slow holds who is fast."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import pytest

from sidecar.pump.front import FORWARDED_BYTES, HEAD_BYTES_MAX, PREFACE, Front, PumpAnswer, listening
from sidecar.shared.errors import ConfigError


class Backend:
    """Answers all that it gets by the same, or, while it is `held`, reads nothing."""

    def __init__(self) -> None:
        self.got = b""
        self.is_begun = False
        self.going = asyncio.Event()
        self.going.set()
        self.ended = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.is_begun = True
        with suppress(ConnectionError):
            while data := await self._read(reader):
                self.got += data
                writer.write(data)
                await writer.drain()
        await _closed(writer)
        self.ended.set()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        await self.going.wait()
        return await reader.read(1 << 16)


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[Backend, int]]:
    backend = Backend()
    server = await asyncio.start_unix_server(backend, folder / "grpc")
    place = listening("127.0.0.1:0")
    front = Front(place, None, str(folder / "grpc"), _answering)
    await front.serve()
    try:
        yield backend, place.getsockname()[1]
    finally:
        await front.close()
        server.close()
        if backend.is_begun:
            await asyncio.wait_for(backend.ended.wait(), 30)


async def _answering(method: str, path: str) -> PumpAnswer:
    return PumpAnswer(HTTPStatus.OK, "text/plain", f"{method} {path}".encode())


def test_http2_is_passed_on_byte_by_byte_and_closed_with_either_side(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as (backend, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            sent = PREFACE + bytes(range(256)) * 40
            for part in (sent[:5], sent[5:20], sent[20:]):
                writer.write(part)
                await writer.drain()
            assert await reader.readexactly(len(sent)) == sent
            assert backend.got == sent
            await _closed(writer)
            await asyncio.wait_for(backend.ended.wait(), 30)

    asyncio.run(run())


def test_http1_is_answered_and_closed_however_it_comes(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as (backend, port):
            for method in ("PUT", "POST", "PATCH"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                for part in (method[:1], f"{method[1:]} /state/a:1/pause HTTP/1.1\r\nHost: a\r\n", "\r\n"):
                    writer.write(part.encode())
                    await writer.drain()
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200 OK\r\n")
                assert body == f"{method} /state/a:1/pause".encode()
                await _closed(writer)
            assert backend.got == b""

    asyncio.run(run())


def test_a_head_without_an_end_is_not_collected_for_ever(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x" * (HEAD_BYTES_MAX + 1))
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 30) == b""
            await _closed(writer)

    asyncio.run(run())


def test_who_reads_nothing_holds_who_writes(tmp_path: Path) -> None:
    """What waits in between is bounded: the sender's own drain stands still."""

    async def run() -> None:
        async with serving(tmp_path) as (backend, port):
            backend.going.clear()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(PREFACE)
            sent = len(PREFACE)
            while await _drained(writer):
                writer.write(bytes(FORWARDED_BYTES))
                sent += FORWARDED_BYTES
                assert sent < 100 * FORWARDED_BYTES
            backend.going.set()
            assert len(await reader.readexactly(sent)) == sent
            await _closed(writer)

    asyncio.run(run())


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def _drained(writer: asyncio.StreamWriter) -> bool:
    try:
        async with asyncio.timeout(0.3):
            await writer.drain()
    except TimeoutError:
        return False
    return True


def test_an_address_that_is_taken_is_named() -> None:
    with listening("127.0.0.1:0") as first, pytest.raises(ConfigError, match=r"pump.listen 127.0.0.1:\d+ cannot be listened on"):
        listening(f"127.0.0.1:{first.getsockname()[1]}")
