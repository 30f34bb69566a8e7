"""The Iceberg sink with a catalog of SQLite: the merged tables, and what the log of changes amounts to, are the source's rows. Of a schema
change each row of the log keeps the columns that it had, and merged tables follow it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import MARK_TABLE, TableName, TableSchema
from spark_merge.ddl.routes import routes_of
from spark_merge.sinks.files.reader import read_output
from spark_merge.sinks.iceberg.types import Mode
from tests.support.lake import NAMESPACE, Texts, catalog_of, committed, fold, image, rows_at, tables_of, uri_of
from tests.support.lake_read_back import read_back
from tests.support.merged_lake import rows_as_texts
from tests.support.recorded_target import Case, RecordedLog, deliver
from tests.support.replaying import Stage
from tests.support.targets.delta import ROUTES
from tests.support.targets.target import Place, RecordedSink, Target, after_ddls

MODES: Sequence[Mode] = ("append", "merge")


class Reader:
    """Of the tables, by a catalog of its own."""

    def __init__(self, uri: str, mode: Mode) -> None:
        self._catalog, self._mode = catalog_of(uri), mode

    def rows(self, schema: TableSchema, *, seq: int | None = None) -> list[Texts]:
        if self._mode == "append":
            return fold(self.log(schema.name, seq=seq), schema)
        place = (NAMESPACE, *routes_of(ROUTES).target(schema.name))
        return rows_as_texts(self._catalog.load_table(place), schema, seq) if self._catalog.table_exists(place) else []

    def log(self, name: TableName, *, seq: int | None = None) -> list[dict[str, Any]]:
        place = (NAMESPACE, *name)
        return rows_at(self._catalog.load_table(place), seq) if self._catalog.table_exists(place) else []


@dataclass
class Operator:
    """Says of each statement that is refused that he sees to its tables by hand, and does not: they are lost from then on."""

    folder: Path
    log: RecordedLog
    done: set[int] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)

    def uri(self) -> str:
        return uri_of(self.folder, mode="merge", routes=ROUTES, ddl_done=",".join(map(str, sorted(self.done))))

    def rows(self, schema: TableSchema) -> list[Texts]:
        return read_back(self.uri(), schema)

    def mend(self, refused: SinkError) -> str:
        results = set(map(int, re.findall(r"ddl-done=([\d, ]+)", refused.hint)[0].split(",")))
        if results <= self.done:
            raise refused
        self.done |= results
        reported = [ddl for manifest in self.log.manifests for ddl in manifest.ddls if ddl.commit_ts in results]
        self.lost |= {ddl.table for ddl in reported} | {name for ddl in reported for name in re.findall(r"with table (\w+)", ddl.query)}
        return self.uri()

    def check(self, made: Stage, _: RecordedLog) -> None:
        assert len(self.lost) < len(made.tables) / 2, self.lost


@contextmanager
def target(place: Place) -> Iterator[Target]:
    """Seeds take the modes in turn."""
    mode = MODES[place.case.seed % len(MODES)]
    uri = uri_of(place.folder / "lake", mode=mode)
    yield Target(uri, partial(read_back, uri))


@contextmanager
def merged(place: Place) -> Iterator[Target]:
    operator = Operator(place.folder / "lake", place.log)
    yield Target(operator.uri(), operator.rows, operator.check, operator.mend, after_ddls, lambda name, _: name.table not in operator.lost)


@contextmanager
def logged(place: Place) -> Iterator[Target]:
    """Each commit's rows, with the columns that the table had then, held against the files sink's JSON lines."""
    uri = uri_of(place.folder / "lake", changed_types="anew")
    yield Target(uri, partial(read_back, uri), lambda made, log: check_log(uri, made, log, place.folder / "files"))


Checking = tuple[int, int, str, Texts]


def check_log(uri: str, made: Stage, log: RecordedLog, files: Path) -> None:
    reported = _reported(log.folder, files)
    schemas = cache(log.log.read_schemas)
    catalog, result = catalog_of(uri), dict[tuple[TableName, int], list[Checking]]()
    for name, table in tables_of(catalog):
        for seqs, there in committed(table):
            for row in there:
                assert row["_seq"] in seqs
                result.setdefault((name, row["_seq"]), []).append(_texts(row, schemas(log.manifests[seqs[-1]].schemas)[name]))
    assert result.keys() == reported.keys()
    for place, rows in reported.items():
        assert sorted(map(repr, result[place])) == sorted(map(repr, rows)), place
    assert len({place[0] for place in result}) > len(made.tables) / 2
    record = catalog.load_table((NAMESPACE, "_ticdc_dump")).scan().to_arrow().to_pylist()
    assert [row["query"] for row in sorted(record, key=lambda row: row["seq"]) if row["what"] == "ddl"] == _ddls(log.manifests)


def _ddls(manifests: Sequence[Manifest]) -> list[str]:
    return [ddl.query for manifest in manifests for ddl in manifest.ddls if TableName(ddl.schema, ddl.table) != MARK_TABLE]


def _reported(log: Path, files: Path) -> Mapping[tuple[TableName, int], list[Checking]]:
    """What the files sink makes of it."""
    deliver(log, f"file://{files}?format=jsonl", seed=0, deaths=0)
    result: dict[tuple[TableName, int], list[Checking]] = {}
    for row in read_output(open_folder(str(files))):
        table = TableName(row["schema"], row["table"])
        if table != MARK_TABLE:
            texts = tuple((row["after"] or row["before"]).values())
            result.setdefault((table, row["seq"]), []).append((int(row["commit_ts"]), row["ordinal"], row["op"], texts))
    return result


def _texts(row: Mapping[str, Any], schema: TableSchema) -> Checking:
    return row["_commit_ts"], row["_ordinal"], row["_op"], image(row, schema, row["_untyped"])


STILL = [Case("demo", "open-protocol", "recorded", 0), Case("demo", "kv", "snapshot", 1)]
ICEBERG = RecordedSink("iceberg", target, still=STILL, group="iceberg", ddl_names=())
ICEBERG_MERGED = RecordedSink("iceberg-merge", merged, still=(), group="iceberg")
ICEBERG_LOGGED = RecordedSink("iceberg-append", logged, still=(), group="iceberg")
