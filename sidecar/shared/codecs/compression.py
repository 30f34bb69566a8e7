"""TiCDC's `large-message-handle-compression`: how values are packed (tiflow `pkg/compression`).

snappy is the block format, lz4 the frame format. In open-protocol each value inside the framing is packed, in canal-json
the whole value, small ones too; keys never. What is packed with another codec than the one set here is refused, not guessed.
"""

from __future__ import annotations

from typing import Literal, assert_never

import cramjam

Compression = Literal["none", "snappy", "lz4"]

_LZ4_HEADER = bytes.fromhex("04224d186470b9")
"""As Go's lz4 writes it: independent blocks of at most 4 MiB, content checksum. A decoder allocates such a block for each value."""
_LZ4_HEADER_64_KIB = bytes.fromhex("04224d186440a7")
"""The same with blocks of at most 64 KiB: holds for most values, decodes seven times faster, and fails where it does not hold."""
_LZ4_SMALL_BYTES_MAX = 16 * 1024
"""Values above it seldom stay below 64 KiB, and are large enough to pay for the large block."""

SNAPPY_RATIO_MAX = 22
"""A snappy element of 3 bytes gives at most 64. A length above that is a lie, and is not allocated."""


class NotCompressed(Exception):
    """The bytes are not what the compression set here makes. Its text says why; the codec knows where."""


def decompressed(value: bytes, compression: Compression) -> bytes:
    """The plain bytes. Raises NotCompressed."""
    try:
        match compression:
            case "none":
                return value
            case "snappy":
                if cramjam.snappy.decompress_raw_len(value) > SNAPPY_RATIO_MAX * len(value):
                    raise NotCompressed("snappy: the length it claims is impossible")
                return bytes(cramjam.snappy.decompress_raw(value))
            case "lz4":
                return _lz4_decompressed(value)
            case _:
                assert_never(compression)
    except cramjam.DecompressionError as error:
        raise NotCompressed(str(error)) from error


def _lz4_decompressed(value: bytes) -> bytes:
    if value.startswith(_LZ4_HEADER) and len(value) <= _LZ4_SMALL_BYTES_MAX:
        try:
            return bytes(cramjam.lz4.decompress(_LZ4_HEADER_64_KIB + value[len(_LZ4_HEADER) :]))
        except cramjam.DecompressionError:
            pass  # a block larger than 64 KiB, or damaged: the header as it came decides
    return bytes(cramjam.lz4.decompress(value))
