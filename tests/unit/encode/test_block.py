from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from spark_merge.codecs.encode.block import image_columns, of_changes, schema_of
from tests.support.deliveries import ORDERS, SCHEMA, batches, change


def test_images_become_columns_with_null_images_apart_from_null_values() -> None:
    rows = [
        change(7, ts, before=before, after=after)
        for ts, before, after in [(1, ["1", None], None), (2, None, ["2", "b"]), (3, ["3", "c"], ["3", None])]
    ]
    [batch] = batches(rows, rows_max=10)
    block = of_changes(SCHEMA, 7, batch)
    assert block.before.to_pylist() == [{"id": "1", "name": None}, None, {"id": "3", "name": "c"}]
    assert block.after.to_pylist() == [None, {"id": "2", "name": "b"}, {"id": "3", "name": None}]
    assert [column.to_pylist() for column in image_columns(block)] == [["1", "2", "3"], [None, "b", None]]
    assert block.origin == "log"


def test_a_slice_of_a_batch_is_read_at_its_place() -> None:
    [batch] = batches([change(7, ts, after=[str(ts), None] if ts % 2 else None, before=[str(ts), "x"]) for ts in range(9)], rows_max=10)
    block = of_changes(SCHEMA, 7, batch.slice(3, 4))
    assert image_columns(block)[0].to_pylist() == ["3", "4", "5", "6"]
    assert block.after.is_valid().to_pylist() == [True, False, True, False]


@pytest.mark.parametrize("image", [[], ["1"], ["1", "a", "b"]])
def test_an_image_that_does_not_fit_the_schema_stops(image: list[str]) -> None:
    [batch] = batches([change(7, 1, after=["1", "a"]), change(7, 2, after=image)], rows_max=10)
    with pytest.raises(SinkError, match=rf"shop\.orders has {len(image)} columns, its schema has 2"):
        of_changes(SCHEMA, 7, batch)


def test_a_change_without_any_image_stops() -> None:
    batch = pa.RecordBatch.from_pylist(
        [change(7, 1, before=["1", "a"]) | {"before": None}], batches([change(7, 1, after=["1", "a"])])[0].schema
    )
    with pytest.raises(SinkError, match="neither an old nor a new image"):
        of_changes(SCHEMA, 7, batch)


def test_a_table_without_a_schema_stops() -> None:
    assert schema_of({ORDERS: SCHEMA}, ORDERS) is SCHEMA
    with pytest.raises(SinkError, match=r"rows of shop\.orders, but no schema"):
        schema_of({}, ORDERS)
