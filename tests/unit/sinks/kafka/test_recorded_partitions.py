"""Each row of the recorded feeds is put where TiCDC put it, and DDLs and marks as well: all tables, both architectures, amid DDLs too.

What TiCDC was asked to do is in the recording's own changefeed config; nothing of it is repeated here.
"""

from __future__ import annotations

import json
import tomllib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow.parquet as pq
import pytest

from sidecar.replay.history import RecordedHistory
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.shared.model.nouns import MARK_TABLE, Change, Ddl, Lane, Message, Resolved, TableName, TableSchema
from sidecar.shared.ticdc.dispatch import Hashing, Router
from spark_merge.codecs.decode.rows import decode
from spark_merge.sinks.kafka.partitions import partitions, verify
from tests.lanes import LANE
from tests.support.recordings import recording
from tests.unit.decode.log import logged

RELEASE = "v9.0.0-beta.2"
MOVED = ("ddl", "ddl-new")
ROWS = {
    ("demo", "open-protocol"): 2830, ("demo", "canal-json"): 2830, ("shop", "open-protocol"): 6383, ("shop", "open-protocol-index"): 6383,
    ("shop", "open-protocol-zip"): 6383, ("shop", "canal-json"): 6383, ("shop", "open-protocol-raw"): 6357,
    ("shop-new", "open-protocol"): 7329, ("shop-new", "open-protocol-index"): 7329, ("shop-new", "open-protocol-zip"): 7329,
    ("shop-new", "canal-json"): 7329, ("shop-new", "open-protocol-raw"): 7308, ("restart", "open-protocol"): 6615,
    ("restart", "open-protocol-index"): 6615, ("restart", "canal-json"): 6606, ("rowformats", "open-protocol"): 1610,
    ("rowformats", "canal-json"): 1610, ("tz", "open-protocol"): 864, ("tz", "canal-json"): 864, ("large", "open-protocol"): 1587,
    ("large", "canal-json"): 1587, ("filter", "open-protocol"): 1176, ("filter", "canal-json"): 1176, ("ddl", "open-protocol"): 7628,
    ("ddl", "open-protocol-index"): 7628, ("ddl", "canal-json"): 7628, ("ddl-new", "open-protocol"): 7768,
    ("ddl-new", "open-protocol-index"): 7768, ("ddl-new", "canal-json"): 7768,
}  # fmt: skip
"""How many rows are held against TiCDC's partition, without those of the watermark table."""
EVERY_RUN = [("shop", "open-protocol-index"), ("shop-new", "open-protocol-index"), ("ddl-new", "open-protocol-index"), ("tz", "canal-json")]

PLAYED = list(ROWS) if LANE.whole else EVERY_RUN


def router_of(folder: Recording, config: FeedConfig) -> Router:
    about = json.loads((folder.folder / "recording.json").read_bytes())["feeds"][config.name]
    dispatchers = tomllib.loads(about["config"]).get("sink", {}).get("dispatchers", [])
    zone = "Asia/Shanghai" if folder.name == "tz" else "UTC"
    hashing = Hashing.of("new" if folder.name.endswith("new") else "classic", RELEASE, zone)
    return Router.of(dispatchers, default_topic=config.topic, protocol=config.protocol, hashing=hashing)


def messages(config: FeedConfig) -> Iterator[Message]:
    for row in pq.read_table(config.path, columns=["partition", "offset", "key", "value"]).to_pylist():
        yield Message(Lane(str(row["partition"])), row["offset"], row["key"], row["value"])


def eras(folder: Recording, changes: list[Change]) -> Iterator[tuple[TableSchema, list[Change]]]:
    """The rows of each table between two DDLs, with the schema that they have."""
    history = RecordedHistory(folder) if folder.name in MOVED else None
    cuts = sorted({event.commit_ts for event in history.events}) if history else []
    result: dict[tuple[int, TableName], list[Change]] = {}
    for change in changes:
        if (name := TableName(change.schema, change.table)) != MARK_TABLE:
            result.setdefault((bisect_left(cuts, change.commit_ts), name), []).append(change)
    for (_, name), group in result.items():
        schemas = history.schemas_at(group[0].commit_ts - 1) if history else folder.schemas
        yield schemas[name], group


@pytest.mark.recordings
@pytest.mark.parametrize(("name", "feed"), PLAYED, ids=map("/".join, PLAYED))
def test_each_row_is_put_where_ticdc_put_it(name: str, feed: str) -> None:
    folder = Recording(recording(name))
    config = folder.feed_config(feed)
    router, codec = router_of(folder, config), config.codec()
    changes = [event for message in messages(config) for event in codec.envelopes(message) if isinstance(event, Change)]
    outcome: Counter[bool] = Counter()
    for schema, group in eras(folder, changes):
        rows = decode(
            logged(group, codec=config.protocol), codec=config.protocol, schemas={schema.name: schema}, server_tz=router.hashing.zone
        )
        rule = router.partition_rule(schema.name)
        verify(rule, schema)
        was = np.array([int(change.lane) for change in group])[rows["ordinal"].to_numpy()]
        outcome.update((partitions(rule, schema, rows, config.partitions) == was).tolist())
    assert outcome == {True: ROWS[name, feed]}


@pytest.mark.recordings
@pytest.mark.parametrize("name", MOVED if LANE.whole else MOVED[1:])
@pytest.mark.parametrize("feed", ["open-protocol-index", "canal-json"])
def test_ddls_and_marks_are_in_the_partitions_in_which_ticdc_put_them(name: str, feed: str) -> None:
    folder = Recording(recording(name))
    config = folder.feed_config(feed)
    router, codec = router_of(folder, config), config.codec()
    ddls: dict[tuple[int, str], set[int]] = {}
    marks: dict[int, set[int]] = {}
    for message in messages(config):
        for event in codec.envelopes(message):
            if isinstance(event, Ddl):
                ddls.setdefault((event.commit_ts, event.query), set()).add(int(message.lane))
            elif isinstance(event, Resolved):
                marks.setdefault(event.ts, set()).add(int(message.lane))
    assert ddls
    assert all(lanes == set(router.ddl_partitions(config.partitions)) for lanes in ddls.values())
    assert all(lanes == set(range(config.partitions)) for lanes in marks.values())
