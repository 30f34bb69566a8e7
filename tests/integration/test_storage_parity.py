"""What TiCDC itself wrote to storage beside the recorded feeds (tests/recordings/make_storage.py), against what this sink makes of those.

- schema files: each one's path (so version and checksum) and content, of both architectures, over all recorded schema changes
- csv: each line of the recording `tz`, whose server is in Asia/Shanghai, with commit-ts and old values
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName, TableSchema
from spark_merge.sinks.storage.schema_file import SchemaFile, schema_file
from tests.lanes import LANE
from tests.support.recorded_target import RecordedLogs, deliver
from tests.support.replaying import Run, stage
from tests.support.storage_place import output
from tests.support.storage_reader import Ddl, Form, Line, Output, checksum
from tests.support.storage_recordings import archived

pytestmark = pytest.mark.recordings

SERVER_TZ = "Asia/Shanghai"
FORM = Form(date="none", old_values=True)


def schema_files(name: str) -> dict[str, bytes]:
    return {path: data for path, data in archived(name).items() if "/meta/schema_" in path and not path.startswith(MARK_TABLE.schema)}


@pytest.mark.parametrize(("name", "architecture"), [("ddl", "classic"), ("ddl-new", "new"), ("tz", "classic")])
def test_a_schema_file_is_ticdcs_own(name: str, architecture: str) -> None:
    """Each one of a table that the log knows: all but views and tables without a key."""
    made, compared = stage(name, "kv"), 0
    for path, data in schema_files(name).items():
        fields = json.loads(data)
        table, ts = TableName(fields["Schema"], fields["Table"]), CommitTs(fields["TableVersion"])
        schema = made.history.schema(table, ts) or made.history.schema(table, CommitTs(ts - 1))  # of one that is dropped as it was
        if schema is None:
            assert table.table in ("v1", "nokey", "nokey2"), path
            continue
        ddl = DdlRecord(ts, *table, fields["Query"]) if fields["Query"] else None
        file = schema_file(table, schema, ts, architecture, ddl)  # type: ignore[arg-type]  # one of the two
        if path.startswith("shop/item/"):
            path, data = _without_virtual(fields, schema)
        assert (file.path, file.text()) == (path, data.decode())
        compared += 1
    assert compared >= {"tz": 3, "ddl": 42, "ddl-new": 42}[name]


def _without_virtual(fields: dict[str, Any], schema: TableSchema) -> tuple[str, bytes]:
    """As TiCDC would write it if it left virtual columns out of schema files, as it does of rows: the one difference that is meant."""
    columns = [column for column in fields["TableColumns"] if column["ColumnName"] in schema.column_names()]
    assert len(columns) == len(fields["TableColumns"]) - 1
    reduced = {**fields, "TableColumns": columns, "TableColumnsTotal": len(columns)}
    path = f"{fields['Schema']}/{fields['Table']}/meta/schema_{fields['TableVersion']}_{checksum(reduced):010d}.json"
    return path, json.dumps(reduced, indent=4, ensure_ascii=False).encode()


def test_the_reader_reads_what_ticdc_wrote() -> None:
    """Its rules are TiCDC's, if its checksums are, and its files' lines are lines to it."""
    there = Output(archived("tz"), FORM)
    there.check_classic()
    results = list(there.read())
    assert len([line for line in results if isinstance(line, Line)]) > 1000


def test_checksums_are_those_of_ticdcs_own_tests() -> None:
    """pkg/sink/cloudstorage/table_definition_test.go."""
    assert SchemaFile(TableName("schema1", ""), 100).path == "schema1/meta/schema_100_3233644819.json"
    columns = (
        {
            "ColumnName": "Id",
            "ColumnType": "INT",
            "ColumnDefault": 10,
            "ColumnPrecision": "11",
            "ColumnNullable": "false",
            "ColumnIsPk": "true",
        },
        _varchar("LastName", "128") | {"ColumnNullable": "false"},
        _varchar("FirstName", "64"),
        {"ColumnName": "Birthday", "ColumnType": "DATETIME", "ColumnDefault": 12345678},
    )
    assert SchemaFile(TableName("schema1", "table1"), 100, columns).path == "schema1/table1/meta/schema_100_3752767265.json"


def _varchar(name: str, length: str) -> dict[str, str]:
    return {"ColumnName": name, "ColumnType": "VARCHAR", "ColumnDefault": f"Default {name}", "ColumnPrecision": length}


def test_each_line_of_csv_is_ticdcs_own(tmp_path: Path, recorded_logs: RecordedLogs) -> None:
    """Of the live rows; a dump's, which TiCDC has not, are of the windows' high marks."""
    log = recorded_logs.of(stage("tz", "kv"), Run("snapshot", 3))
    uri = (
        f"file://{tmp_path}/out?protocol=csv&date-separator=none&csv.include-commit-ts=true&csv.output-old-value=true&time-zone={SERVER_TZ}"
    )
    deliver(log.folder, uri, seed=3, deaths=2)
    high_ts = {window.high_ts for manifest in log.manifests for window in manifest.windows}
    ours, theirs = _lines(output(uri, FORM), high_ts), _lines(Output(archived("tz"), FORM), set())
    last = min(max(line[0] for line in results) for results in (ours, theirs))
    assert {line for line in ours if line[0] <= last} == {line for line in theirs if line[0] <= last}
    assert len(theirs) > 500


def _lines(there: Output, without: set[CommitTs]) -> set[tuple[int, str]]:
    """With their commit_ts, whole, and by table."""
    lines = set()
    for path, data in there.files.items():
        if path.endswith(".csv") and not path.startswith(MARK_TABLE.schema):
            text = data.decode()
            for line in text.split(FORM.terminator + '"'):
                commit_ts = int(line.split(",")[3])
                if commit_ts not in without:
                    lines.add((commit_ts, line.removeprefix('"').removesuffix(FORM.terminator)))
    return lines


if LANE.whole:

    @pytest.mark.parametrize(("name", "architecture"), [("ddl", "classic"), ("ddl-new", "new")])
    def test_versions_and_schema_files_of_a_whole_run_are_ticdcs_own(
        tmp_path: Path, recorded_logs: RecordedLogs, name: str, architecture: str
    ) -> None:
        """From the same key-values: a folder for each schema change, and no other one."""
        log = recorded_logs.of(stage(name, "kv"), Run("watermark", 3))
        uri = f"file://{tmp_path}/out?protocol=csv&date-separator=none&csv.include-commit-ts=true&architecture={architecture}"
        deliver(log.folder, uri, seed=3, deaths=2)
        there = output(uri, Form(date="none"))
        ours = {path: data for path, data in there.files.items() if "/meta/schema_" in path}
        theirs = schema_files(name)
        known = ("v1", "nokey", "nokey2", "heap")  # a view's columns are not in the log; tables without a key are not output
        assert {_version(path) for path in ours.keys() ^ theirs.keys() if path.split("/")[1] not in (*known, "item")} == set()
        assert {_version(path) for path in ours if "/item/" in path} == {_version(path) for path in theirs if "/item/" in path}
        for path in ours.keys() & theirs.keys():
            mine, reported = json.loads(ours[path]), json.loads(theirs[path])
            if reported["Table"] == "dec_pk2":  # of two tables that one statement renames the first one's file has it, whole
                assert (mine["Query"], reported["Type"]) == ("", 14)
                continue
            assert _unworded(mine) == _unworded(reported), path
        assert len([ddl for ddl in there.read() if isinstance(ddl, Ddl)]) > 25


def _version(path: str) -> str:
    return path.rpartition("_")[0]


def _unworded(fields: dict[str, object]) -> dict[str, object]:
    """TiCDC writes statements anew; the log has them as TiDB's jobs do."""
    return {**fields, "Query": bool(fields["Query"])}
