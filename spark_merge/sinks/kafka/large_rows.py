"""Rows that are larger than a message, as TiCDC's claim-check has them (`large-message-handle-option=claim-check`).

A message of more than max-message-bytes, as TiCDC counts it, is written into a file of `claim-check-storage-uri`. The message that is sent
instead has the columns of the handle key alone, and says where the file is. The form of both is TiCDC's, to the byte but for the file's
name: sidecar/shared/codecs/claim_file.py, `Encoder.location_message`.

- A file is durable before a message that names it is sent. A task that dies between the two leaves a file that no message names.
- A file's name depends on the log and the output alone: on the row's place in the log, the brokers, the topic and the protocol. So a task
  that is done again, or by two workers at once, writes the same file with the same bytes.
- Without the option, and for a row whose key alone is too large, the task ends before a message of the row's transaction is sent.
- No file is ever removed here, as by TiCDC. Without its file a row cannot be read back: that is an error of the reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import NAMESPACE_OID, uuid5

from sidecar.shared.codecs.claim_file import NotThisRow, file_bytes, file_name, whole_message
from sidecar.shared.codecs.contract import Claim, KeyAlone, ReadBackCodec
from sidecar.shared.codecs.registry import WRITTEN
from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.model.nouns import Message, TableSchema
from spark_merge.codecs.encode.messages import RowMessage
from spark_merge.sinks.kafka.output import ClaimFolder, Output
from spark_merge.sinks.kafka.producer import RECORD_OVERHEAD_BYTES
from spark_merge.sinks.kafka.rows import WrittenRows

_RAISE = "raise max-message-bytes in the sink's URI, and max.message.bytes of the topic to as much"


def sendable(output: Output, schema: TableSchema, rows: WrittenRows, origins: Sequence[bytes]) -> Sequence[RowMessage | None]:
    """A message for each of `rows`, none too large; files are written. `origins`: of each row its HEADER (ending.py). Raises SinkError,
    StorageFull."""
    most = output.max_message_bytes - RECORD_OVERHEAD_BYTES
    sizes = [0 if message is None else len(message[0] or b"") + len(message[1] or b"") for message in rows.messages]
    if not sizes or max(sizes) <= most:
        return rows.messages
    messages, names, claims = list(rows.messages), dict[int, str](), output.claims
    for place, (message, size) in enumerate(zip(rows.messages, sizes, strict=True)):
        if message is None or size <= most:
            continue
        if claims is not None:
            names[place] = _name(output, claims, origins[place])
            messages[place] = small = output.encoder.location_message(message, schema, f"{claims.folder}/{names[place]}")
            size = sum(len(part or b"") for part in small)
        if size > most:
            raise _too_large(output, schema, rows.changes["key"][place].as_py(), size + RECORD_OVERHEAD_BYTES)
    if claims is not None:
        _write(claims, ((name, rows.messages[place]) for place, name in names.items()))
    return messages


def whole_messages(claims: ClaimFolder | None, message: Message, codec: ReadBackCodec) -> Iterator[Message]:
    """The message, or one for each row of it, with the rows that are in files. Raises SinkError, and FeedError as `codec`."""
    for part in codec.parts(message) or [(message.key, message.value)]:
        match part:
            case Claim() if claims is not None:
                yield _read(claims, message, part, codec)
            case Claim() | KeyAlone():
                yield message  # which the codec rejects
            case key, value:
                yield message._replace(key=key, value=value)


def _name(output: Output, claims: ClaimFolder, origin: bytes) -> str:
    place = "\n".join((claims.log_id, output.position_topic, output.protocol, origin.decode()))
    return f"{uuid5(NAMESPACE_OID, place)}.json"


def _write(claims: ClaimFolder, whole: Iterable[tuple[str, RowMessage | None]]) -> None:
    """One after another; all of them are durable when it returns."""
    with storage.new_files(claims.folder) as new_file:
        for name, message in whole:
            key, value = message or (None, None)
            with new_file(name) as file:
                file.write(file_bytes(key, value or b"", raw=claims.raw))


def _read(claims: ClaimFolder, message: Message, claim: Claim, codec: ReadBackCodec) -> Message:
    what = f"the row of {claim.table} at commit_ts {claim.commit_ts}"
    try:
        data = storage.read_if_there(claims.folder, name := file_name(claim))
        if data is not None:
            return whole_message(message, claim, data, codec, raw=claims.raw)
    except NotThisRow as error:
        raise SinkError(
            f"topic {message.lane}, offset {message.position}: expected {what} in a file; got {error}",
            hint="let nothing else write into the folder of claim-check-storage-uri, and set claim-check-raw-value as it was when the row"
            " was written",
        ) from error
    raise SinkError(
        f"topic {message.lane}, offset {message.position}: {what} is in {name}, which is not in {claims.folder}",
        hint="put the file back, and let no lifecycle rule remove files sooner than the topic's records; if it is lost, deliver to a new"
        " topic and dump again",
    )


def _too_large(output: Output, schema: TableSchema, key: str, size: int) -> SinkError:
    return SinkError(
        f"{output}: the row of {schema.name} with key {key} makes a message of {size} bytes, "
        f"max-message-bytes is {output.max_message_bytes}",
        hint=_RAISE
        if output.claims or WRITTEN[output.protocol].rows_alone
        else f"{_RAISE}; or set large-message-handle-option=claim-check, which puts such rows into files",
    )
