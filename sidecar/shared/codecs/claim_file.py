"""A claim-check file: it has a row that is larger than a message, and the row's message says where it is.

    file        {"key":base64|null,"value":base64}: key and value that the message would have had; or, with claim-check-raw-value, the value
    location    FOLDER/NAME. Readers take the name alone: TiCDC writes the folder in different ways, and machines reach it in others

Source: pingcap/ticdc pkg/sink/kafka/claimcheck, pkg/sink/codec/common/message.go; the recording `large`.
"""

from __future__ import annotations

import base64
import binascii
import re

import msgspec
from msgspec import Struct, json

from sidecar.shared.codecs.contract import Claim, Codec, ReadBackCodec
from sidecar.shared.model.nouns import Change, Message

_NAME = re.compile(r"[0-9A-Za-z_-]+\.json")


class NotThisRow(ValueError):
    """A file's name or content that is not of the row that its message names. Its text completes "got …"."""


class _File(Struct):
    key: str | None
    value: str


_decode_file = json.Decoder(_File).decode


def file_name(claim: Claim) -> str:
    """Raises NotThisRow."""
    name = claim.file.rpartition("/")[2]
    if _NAME.fullmatch(name) is None:
        raise NotThisRow(f"a file {claim.file!r}, which is none that TiCDC writes")
    return name


def file_bytes(key: bytes | None, value: bytes, *, raw: bool) -> bytes:
    """An empty key is null, as canal-json's is."""
    if raw:
        return value
    return b'{"key":%b,"value":"%b"}' % (b'"%b"' % base64.b64encode(key) if key else b"null", base64.b64encode(value))


def whole_message(message: Message, claim: Claim, data: bytes, codec: Codec | ReadBackCodec, *, raw: bool) -> Message:
    """`message` with the row that is in its file. Raises NotThisRow, and as `Codec.envelopes`."""
    name = file_name(claim)
    if raw:
        whole = message._replace(value=data)
    else:
        try:
            file = _decode_file(data)
            key = None if file.key is None else base64.b64decode(file.key, validate=True)
            whole = message._replace(key=key, value=base64.b64decode(file.value, validate=True))
        except (msgspec.MsgspecError, UnicodeDecodeError, binascii.Error) as error:
            raise NotThisRow(f"a file {name} that is none of TiCDC's: {error}") from error
    changes = [(one.commit_ts, one.schema, one.table) for one in codec.envelopes(whole) if isinstance(one, Change)]
    if changes != [(claim.commit_ts, *claim.table)]:
        raise NotThisRow(f"a file {name} of another row")
    return whole
