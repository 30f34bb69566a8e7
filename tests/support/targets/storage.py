"""The storage sink into a folder, read by a consumer that goes by TiCDC's rules.

- Without schema changes the rows that the sink reads back end as the truth.
- Over schema changes the output is a log of rows and statements, which only a database can carry out: it is held against the files sink's
  output of the same log, which others hold against the truth: the same rows of each table in their order, each in the folder of the version
  that the statements before it made, and each statement at its commit_ts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sidecar.replay.judge.rows import equal_rows
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import MARK_TABLE, TableName, TableSchema
from spark_merge.sinks.files.reader import read_output
from tests.support.read_back import read_back
from tests.support.recorded_target import Case, RecordedLog, Texts, deliver
from tests.support.replaying import Stage
from tests.support.storage_place import Read, ddls_read, output, rows_read
from tests.support.storage_reader import Form, Line, Output
from tests.support.targets.target import Place, RecordedSink, Target

CSV = ("protocol=csv&csv.include-commit-ts=true&date-separator=none", Form(date="none"))
OLD = ("protocol=csv&csv.include-commit-ts=true&csv.output-old-value=true&csv.binary-encoding-method=hex", Form(old_values=True, hex=True))
JSON = ("protocol=canal-json&date-separator=month&architecture=new", Form(protocol="canal-json", date="month"))

FORMS = [CSV, JSON, OLD]


@contextmanager
def target(place: Place) -> Iterator[Target]:
    """Seeds take the forms in turn."""
    forms = FORMS[:2] if place.amid_schema_changes else FORMS
    parameters, form = forms[place.case.seed % len(forms)]
    uri = f"file://{place.folder}/out?{parameters}"

    def check(made: Stage, log: RecordedLog) -> None:
        result = output(uri, form)
        result.check_classic()
        if place.amid_schema_changes:
            check_log(result, made, log, place.folder / "files")
        else:
            assert result.checkpoint >= made.recording.end_ts
            assert not [path for path in result.files if path.startswith(MARK_TABLE.schema)]

    yield Target(uri, read_back(uri), check)


def check_log(there: Output, made: Stage, log: RecordedLog, folder: Path) -> None:
    """It has the rows of the files sink, and each statement."""
    files = f"file://{folder}"
    deliver(log.folder, files, seed=0, deaths=0)
    reported = [ddl for manifest in log.manifests for ddl in manifest.ddls if ddl.schema != MARK_TABLE.schema]
    assert sorted((ddl.folder.version, ddl.query) for ddl in ddls_read(there)) == sorted((ddl.commit_ts, ddl.query) for ddl in reported)
    expected: dict[TableName, list[Read]] = {}
    for row in read_output(open_folder(files)):
        name, ts, op = TableName(row["schema"], row["table"]), int(row["commit_ts"]), row["op"][0].upper()
        expected.setdefault(name, []).append(Read(ts, op, row["before"] if op == "D" else row["after"]))
    read = {line.folder.name for line in there.read() if isinstance(line, Line)}
    assert read == expected.keys()
    for table, rows in expected.items():
        _check_rows(made, there, table, rows)


def _check_rows(made: Stage, there: Output, table: TableName, rows: list[Read]) -> None:
    """Updates of unique values are a delete and an insert here, with the transaction's other deletes before it."""
    versions = sorted(version for name, version in there.schemas if name == table)
    lines = [line for line in there.read() if isinstance(line, Line) and line.folder.name == table]
    for line in lines:
        assert line.commit_ts is not None
        assert line.folder.version == max(version for version in versions if version < line.commit_ts), line
    for version, following in itertools.pairwise([*versions, 1 << 64]):
        schema = made.history.schema(table, version)  # type: ignore[arg-type]  # a ts
        of_version = [row for row in rows if version < row.commit_ts <= following]
        if schema is None:
            assert not of_version
            continue
        columns = {column.name: column for column in schema.columns}
        only = Output({path: data for path, data in there.files.items() if not _other_version(path, table, version)}, there.form)
        seen = [read for read in rows_read(only, table, columns) if version < read.commit_ts <= following]
        _check_equal(schema, _puts(seen), _puts(of_version))
        missing = [row for row in of_version if row.op == "D" and not any(_same(schema, row, one) for one in seen)]
        assert not missing, (table, missing[:2])


def _other_version(path: str, table: TableName, version: int) -> bool:
    parts = path.split("/")
    return path.endswith("CDC.index") and parts[:2] == list(table) and parts[2] != str(version)


def _puts(rows: list[Read]) -> list[Read]:
    """At one commit_ts by their values: there a transaction has its updates before its inserts."""
    return sorted((row for row in rows if row.op != "D"), key=lambda row: (row.commit_ts, str(sorted(row.values.items(), key=str))))


def _check_equal(schema: TableSchema, seen: list[Read], expected: list[Read]) -> None:
    assert [row.commit_ts for row in seen] == [row.commit_ts for row in expected], schema.name
    for one, other in zip(seen, expected, strict=True):
        assert _same(schema, one, other), (schema.name, one, other)


def _same(schema: TableSchema, one: Read, other: Read) -> bool:
    return one.commit_ts == other.commit_ts and equal_rows(schema, _texts(schema, one), _texts(schema, other))


def _texts(schema: TableSchema, read: Read) -> Texts:
    return tuple(read.values.get(name) for name in schema.column_names())


STORAGE = RecordedSink(
    "storage", target, still=[Case("demo", "open-protocol", "recorded", 0), Case("rowformats", "kv", "snapshot", 1)], seeds=6
)
"""test_storage_parity.py has csv of every type; tests/unit/sinks/test_storage_names.py the names and versions that schema changes make."""
