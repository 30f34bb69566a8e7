"""What the ClickHouse sink has, read back from ClickHouse's engine."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column
from spark_merge.sinks.clickhouse import server as requests
from spark_merge.sinks.clickhouse.reading import ClickHouseRows
from spark_merge.sinks.kit.keyed import KeyedPart
from tests.integration.test_clickhouse_types import HARD, VALUES
from tests.support.clickhouse_place import uri_of
from tests.support.deliveries import change
from tests.support.read_back import reading_of
from tests.support.reading_suite import LOG, ReadingOutput, ReadingSuite, Values, bring, dumped
from tests.support.services.clickhouse import ClickHouse

pytestmark = pytest.mark.xdist_group("clickhouse")

numbers = itertools.count()

SMALLEST = "spark_merge.sinks.clickhouse.reading.PART_ROWS_MIN"
ID, V = Column("id", "int", nullable=False), Column("v", "text")


def output_of(server: ClickHouse, **parameters: str) -> ReadingOutput:
    number = next(numbers)
    hard = {column: (*texts,) for column, texts in HARD.items()}
    names = {column.name for column in hard} if parameters else set()
    others = {column: (*texts,) for column, texts in VALUES.items() if column.name not in names}
    values: Values = {**others, **hard} if parameters else others
    return ReadingOutput(uri_of(server, f"read_pos{number}", **parameters), f"read{number}", values, SMALLEST)


class TestReading(ReadingSuite):
    @pytest.fixture(params=["", "text"])
    def output(self, clickhouse: ClickHouse, request: pytest.FixtureRequest) -> ReadingOutput:
        return output_of(clickhouse, **({"dates": "text"} if request.param else {}))


def test_of_each_key_the_newest_row_is_read_and_no_deleted_one(clickhouse: ClickHouse, tmp_path: Path) -> None:
    """Before the server has merged anything, and below the floor that a TRUNCATE leaves."""
    output = output_of(clickhouse)
    schema = output.table(ID, V, key=["id"])
    clickhouse.execute("SYSTEM STOP MERGES")
    try:
        bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [("1", "a"), ("2", "b"), ("3", "c")])])
        bring(output, tmp_path, schema, 2, [change(2, 150, before=("1", "a"), after=("1", "d"), table=schema.name)])
        bring(output, tmp_path, schema, 3, [change(3, 250, before=("2", "b"), table=schema.name)])
        assert output.read(schema) == output.read(schema, keys=[["1"], ["2"], ["3"]]) == [("1", "d"), ("3", "c")]
        note = clickhouse.rows(f"SELECT comment FROM system.tables WHERE database = '{output.schema}' AND name = 't__rows'")[0][0]
        raised = note.replace('"floor":0', f'"floor":{2 * 150}').replace("'", "\\'")
        clickhouse.execute(f"ALTER TABLE {output.schema}.t__rows MODIFY COMMENT '{raised}'")
        assert output.read(schema) == [("1", "d")]
    finally:
        clickhouse.execute("SYSTEM START MERGES")


def test_names_of_columns_hide_nothing(clickhouse: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SMALLEST, 2)
    output = output_of(clickhouse)
    key, other = Column("key", "int", nullable=False), Column("c0", "text")
    schema = output.table(other, key, Column("_version", "int"), key=["key"])
    rows = [(f"v{at}", str(at), "7") for at in range(8)]
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, rows)])
    assert output.read(schema, parts=3) == output.read(schema, keys=[[str(at)] for at in range(8)]) == rows


def test_an_answer_that_is_cut_off_is_an_error(clickhouse: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each byte that pyarrow takes for the end, and at others."""
    output = output_of(clickhouse)
    schema = output.table(ID, V, key=["id"])
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [(str(at), "x") for at in range(20_000)])])
    (part,) = reading_of(output.uri, schema, log_id=LOG, parts=1).parts
    assert isinstance(part, KeyedPart)
    assert isinstance(part.table, ClickHouseRows)
    settings = ", ".join(f"{name} = {value!r}" for name, value in requests._READ.items())
    whole = clickhouse.post(f"{part.statements[0]} SETTINGS {settings} FORMAT ArrowStream")
    read = requests._Whole.read
    for size in (len(whole) - 8, len(whole) - 9, len(whole) // 2, 100, 0):
        left = [size]

        def cut(self: requests._Whole, wanted: int = -1, left: list[int] = left) -> bytes:
            data = read(self, min(wanted, left[0]) if wanted >= 0 else left[0])
            left[0] -= len(data)
            return data

        with monkeypatch.context() as patch:
            patch.setattr(requests._Whole, "read", cut)
            with pytest.raises(SinkError, match="reading rows of"):
                list(part())


def test_a_table_of_other_columns_cannot_be_read(clickhouse: ClickHouse, tmp_path: Path) -> None:
    output = output_of(clickhouse)
    schema = output.table(ID, V, key=["id"])
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [("1", "x")])])
    with pytest.raises(SinkError, match="it has no column more") as refused:
        output.read(output.table(ID, V, Column("more", "int"), key=["id"]))
    assert "if a schema change is being carried out, read again after it" in refused.value.hint
    clickhouse.execute(f"DROP TABLE {output.schema}.t__rows SYNC")
    with pytest.raises(SinkError, match="is not at the target"):
        output.read(schema)
