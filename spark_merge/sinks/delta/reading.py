"""A Delta table's rows at the output's position (spark_merge/port/readable.py).

    the output's position P ─► the table as of P ─► its files, in parts ─► rows as canonical text

- Commits of a table come before the position, so a table may be a batch ahead of it. All tables are read at one position, after the DDLs at
  its end.
- A commit may have segments of before P and of after it: the worker that made it died, and the next one's batch was shorter.
- `append`: of a table that is ahead only rows of segments up to P count. Each row is a version. What rows from before a schema change are
  in the present columns is in spark_merge/ddl/eras.py; the DDLs are those of `_ddl`. Of a row a column's value is in one of the Delta
  columns that have had its name.
- `merge`: of a table that is ahead the version before its first commit that P has not is read. Where that one has segments of before P, it
  is read itself, and the reading is not exact. A row is a row of the table. delta-rs rewrites files and writes no deletion vectors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import TableSchema, lowered
from spark_merge.ddl.eras import Era, eras
from spark_merge.ddl.routes import Routes
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Reading, RowsRead
from spark_merge.sinks.delta.columns import DeltaColumn, Mode, layout_of
from spark_merge.sinks.delta.places import places_in, table_place
from spark_merge.sinks.delta.statistics import READER_FEATURES, exact
from spark_merge.sinks.delta.table import Table, app, columns_of, delta_errors
from spark_merge.sinks.folder.layout import DDLS, DDLS_OF_SEGMENT, seq_of
from spark_merge.sinks.formats.parquet import LogEnvelope, LogFile, LogPart
from spark_merge.sinks.formats.parquet_rows import ColumnSources, Source, WantedKeys, key_columns, of_keys, opened, present
from spark_merge.sinks.kit.row_versions import dealt

_COMMITS_FIRST = 16
"""That are requested until one of them is one that the position has."""


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """`times`: the least and greatest commit_ts of a log's file, None where they are not known."""

    folder: Folder
    name: str
    bytes: int
    times: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class DeltaPart:
    """`ReadPart` of a merged table."""

    schema: TableSchema
    files: tuple[DeltaFile, ...]
    sources: ColumnSources
    wanted: WantedKeys | None = None

    def __call__(self) -> Iterator[RowsRead]:
        key = key_columns(self.schema, [self.sources])
        for file in self.files:
            with opened(file.folder, file.name) as parquet_rows:
                for _, rows in parquet_rows.batches(self.sources.used(), parquet_rows.groups_with(self.wanted, key)):
                    yield of_keys(present(rows, parquet_rows, self.sources, self.schema), self.wanted)


@dataclass(frozen=True, slots=True)
class DeltaReader:
    """Of an output whose position is `accepted`."""

    folder: Folder
    mode: Mode
    routes: Routes
    log_id: str
    accepted: Accepted | None

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None) -> Reading:
        """`Readable.reading`."""
        if self.accepted is None:
            return Reading(None, True, ())
        wanted = None if keys is None else WantedKeys(schema, keys)
        if self.mode == "append":
            logs = dealt(self._log_files(schema, wanted), attrgetter("bytes"), parts)
            return Reading(self.accepted, True, tuple(LogPart(schema, group, wanted) for group in logs))
        place = table_place(self.routes.target(schema.name))
        loaded = self._loaded(place)
        if loaded is None:
            return Reading(self.accepted, True, ())
        table, ahead = loaded
        is_exact = not ahead or self._go_back(table)
        sources = _sources(schema, columns_of(table), self.mode)
        files = self._files(table, place, wanted, key_columns(schema, [sources]))
        groups = dealt(files, attrgetter("bytes"), parts)
        return Reading(self.accepted, is_exact, tuple(DeltaPart(schema, group, sources, wanted) for group in groups))

    # ---- the log of changes -------------------------------------------------------------------------------------------

    def _log_files(self, schema: TableSchema, wanted: WantedKeys | None) -> Iterator[LogFile]:
        results = eras(schema, self._ddls(), keeps_partitions=True)
        places = self._places_of(results)
        for place in dict.fromkeys(places):
            loaded = self._loaded(place)
            if loaded is not None:
                own = [era for era, to in zip(results, places, strict=True) if to == place]
                yield from self._files_of_log(schema, *loaded, place, own, wanted)

    def _files_of_log(
        self, schema: TableSchema, table: DeltaTable, ahead: bool, place: str, own: Sequence[Era], wanted: WantedKeys | None
    ) -> Iterator[LogFile]:
        assert self.accepted is not None, "there are rows"
        there = columns_of(table)
        prefix = layout_of(schema, there, "append").prefix
        known = [(era, _sources(schema, there, self.mode, [one.name for one in era.columns])) for era in own]
        envelope, upto = (
            LogEnvelope(*(prefix + name for name in LogEnvelope._fields)),
            (prefix + "seq", self.accepted.seq) if ahead else None,
        )
        for file in self._files(table, place, wanted, key_columns(schema, [one for _, one in known]), prefix + "commit_ts"):
            met = tuple(one for one in known if file.times is None or one[0].meets(*file.times))
            if met:
                yield LogFile(file.folder, file.name, file.bytes, envelope, met, upto)

    def _ddls(self) -> list[DdlRecord]:
        assert self.accepted is not None, "there are rows"
        names = storage.list_names(self.folder, under=DDLS, deep=False)
        due = sorted(name for name in names if (seq := seq_of(name)) is not None and seq <= self.accepted.seq)
        ddls = DDLS_OF_SEGMENT.read_all(self.folder, [f"{DDLS}/{name}" for name in due])
        return [ddl for one in ddls.values() for ddl in one.ddls]

    def _places_of(self, value: Sequence[Era]) -> list[str]:
        """An earlier name is as its DDL writes it, perhaps in another case than the log."""
        places = [table_place(self.routes.target(era.name)) for era in value]
        if len(set(places)) == 1:
            return places
        there = list(places_in(self.folder))
        known = {place.lower(): place for place in there}
        return [places[0], *(place if place in there else known.get(place.lower(), place) for place in places[1:])]

    # ---- a table --------------------------------------------------------------------------------------------------------

    def _loaded(self, place: str) -> tuple[DeltaTable, bool] | None:
        """And whether it is ahead of the position. Raises SinkError for a table that cannot be read."""
        table = Table(self.folder, place)
        position = table.load()
        if position is None:
            return None
        features = set(position.protocol().reader_features or ())
        if features - READER_FEATURES:
            raise SinkError(
                f"the Delta table {table.uri} has got the features {', '.join(sorted(features - READER_FEATURES))}, which no table of this "
                "sink has",
                hint="remove them (ALTER TABLE … DROP FEATURE), or deliver to a new folder and dump again",
            )
        assert self.accepted is not None, "there are rows"
        names = (self.log_id, self.log_id.rpartition("#")[0])
        last = max(table.transaction(position, app(name) + of) for name in names for of in ("", " ddl")) - 1
        return position, last > self.accepted.seq

    def _go_back(self, table: DeltaTable) -> bool:
        """To the version before its first commit that the position has not. False: that one has segments of before the position, too, and
        the table is as it left it."""
        assert self.accepted is not None, "there are rows"
        count = _COMMITS_FIRST
        with delta_errors(table.table_uri):
            while True:
                commits = table.history(count)
                first = min((commit for commit in commits if _last_seq(commit) > self.accepted.seq), key=itemgetter("version"))
                if any(0 <= _last_seq(commit) <= self.accepted.seq for commit in commits) or len(commits) < count:
                    break
                count *= 4
            about = _metadata(first)
            is_exact = int(about["first_seq"]) > self.accepted.seq or "ddl" in about
            table.load_as_version(first["version"] - (1 if is_exact else 0))
            return is_exact

    def _files(
        self, table: DeltaTable, place: str, wanted: WantedKeys | None, key: Mapping[str, Source], commit_ts: str = ""
    ) -> Iterator[DeltaFile]:
        """Those in which one of the keys may be. Only bounds of whole numbers count: an earlier version wrote others, too."""
        with delta_errors(table.table_uri):
            actions = pa.table(table.get_add_actions(flatten=True))
        folder, none = replace(self.folder, root=self.folder.path(place)), [None] * actions.num_rows

        def reported(name: str) -> Sequence[Any]:
            return actions.column(name).to_pylist() if name in actions.column_names else none

        sure = {column.name for column in columns_of(table) if exact(column.kind)}
        bounds = {name: list(zip(reported(f"min.{of}"), reported(f"max.{of}"), strict=True)) for name, of in key.items() if of in sure}
        times = zip(reported(f"min.{commit_ts}"), reported(f"max.{commit_ts}"), strict=True)
        for number, (path, size, span) in enumerate(zip(reported("path"), reported("size_bytes"), times, strict=True)):
            if wanted is None or all(wanted.meet(name, *results[number]) for name, results in bounds.items()):
                yield DeltaFile(folder, unquote(path), size, None if None in span else span)


def _last_seq(commit: Mapping[str, Any]) -> int:
    """-1: it is of no batch."""
    return int(_metadata(commit).get("last_seq", -1))


def _metadata(commit: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of table.Moment."""
    reported = json.loads(commit.get("userMetadata") or "{}")
    result: Mapping[str, Any] = reported.get("ticdc-dump", {}) if isinstance(reported, dict) else {}
    return result


def _sources(schema: TableSchema, there: Sequence[DeltaColumn], mode: Mode, previous: Sequence[str | None] = ()) -> ColumnSources:
    """`previous`: of a log, what the columns were called. A merged table has each column in the one of its name and type."""
    layout = layout_of(schema, there, mode)
    untyped = layout.envelope("untyped")
    if mode == "merge":
        columns = tuple((column.name,) for column in layout.columns)
        return ColumnSources(columns, tuple((name,) for name in schema.column_names()), untyped)
    had: dict[str, list[str]] = {}
    for column in there:
        if column.source is not None:
            had.setdefault(lowered(column.source), []).append(column.name)
    names = tuple(() if name is None else (lowered(name),) for name in previous)
    return ColumnSources(tuple(tuple(had.get(*name, ())) if name else () for name in names), names, untyped)
