"""What a file of TiCDC's storage sink is, by its name, in every form of the folders."""

from __future__ import annotations

import pytest

from sidecar.feeds.storage.names import FormFile, RowsFile, Stream, file_of, is_odd
from sidecar.shared.model.nouns import CommitTs

VERSION = "470609284631625749"


@pytest.mark.parametrize(
    ("name", "table", "dispatcher", "number"),
    [
        (f"shop/a/{VERSION}/2026-11-29/CDC00000000000000000007.csv", "shop/a", "", 7),
        (f"shop/a/{VERSION}/CDC000123.csv", "shop/a", "", 123),
        (f"shop/a/{VERSION}/112/2026-11-29/CDC000123.csv", "shop/a", "", 123),
        (f"shop/a/{VERSION}/112/CDC000123.csv", "shop/a", "", 123),
        (f"shop/a/{VERSION}/2026/CDC000001.csv", "shop/a", "", 1),
        (f"shop/a/{VERSION}/112/2026/CDC000001.csv", "shop/a", "", 1),
        (f"shop/a/{VERSION}/2026-11/CDC000001.csv", "shop/a", "", 1),
        (f"104/{VERSION}/CDC000001.csv", "104", "", 1),
        (f"104/{VERSION}/2026-11-29/CDC_9f2c-11_000004.csv", "104", "9f2c-11", 4),
        (f"shop/a/b c%/{VERSION}/CDC000001.csv", "shop/a/b c%", "", 1),
        (f"shop/2026/{VERSION}/CDC000001.csv", "shop/2026", "", 1),
        (f"shop/2026-11-29/{VERSION}/2026-11-29/CDC000001.csv", "shop/2026-11-29", "", 1),
        (f"shop/a\nb/{VERSION}/CDC000001.csv", "shop/a\nb", "", 1),
    ],
)
def test_a_data_file_has_its_table_its_writer_and_its_number(name: str, table: str, dispatcher: str, number: int) -> None:
    file = file_of(name)
    assert isinstance(file, RowsFile)
    assert (file.table, file.stream, file.number) == (table, Stream(name.rpartition("/")[0], dispatcher), number)
    assert (file.version, file.name) == (int(VERSION), name)


@pytest.mark.parametrize("table", ["shop/a", "shop", "104", "shop/meta"])
def test_a_schema_file_has_its_table_and_version(table: str) -> None:
    name = f"{table}/meta/schema_{VERSION}_0000000012.json"
    assert file_of(name) == FormFile(table, CommitTs(int(VERSION)), name)


@pytest.mark.parametrize(
    "name",
    [
        "metadata",
        f"shop/a/{VERSION}/2026-11-29/meta/CDC.index",
        f"shop/a/{VERSION}/meta/CDC_9f2c_000001.index",
        f"shop/a/{VERSION}/CDC000001.csv.tmp.5c",
        f"shop/a/meta/schema_{VERSION}_12.json",
        "shop/a/notes.csv",
    ],
)
def test_what_is_neither_is_no_file_of_the_feed(name: str) -> None:
    assert file_of(name) is None
    assert not is_odd(name)


@pytest.mark.parametrize(
    "name", [f"{VERSION}/CDC000001.csv", "CDC000001.csv", "2026-11-29/CDC000001.csv", "7/CDC000001.json", f"shop/a/{VERSION}/CDC00001.csv"]
)
def test_one_that_is_called_as_a_data_file_at_no_place_of_one_is_odd(name: str) -> None:
    assert file_of(name) is None
    assert is_odd(name)
