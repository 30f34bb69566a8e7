"""The rig itself, on real servers: what is in Kafka is what is in MariaDB, whatever was killed on the way."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from sidecar.shared.config import read_config
from sidecar.shared.model.nouns import MARK_TABLE, Change, Ddl, Lane, Resolved
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed as read_changefeed
from sidecar.shared.ticdc.changefeed_info import codec_of, kafka_place
from tests.support.eventually import PATIENCE_S, eventually
from tests.tools.rig import changefeed
from tests.tools.rig.dispatch import Dispatcher
from tests.tools.rig.reading import envelopes, read_messages, replayed
from tests.tools.rig.rig import Rig
from tests.tools.rig.truth import LiveTruth, read_truth
from tests.tools.rig.tso import ms_of_tso

pytestmark = pytest.mark.xdist_group("rig")

INDEXED = Dispatcher(("shop.k*", "shop.orders"), partition="index-value", topic="by_{schema}_{table}")


class Stage:
    """A rig with the rows that were there before the changefeed started."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.at_start = read_truth(rig.source, rig.tables(), ts=rig.start_ts)

    def topics(self) -> list[str]:
        topics = self.rig.kafka.admin().list_topics(timeout=PATIENCE_S).topics
        return sorted(name for name in topics if not name.startswith("__"))

    def envelopes(self) -> list[Change | Ddl | Resolved]:
        return envelopes(read_messages(self.rig.kafka.bootstrap, self.topics()), self.rig.options.protocol)

    def changes(self) -> list[Change]:
        return [envelope for envelope in self.envelopes() if isinstance(envelope, Change)]

    def differences(self, truth: LiveTruth) -> dict[str, tuple[object, object]]:
        """Of each table that differs: rows only in the tables, rows only in the topics."""
        result = replayed(self.at_start.tables, self.changes(), truth.schemas, self.rig.options.protocol)
        return {
            str(name): (here - result[name], result[name] - here)
            for name, table in truth.tables.items()
            if (here := set(zip(*table.to_pydict().values(), strict=True))) != result[name]
        }


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Rig(tmp_path_factory.mktemp("rig"), partitions=3, initial_rows=100) as rig:
        yield Stage(rig)


@pytest.fixture(scope="module")
def canal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Rig(tmp_path_factory.mktemp("canal"), protocol="canal-json", partitions=2, initial_rows=100, dispatchers=(INDEXED,)) as rig:
        yield Stage(rig)


def work(rig: Rig, *, rows: int, seed: int) -> None:
    with rig.workload(writes_per_s=500, seed=seed) as workload:
        workload.await_rows(rows, timeout_s=PATIENCE_S)


def test_the_topics_replayed_are_the_tables(stage: Stage) -> None:
    work(stage.rig, rows=4000, seed=1)
    assert stage.differences(stage.rig.truth()) == {}


def test_the_ends_of_every_type_come_through(stage: Stage) -> None:
    columns = {
        "c_tiny": (-128, 127), "c_utiny": (0, 255), "c_small": (-32768, 32767), "c_usmall": (0, 65535), "c_med": (-8388608, 8388607),
        "c_umed": (0, 16777215), "c_int": (-(2**31), 2**31 - 1), "c_uint": (0, 2**32 - 1), "c_big": (-(2**63), 2**63 - 1),
        "c_ubig": (0, 2**64 - 1), "c_float": (-3.4028234e38, 1.1754944e-38), "c_double": (-1.7976931348623157e308, 5e-324),
        "c_dec": ("-99999999.99", "99999999.99"), "c_dec65": ("-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 29 + "1"),
        "c_udec": (0, "9" * 20), "c_date": ("0000-00-00", "9999-12-31"), "c_time": ("-838:59:59", "838:59:59"),
        "c_time6": ("-00:00:00.000001", "-12:34:56.999999"), "c_dt": ("0000-00-00 00:00:00", "9999-12-31 23:59:59"),
        "c_dt6": ("1000-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999"), "c_ts": ("0000-00-00 00:00:00", "2038-01-19 03:14:07"),
        "c_ts3": ("1970-01-01 00:00:01.001", "2038-01-19 03:14:07.999"), "c_year": (0, 2155), "c_char": ("", "😀" * 10),
        "c_varchar": ("", "é" * 300), "c_latin1": ("ÿ", "€"), "c_bin": (b"", b"\0" * 15 + b"\x01"), "c_varbin": (b"\0", bytes(range(256))),
        "c_tinytext": ("", "é" * 127), "c_longtext": ("", "<&>\u2028\u2029\0" * 9999), "c_blob": (b"", bytes(range(256)) * 200),
        "c_enum": (1, 3), "c_set": (0, 7), "c_bit1": (0, 1), "c_bit64": (0, 2**64 - 1),
    }  # fmt: skip
    connection = stage.rig.source.connect()
    with connection.cursor() as cursor:
        cursor.execute("set sql_mode = ''")
        for number in (0, 1):
            values = [ends[number] for ends in columns.values()]
            names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
            cursor.execute(f"replace into shop.kinds (id, {names}) values ({-(2**31) + number}, {marks})", values)
            assert cursor.rowcount >= 1
        cursor.execute("replace into shop.kinds (id) values (2147483647)")
    connection.close()
    truth = stage.rig.truth()
    kept = [
        row for row in truth.tables[next(name for name in truth.tables if name.table == "kinds")].to_pylist() if row["id"] == "-2147483647"
    ]
    assert (kept[0]["c_ubig"], kept[0]["c_bit64"], kept[0]["c_time6"]) == (str(2**64 - 1), str(2**64 - 1), "-12:34:56.999999")
    assert stage.differences(truth) == {}


def test_what_is_sent_again_has_the_same_commit_ts(stage: Stage) -> None:
    work(stage.rig, rows=1000, seed=2)
    end = stage.rig.await_published()
    before = {(change.commit_ts, change.key, change.value) for change in stage.changes()}
    checkpoint = stage.rig.resend(back_s=2)
    assert checkpoint.ts < end
    stage.rig.await_published()
    after = [(change.commit_ts, change.key, change.value) for change in stage.changes()]
    assert {change for change in after if change[0] <= end} == before
    again = len([change for change in after if change[0] <= end]) - len([change for change in before if change[0] <= end])
    assert again > 0, "nothing was repeated"


def test_nothing_at_or_below_a_mark_comes_after_it_within_a_run(stage: Stage) -> None:
    stage.rig.publisher.restart()
    work(stage.rig, rows=1000, seed=3)
    stage.rig.await_published()
    marks: dict[Lane, list[int]] = {}
    for envelope in stage.envelopes():
        seen = marks.setdefault(envelope.lane, [])
        if isinstance(envelope, Resolved):
            if seen and envelope.ts <= seen[-1]:
                seen.clear()  # a mark that does not rise is a new run's first
            seen.append(envelope.ts)
        elif isinstance(envelope, Change):
            assert not seen or envelope.commit_ts > seen[-1]
    assert len(marks) == 3
    assert all(len(seen) > 3 for seen in marks.values())


def test_marks_are_close_to_the_time_and_rise_while_nobody_writes(stage: Stage) -> None:
    first = stage.rig.publisher.checkpoints()[-1]
    last = eventually(
        lambda: next((checkpoint for checkpoint in reversed(stage.rig.publisher.checkpoints()) if checkpoint.ts != first.ts), None)
    )
    assert abs(time.time() - ms_of_tso(last.ts) / 1000) < PATIENCE_S, "of the clock"


def test_it_goes_on_after_each_server_died_under_load(stage: Stage) -> None:
    rig = stage.rig
    with rig.workload(writes_per_s=300, seed=4) as workload:
        for stop in (rig.db.kill, rig.db.stop):
            stop()
            rig.db.start()
            workload.await_rows(50, timeout_s=PATIENCE_S)
            rig.await_published()
        for stop in (rig.kafka.kill, rig.kafka.stop):
            stop()
            workload.await_rows(50, timeout_s=PATIENCE_S)
            rig.kafka.start()
            rig.await_published()
        rig.etcd.freeze()
        rig.publisher.freeze()
        rig.publisher.thaw()
        rig.await_published()
        rig.etcd.thaw()
        rig.publisher.restart()
        rig.await_published()
        rig.pause()
        rig.resume()
        rig.await_published()
    assert stage.differences(rig.truth()) == {}


def test_added_partitions_get_rows_and_marks(stage: Stage) -> None:
    rig = stage.rig
    rig.add_partitions(5)
    work(rig, rows=1000, seed=5)
    truth = rig.truth()
    added = [envelope for envelope in stage.envelopes() if envelope.lane.endswith(("/3", "/4"))]
    assert {resolved.lane[-1] for resolved in added if isinstance(resolved, Resolved)} == {"3", "4"}
    assert any(isinstance(item, Change) for item in added)
    assert stage.differences(truth) == {}


def test_a_ddl_is_between_the_rows_before_and_after_it(stage: Stage) -> None:
    rig = stage.rig
    rig.db.execute(
        "create table shop.shaped (id int primary key, a int)",
        "insert into shop.shaped values (1, 1)",
    )
    rig.await_published()
    rig.db.execute("alter table shop.shaped add column b varchar(9) not null default 'b'", "insert into shop.shaped values (2, 2, 'x')")
    rig.await_published()
    before = {(change.commit_ts, change.key, change.value) for change in stage.changes()}
    rig.publisher.resend(rig.publisher.checkpoints()[0])
    rig.await_published()
    results = stage.envelopes()
    assert {(change.commit_ts, change.key, change.value) for change in results if isinstance(change, Change)} == before
    ddls = sorted({(d.commit_ts, d.schema, d.table, d.query) for d in results if isinstance(d, Ddl)})
    assert [query.split()[0] for _, schema, table, query in ddls if (schema, table) == ("shop", "shaped")] == ["create", "alter"]
    rows = sorted({(c.commit_ts, c.value) for c in results if isinstance(c, Change) and c.table == "shaped"})
    assert [ddls[0][0] < rows[0][0] < ddls[1][0] < rows[1][0], len(rows)] == [True, 2]
    assert ["b" in json.loads(value)["u"] for _, value in rows] == [False, True]
    rig.db.execute("drop table shop.shaped")
    rig.await_published()


def test_the_watermark_table_is_published_and_the_heartbeat_is_not(stage: Stage) -> None:
    stage.rig.db.execute(
        f"insert into {MARK_TABLE} (changefeed_id, unique_identifier, event_type, create_time, update_time) values ('a', 'b', 1, 2, 3)"
    )
    stage.rig.await_published()
    schemas = {(change.schema, change.table) for change in stage.changes()}
    assert MARK_TABLE in schemas
    assert {schema for schema, _ in schemas} == {"shop", MARK_TABLE.schema}


def test_canal_json_and_a_topic_for_a_table(canal: Stage) -> None:
    work(canal.rig, rows=1000, seed=6)
    truth = canal.rig.truth()
    assert canal.topics() == ["by_shop_kinds", "by_shop_orders", canal.rig.topic]
    results = canal.envelopes()
    lanes = {results.lane for results in results}
    assert len(lanes) == 6
    assert {results.lane for results in results if isinstance(results, Resolved)} == lanes
    lanes_of_orders = {change.lane for change in results if isinstance(change, Change) and change.table == "orders"}
    assert lanes_of_orders == {"kafka/by_shop_orders/0", "kafka/by_shop_orders/1"}
    assert canal.differences(truth) == {}


def test_the_product_reads_the_settings_and_the_changefeed(canal: Stage, tmp_path: Path) -> None:
    rig = canal.rig
    path = rig.sidecar_config(sinks=[f"file://{tmp_path}/out"], log=f"file://{tmp_path}/log", dump={"chunk_rows": 7})
    config = read_config(path)
    assert (config.changefeed.id, config.dump.chunk_rows, config.source.port) == ("rig-feed", 7, rig.db.port)
    info = rig.etcd.get(changefeed.info_key("rig-feed"))
    assert info is not None
    read = read_changefeed(ChangefeedName("default", "default", "rig-feed"), info)
    assert (kafka_place(read).topic, codec_of(read).name) == (rig.topic, "canal-json")
    assert read.start_ts == rig.start_ts
    status = rig.etcd.get(changefeed.status_key("rig-feed"))
    assert status is not None
    assert json.loads(status)["checkpoint-ts"] >= rig.start_ts


def test_checkpoints_never_fall_but_for_a_resend(canal: Stage) -> None:
    written = canal.rig.publisher.checkpoints()
    assert all(a.ts <= b.ts for a, b in pairwise(written))
