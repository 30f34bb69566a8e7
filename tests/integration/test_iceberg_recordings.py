"""Recorded streams of real clusters into Iceberg tables: whoever dies when, the merged tables and what the log of changes amounts to are
the source's rows: at the end, and by a read of the past at each position that was ever accepted. Of a schema change each row of the log
keeps the columns that it had, and merged tables follow it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from sidecar.core.model import MARK_TABLE, Seq, TableName, TableSchema
from sidecar.errors import SinkError
from sidecar.log.manifest import Manifest
from sidecar.log.storage import open_folder
from spark_merge.ddl.routes import routes_of
from spark_merge.delivery import Delivery, JobSettings
from spark_merge.sinks.files.reader import read_output
from spark_merge.sinks.iceberg.types import Mode
from spark_merge.sinks.registry import open_sink
from tests.lanes import LANE
from tests.support.lake import NAMESPACE, Texts, catalog_of, committed, fold, image, rows_at, tables_of, uri_of
from tests.support.merged_lake import rows_as_texts
from tests.support.recorded_target import Case, Judge, cases, deliver, differences, recorded
from tests.support.replaying import Run, stage
from tests.support.sinks import Here

pytestmark = [pytest.mark.xdist_group("iceberg"), pytest.mark.recordings]

CASES = cases(Case("demo", "open-protocol", "recorded", 0), Case("demo", "kv", "snapshot", 1))
PAST = [(name, brackets) for name in ("demo", "shop", "restart") for brackets in ("watermark", "snapshot")]
ROUTES = "shop.nokey2=>shop.nokey,shop.ci_pk2=>shop.ci_pk,shop.dec_pk2=>shop.dec_pk"
"""Tables that the recordings rename, so that they stay in their places."""
DDLS = [*itertools.product(["ddl", "ddl-new"], ["watermark", "snapshot"], range(5))]


MODES: Sequence[Mode] = ("append", "merge")


def in_modes(*places: Any) -> list[Any]:
    """Each in both modes in `make matrix`, else by turns from `merge` on."""
    return [(*place, mode) for number, place in enumerate(places) for mode in (MODES if LANE.whole else MODES[1 - number % 2 :][:1])]


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


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_tables_end_as_the_truth(tmp_path: Path, case: Case) -> None:
    """Seeds take the modes in turn."""
    made, _, _ = case.record(tmp_path / "log")
    mode = MODES[case.seed % len(MODES)]
    uri = uri_of(tmp_path / "lake", mode=mode)
    assert deliver(tmp_path / "log", uri, seed=case.seed, deaths=5) > 0
    assert not differences(made, Reader(uri, mode).rows)
    assert open_sink(uri, log_id="recorded").look() is not None


@pytest.mark.parametrize(("name", "brackets", "mode"), in_modes(*(PAST if LANE.whole else [("demo", "snapshot")])))
def test_a_read_of_the_past_is_the_source_at_each_position_that_was_accepted(tmp_path: Path, name: str, brackets: str, mode: Mode) -> None:
    made = stage(name, "kv")
    log, manifests = recorded(tmp_path / "log", made, Run(brackets, 3, chunk_rows=50 if name == "demo" else 1000))
    uri, seqs = uri_of(tmp_path / "lake", mode=mode), list[Seq]()
    deliver(tmp_path / "log", uri, seed=3, deaths=3, after=seqs.append)
    reader = Reader(uri, mode)
    judge = Judge(made, reader.rows, log, manifests)
    for seq in seqs if LANE.whole else seqs[:: 1 + len(seqs) // 6]:
        judge.read = partial(reader.rows, seq=seq)
        judge.look(seq)
    judge.end()
    assert len(set(seqs)) > 3
    assert judge.whole > len(made.tables)


if LANE.whole:  # a minute each; tests/integration/test_iceberg_ddl.py has the changes one by one

    @pytest.mark.parametrize(("recording", "brackets", "seed"), DDLS)
    def test_around_schema_changes_each_row_has_the_columns_that_it_had(tmp_path: Path, recording: str, brackets: str, seed: int) -> None:
        """Each commit's rows, with the columns that the table had then, held against the files sink's JSON lines."""
        made = stage(recording, "kv")
        run = Run(brackets, seed, chunk_rows=(1000, 20)[seed % 2], after_part=seed % 10 / 11)
        log, manifests = recorded(tmp_path / "log", made, run)
        told = _told(tmp_path / "log", tmp_path / "files")
        uri = uri_of(tmp_path / "lake", changed_types="anew")
        assert deliver(tmp_path / "log", uri, seed=seed, deaths=5) > 0
        schemas = cache(log.read_schemas)
        catalog, found = catalog_of(uri), dict[tuple[TableName, int], list[Told]]()
        for name, table in tables_of(catalog):
            for seqs, there in committed(table):
                for row in there:
                    assert row["_seq"] in seqs
                    found.setdefault((name, row["_seq"]), []).append(_texts(row, schemas(manifests[seqs[-1]].schemas)[name]))
        assert found.keys() == told.keys()
        for place, rows in told.items():
            assert sorted(map(repr, found[place])) == sorted(map(repr, rows)), place
        assert len({place[0] for place in found}) > len(made.tables) / 2
        record = catalog.load_table((NAMESPACE, "_ticdc_dump")).scan().to_arrow().to_pylist()
        assert [row["query"] for row in sorted(record, key=lambda row: row["seq"]) if row["what"] == "ddl"] == _ddls(manifests)


if LANE.whole:  # two minutes

    @pytest.mark.parametrize(("recording", "brackets", "seed"), DDLS)
    def test_after_each_schema_change_the_merged_tables_are_the_sources(tmp_path: Path, recording: str, brackets: str, seed: int) -> None:
        """But tables of which a DDL was refused, and nobody has seen to it by hand."""
        made = stage(recording, "kv")
        run = Run(brackets, seed, chunk_rows=(1000, 20)[seed % 2], after_part=seed % 10 / 11)
        log, manifests = recorded(tmp_path / "log", made, run)
        lost, done = set[str](), set[int]()
        judge = Followed(made, lambda _: (), log, manifests, lost=lost)
        while True:
            uri = uri_of(tmp_path / "lake", mode="merge", routes=ROUTES, ddl_done=",".join(map(str, sorted(done))))
            judge.read = Reader(uri, "merge").rows
            try:
                deliver(tmp_path / "log", uri, seed=seed, deaths=5, after=lambda seq: judge.look(seq) if manifests[seq].ddls else None)
                break
            except SinkError as refused:
                stamps = set(map(int, re.findall(r"ddl-done=([\d, ]+)", refused.hint)[0].split(",")))
                if stamps <= done:
                    raise
                done |= stamps
                told = [ddl for manifest in manifests for ddl in manifest.ddls if ddl.commit_ts in stamps]
                lost |= {ddl.table for ddl in told} | {name for ddl in told for name in re.findall(r"with table (\w+)", ddl.query)}
        judge.end()
        assert judge.whole > len(made.tables)
        assert len(judge.ddls) > 10
        assert len(lost) < len(made.tables) / 2, lost


@dataclass
class Followed(Judge):
    """But tables that are `lost`."""

    lost: set[str] = field(default_factory=set)

    def _tables(self, manifest: Manifest) -> list[TableName]:
        return [name for name in super()._tables(manifest) if name.table not in self.lost]


def _ddls(manifests: Sequence[Any]) -> list[str]:
    return [ddl.query for manifest in manifests for ddl in manifest.ddls if TableName(ddl.schema, ddl.table) != MARK_TABLE]


Told = tuple[int, int, str, Texts]


def _told(log: Path, folder: Path) -> Mapping[tuple[TableName, int], list[Told]]:
    """What the files sink makes of it."""
    delivery = Delivery(open_sink(f"file://{folder}?format=jsonl", log_id="recorded"), JobSettings(open_folder(str(log))), Here())
    while delivery.deliver():
        pass
    found: dict[tuple[TableName, int], list[Told]] = {}
    for row in read_output(open_folder(str(folder))):
        table = TableName(row["schema"], row["table"])
        if table != MARK_TABLE:
            texts = tuple((row["after"] or row["before"]).values())
            found.setdefault((table, row["seq"]), []).append((int(row["commit_ts"]), row["ordinal"], row["op"], texts))
    return found


def _texts(row: Mapping[str, Any], schema: TableSchema) -> Told:
    return row["_commit_ts"], row["_ordinal"], row["_op"], image(row, schema, row["_untyped"])
