from __future__ import annotations

import struct

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.codecs.compression import Compression, NotCompressed, decompressed

GO_FRAME = bytes.fromhex("04224d186470b9")
"""What each lz4 value of the recordings begins with (blocks of 4 MiB)."""
FRAME_64_KIB = bytes.fromhex("04224d186440a7")


def go_frame(plain: bytes) -> bytes:
    """One block, then the end mark; the content checksum is taken from cramjam's own frame of the same bytes."""
    block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
    checksum = bytes(cramjam.lz4.compress(plain))[-4:]
    return GO_FRAME + struct.pack("<I", len(block)) + block + struct.pack("<I", 0) + checksum


@given(st.binary(max_size=2_000))
def test_gives_back_what_was_compressed(plain: bytes) -> None:
    assert decompressed(plain, "none") is plain
    assert decompressed(bytes(cramjam.snappy.compress_raw(plain)), "snappy") == plain
    assert decompressed(bytes(cramjam.lz4.compress(plain)), "lz4") == plain


@pytest.mark.parametrize("size", [1, 600, 64 * 1024, 64 * 1024 + 1, 1_000_000])
def test_reads_lz4_as_go_writes_it_whatever_the_size_of_the_block(size: int) -> None:
    plain = (b'{"u":{"id":1}}' * size)[:size]
    assert decompressed(go_frame(plain), "lz4") == plain


def test_notices_damage_inside_an_lz4_block() -> None:
    whole = go_frame(b'{"u":{"id":12345678901234567890}}')
    at = whole.index(b"123")
    with pytest.raises(NotCompressed, match=r"^lz4: ERROR_contentChecksum_invalid"):
        decompressed(whole[:at] + b"9" + whole[at + 1 :], "lz4")


@pytest.mark.parametrize("compression", ["snappy", "lz4"])
@pytest.mark.parametrize("value", [b"", b'{"u":{}}', GO_FRAME, FRAME_64_KIB])
def test_refuses_what_is_not_compressed_so(value: bytes, compression: Compression) -> None:
    with pytest.raises(NotCompressed, match=f"^{compression}: "):
        decompressed(value, compression)


def test_does_not_allocate_what_a_snappy_header_cannot_mean() -> None:
    with pytest.raises(NotCompressed, match=r"^snappy: the length it claims is impossible$"):
        decompressed(b"\xff\xff\xff\xff\x0fabc", "snappy")


def test_the_densest_snappy_is_still_read() -> None:
    plain = b"a" * 1_000_000
    assert decompressed(bytes(cramjam.snappy.compress_raw(plain)), "snappy") == plain
