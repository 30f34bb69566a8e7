"""Encode parity of canal-json: every message that TiCDC sent, decoded to canonical text and encoded again, is TiCDC's own bytes.

Two fields are compared in another way, for TiCDC does not write them twice alike (tests/support/canal_parity.py): `ts`, the moment at
which it built the message, and the order of `mysqlType`. Not compared, but counted: messages of marks, which no sink gets, and of rows
that were too large, which hold no whole row. The feeds without the extension are refused by the decoder, and are not here.

No recording has a vector, a ZEROFILL, or a feed with `content-compatible` or `only-output-updated-columns`: those rest on TiCDC's source
alone (test_canal_types.py, test_canal_json.py). No value of a recording is one of the two kinds that canonical text does not tell apart
(test_canal_texts.py).
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Literal, NamedTuple

import pytest

from tests.support.canal_parity import Parity, parity
from tests.support.slow_canal import TYPES, word_of

pytestmark = [pytest.mark.recordings, pytest.mark.xdist_group("canal-parity")]

Architecture = Literal["classic", "new"]


class Feed(NamedTuple):
    recording: str
    name: str = "canal-json"
    architecture: Architecture = "classic"
    server_tz: str = "UTC"


class Sent(NamedTuple):
    """Messages that are equal, by what they are; then those that are not compared."""

    insert: int
    update: int
    delete: int
    resolved: int
    ddl: int = 0
    marks: int = 0
    large: int = 0


FEEDS = {
    Feed("demo"): Sent(486, 1897, 447, 180, marks=75),
    Feed("shop"): Sent(1105, 4231, 1047, 309, marks=75),
    Feed("shop-new", architecture="new"): Sent(1283, 4781, 1265, 243, marks=87),
    Feed("ddl"): Sent(1864, 4224, 1540, 576, ddl=29),
    Feed("ddl-new", architecture="new"): Sent(1933, 4251, 1584, 432, ddl=29),
    Feed("restart"): Sent(1200, 4276, 1130, 249, marks=116),
    Feed("rowformats"): Sent(283, 1041, 286, 150, marks=63),
    Feed("filter"): Sent(348, 585, 243, 132, marks=43),
    Feed("tz", server_tz="Asia/Shanghai"): Sent(171, 529, 164, 141, marks=29),
    Feed("large"): Sent(434, 768, 385, 150, marks=31),
    Feed("large", "canal-claim-check"): Sent(428, 597, 377, 98, marks=31, large=185),
    Feed("large", "canal-handle-key-only"): Sent(428, 597, 377, 110, marks=31, large=185),
}

DIFFERING: dict[Feed, dict[str, int]] = {}
"""Table, field and both values, with how often they differ. None does in any recording."""

VALUES: dict[Architecture, dict[str, int]] = {
    "classic": {
        "bigint": 19948, "binary": 2379, "bit": 11699, "blob": 1324, "char": 4149, "date": 6769, "datetime": 19002,
        "decimal": 16554, "double": 6092, "enum": 11537, "float": 11380, "int": 35658, "json": 10156, "longblob": 1324,
        "longtext": 3095, "mediumblob": 3095, "mediumint": 6055, "mediumtext": 1324, "set": 6769, "smallint": 6033, "text": 6495,
        "time": 6782, "timestamp": 8093, "tinyblob": 1324, "tinyint": 8106, "tinytext": 1324, "varbinary": 6452, "varchar": 40202,
        "year": 1324,
    },
    "new": {
        "bigint": 8970, "binary": 1511, "bit": 4638, "blob": 748, "char": 2977, "date": 2087, "datetime": 8401, "decimal": 6944,
        "double": 2568, "enum": 3907, "float": 4569, "int": 16982, "json": 3917, "longblob": 748, "longtext": 1597,
        "mediumblob": 1597, "mediumint": 2213, "mediumtext": 748, "set": 2087, "smallint": 2186, "text": 1809, "time": 3679,
        "timestamp": 2835, "tinyblob": 748, "tinyint": 4427, "tinytext": 748, "varbinary": 2841, "varchar": 18660, "year": 748,
    },
}  # fmt: skip
"""Values in rows that are equal, by SQL type: of the new image, of a deleted row the old one."""


@cache
def found(feed: Feed) -> Parity:
    return parity(feed.recording, feed.name, architecture=feed.architecture, server_tz=feed.server_tz)


@pytest.mark.parametrize("feed", FEEDS, ids=lambda feed: f"{feed.recording}/{feed.name}")
def test_every_message_is_ticdcs_own(feed: Feed) -> None:
    parity = found(feed)
    assert parity.differing == DIFFERING.get(feed, {})
    equal = [parity.equal[what] for what in ("INSERT", "UPDATE", "DELETE", "resolved", "DDL")]
    assert Sent._make([*equal, parity.separate["of a mark"], parity.separate["of a large row"]]) == FEEDS[feed]


@pytest.mark.parametrize("architecture", VALUES)
def test_of_every_type(architecture: Architecture) -> None:
    values = sum((found(feed).values for feed in FEEDS if feed.architecture == architecture), Counter[str]())
    assert values == VALUES[architecture]
    assert {word_of(type_text) for type_text in TYPES} - values.keys() == {"vector"}
