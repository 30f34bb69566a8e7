"""What each protocol that carries a dump keeps: its codec, decoder and encoder are of one format, and its replay writes it too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, get_args

import cramjam
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.contract import IDENTITY_BYTES, Codec, ReadBackCodec
from sidecar.shared.codecs.registry import CARRIERS, PROTOCOLS, WRITTEN, codec_for, written_codec
from sidecar.shared.errors import ConfigError, FeedUnsuitable
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Envelope, Lane, Mark, MarkKind, Message, Rank, Resolved
from spark_merge.codecs.decode import canal_json, open_protocol, simple
from spark_merge.codecs.decode.rows import decode
from spark_merge.codecs.encode.messages import Architecture, Encoder, RowMessage
from spark_merge.codecs.protocols import DecoderModule, decoder_module, encoder, encoder_module, written_decoder
from tests.lanes import examples
from tests.support.memory_registry import InJson
from tests.unit.decode.log import logged
from tests.unit.encode.open_tables import ALL, Image, changes, pairs, table
from tests.unit.encode.simple_slow import SimpleEncoder

DECODERS: dict[str, DecoderModule] = {"open-protocol": open_protocol, "canal-json": canal_json, "simple": simple}
"""Here `mypy` holds each module against its contract."""

LANE = Lane("kafka/t/0")
SMALL = table([("id", "int(11)"), ("name", "varchar(20)")])
PACKERS: dict[Compression, Callable[[bytes], bytes]] = {
    "none": bytes,
    "snappy": lambda value: bytes(cramjam.snappy.compress_raw(value)),
    "lz4": lambda value: bytes(cramjam.lz4.compress(value)),
}

every_protocol = pytest.mark.parametrize("protocol", CARRIERS)
every_feed_that_is_written = pytest.mark.parametrize("protocol", [one for one in WRITTEN if one in CARRIERS])
every_form = pytest.mark.parametrize("protocol", list(CARRIERS | WRITTEN))
every_form_with_any_name = pytest.mark.parametrize("protocol", [name for name, one in (CARRIERS | WRITTEN).items() if not one.by_registry])
"""In Avro two names can be one."""
every_architecture = pytest.mark.parametrize("architecture", get_args(Architecture))


def codec_of(protocol: str, compression: Compression = "none") -> Codec:
    return codec_for(protocol, tidb_extension=True, compression=compression)


def encoder_of(protocol: str, architecture: Architecture) -> Encoder:
    """Of one that is only read, the tests' own."""
    if protocol not in WRITTEN:
        return SimpleEncoder()
    options = {"enable-tidb-extension": "true"} if WRITTEN[protocol].needs_extension else {}
    if WRITTEN[protocol].by_registry:
        return InJson.of(protocol, architecture, options)
    return encoder(protocol, architecture=architecture, options=options)


def codec_of_form(protocol: str) -> Codec | ReadBackCodec:
    return codec_of(protocol) if protocol in CARRIERS else written_codec(protocol)


def decoder_of_form(protocol: str) -> DecoderModule | None:
    return None if protocol in CARRIERS else written_decoder(protocol, {}, redefined=False)


def envelopes(codec: Codec | ReadBackCodec, messages: Iterable[RowMessage]) -> list[Envelope]:
    numbered = enumerate(messages)
    return [envelope for place, message in numbered for envelope in codec.envelopes(Message(LANE, place, message[0], message[1]))]


def rows_of(codec: Codec | ReadBackCodec, messages: Iterable[RowMessage]) -> list[Change]:
    results = envelopes(codec, messages)
    rows = [one for one in results if isinstance(one, Change)]
    assert rows == results
    return rows


@every_protocol
def test_its_three_modules_have_one_name(protocol: str) -> None:
    assert codec_of(protocol).name == protocol
    assert decoder_module(protocol) is DECODERS[protocol]
    assert protocol not in WRITTEN or encoder_module(protocol).encoder is not None


@pytest.mark.parametrize("protocol", [one.name for one in PROTOCOLS if one.name not in WRITTEN])
def test_a_protocol_without_an_encoder_is_refused_with_those_that_have_one(protocol: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{protocol}'(.|\n)*{', '.join(WRITTEN)}"):
        encoder(protocol, architecture="classic", options={})


# ---- what a replay writes -------------------------------------------------------------------------------------------


@every_protocol
@pytest.mark.parametrize("compression", PACKERS)
@given(
    ts=st.integers(1, 2**63 - 1),
    row_id=st.integers(0, 2**63 - 1),
    changefeed=st.text(),
    uuid=st.text(),
    kind=st.sampled_from(MarkKind),
    previous=st.none() | st.tuples(st.text(), st.sampled_from(MarkKind)),
)
def test_the_codec_reads_the_marks_of_a_replay(
    protocol: str,
    compression: Compression,
    ts: int,
    row_id: int,
    changefeed: str,
    uuid: str,
    kind: MarkKind,
    previous: tuple[str, MarkKind] | None,
) -> None:
    module, codec = CARRIERS[protocol].codec, codec_of(protocol, compression)
    assert module is not None
    key, value = module.encode_mark(
        commit_ts=ts, row_id=row_id, changefeed_id=changefeed, uuid=uuid, kind=kind, previous=previous, now_ms=1_795_231_963_612
    )
    (change,) = rows_of(codec, [(key, module.packed(value, PACKERS[compression]))])
    assert codec.mark(change) == Mark(CommitTs(ts), changefeed, uuid, kind)


@every_protocol
@pytest.mark.parametrize("compression", PACKERS)
@given(ts=st.integers(1, 2**63 - 1), now_ms=st.integers(0, 2**41))
def test_the_codec_reads_the_resolved_marks_of_a_replay(protocol: str, compression: Compression, ts: int, now_ms: int) -> None:
    module = CARRIERS[protocol].codec
    assert module is not None
    key, value = module.encode_resolved(ts, now_ms)
    message = (key, module.packed(value, PACKERS[compression]))
    assert envelopes(codec_of(protocol, compression), [message]) == [Resolved(LANE, CommitTs(ts), 0)]


# ---- what a sink writes ---------------------------------------------------------------------------------------------


SCALES = {"decimal": 2, "time": 3}
EVERY_TYPE = replace(
    ALL,
    columns=tuple(
        replace(one, scale=6 if "(6)" in one.name else SCALES.get(one.kind, 0), length=9 if one.kind == "bit" else -1)
        for one in ALL.columns
    ),
)
"""With the scales that the drawn values have."""


def with_the_same_key(images: Sequence[tuple[Image | None, Image | None]]) -> list[tuple[Image | None, Image | None]]:
    return [(before, after if before is None or after is None else [before[0], *after[1:]]) for before, after in images]


def without_negative_zero(rows: pa.Table) -> list[dict[str, Any]]:
    """JSON's -0 is an integer to its reader, and has no sign."""

    def image(texts: Image | None) -> Image | None:
        return None if texts is None else ["0.0" if text == "-0.0" else text for text in texts]

    kept = rows.select(["commit_ts", "op", "before", "after"]).to_pylist()
    return [row | {"before": image(row["before"]), "after": image(row["after"])} for row in kept]


@every_protocol
@every_architecture
@pytest.mark.parametrize("seed", range(examples(30)))
def test_rows_that_are_encoded_decode_to_themselves(protocol: str, architecture: Architecture, seed: int) -> None:
    rows = changes(EVERY_TYPE, *with_the_same_key(pairs(EVERY_TYPE, Random(seed))))
    messages = encoder_of(protocol, architecture).rows(EVERY_TYPE, rows, None)
    read = rows_of(codec_of(protocol), messages)
    ranks = [Rank.DELETE if op == "delete" else Rank.PUT for op in rows["op"].to_pylist()]
    assert [(one.commit_ts, one.rank, one.schema, one.table) for one in read] == [
        (ts, rank, *EVERY_TYPE.name) for ts, rank in zip(rows["commit_ts"].to_pylist(), ranks, strict=True)
    ]
    decoded = decode(logged(read, codec=protocol), codec=protocol, schemas={EVERY_TYPE.name: EVERY_TYPE})
    assert without_negative_zero(decoded) == without_negative_zero(rows)


ODD_NAMES = st.lists(
    st.sampled_from(["c0", "c1", "c2", "?c0", "id", "data", "u"])
    | st.text(st.sampled_from("\"\\'`\0\n\x1f\x7f <>&.{}:é中😀c0?"), min_size=1, max_size=5),
    min_size=3,
    max_size=3,
    unique_by=str.lower,
)
"""TiDB takes any name but one that ends in a space."""


@every_form_with_any_name
@every_architecture
@given(names=ODD_NAMES)
def test_columns_of_any_name_decode_to_themselves(protocol: str, architecture: Architecture, names: list[str]) -> None:
    odd = table([(names[0], "int(11)"), (names[1], "varchar(20)"), (names[2], "enum('a','b')")], key=(names[0],))
    rows = changes(odd, (None, ["1", "x", "a"]), (["1", "x", "a"], ["1", None, "b"]), (["1", None, "b"], None))
    read = rows_of(codec_of_form(protocol), encoder_of(protocol, architecture).rows(odd, rows, None))
    module = decoder_of_form(protocol)
    decoded = decode(logged(read, codec=protocol), codec=protocol, schemas={odd.name: odd}, module=module)
    assert without_negative_zero(decoded) == without_negative_zero(rows)
    fewer = replace(odd, columns=odd.columns[:2])
    with pytest.raises(FeedUnsuitable, match="and not in the schema"):
        decode(logged(read, codec=protocol), codec=protocol, schemas={odd.name: fewer}, module=module)
    of_fewer = decode(logged(read, codec=protocol), codec=protocol, schemas={odd.name: fewer}, whole=False, module=module)
    assert [row["after"] for row in of_fewer.to_pylist()] == [["1", "x"], ["1", None], None]


@every_feed_that_is_written
@every_architecture
def test_what_the_log_keeps_of_a_message_is_the_message_again(protocol: str, architecture: Architecture) -> None:
    messages = encoder_of(protocol, architecture).rows(SMALL, changes(SMALL, (None, ["1", "a"]), (["1", "a"], None)), None)
    read = rows_of(codec_of(protocol), messages)
    keys, values = (pa.array(column, pa.binary()) for column in zip(*((one.key, one.value) for one in read), strict=True))
    sent = (column.to_pylist() for column in encoder_module(protocol).as_sent(keys, values))
    assert list(zip(*sent, strict=True)) == messages


@every_protocol
@every_architecture
def test_two_arrivals_of_a_change_are_one_and_other_changes_are_others(protocol: str, architecture: Architecture) -> None:
    codec = codec_of(protocol)
    rows = changes(SMALL, (None, ["1", "a"]), (None, ["1", "b"]), (["1", "a"], ["1", "b"]), (["1", "b"], None))
    read = rows_of(codec, 2 * list(encoder_of(protocol, architecture).rows(SMALL, rows, None)))
    results = [codec.identity(one) for one in read]
    assert results[:4] == results[4:]
    assert len(set(results)) == 4
    assert {len(one) for one in results if isinstance(one, bytes)} == {IDENTITY_BYTES}


@every_form
@every_architecture
def test_the_codec_reads_encoded_ddls_and_resolved_marks(protocol: str, architecture: Architecture) -> None:
    made = encoder_of(protocol, architecture)
    query = "ALTER TABLE `shop`.`t` ADD COLUMN `é<` INT"
    ddl = made.ddl(DdlRecord(CommitTs(7), "shop", "t", query), SMALL, SMALL)
    results = envelopes(codec_of_form(protocol), [ddl, made.resolved(CommitTs(8))])
    assert results == [Ddl(CommitTs(7), Rank.DDL, "shop", "t", query, LANE, 0), Resolved(LANE, CommitTs(8), 1)]
