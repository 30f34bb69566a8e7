"""A recorded stream of a real cluster, standing in as that cluster (tests/recordings/README.md).

Here is what the folder holds: schemas, truth snapshots, feeds. The rows of every table at any moment are in `tables`, what schema
changes did to them in `history`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.shared.codecs.contract import Codec, CodecModule
from sidecar.shared.codecs.registry import codec_for, codec_module
from sidecar.shared.errors import FeedUnsuitable, SourceError
from sidecar.shared.model.nouns import CommitTs, Lane, TableName, TableSchema
from sidecar.shared.rowcodec.table_info import table_schema

DEFAULT_FEED = "open-protocol"
"""The feed that is played where a recording has several: feeds are named after their protocols."""

_FOLDER_HINT = "give the folder of a recording: it holds recording.json, truth/, schema/ and kafka/ (tests/recordings/README.md)"


class RecordedMessage(NamedTuple):
    """One Kafka record. `time_ms` is the broker's timestamp, milliseconds since 1970."""

    time_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class FeedConfig:
    """One Kafka changefeed of the recording. `compression` and `encoding` as TiCDC names them; `path` is the file with its records."""

    name: str
    changefeed_id: str
    topic: str
    protocol: str
    tidb_extension: bool
    compression: str
    encoding: str
    partitions: int
    path: Path

    def codec(self) -> Codec:
        """Raises FeedUnsuitable for a protocol or settings that cannot carry a dump."""
        return codec_for(self.protocol, tidb_extension=self.tidb_extension, compression=self.compression, encoding=self.encoding)

    def lane(self, partition: int) -> Lane:
        return Lane(f"kafka/{self.topic}/{partition}")

    @property
    def module(self) -> CodecModule:
        """What writes the protocol's messages. Raises FeedUnsuitable as `codec` does."""
        return codec_module(self.protocol, tidb_extension=self.tidb_extension, encoding=self.encoding)

    @property
    def encode_mark(self) -> Callable[..., tuple[bytes | None, bytes]]:
        return self.module.encode_mark


class Recording:
    """One folder. Opening reads recording.json only; the rest is read when it is used.

    Raises FeedUnsuitable for a folder that is not a recording. `truth_ts` rises and ends with `end_ts`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._fields = _json(folder / "recording.json")
        try:
            self.name: str = self._fields["name"]
            self.start_ts = CommitTs(int(self._fields["start_ts"]))
            self.end_ts = CommitTs(int(self._fields["end_ts"]))
            self.truth_ts = tuple(sorted(CommitTs(int(tso)) for tso in self._fields["truth"]))
            self.ddls: tuple[str, ...] = tuple(json.dumps(ddl) for ddl in self._fields["ddl"])
            self._feeds: dict[str, Any] = self._fields.get("feeds", {})
        except (KeyError, TypeError, ValueError) as error:
            raise _not_a_recording(folder / "recording.json", repr(error)) from error

    @cached_property
    def schemas(self) -> Mapping[TableName, TableSchema]:
        """Every table at `start_ts`, the watermark table and tables without a usable key (`key` empty) among them."""
        schemas = {}
        for path in sorted((self.folder / "schema" / str(self.start_ts)).glob("*.*.json")):
            info = _json(path)
            if info.get("view") is None and info.get("sequence") is None:
                schema = table_schema(info, schema=path.name.split(".")[0])
                schemas[schema.name] = schema
        if not schemas:
            raise _not_a_recording(self.folder / "schema" / str(self.start_ts), "no table's schema is there")
        return schemas

    def truth(self, tso: CommitTs) -> dict[TableName, pa.Table]:
        """Every table's rows at `tso`, one of `truth_ts`: canonical text columns, without virtual generated ones."""
        folder = self.folder / "truth" / str(tso)
        if tso not in self.truth_ts:
            raise SourceError(f"{self.folder} has no recorded tables at {tso}", hint=f"ask for one of {', '.join(map(str, self.truth_ts))}")
        tables = {}
        for name, table in _json(folder / "tables.json")["tables"].items():
            columns = [column["name"] for column in table["columns"] if column["extra"] != "VIRTUAL GENERATED"]
            tables[TableName(*name.split(".", 1))] = pq.read_table(folder / f"{name}.parquet", columns=columns)
        return tables

    @property
    def default_feed(self) -> str:
        """A Kafka changefeed's; of a recording without TiCDC `binlog`."""
        return next((name for name in (DEFAULT_FEED, *self._feeds) if name in self._feeds), "binlog")

    def feed_config(self, name: str | None = None) -> FeedConfig:
        """The changefeed `name`, or the default one. Raises FeedUnsuitable for one that is not there or is not Kafka's."""
        name = name or self.default_feed
        feed = self._feeds.get(name)
        kafka = sorted(feed for feed, result in self._feeds.items() if result["kind"] == "kafka")
        if feed is None or feed["kind"] != "kafka":
            what = "no feed" if feed is None else "no Kafka feed"
            others = [other for other, place in (("kv", "kv"), ("binlog", "pumps")) if (self.folder / place).is_dir()]
            raise FeedUnsuitable(
                f"the recording {self.folder} has {what} {name!r}",
                hint=f"choose one of {', '.join([*kafka, *others])}",
            )
        uri = urlsplit(feed["sink_uri"])
        query = {parameter: values[-1] for parameter, values in parse_qs(uri.query).items()}
        sink = tomllib.loads(feed["config"]).get("sink", {})
        kafka_config = sink.get("kafka-config", {})
        large = kafka_config.get("large-message-handle", {})
        codec_config = kafka_config.get("codec-config", {})
        extension = query.get("enable-tidb-extension", codec_config.get("enable-tidb-extension", False))
        return FeedConfig(
            name=name,
            changefeed_id=feed["changefeed_id"],
            topic=uri.path.lstrip("/"),
            protocol=query.get("protocol", sink.get("protocol", "")),
            tidb_extension=str(extension).lower() == "true",
            compression=large.get("large-message-handle-compression", ""),
            encoding=query.get("encoding-format", codec_config.get("encoding-format", "")),
            partitions=int(query["partition-num"]),
            path=self.folder / feed["file"],
        )

    def messages(self, config: FeedConfig) -> dict[Lane, list[RecordedMessage]]:
        """Each partition's records in the order of their offsets; a lane without records is there and empty."""
        messages: dict[Lane, list[RecordedMessage]] = {config.lane(partition): [] for partition in range(config.partitions)}
        records = pq.read_table(config.path).sort_by([("partition", "ascending"), ("offset", "ascending")])
        columns = (records.column(name).to_pylist() for name in ("partition", "timestamp_ms", "key", "value"))
        for partition, time_ms, key, value in zip(*columns, strict=True):
            messages[config.lane(partition)].append(RecordedMessage(time_ms, key, value))
        return messages


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _not_a_recording(path, str(error)) from error


def _not_a_recording(path: Path, reason: str) -> FeedUnsuitable:
    return FeedUnsuitable(f"{path} cannot be read as a recording: {reason}", hint=_FOLDER_HINT)
