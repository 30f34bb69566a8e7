"""Encode parity: every recorded row of open-protocol, decoded and encoded again, is TiCDC's own bytes; so are DDLs and marks.

tests/data/parity/open-protocol.json holds the counts: rows by recording, feed and operation with those that are equal, values by SQL type,
and what differs by reason (open_parity.py explains each). The main feeds run always, the others of the same histories in `make matrix`.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.lanes import LANE
from tests.unit.encode.open_parity import COUNTS, FEEDS, MAIN, ddl_differences, dumped, mark_differences, parity

pytestmark = pytest.mark.recordings

PLAYED = [(name, feed) for name, feeds in FEEDS.items() for feed in feeds if feed == MAIN or LANE.whole]
COUNTED = json.loads(COUNTS.read_text())


@pytest.mark.parametrize(("name", "feed"), PLAYED)
def test_each_recorded_row_is_encoded_as_ticdc_did(name: str, feed: str) -> None:
    result = parity(name, feed)
    assert result.unexplained[:1] == []
    assert result.counts() == COUNTED[f"{name}/{feed}"]


@pytest.mark.parametrize(
    ("name", "count"),
    [("shop", 1046), ("shop-new", 1203), ("tz", 191), *([("demo", 729), ("large", 246), ("rowformats", 414)] if LANE.whole else [])],
)
def test_a_dumped_row_is_encoded_as_ticdc_wrote_the_same_row(name: str, count: int) -> None:
    assert dumped(name) == (count, [])


def test_what_is_counted_is_every_feed_and_nothing_unexplained() -> None:
    assert set(COUNTED) == {f"{name}/{feed}" for name, feeds in FEEDS.items() for feed in feeds}
    reasons = {reason.partition(":")[0] for counts in COUNTED.values() for reason in counts["differ"]}
    assert reasons == {"hidden row id", "cached flags", "not compared"}


def test_each_architecture_has_values_of_every_type() -> None:
    values: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
    for place, counts in COUNTED.items():
        values["-new/" in place].update(counts["values"])
    assert set(values[False]) == set(values[True]) == TYPES
    assert all(count > 100 for counter in values.values() for count in counter.values())


TYPES = {
    "bigint", "bigint unsigned", "binary", "bit", "blob", "char", "date", "datetime", "decimal", "decimal unsigned", "double", "enum",
    "float", "float unsigned", "int", "int unsigned", "json", "longblob", "longtext", "mediumblob", "mediumint", "mediumint unsigned",
    "mediumtext", "set", "smallint", "smallint unsigned", "text", "time", "timestamp", "tinyblob", "tinyint", "tinyint unsigned",
    "tinytext", "varbinary", "varchar", "year",
}  # fmt: skip
"""All that the recordings have; a vector is in none of them."""


@pytest.mark.parametrize(("name", "count"), [("ddl", 87), ("ddl-new", 87)])
def test_each_recorded_ddl_is_encoded_as_ticdc_did(name: str, count: int) -> None:
    assert ddl_differences(name, MAIN) == (count, [])


@pytest.mark.parametrize("name", ["demo", "shop-new"])
def test_each_recorded_mark_is_encoded_as_ticdc_did(name: str) -> None:
    count, differ = mark_differences(name, MAIN)
    assert (count > 30, differ) == (True, [])
