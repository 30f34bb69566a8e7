"""Rows that are larger than a message: in a file, before the message that names it is sent, both as TiCDC writes them."""

from __future__ import annotations

import base64
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.codecs.claim_file import file_bytes, file_name
from sidecar.shared.codecs.contract import Claim, CodecWithParts
from sidecar.shared.codecs.registry import WRITTEN
from sidecar.shared.errors import FeedError, SinkError, StorageFull
from sidecar.shared.log.storage import Folder, Full, local
from sidecar.shared.model.nouns import Change, Lane, Message, TableName
from spark_merge.codecs.encode.messages import Architecture, RowMessage
from spark_merge.codecs.protocols import encoder
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.kafka import large_rows as module
from spark_merge.sinks.kafka.large_rows import sendable, whole_messages
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.rows import WrittenRows, encoded
from spark_merge.sinks.kafka.uri import output_of
from tests.recordings.make_claims import ARCHIVE, FEEDS, FILES_EACH, messages_of
from tests.support.recordings import recording
from tests.unit.decode.log import recorded_schemas
from tests.unit.encode.open_tables import changes, table

PROTOCOLS = {"open-protocol": "open-claim-check", "canal-json": "canal-claim-check"}
DOC = table([("id", "int(11)"), ("body", "longtext"), ("n", "int(11)")])
WITHOUT_TIMES = re.compile(rb'"ts":[0-9]{13},')


def output(root: Path, parameters: str = "", *, protocol: str = "open-protocol", log_id: str = "log-1") -> Output:
    text = (
        f"kafka://b:9092/t?protocol={protocol}&max-message-bytes=400&large-message-handle-option=claim-check&claim-check-storage-uri={root}"
    )
    parts = urlsplit(f"{text}&{parameters}" if parameters else text)
    return output_of(SinkUri(text, parts, dict(pair.split("=", 1) for pair in parts.query.split("&")), log_id))


def written(protocol: str, *bodies: str, op: str = "insert", architecture: Architecture = "classic") -> WrittenRows:
    """A row for each, with its number as the key. A delete has the key alone."""
    own = encoder(protocol, architecture=architecture, options={"enable-tidb-extension": "true"})
    images = [[str(number), body, None] for number, body in enumerate(bodies)]
    rows = changes(DOC, *((None if op == "insert" else image, None if op == "delete" else image) for image in images))
    rows = rows.set_column(rows.schema.get_field_index("key"), "key", pa.array([f"[{number}]" for number in range(len(bodies))]))
    return encoded(rows, DOC, own, protocol, keys_only=op == "delete")


def origins(rows: WrittenRows) -> list[bytes]:
    return [b"log 7 %d insert" % number for number in range(len(rows.messages))]


def sent(to: Output, rows: WrittenRows) -> Sequence[RowMessage | None]:
    return sendable(to, DOC, rows, origins(rows))


def codec_of(protocol: str) -> CodecWithParts:
    return FEEDS[PROTOCOLS[protocol]]


def read(to: Output, messages: Sequence[RowMessage | None]) -> list[RowMessage]:
    codec = codec_of(to.protocol)
    in_topic = [Message(Lane("t/0"), at, *message) for at, message in enumerate(messages) if message is not None]
    return [(whole.key, whole.value) for one in in_topic for whole in whole_messages(to.claims, one, codec)]


# ---- TiCDC's own ------------------------------------------------------------------------------------------------------


def recorded_claims(folder: Path, feed: str) -> Iterator[tuple[RowMessage, RowMessage, str, bytes]]:
    """The message of each row in a file, its whole message, where it says the file is, and the file."""
    codec = FEEDS[feed]
    for message in messages_of(recording("large"), feed):
        alone = list(split_rows(message, codec))
        for (key, value), part in zip(alone, codec.parts(message), strict=True):
            if isinstance(part, Claim) and (path := folder / file_name(part)).is_file():
                data = path.read_bytes()
                file = json.loads(data)
                whole = base64.b64decode(file["key"]) if file["key"] else b"", base64.b64decode(file["value"])
                yield (key, value), whole, part.file, data


def split_rows(message: Message, codec: CodecWithParts) -> Iterator[RowMessage]:
    """As with one row in each message."""
    if codec.name != "open-protocol":
        yield from [(message.key, message.value)] * len(codec.parts(message))
        return
    keys, values = frames((message.key or b"")[8:]), frames(message.value or b"")
    yield from ((b"%b%b" % ((1).to_bytes(8, "big"), key), value) for key, value in zip(keys, values, strict=True) if codec.parts(message))


def frames(data: bytes) -> Iterator[bytes]:
    while data:
        size = 8 + int.from_bytes(data[:8], "big")
        yield data[:size]
        data = data[size:]


@pytest.mark.recordings
@pytest.mark.parametrize(("protocol", "feed"), PROTOCOLS.items())
def test_of_the_whole_message_comes_ticdcs_own_small_one_and_its_file(tmp_path: Path, protocol: str, feed: str) -> None:
    """But for the location, and for canal-json's `ts`, which is the moment at which TiCDC built a message."""
    folder = recording("large") / "claim" / feed
    if not (has_all := folder.is_dir()):
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(tmp_path, filter="data")
        folder = tmp_path / feed
    own = encoder(protocol, architecture="classic", options={"enable-tidb-extension": "true"})
    schema, kinds = recorded_schemas(recording("large"))[TableName("shop", "doc")], Counter[str]()
    for (key, value), whole, location, data in recorded_claims(folder, feed):
        made_key, made_value = own.location_message(whole, schema, location)
        assert made_key == key
        assert WITHOUT_TIMES.sub(b"", made_value or b"") == WITHOUT_TIMES.sub(b"", value or b"")
        assert file_bytes(whole[0], whole[1] or b"", raw=False) == data
        kinds[kind_of(whole)] += 1
    assert set(kinds) <= {"u", "d", "up", "INSERT", "UPDATE", "DELETE"}
    assert len(kinds) == (3 if has_all else 1), "the archive has the first files alone"
    assert kinds.total() >= FILES_EACH


def kind_of(whole: RowMessage) -> str:
    value = whole[1] or b""
    row = json.loads(value[value.index(b"{") :])
    return str(row.get("type") or "".join(row))


# ---- ours -------------------------------------------------------------------------------------------------------------

BODIES = st.lists(st.text(max_size=30) | st.text(min_size=50, max_size=60).map(lambda text: text * 20), max_size=6)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(bodies=BODIES, op=st.sampled_from(["insert", "update", "delete"]), architecture=st.sampled_from(["classic", "new"]))
def test_a_reader_has_each_row_whole_and_no_message_is_too_large(
    tmp_path_factory: pytest.TempPathFactory, protocol: str, bodies: list[str], op: str, architecture: Architecture
) -> None:
    root = tmp_path_factory.mktemp("claims")
    to = output(root, f"architecture={architecture}", protocol=protocol)
    rows = written(protocol, *bodies, op=op, architecture=architecture)
    messages = sent(to, rows)
    sizes = [len(key or b"") + len(value or b"") + 36 for key, value in filter(None, messages)]
    assert max(sizes, default=0) <= 400
    whole = [message for message in rows.messages if message is not None]
    large = [message for message in whole if len(message[0] or b"") + len(message[1] or b"") + 36 > 400]
    assert read(to, messages) == [(message[0] or None if message in large else message[0], message[1]) for message in whole]
    assert len(list(root.iterdir())) == len(large)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_done_again_writes_the_same_files_and_messages(tmp_path: Path, protocol: str) -> None:
    rows = written(protocol, "x" * 900, "y", "z" * 900)
    to = output(tmp_path, protocol=protocol)
    first, files = sent(to, rows), contents(tmp_path)
    assert (sent(to, rows), contents(tmp_path), len(files)) == (first, files, 2)


def contents(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.glob("[!.]*")}


def test_rows_of_another_place_log_output_or_protocol_have_other_files(tmp_path: Path) -> None:
    for to, origin in [
        (output(tmp_path), b"log 7 0 insert"),
        (output(tmp_path), b"log 7 0 delete"),
        (output(tmp_path), b"log 8 0 insert"),
        (output(tmp_path), b"dump 7 0 d 0"),
        (output(tmp_path, log_id="log-2"), b"log 7 0 insert"),
        (output(tmp_path, protocol="canal-json"), b"log 7 0 insert"),
    ]:
        sendable(to, DOC, written(to.protocol, "x" * 900), [origin])
    names = set(contents(tmp_path))
    assert len(names) == 6
    assert all(re.fullmatch(r"[0-9A-Za-z_-]+\.json", name) for name in names)


@pytest.mark.parametrize("parameters", ["", "claim-check-raw-value=true"])
def test_a_file_is_the_value_as_it_is_where_the_option_says_so(tmp_path: Path, parameters: str) -> None:
    rows = written("canal-json", "x" * 900)
    to = output(tmp_path, parameters, protocol="canal-json")
    assert read(to, sent(to, rows))[0][1] == (rows.messages[0] or (None, None))[1]
    assert (contents(tmp_path).popitem()[1] == (rows.messages[0] or (None, None))[1]) == bool(parameters)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_key_that_is_too_large_stops_before_anything_is_written(tmp_path: Path, protocol: str) -> None:
    to = output(tmp_path, "max-message-bytes=120", protocol=protocol)
    with pytest.raises(
        SinkError, match=r"the row of shop\.t with key \[0\] makes a message of \d+ bytes, max-message-bytes is 120"
    ) as raised:
        sent(to, written(protocol, "x" * 900))
    assert (contents(tmp_path), raised.value.retryable) == ({}, SinkError("", hint="").retryable)


def test_without_the_option_a_large_row_stops_with_the_way_out() -> None:
    text = "kafka://b:9092/t"
    to = output_of(SinkUri(text, urlsplit(text), {"max-message-bytes": "400"}, "log-1"))
    rows = written("open-protocol", "y", "x" * 900)
    with pytest.raises(SinkError, match=r"the row of shop\.t with key \[1\] makes a message of \d+ bytes") as raised:
        sent(to, rows)
    assert "large-message-handle-option=claim-check" in raised.value.hint


@pytest.mark.parametrize("protocol", [name for name, one in WRITTEN.items() if one.rows_alone])
def test_a_protocol_without_files_does_not_name_the_option_for_them(protocol: str) -> None:
    """spark_merge/sinks/kafka/uri.py refuses it there."""
    text = "kafka://b:9092/t"
    to = replace(output_of(SinkUri(text, urlsplit(text), {"max-message-bytes": "400"}, "log-1")), protocol=protocol)
    with pytest.raises(SinkError, match=r"makes a message of \d+ bytes") as raised:
        sendable(to, DOC, written("open-protocol", "x" * 900), [b"log 7 0 insert"])
    assert raised.value.hint.startswith("raise max-message-bytes")
    assert "claim-check" not in raised.value.hint


def test_a_row_is_written_at_a_time_and_all_are_durable_before_one_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    make_durable = local.make_durable

    def durable(folder: Folder, names: Sequence[str]) -> None:
        assert set(names) == set(contents(tmp_path))
        make_durable(folder, names)
        steps.append(f"{len(names)} durable")

    def made(key: bytes | None, value: bytes, *, raw: bool) -> bytes:
        steps.append(f"behind {len(contents(tmp_path))}")
        return file_bytes(key, value, raw=raw)

    monkeypatch.setattr(local, "make_durable", durable)
    monkeypatch.setattr(module, "file_bytes", made)
    sent(output(tmp_path), written("open-protocol", *["x" * 900] * 2))
    assert steps == ["behind 0", "behind 1", "2 durable"]


def test_a_storage_without_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to, rows = output(tmp_path), written("open-protocol", "x" * 900)

    def full(*_: object) -> None:
        raise Full("no space")

    monkeypatch.setattr(local, "make_durable", full)
    with pytest.raises(StorageFull, match=f"no room left in file://{tmp_path}"):
        sent(to, rows)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match=f"file://{tmp_path}/file.* cannot be read or written"):
        sent(output(tmp_path / "file"), written("open-protocol", "x" * 900))


# ---- read back --------------------------------------------------------------------------------------------------------


def test_a_file_that_is_gone_or_another_rows_is_an_error_with_the_record(tmp_path: Path) -> None:
    to = output(tmp_path)
    messages = sent(to, written("open-protocol", "x" * 900))
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"{}")
    with pytest.raises(
        SinkError, match=r"topic t/0, offset 0: expected the row of shop\.t at commit_ts \d+ in a file; got a file .* none of"
    ):
        read(to, messages)
    path.unlink()
    with pytest.raises(SinkError, match=rf"the row of shop\.t at commit_ts \d+ is in {path.name}, which is not in file://{tmp_path}"):
        read(to, messages)


def test_rows_of_a_sink_without_the_option_are_rejected_by_the_codec(tmp_path: Path) -> None:
    messages = sent(output(tmp_path), written("open-protocol", "x" * 900))
    codec = codec_of("open-protocol")
    key, value = messages[0] or (None, None)
    (one,) = whole_messages(None, Message(Lane("t/0"), 0, key, value), codec)
    with pytest.raises(FeedError, match="a reference to file"):
        codec.envelopes(one)


def test_other_rows_of_such_a_message_come_one_by_one(tmp_path: Path) -> None:
    """TiCDC's own messages, from before the sink continued its topic, have several rows."""
    to = output(tmp_path)
    rows = written("open-protocol", "y", "x" * 900, "z")
    parts: list[Any] = [message for message in sent(to, rows) if message is not None]
    together = parts[0][0] + b"".join(key[8:] for key, _ in parts[1:]), b"".join(value for _, value in parts)
    codec = codec_of("open-protocol")
    whole = whole_messages(to.claims, Message(Lane("t/0"), 0, *together), codec)
    assert [one.value for one in whole] == [(message or (None, None))[1] for message in rows.messages]
    assert all(isinstance(change, Change) for one in read(to, rows.messages) for change in codec.envelopes(Message(Lane("t/0"), 0, *one)))
