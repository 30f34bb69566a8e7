"""A recorded stream of a real cluster, standing in as that cluster (shared/recordings/README.md).

    Recording        what the folder holds: schemas, truth snapshots, feeds
    RecordedTables   the rows of every table at any moment: what a SELECT would have seen

A moment T between two snapshots is made of the truth at `start_ts` and the feed's own changes <= T, decoded as Spark
decodes them. That is held against the truth at every snapshot when the tables are opened: a recording whose feed does
not tell everything (event filters, another time zone) cannot stand in, and says so. Nor can one with schema changes.
"""

from __future__ import annotations

import json
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.codecs import canal_json, open_protocol
from sidecar.codecs.contract import Codec
from sidecar.codecs.registry import codec_for
from sidecar.codecs.table_info import table_schema
from sidecar.core.canonical import equal_text
from sidecar.core.manifest import DATA_COLUMNS
from sidecar.core.model import MARK_TABLE, Change, CommitTs, Kind, Lane, Message, Rank, TableName, TableSchema
from sidecar.errors import FeedUnsuitable, SourceError
from spark_merge.decode.rows import decode

Key = tuple[str, ...]
"""A handle key's canonical text, in the order of `TableSchema.key`."""

Row = tuple[str | None, ...]
"""A row's canonical text, in the order of the table schema's columns."""

_FOLDER_HINT = "give the folder of a recording: it holds recording.json, truth/, schema/ and kafka/ (shared/recordings/README.md)"


class RecordedMessage(NamedTuple):
    """One Kafka record. `time_ms` is the broker's timestamp, milliseconds since 1970."""

    time_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class FeedConfig:
    """One Kafka changefeed of the recording. `compression` as TiCDC names it; `path` is the file with its records."""

    name: str
    changefeed_id: str
    topic: str
    protocol: str
    tidb_extension: bool
    compression: str
    partitions: int
    path: Path

    def codec(self) -> Codec:
        """Raises FeedUnsuitable for a protocol or settings that cannot carry a dump."""
        return codec_for(self.protocol, tidb_extension=self.tidb_extension, compression=self.compression)

    def lane(self, partition: int) -> Lane:
        return Lane(f"kafka/{self.topic}/{partition}")

    @property
    def encode_mark(self) -> Callable[..., tuple[bytes | None, bytes]]:
        """`encode_mark` of the protocol's codec module."""
        return canal_json.encode_mark if self.protocol == "canal-json" else open_protocol.encode_mark

    @property
    def encode_resolved(self) -> Callable[[int, int], tuple[bytes | None, bytes]]:
        """`encode_resolved(ts, now_ms)` of the protocol's codec module."""
        return canal_json.encode_resolved if self.protocol == "canal-json" else open_protocol.encode_resolved


class Recording:
    """One folder. Opening reads recording.json only; the rest is read when asked for.

    Raises FeedUnsuitable for a folder that is not a recording. `truth_ts` rises and ends with `end_ts`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found = _json(folder / "recording.json")
        try:
            self.name: str = self._found["name"]
            self.start_ts = CommitTs(int(self._found["start_ts"]))
            self.end_ts = CommitTs(int(self._found["end_ts"]))
            self.truth_ts = tuple(sorted(CommitTs(int(tso)) for tso in self._found["truth"]))
            self.ddls: tuple[str, ...] = tuple(json.dumps(ddl) for ddl in self._found["ddl"])
            self._feeds: dict[str, Any] = self._found["feeds"]
        except (KeyError, TypeError, ValueError) as error:
            raise _not_a_recording(folder / "recording.json", repr(error)) from error

    @cached_property
    def schemas(self) -> Mapping[TableName, TableSchema]:
        """Every table at `start_ts`, the watermark table and tables without a usable key (`key` empty) among them."""
        found = {}
        for path in sorted((self.folder / "schema" / str(self.start_ts)).glob("*.*.json")):
            info = _json(path)
            if info.get("view") is None and info.get("sequence") is None:
                schema = table_schema(info, schema=path.name.split(".")[0])
                found[schema.name] = schema
        if not found:
            raise _not_a_recording(self.folder / "schema" / str(self.start_ts), "no table's schema is there")
        return found

    def truth(self, tso: CommitTs) -> dict[TableName, pa.Table]:
        """Every table's rows at `tso`, one of `truth_ts`: canonical text columns, virtual generated ones left out."""
        folder = self.folder / "truth" / str(tso)
        if tso not in self.truth_ts:
            raise SourceError(f"{self.folder} has no truth at {tso}", hint=f"ask for one of {', '.join(map(str, self.truth_ts))}")
        found = {}
        for name, table in _json(folder / "tables.json")["tables"].items():
            columns = [column["name"] for column in table["columns"] if column["extra"] != "VIRTUAL GENERATED"]
            found[TableName(*name.split(".", 1))] = pq.read_table(folder / f"{name}.parquet", columns=columns)
        return found

    @property
    def default_feed(self) -> str:
        return "open-protocol" if "open-protocol" in self._feeds else next(iter(self._feeds))

    def feed_config(self, name: str | None = None) -> FeedConfig:
        """The changefeed `name`, or the default one. Raises FeedUnsuitable for one that is not there or is not Kafka's."""
        name = name or self.default_feed
        feed = self._feeds.get(name)
        kafka = sorted(feed for feed, found in self._feeds.items() if found["kind"] == "kafka")
        if feed is None or feed["kind"] != "kafka":
            what = "no feed" if feed is None else "no Kafka feed"
            raise FeedUnsuitable(f"the recording {self.folder} has {what} {name!r}", hint=f"choose one of {', '.join(kafka)}")
        uri = urlsplit(feed["sink_uri"])
        query = {parameter: values[-1] for parameter, values in parse_qs(uri.query).items()}
        sink = tomllib.loads(feed["config"]).get("sink", {})
        kafka_config = sink.get("kafka-config", {})
        large = kafka_config.get("large-message-handle", {})
        extension = query.get("enable-tidb-extension", kafka_config.get("codec-config", {}).get("enable-tidb-extension", False))
        return FeedConfig(
            name=name,
            changefeed_id=feed["changefeed_id"],
            topic=uri.path.lstrip("/"),
            protocol=query.get("protocol", sink.get("protocol", "")),
            tidb_extension=str(extension).lower() == "true",
            compression=large.get("large-message-handle-compression", ""),
            partitions=int(query["partition-num"]),
            path=self.folder / feed["file"],
        )

    def messages(self, config: FeedConfig) -> dict[Lane, list[RecordedMessage]]:
        """Each partition's records in the order of their offsets; a lane without records is there and empty."""
        found: dict[Lane, list[RecordedMessage]] = {config.lane(partition): [] for partition in range(config.partitions)}
        records = pq.read_table(config.path).sort_by([("partition", "ascending"), ("offset", "ascending")])
        columns = (records.column(name).to_pylist() for name in ("partition", "timestamp_ms", "key", "value"))
        for partition, time_ms, key, value in zip(*columns, strict=True):
            found[config.lane(partition)].append(RecordedMessage(time_ms, key, value))
        return found


def rows_by_key(schema: TableSchema, rows: pa.Table) -> dict[Key, Row]:
    """The rows of a canonical text table, in its order. A handle key holds no NULL."""
    images = _tuples(rows, schema.column_names())
    return dict(zip(cast(Iterator[Key], _tuples(rows, schema.key)), images, strict=True))


def _tuples(rows: pa.Table, columns: Sequence[str]) -> Iterator[Row]:
    return zip(*(rows.column(name).to_pylist() for name in columns), strict=True)


def equal_rows(schema: TableSchema, a: Row, b: Row) -> bool:
    return a == b or all(equal_text(column.kind, x, y) for column, x, y in zip(schema.columns, a, b, strict=True))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _not_a_recording(path, str(error)) from error


def _not_a_recording(path: Path, reason: str) -> FeedUnsuitable:
    return FeedUnsuitable(f"{path} cannot be read as a recording: {reason}", hint=_FOLDER_HINT)


# ---- rows at any moment ---------------------------------------------------------------------------------------------


class Chunk(NamedTuple):
    """What one keyset SELECT gave. `last` is the last row's key, or the key it began after where there was none.

    `exhausted`: fewer rows than asked for, as a SELECT with a LIMIT shows it.
    """

    rows: pa.Table
    last: Key | None
    exhausted: bool


class _History:
    """One table: each key's versions with their commit_ts, rising; None is a deletion. `order` and `keys` go together."""

    def __init__(self, schema: TableSchema) -> None:
        kinds = {column.name: column.kind for column in schema.columns}
        self.schema = schema
        self.versions: dict[Key, tuple[list[CommitTs], list[Row | None]]] = {}
        self.keys: list[Key] = []
        self.order: list[tuple[Any, ...]] = []
        self._kinds = tuple(kinds[name] for name in schema.key)

    def add(self, commit_ts: CommitTs, key: Key, row: Row | None) -> None:
        when, rows = self.versions.setdefault(key, ([], []))
        when.append(commit_ts)
        rows.append(row)

    def sort_keys(self) -> None:
        self.keys = sorted(self.versions, key=self.place)
        self.order = [self.place(key) for key in self.keys]

    def place(self, key: Key) -> tuple[Any, ...]:
        """A key's place in this server's order: numbers by value, everything else by code points."""
        return tuple(_comparable(kind, text) for kind, text in zip(self._kinds, key, strict=True))

    def at(self, key: Key, at_ts: CommitTs) -> Row | None:
        when, rows = self.versions[key]
        number = bisect_right(when, at_ts)
        return rows[number - 1] if number else None


def _comparable(kind: Kind, text: str) -> int | Decimal | str:
    match kind:
        case "int" | "uint" | "bit" | "year":
            return int(text)
        case "decimal":
            return Decimal(text)
        case _:
            return text


class RecordedTables:
    """The replicated tables of a recording at any moment, also after `end_ts`; the watermark table is not among them.

    `server_tz` is the time zone of the TiCDC server that wrote the feed. Raises SourceError if the feed does not lead
    from one truth snapshot to the next, FeedUnsuitable for a recording with schema changes.
    """

    def __init__(self, recording: Recording, config: FeedConfig, *, server_tz: str = "UTC") -> None:
        if recording.ddls:
            raise FeedUnsuitable(
                f"the recording {recording.folder} has schema changes ({recording.ddls[0]}, …) and cannot stand in as a cluster",
                hint="choose a recording whose `ddl` is empty",
            )
        self._recording = recording
        replicated = {name: schema for name, schema in recording.schemas.items() if schema.key and name != MARK_TABLE}
        self._tables = {name: _History(schema) for name, schema in replicated.items()}
        for name, rows in recording.truth(recording.start_ts).items():
            if name in replicated:
                for key, row in rows_by_key(replicated[name], rows).items():
                    self._tables[name].add(recording.start_ts, key, row)
        for change in _decoded(recording, config, server_tz):
            schema = replicated[TableName(change["schema"], change["table"])]
            image = change["after"] or change["before"]
            texts = dict(zip(schema.column_names(), image, strict=True))
            key = tuple(texts[name] for name in schema.key)
            self._tables[schema.name].add(change["commit_ts"], key, tuple(change["after"]) if change["after"] else None)
        for history in self._tables.values():
            history.sort_keys()
        for tso in recording.truth_ts:
            self._check(tso)

    def bounds(self, table: TableName, *, after: Key | None, at_ts: CommitTs, at_most: int) -> tuple[Key, ...]:
        """Keys above `after` that cut what is there at `at_ts` into parts of like size, the highest key last."""
        history = self._history(table)
        first = 0 if after is None else bisect_right(history.order, history.place(after))
        keys = [key for key in map(history.keys.__getitem__, range(first, len(history.keys))) if history.at(key, at_ts) is not None]
        return tuple(
            dict.fromkeys(keys[(part * len(keys) - 1) // at_most] for part in range(1, at_most + 1) if part * len(keys) >= at_most)
        )

    def rows(self, table: TableName, at_ts: CommitTs) -> dict[Key, Row]:
        """All rows of `table` at `at_ts` by key, in this server's order."""
        history = self._history(table)
        found = ((key, history.at(key, at_ts)) for key in history.keys)
        return {key: row for key, row in found if row is not None}

    def chunk(self, table: TableName, *, after: Key | None, upper: Key | None, rows_max: int, at_ts: CommitTs) -> Chunk:
        """The first `rows_max` rows with key in `(after, upper]` at `at_ts`; None is no bound.

        Raises SourceError for a table that is not here.
        """
        history = self._history(table)
        first = 0 if after is None else bisect_right(history.order, history.place(after))
        end = len(history.keys) if upper is None else bisect_right(history.order, history.place(upper))
        versions = ((key, history.at(key, at_ts)) for key in map(history.keys.__getitem__, range(first, end)))
        found = list(islice(((key, row) for key, row in versions if row is not None), rows_max))
        names = history.schema.column_names()
        columns = zip(*(row for _, row in found), strict=True) if found else ((),) * len(names)
        rows = pa.table([pa.array(column, pa.string()) for column in columns], names=list(names))
        return Chunk(rows, found[-1][0] if found else after, len(found) < rows_max)

    def _history(self, table: TableName) -> _History:
        if table not in self._tables:
            raise SourceError(
                f"the recording {self._recording.folder} has no replicated table {table}",
                hint=f"choose from {', '.join(map(str, sorted(self._tables)))}",
            )
        return self._tables[table]

    def _check(self, tso: CommitTs) -> None:
        for name, truth in self._recording.truth(tso).items():
            if name in self._tables:
                schema = self._tables[name].schema
                expected, found = rows_by_key(schema, truth), self.rows(name, tso)
                if expected.keys() != found.keys() or not all(equal_rows(schema, row, found[key]) for key, row in expected.items()):
                    raise SourceError(
                        f"the feed's changes of {name} do not lead to its truth at {tso} in {self._recording.folder}",
                        hint="choose a feed that tells every change (no event filters), and give the TiCDC server's time zone",
                    )


def _decoded(recording: Recording, config: FeedConfig, server_tz: str) -> list[dict[str, Any]]:
    """The feed's changes after `start_ts` as rows of the change frame, in the order of a segment, repeats left out."""
    codec = config.codec()
    found: list[Change] = []
    for lane, messages in recording.messages(config).items():
        for position, (_, key, value) in enumerate(messages):
            found += [e for e in codec.envelopes(Message(lane, position, key, value)) if isinstance(e, Change)]
    distinct: dict[Hashable, Change] = {}
    for change in sorted(found, key=itemgetter(0, 1)):
        if change.commit_ts > recording.start_ts:
            distinct.setdefault((change.commit_ts, codec.identity(change)), change)
    rows = _logged(list(distinct.values()), codec.name)
    changes = decode(rows, codec=codec.name, schemas=recording.schemas, server_tz=server_tz)
    return sorted(changes.to_pylist(), key=itemgetter("commit_ts", "rank", "ordinal"))


def _logged(changes: Sequence[Change], codec: str) -> pa.Table:
    """The changes as rows of one segment: manifest.DATA_COLUMNS and `seq`."""
    values: dict[str, pa.Array] = {
        "ordinal": pa.array(range(len(changes)), pa.int64()),
        "commit_ts": pa.array([change.commit_ts for change in changes], pa.int64()),
        "op": pa.array(["delete" if change.rank is Rank.DELETE else "put" for change in changes], pa.string()),
        "schema": pa.array([change.schema for change in changes], pa.string()),
        "table": pa.array([change.table for change in changes], pa.string()),
        "codec": pa.array([codec] * len(changes), pa.string()),
        "key": pa.array([change.key for change in changes], pa.binary()),
        "value": pa.array([change.value for change in changes], pa.binary()),
        "lane": pa.array([change.lane for change in changes], pa.string()),
        "position": pa.array([change.position for change in changes], pa.int64()),
    }
    return pa.table({name: values[name] for name in DATA_COLUMNS} | {"seq": pa.array([0] * len(changes), pa.int64())})
