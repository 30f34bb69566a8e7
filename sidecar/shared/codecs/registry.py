"""TiCDC's protocols, one record each: names, what a changefeed must set, which modules read and write it, why it cannot carry a dump.

A dump needs four things of a protocol: the commit_ts of every row, deletes too; old images or full keys; resolved marks; and exact values.
Debezium's formats, as TiCDC writes them, have no value of which a reader can tell that it is another (new:pkg/sink/codec/debezium/codec.go,
writeDebeziumFieldValue).
Only the record answers questions about a protocol: no other module compares a protocol's name.

What all have in common (files of pingcap/tiflow at c7b2588; `new:` is pingcap/ticdc at b813e76):

- Kafka messages have no headers. A protocol without a key sends rows with an empty key, DDLs and marks with a null one
  (pkg/sink/kafka/factory.go).
- A DDL goes to all partitions, of canal and canal-json to partition 0; a resolved mark to all (cdc/sink/ddlsink/mq/mq_ddl_sink.go). A mark
  can go back after a restart, and a DDL can come after a mark with the same ts.
- An update of a handle key or a unique column is a delete and an insert, unless `output-raw-change-event = true`: from v6.5.5, v7.1.2 and
  v7.4 on (cdc/model/sink.go, new:pkg/eventservice/event_scanner.go).
- Handle key: the primary key, else the unique key with the fewest columns that are all NOT NULL (cdc/model/schema_storage.go).

How to add a protocol: README.md in this folder. The form of a protocol: its module here, those of its name in codecs/decode and encode.
Source of the names: pkg/config/sink_protocol.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from sidecar.shared.codecs import avro, canal_json, debezium, debezium_avro, open_protocol, simple, simple_avro
from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.contract import Codec, CodecModule, ReadBackCodec, ReadBackModule
from sidecar.shared.codecs.refusals import EXTENSION_HINT
from sidecar.shared.errors import FeedUnsuitable


@dataclass(frozen=True, slots=True)
class TicdcProtocol:
    """`name` is TiCDC's; a log's `codec` column and a sink's `protocol=` use it too. Two questions have one answer each:

        is it a feed?       codec is set: yes, it carries a dump. lacks is set: never, because of this. Neither: not as messages (not
                            supported yet; csv: the storage feed makes messages of codecs/csv.py of its files)
        do we write it?     what is_written of those with a codec, and those with read_back, which reads what we write and no feed

    codecs/decode has a module of the same name as the one that is set of codec and read_back, and so has codecs/encode if we write it.

    `needs_extension`: without `enable-tidb-extension`, which is off by default, there is no commit_ts and no resolved mark.
    `options_section`: the section of a changefeed's [sink] with `output-old-value`; empty: old values are always sent.
    `names_partitions`: a row of a partitioned table carries the physical id of its partition.
    `unsigned_zeros`: a floating-point -0.0 is a number of JSON, which its readers take for 0.
    `ddls_to_first_partition`: a DDL goes to partition 0 of its topic, not to all partitions.
    `codec_avro`: of messages with `encoding-format=avro`; the log keeps them in the form of `codec`.
    `sorts_columns`: the classic architecture's encoder sorts a table's columns by their ids, and then takes other columns' names for them.
    `wrong_in`: versions whose new architecture writes some values wrong (pingcap/ticdc 3973).
    `raw_claims`: a claim-check file may hold a message's value as it is: nothing of a row is in its key.
    `in_files`: the storage sink writes it. `is_written`: our Kafka sink does, if it carries a dump.
    `rows_alone`: our sink's topics of rows have nothing else (spark_merge/sinks/kafka/debezium_topics.py).
    `as_debezium`: our sink writes it as Debezium's connectors do: a key has one change at a commit_ts (spark_merge/codecs/encode/join.py).
    `by_registry`: the schemas of its messages are in a schema registry, under the name of the topic: so a topic is one table's.
    `bare_deletes`: a deleted row's message can be a key alone, without a commit_ts. Our sink has it in a header.
    """

    name: str
    codec: CodecModule | None = None
    read_back: ReadBackModule | None = None
    aliases: tuple[str, ...] = ()
    lacks: str = ""
    needs_extension: bool = False
    options_section: str = ""
    names_partitions: bool = False
    unsigned_zeros: bool = False
    ddls_to_first_partition: bool = False
    codec_avro: CodecModule | None = None
    wrong_in: tuple[str, ...] = ()
    sorts_columns: bool = False
    raw_claims: bool = False
    in_files: bool = False
    is_written: bool = True
    rows_alone: bool = False
    as_debezium: bool = False
    by_registry: bool = False
    bare_deletes: bool = False

    @property
    def module_name(self) -> str:
        """Of its modules in spark_merge/codecs. One of CARRIERS or WRITTEN has it."""
        module = self.codec or self.read_back
        assert module is not None, f"protocol {self.name} is neither read nor written"
        return module.__name__.rpartition(".")[2]

    @property
    def sink_parameters(self) -> str:
        """What a changefeed's sink URI must say."""
        return f"protocol={self.name}" + ("&enable-tidb-extension=true" if self.needs_extension else "")


PROTOCOLS = (
    TicdcProtocol(
        "open-protocol",
        open_protocol,
        aliases=("open", "default"),
        options_section="open",
        names_partitions=True,
        unsigned_zeros=True,
    ),
    TicdcProtocol("canal-json", canal_json, needs_extension=True, ddls_to_first_partition=True, raw_claims=True, in_files=True),
    TicdcProtocol(
        "simple",
        simple,
        codec_avro=simple_avro,
        names_partitions=True,
        sorts_columns=True,
        wrong_in=("v8.5.4", "v8.5.5"),
        raw_claims=True,
        is_written=False,
    ),
    TicdcProtocol(
        "debezium",
        read_back=debezium,
        rows_alone=True,
        as_debezium=True,
        lacks="NULL comes as the column's default, a DECIMAL without its last digits, a BIGINT UNSIGNED negative, a zero date as 1970,"
        " and years under 100 as others",
    ),
    TicdcProtocol(
        "debezium-avro",
        read_back=debezium_avro,
        rows_alone=True,
        as_debezium=True,
        by_registry=True,
        lacks="NULL comes as the column's default, a zero date as 1970, and years under 100 as others",
    ),
    TicdcProtocol("csv", in_files=True),
    TicdcProtocol(
        "canal",
        lacks="its rows have an execution time in milliseconds and no commit_ts, and there are no resolved marks",
        ddls_to_first_partition=True,
    ),
    TicdcProtocol("maxwell", lacks="its rows have a time in milliseconds and no commit_ts, and there are no resolved marks"),
    TicdcProtocol(
        "avro",
        read_back=avro,
        aliases=("flat-avro",),
        lacks="its deletes have no commit_ts, there are no old images and no resolved marks",
        rows_alone=True,
        by_registry=True,
        bare_deletes=True,
    ),
    TicdcProtocol("craft", lacks="TiCDC has given it up: the new architecture does not write it"),
)

CARRIERS = {one.name: one for one in PROTOCOLS if one.codec is not None}
"""Those that carry a dump."""

WRITTEN = {one.name: one for one in PROTOCOLS if one.read_back is not None or (one.codec is not None and one.is_written)}
"""Those in which the Kafka sink writes."""

CHOOSE_HINT = f"create the changefeed with {', or with '.join(one.sink_parameters for one in CARRIERS.values())}, in its sink URI"

_BY_NAME = {name: one for one in PROTOCOLS for name in (one.name, *one.aliases)}
_COMPRESSIONS: dict[str, Compression] = {"": "none", "none": "none", "snappy": "snappy", "lz4": "lz4"}


def protocol_of(name: str) -> TicdcProtocol | None:
    """By its name or an alias, in any case. None: TiCDC has no such protocol."""
    return _BY_NAME.get(name.lower())


def codec_module(protocol: str, *, tidb_extension: bool, encoding: str = "") -> CodecModule:
    """Raises FeedUnsuitable for a protocol that cannot carry a dump. One of CARRIERS is refused for its `enable-tidb-extension`, or for an
    `encoding` (TiCDC's encoding-format; empty: json) that it does not have."""
    name, record = protocol.lower(), protocol_of(protocol)
    if record is None:
        raise FeedUnsuitable(f"protocol {protocol!r} is none that TiCDC has", hint=CHOOSE_HINT)
    if record.lacks:
        raise FeedUnsuitable(f"protocol {name} cannot carry a dump: {record.lacks}", hint=CHOOSE_HINT)
    if record.codec is None:
        raise FeedUnsuitable(f"messages of protocol {name} are not supported by this version of ticdc-dump", hint=CHOOSE_HINT)
    if record.needs_extension and not tidb_extension:
        raise FeedUnsuitable(
            f"{name} without TiDB's extension has neither commit_ts nor resolved marks, and cannot carry a dump", hint=EXTENSION_HINT
        )
    if record.codec_avro is None:  # TiCDC passes over the encoding in other protocols
        return record.codec
    module = {"": record.codec, "json": record.codec, "avro": record.codec_avro}.get(encoding.lower())
    if module is None:
        raise FeedUnsuitable(
            f"encoding-format {encoding!r} of protocol {name} is none that TiCDC has", hint="give it as the changefeed has it: json or avro"
        )
    return module


def written_codec(protocol: str) -> ReadBackCodec:
    """Of messages that the Kafka sink has written in one of WRITTEN."""
    record = WRITTEN[protocol]
    module = record.read_back or cast(ReadBackModule, record.codec)  # of each protocol of both, rows may be larger than a message
    return module.codec("none")


def codec_for(protocol: str, *, tidb_extension: bool, compression: str, encoding: str = "") -> Codec:
    """The codec for `protocol` with `enable-tidb-extension`, `large-message-handle-compression` and `encoding-format` as the changefeed has
    them.

    Raises FeedUnsuitable.
    """
    packed = compression_of(compression)
    return codec_module(protocol, tidb_extension=tidb_extension, encoding=encoding).codec(packed)


def compression_of(name: str) -> Compression:
    """Raises FeedUnsuitable."""
    known = _COMPRESSIONS.get(name.lower())
    if known is None:
        raise FeedUnsuitable(
            f"compression {name!r} is none that TiCDC has",
            hint="give large-message-handle-compression as the changefeed has it: none, snappy or lz4",
        )
    return known
