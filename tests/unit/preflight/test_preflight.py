"""The preflight's own rules: what is skipped and what goes on, what is told, what the command's exit code says."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from threading import Event
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import msgspec
import pytest
from typer.testing import CliRunner

from sidecar.adapters.etcd.keys import KeyEntry
from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.cli.check import EXIT_DEFECT, EXIT_FAILED, exit_code, lines, summary
from sidecar.cli.main import app
from sidecar.feeds.encoded.checks import of_hidden_ddls
from sidecar.feeds.kafka import checks as kafka_checks
from sidecar.feeds.kafka.checks import lag, of_beginning, others, sharing
from sidecar.feeds.kafka.tail import Tail
from sidecar.ports import TableEstimate
from sidecar.preflight import changefeed, machine
from sidecar.preflight.preflight import PreflightReport, checks, preflight
from sidecar.preflight.source import of_clock, of_gc_life, of_hold, read_keys, readable_schemas, schemas_of_rules, tables, wrong_columns
from sidecar.preflight.zone import hours_twice, judged
from sidecar.shared.config import ChangefeedSection, Config, EtcdSection, KafkaSection, LogSection, SourceSection
from sidecar.shared.errors import ConfigError
from sidecar.shared.log.identity import name_of, own_id
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.manifests import kept
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.sink_tables import write_sink_tables
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import MARK_TABLE, Column, CommitTs, Lane, Seq, TableName, TableSchema, ts_at
from sidecar.shared.model.progress import DumpState, Progress, Span, TableProgress
from sidecar.shared.process.checks import (
    Check,
    Checking,
    CheckOptions,
    CheckResult,
    CheckSkipped,
    CheckStatus,
    Key,
    Result,
    carried_out,
    failed,
    in_order,
    listed,
    ok,
    warning,
)
from sidecar.shared.rowcodec.table_info import table_schema
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, Dispatcher, EventFilter, FeedFilter
from sidecar.shared.ticdc.changefeed_info import changefeed as described
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.delivery.sink_record import SinkId
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.registry import open_sink, output_of
from spark_merge.testing.histories import SEGMENTS, random_history, write_log
from spark_merge.testing.places import Here
from tests.support.eventually import PATIENCE_S
from tests.support.services.fake_tidb import FakeTidb, Refused
from tests.unit.setup.test_cluster import definition

Body = Callable[[CheckResult], Checking[Any]]


def nothing() -> CheckResult:
    config = Config(
        changefeed=ChangefeedSection(id="feed"),
        etcd=EtcdSection(endpoints=("127.0.0.1:1",)),
        source=SourceSection(host="127.0.0.1", user="dump"),
        log=LogSection(uri="memory://log"),
        sinks=("console:",),
    )
    return CheckResult(config, CheckOptions())


def a_check(name: str, body: Body, setting: str, needs: tuple[str, ...] = (), **more: Any) -> Check[Any]:
    return Check(Key(name), body, setting, tuple(map(Key, needs)), **more)


def results(*value: Check[Any]) -> dict[str, Result]:
    return {result.name: result for result in carried_out(value, nothing())}


def well(_: CheckResult) -> Checking[None]:
    yield ok("well")


def ill(_: CheckResult) -> Checking[None]:
    yield failed("ill", setting="a.b", hint="mend it")


# ---- the runner -----------------------------------------------------------------------------------------------------


def test_what_needs_a_failed_check_is_skipped_and_all_others_are_carried_out() -> None:
    outcome = results(
        a_check("first", ill, "x"),
        a_check("second", well, "x", ("first",)),
        a_check("third", well, "x", ("second",)),
        a_check("other", well, "x"),
    )
    assert {name: result.status for name, result in outcome.items()} == {
        "first": CheckStatus.FAILED, "second": CheckStatus.SKIPPED, "third": CheckStatus.SKIPPED, "other": CheckStatus.OK,
    }  # fmt: skip
    assert outcome["second"].findings[0].what == "needs 'first'"


def test_a_warning_skips_nothing() -> None:
    def careful(_: CheckResult) -> Checking[None]:
        yield ok("fine")
        yield warning("hm", setting="a", hint="b")

    result = results(a_check("first", careful, "x"), a_check("second", well, "x", ("first",)))
    assert (result["first"].status, result["second"].status) == (CheckStatus.WARNING, CheckStatus.OK)


def test_an_error_of_ours_is_a_failure_with_its_own_way_out_after_what_was_found_before() -> None:
    def breaks(_: CheckResult) -> Checking[None]:
        yield ok("so far")
        raise ConfigError("it is wrong", hint="set it right")

    (result,) = results(a_check("one", breaks, "the.setting")).values()
    assert result.findings == (ok("so far"), failed("it is wrong", setting="the.setting", hint="set it right"))
    assert not result.defect


def test_a_check_may_skip_itself() -> None:
    def skips(_: CheckResult) -> Checking[None]:
        raise CheckSkipped("nothing to see")
        yield ok("never")

    (result,) = results(a_check("one", skips, "x")).values()
    assert (result.status, result.findings[0].what) == (CheckStatus.SKIPPED, "nothing to see")


def test_a_check_that_does_not_end_has_failed_by_its_bound_and_the_rest_goes_on() -> None:
    ending = Event()

    def hangs(_: CheckResult) -> Checking[None]:
        yield ok("begun")
        ending.wait(PATIENCE_S)

    result = results(a_check("one", hangs, "the.setting", bound_s=3.0), a_check("two", well, "x"))
    ending.set()
    assert result["one"].findings[0] == ok("begun")
    assert result["one"].findings[1].what == "no answer within 3 s"
    assert result["one"].findings[1].setting == "the.setting"
    assert result["two"].status is CheckStatus.OK


def test_a_defect_is_reported_and_decides_the_exit_code() -> None:
    def defective(_: CheckResult) -> Checking[None]:
        raise KeyError("nothing")
        yield ok("never")

    result = carried_out([a_check("one", defective, "x"), a_check("two", well, "x")], nothing())
    report = PreflightReport(Path("sidecar.toml"), tuple(result))
    assert result[0].defect
    assert result[1].status is CheckStatus.OK
    assert exit_code(report) == EXIT_DEFECT


def test_each_result_is_shown_as_soon_as_it_is_there() -> None:
    seen: list[str] = []

    def last(_: CheckResult) -> Checking[None]:
        yield ok(",".join(seen))

    outcome = carried_out([a_check("one", well, "x"), a_check("two", last, "x")], nothing(), lambda result: seen.append(result.name))
    assert outcome[1].findings[0].what == "one"


def test_what_a_check_found_is_asked_for_by_its_key() -> None:
    number: Key[int] = Key("number")

    def finds(_: CheckResult) -> Checking[int]:
        yield warning("seven, perhaps", setting="a", hint="b")
        return 7

    def reports(check_result: CheckResult) -> Checking[None]:
        yield ok(f"{check_result[number] + 1}, {check_result.get(Key('absent'), None)}")

    result = results(Check(number, finds, "x"), Check(Key("told"), reports, "x", (number,)))
    assert result["told"].findings == (ok("8, None"),)


def test_what_a_failed_check_found_is_known_to_those_that_do_not_need_it() -> None:
    number: Key[int] = Key("number")

    def finds(_: CheckResult) -> Checking[int]:
        yield failed("ill", setting="a", hint="b")
        return 7

    def reports(check_result: CheckResult) -> Checking[None]:
        yield ok(f"{check_result.get(number, None)}")

    result = results(Check(number, finds, "x"), a_check("told", reports, "x"))
    assert result["told"].findings == (ok("7"),)


def test_the_checks_of_a_feed_stand_in_their_places() -> None:
    one, two = a_check("one", well, "x"), a_check("two", well, "x")
    mine = [a_check("last", well, "x"), a_check("first", well, "x", before=one.key), a_check("between", well, "x", before=two.key)]
    assert [check.name for check in in_order([one, two], mine)] == ["first", "one", "between", "two", "last"]


COMMON = (
    "secrets", "secrets' rights", "control address", "metrics address", "console address", "etcd", "changefeed",
    "changefeed state", "etcd write",
    "tidb", "clock", "gc life time", "holes", "schemas", "tables", "read keys", "read ranges", "select rights", "brackets",
    "watermark table",
    "log", "owner's log", "dump on record", "disk space", "sinks", "targets", "spark", "spark session", "watermark write",
)  # fmt: skip
KAFKA = (
    "secrets", "secrets' rights", "control address", "metrics address", "console address", "etcd", "changefeed",
    "changefeed state", "etcd write",
    "tidb", "clock", "gc life time", "holes", "schemas", "changefeed settings", "tables", "read keys", "read ranges", "select rights",
    "brackets", "watermark table",
    "log", "owner's log", "dump on record", "disk space", "sinks", "targets", "spark", "spark session", "other changefeeds", "hidden DDLs",
    "large rows", "kafka", "topics", "replication", "offsets", "messages", "watermark write", "resolved marks", "lag", "watermark arrives",
    "server time zone",
)  # fmt: skip


@pytest.mark.parametrize(
    ("feed", "names"),
    [
        ("kafka", KAFKA),
        ("push", (*COMMON, "changefeed settings", "table infos", "key-values", "dump reads")),
        ("tikv", (*COMMON, "changefeed settings", "table infos", "key-values", "dump reads")),
    ],
)
def test_each_feed_is_checked_in_this_order(feed: str, names: tuple[str, ...]) -> None:
    assert tuple(check.name for check in checks(feed, CheckOptions())) == names


@pytest.mark.parametrize("feed", ["kafka", "push", "tikv"])
def test_every_check_needs_only_checks_before_it(feed: str) -> None:
    before: set[Key[Any]] = set()
    for check in checks(feed, CheckOptions()):
        assert set(check.needs) <= before, check.name
        assert check.key not in before
        before.add(check.key)


@pytest.mark.parametrize(
    ("feed", "own"),
    [("kafka", ["kafka"]), ("push", ["dump reads"]), ("push-messages", []), ("tikv", ["dump reads"]), ("binlog", ["pumps"])],
)
def test_a_standby_is_checked_for_what_it_needs_to_take_over_and_needs_no_other_check(feed: str, own: list[str]) -> None:
    chosen = checks(feed, CheckOptions(write=False, standby=True))
    assert [check.name for check in chosen] == [
        *("secrets", "etcd", "changefeed", "tidb", "log", "owner's log", "sinks", "spark"),
        *own,
    ]
    assert {need.name for check in chosen for need in check.needs} <= {check.name for check in chosen}


def test_a_standby_is_checked_by_reading_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked_with: list[CheckOptions] = []

    def taken(_: Path, options: CheckOptions, *__: object) -> PreflightReport:
        checked_with.append(options)
        return PreflightReport(tmp_path, ())

    monkeypatch.setattr("sidecar.preflight.preflight.preflight", taken)
    for given in (["--standby"], ["--no-write"], []):
        assert CliRunner().invoke(app, ["check", "--config", str(tmp_path), *given]).exit_code == 0
    assert [(options.standby, options.write) for options in checked_with] == [(True, False), (False, False), (False, True)]


def test_a_check_that_waits_for_the_feed_is_bounded_beyond_what_it_waits() -> None:
    bounds = {check.name: check.bound_s for check in checks("kafka", CheckOptions(wait_s=100.0))}
    assert min(bounds["resolved marks"], bounds["watermark arrives"]) > 100.0


def test_settings_that_cannot_be_read_fail_and_nothing_is_queried(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.toml"
    path.write_text("sinks = []")
    report = preflight(path, CheckOptions())
    assert report.results[0].status is CheckStatus.FAILED
    assert {result.status for result in report.results[1:]} == {CheckStatus.SKIPPED}
    assert exit_code(report) == EXIT_FAILED


# ---- what is told ---------------------------------------------------------------------------------------------------


def test_lines_name_the_check_once_and_the_way_out_below() -> None:
    result = Result("kafka", CheckStatus.FAILED, (failed("away", setting="kafka.brokers", hint="start them"), ok("fine")))
    assert [line.plain.rstrip() for line in lines(result)] == [
        "failed  kafka                 away",
        "          setting             kafka.brokers",
        "          what to do          start them",
        "ok                            fine",
    ]


def test_what_a_result_is_made_of_is_for_those_who_ask_for_it() -> None:
    result = Result("sinks", CheckStatus.OK, (ok("fine", detail="a, b"), ok("fine, too")))
    plain = ["ok      sinks                 fine", "ok                            fine, too"]
    assert [line.plain.rstrip() for line in lines(result)] == plain
    assert [line.plain.rstrip() for line in lines(result, verbose=True)] == [plain[0], "          detail              a, b", plain[1]]
    assert PreflightReport(Path("x"), (result,)).to_json()["checks"][0]["findings"][0] == {
        "status": "ok", "what": "fine", "detail": "a, b", "setting": "", "hint": ""
    }  # fmt: skip


def test_the_summary_counts_and_judges() -> None:
    good, bad = Result("a", CheckStatus.OK, (ok("x"),)), Result("b", CheckStatus.FAILED, (failed("x", setting="s", hint="h"),))
    assert summary(PreflightReport(Path("x"), (good, good))) == "2 ok: a dump can run"
    assert summary(PreflightReport(Path("x"), (good, bad))).startswith("1 ok, 1 failed: not ready")
    assert exit_code(PreflightReport(Path("x"), (good,))) == 0
    assert exit_code(PreflightReport(Path("x"), (good, bad))) == EXIT_FAILED


def test_long_lists_are_cut() -> None:
    assert listed(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    assert listed(["a"]) == "a"


def test_a_root_inside_ticdcs_own_keys_is_never_written() -> None:
    (finding,) = changefeed.etcd_write(None, "/tidb/cdc/x", write=True)  # type: ignore[arg-type]  # nobody is asked
    assert finding.status is CheckStatus.FAILED


# ---- judgements -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grants", "schemas"),
    [
        (["GRANT ALL PRIVILEGES ON *.* TO `u`@`%` WITH GRANT OPTION"], None),
        (["GRANT INSERT, SELECT ON *.* TO 'u'@'%'"], None),
        (["GRANT USAGE ON *.* TO `u`@`%`", "GRANT SELECT, INSERT ON `Shop`.* TO `u`@`%`"], frozenset({"shop"})),
        (["GRANT SELECT ON `my\\_shop`.* TO 'u'@'%'"], frozenset({"my_shop"})),
        (["GRANT SELECT ON `shop`.`account` TO `u`@`%`"], frozenset()),
        (["GRANT INSERT ON `shop`.* TO `u`@`%`", "GRANT SELECT (`id`) ON `shop`.`a` TO `u`@`%`"], frozenset()),
        (["GRANT `reader`@`%` TO `u`@`%`"], frozenset()),
    ],
)
def test_grants_say_which_schemas_are_seen_whole(grants: list[str], schemas: frozenset[str] | None) -> None:
    assert readable_schemas(iter(grants)) == schemas


@pytest.mark.parametrize(
    ("rules", "schemas"),
    [
        (["shop.*", "changefeed_dump.*"], {"shop", "changefeed_dump"}),
        (["Shop.account", "!shop.b", "# x"], {"shop"}),
        (["*.*"], {""}),
        (["sh?p.*", "`my-shop`.*"], {"", "my-shop"}),
        (["/shop/.*"], {""}),
    ],
)
def test_rules_say_which_schemas_they_name(rules: list[str], schemas: set[str]) -> None:
    assert schemas_of_rules(rules) == schemas


def test_a_short_gc_life_time_is_a_warning() -> None:
    assert of_gc_life("10m0s").status is CheckStatus.OK
    assert of_gc_life("5m0s").setting == "tidb_gc_life_time"
    assert of_gc_life("24h0m0s", of_large_rows=True).status is CheckStatus.OK
    assert "large rows are read from TiDB" in of_gc_life("10m0s", of_large_rows=True).what


@pytest.mark.parametrize(
    ("hold_max_s", "pd", "text"),
    [(3600, "PD a", "PD a keeps what it still has to read, 1 h at most"), (0, "PD a", "hold_max_s is 0"), (1, "", "no PD is reached")],
)
def test_what_keeps_old_versions_is_named(hold_max_s: float, pd: str, text: str) -> None:
    assert text in of_hold(hold_max_s, pd).what


def test_a_clock_that_is_off_is_a_warning_unless_the_answer_took_as_long() -> None:
    assert of_clock(-9.0, took_s=0.1).status is CheckStatus.WARNING
    assert of_clock(9.0, took_s=10.0).status is CheckStatus.OK


def test_columns_of_a_watermark_table_that_are_missing_or_of_another_type_are_named() -> None:
    columns = (Column("id", "int"), Column("changefeed_id", "binary"), Column("event_type", "int"), Column("create_time", "timestamp"))
    assert list(wrong_columns(TableSchema(MARK_TABLE, columns, ()))) == [
        "column changefeed_id is a binary, expected text",
        "column unique_identifier is missing",
        "column create_time is a timestamp, expected int or uint",
        "column update_time is missing",
        "it has no primary key, so TiCDC does not replicate it",
    ]


@pytest.mark.parametrize("taken", ["470609321672572950", "470609331490127874"])
def test_the_watermark_table_of_the_recordings_has_the_columns(taken: str) -> None:
    folder = Path(__file__).parents[2] / "recordings" / "demo" / "schema" / taken
    info = json.loads((folder / f"{MARK_TABLE}.json").read_text())
    assert list(wrong_columns(table_schema(info, schema=MARK_TABLE.schema))) == []


SUMMER, WINTER = datetime(2024, 7, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 12, tzinfo=UTC)


def shifted(*hours: float, at: datetime = SUMMER) -> list[tuple[datetime, timedelta]]:
    return [(at, timedelta(hours=hour)) for hour in hours]


NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "ambiguous", "has_timestamps", "status", "when"),
    [
        ("America/New_York", "refuse", True, CheckStatus.FAILED, "set back next about 2027-11-0"),
        ("America/New_York", "refuse", False, CheckStatus.WARNING, "set back next about 2027-11-0"),
        ("America/New_York", "second", True, CheckStatus.WARNING, "read as the second of both moments"),
        ("Asia/Shanghai", "refuse", True, CheckStatus.WARNING, "were set back until about 1991-09-1"),
        ("America/Sao_Paulo", "refuse", True, CheckStatus.WARNING, "were set back until about 2019-02-1"),
    ],
)
def test_a_zone_that_has_an_hour_twice_is_reported_before_a_row_of_it_comes(
    zone: str, ambiguous: str, has_timestamps: bool, status: CheckStatus, when: str
) -> None:
    (finding,) = hours_twice(ZoneInfo(zone), ambiguous, now=NOW, has_timestamps=has_timestamps)
    assert finding.status is status
    assert when in finding.what
    assert "--tz=UTC" in finding.hint


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_a_zone_whose_clocks_were_never_set_back_has_no_such_hour(zone: str) -> None:
    assert list(hours_twice(ZoneInfo(zone), "refuse", now=NOW, has_timestamps=True)) == []


def test_rows_that_differ_by_the_zones_offset_prove_it() -> None:
    assert judged(ZoneInfo("Asia/Shanghai"), shifted(8, 0.001)).status is CheckStatus.OK
    assert judged(ZoneInfo("UTC"), shifted(0)).status is CheckStatus.OK
    assert judged(ZoneInfo("Asia/Kolkata"), shifted(5.5)).status is CheckStatus.OK


def test_the_offset_is_the_one_of_the_rows_moment() -> None:
    assert judged(ZoneInfo("Europe/Berlin"), shifted(2, at=SUMMER)).status is CheckStatus.OK
    assert judged(ZoneInfo("Europe/Berlin"), shifted(1, at=WINTER)).status is CheckStatus.OK
    assert judged(ZoneInfo("Europe/Berlin"), shifted(1, at=SUMMER)).status is CheckStatus.FAILED


def test_whole_hours_that_the_zone_does_not_explain_name_the_likely_one() -> None:
    finding = judged(ZoneInfo("UTC"), shifted(8, 8, 1))
    assert finding.status is CheckStatus.FAILED
    assert finding.setting == "kafka.server_tz"
    assert "2 TIMESTAMPs of the feed are UTC+08:00, and UTC is UTC+00:00" in finding.what
    assert "Asia/Shanghai" in finding.hint


def test_rows_that_were_changed_meanwhile_prove_nothing() -> None:
    with pytest.raises(CheckSkipped) as skipped:
        judged(ZoneInfo("UTC"), shifted(0.01, 900))
    assert "--tz" in skipped.value.hint
    with pytest.raises(CheckSkipped):
        judged(ZoneInfo("UTC"), [])


def test_a_new_log_says_where_it_begins_and_which_choice_is_dangerous() -> None:
    assert of_beginning(KafkaSection()).status is CheckStatus.OK
    assert "begins now (the default of kafka.begin)" in of_beginning(KafkaSection()).what
    assert of_beginning(KafkaSection(begin="now")).status is CheckStatus.OK
    topic = of_beginning(KafkaSection(begin="topic"))
    assert (topic.status, topic.setting) == (CheckStatus.WARNING, "kafka.begin")
    assert "present tables" in topic.what


def test_hidden_ddls_need_the_right_to_read_tidbs_history(tmp_path: Path) -> None:
    def refuse(sql: str) -> None:
        if "mysql.tidb_ddl_history" in sql:
            raise Refused(1142, "SELECT command denied")

    plain = a_feed("orders", "kafka://h:9092/t")
    filtered = replace(plain, filter=FeedFilter(event_filters=(EventFilter(("shop.*",), ignore_event=("all ddl",)),)))
    routed = replace(plain, dispatchers=(Dispatcher(("shop.*",), "", "", target_schema="other"),))
    for hiding, way_out in ((filtered, "narrow the event filters"), (routed, "take target-schema and target-table out")):
        with FakeTidb(tmp_path) as tidb:
            section = tidb.settings()
            assert of_hidden_ddls(section, plain).status is CheckStatus.OK
            assert tidb.statements == [], "nobody is asked where nothing is hidden"
            assert of_hidden_ddls(section, hiding).status is CheckStatus.OK
            tidb.before = refuse
            refused = of_hidden_ddls(section, hiding)
        assert refused.status is CheckStatus.WARNING
        assert "GRANT SELECT ON mysql.tidb_ddl_history TO 'root'@'%'" in refused.hint
        assert way_out in refused.hint


def test_a_sink_that_somebody_else_has_fed_fails_where_the_log_would_begin_now(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "CDC000001.csv").write_text("I,t,shop,1\n")
    result = {"sinks": [f"file://{tmp_path}/out"], "changefeed": {"id": "cf"}, "etcd": {"endpoints": ["127.0.0.1:1"]}}
    result |= {"log": {"uri": f"file://{tmp_path}/log"}, "source": {"host": "h", "user": "u"}}
    for begin, worst in (("", CheckStatus.FAILED), ("now", CheckStatus.OK)):
        config = msgspec.convert(result | {"kafka": {"begin": begin}}, Config)
        findings = list(machine.sinks(config, "cf/1"))
        assert max(finding.status is CheckStatus.FAILED for finding in findings) is (worst is CheckStatus.FAILED)
    assert findings[-1].status is CheckStatus.OK


def test_a_sink_is_reported_without_its_secrets_and_one_whose_uri_is_wrong_leaves_the_others_to_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = "s3://me:hush@bucket/out?format=jsonl&secret-access-key=hush"
    result = {"sinks": ["kafka://h:1/t?config=/nowhere", bucket], "changefeed": {"id": "cf"}, "etcd": {"endpoints": ["127.0.0.1:1"]}}
    result |= {"log": {"uri": f"file://{tmp_path}/log"}, "source": {"host": "h", "user": "u"}}
    monkeypatch.setattr(FileSink, "look", lambda _: None)
    findings = list(machine.sinks(msgspec.convert(result, Config), "cf/1"))
    assert [finding.status for finding in findings] == [CheckStatus.FAILED, CheckStatus.OK]
    assert findings[1].what == "sink 2 (s3://bucket/out?format=jsonl): new"


def test_a_check_says_which_tables_a_sink_has_whole_and_what_completes_it(tmp_path: Path) -> None:
    log = open_folder(f"{tmp_path}/log")
    write_log(log, random_history(Random(1)))
    uri = f"file://{tmp_path}/out?format=jsonl&name=lake"
    result = {"sinks": [uri], "changefeed": {"id": "cf"}, "etcd": {"endpoints": ["127.0.0.1:1"]}}
    config = msgspec.convert(result | {"log": {"uri": f"file://{tmp_path}/log"}, "source": {"host": "h", "user": "u"}}, Config)
    name = name_of("cf/1", own_id(log))
    delivery = Delivery(open_sink(uri, log_id=name), JobSettings(log), Here(), sink_id=SinkId("lake", output_of(uri)))
    while delivery.deliver():
        pass
    (tables,) = machine.sinks(config, "cf/1")
    assert tables.what.startswith(f"sink 1 (lake): has accepted segment {SEGMENTS - 1}; ")
    assert tables.status is CheckStatus.WARNING
    assert "12 of 12 tables are not complete: s.t0, s.t1, s.t10" in tables.what
    assert tables.hint == "ticdc-dump dumpstart -c cf --sink lake"
    assert delivery.record is not None
    known = delivery.record.tables
    assert known is not None
    write_sink_tables(log, replace(known, complete={TableName("s", f"t{n}"): CommitTs(7) for n in range(12)}), log_id=own_id(log))
    (tables,) = machine.sinks(config, "cf/1")
    assert tables.status is CheckStatus.OK
    assert tables.what == f"sink 1 (lake): has accepted segment {SEGMENTS - 1}; all 12 tables are complete"
    assert tables.detail.startswith("s.t0 complete since 7 (")


def test_what_is_recorded_of_another_output_under_a_sinks_name_says_nothing_of_this_one(tmp_path: Path) -> None:
    """N9: after a move to another host `check` said that all tables are complete, and the sidecar that none is."""
    log = open_folder(f"{tmp_path}/log")
    write_log(log, random_history(Random(1)))
    uri = f"file://{tmp_path}/out?format=jsonl&name=lake"
    config = msgspec.convert(
        {"sinks": [uri], "changefeed": {"id": "cf"}, "etcd": {"endpoints": ["127.0.0.1:1"]}}
        | {"log": {"uri": f"file://{tmp_path}/log"}, "source": {"host": "h", "user": "u"}},
        Config,
    )
    name = name_of("cf/1", own_id(log))
    delivery = Delivery(open_sink(uri, log_id=name), JobSettings(log), Here(), sink_id=SinkId("lake", "file:///elsewhere"))
    while delivery.deliver():
        pass
    assert delivery.record is not None
    known = delivery.record.tables
    assert known is not None
    write_sink_tables(log, replace(known, complete={TableName("s", f"t{n}"): CommitTs(7) for n in range(12)}), log_id=own_id(log))
    (tables,) = machine.sinks(config, "cf/1")
    assert (tables.status, tables.setting) == (CheckStatus.WARNING, "sinks (number 1)")
    assert "its name was that of file:///elsewhere: none of this output's tables counts as complete" in tables.what


def test_two_sinks_of_one_name_fail(tmp_path: Path) -> None:
    sinks = [f"file://{tmp_path}/{folder}?format=jsonl&name=lake" for folder in "ab"]
    result = {"sinks": sinks, "changefeed": {"id": "cf"}, "etcd": {"endpoints": ["127.0.0.1:1"]}}
    config = msgspec.convert(result | {"log": {"uri": f"file://{tmp_path}/log"}, "source": {"host": "h", "user": "u"}}, Config)
    (finding,) = machine.sinks(config, "cf/1")
    assert finding.status is CheckStatus.FAILED
    assert "two sinks have one name" in finding.what


def test_a_sink_that_is_new_to_a_log_without_its_beginning_is_warned_of(tmp_path: Path) -> None:
    log = FolderLog(open_folder(f"{tmp_path}/log"))
    write_log(log.folder, random_history(Random(1)))
    log.recover(epoch=1)
    result = {"sinks": [f"file://{tmp_path}/out?format=jsonl"], "changefeed": {"id": "cf"}, "etcd": {"endpoints": ["127.0.0.1:1"]}}
    result |= {"log": {"uri": f"file://{tmp_path}/log"}, "source": {"host": "h", "user": "u"}}
    config = msgspec.convert(result, Config)
    (whole,) = machine.sinks(config, "cf/1")
    assert whole.status is CheckStatus.OK
    log.retain(delivered=Seq(SEGMENTS - 1), open_from=None)
    (partial,) = machine.sinks(config, "cf/1")
    assert (partial.status, partial.setting) == (CheckStatus.WARNING, "sinks (number 1)")
    assert f"segments from {kept(log.folder).start} on only" in partial.what
    assert "start a dump" in partial.hint


class StoredEntries:
    """Of etcd, what `load_progress` asks it."""

    def __init__(self, stored: Progress | bytes | None) -> None:
        self.stored = stored

    def get_prefix(self, prefix: str, **_: object) -> list[KeyEntry]:
        if self.stored is None:
            return []
        if isinstance(self.stored, bytes):
            return [KeyEntry(prefix, self.stored, 1, 1, 0)]
        head = self.stored.to_json() | {"tables": len(self.stored.tables), "parts": 1, "generation": "g"}
        parts = zlib.compress(json.dumps(self.stored.to_json()["tables"]).encode())
        return [KeyEntry(prefix, json.dumps(head).encode(), 1, 1, 0), KeyEntry(f"{prefix}/g/00000", parts, 1, 1, 0)]


HALF = TableProgress(TableName("shop", "orders"), spans=(Span(("9",)),), rows=9)
ON_RECORD = Progress("1" * 16, DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 5, Seq(40), (HALF,), log="mine")


@pytest.mark.parametrize(
    ("stored", "status", "says"),
    [
        (None, CheckStatus.OK, "no dump is on record"),
        (
            ON_RECORD,
            CheckStatus.WARNING,
            "will be reported as failed: its log is another one: it had come to segment 40, and this log is empty",
        ),
        (replace(ON_RECORD, seq=Seq(-1)), CheckStatus.OK, "is running, and in this log"),
        (replace(ON_RECORD, log="another"), CheckStatus.WARNING, "its rows are in log another, and this is log mine"),
        (b"garbage", CheckStatus.WARNING, "is not a dump's progress"),
    ],
)
def test_a_dump_that_is_not_in_this_log_is_reported_before_the_start(
    stored: Progress | bytes | None, status: CheckStatus, says: str
) -> None:
    (finding,) = changefeed.dump_on_record(StoredEntries(stored), "/root", log="mine", last=None)  # type: ignore[arg-type]  # what is asked of it
    assert (finding.status, says in finding.what) == (status, True), finding.what


class EtcdKeys:
    """Of etcd, the keys below `/root`."""

    def __init__(self, **keys: str) -> None:
        self.keys = {f"/root/{name}": value.encode() for name, value in keys.items()}

    def get(self, key: str) -> KeyEntry | None:
        return KeyEntry(key, self.keys[key], 1, 1, 0) if key in self.keys else None


HOLDER = json.dumps({"host": "a.example", "pid": 1, "address": "", "epoch": 4, "since": ""})


@pytest.mark.parametrize("ours", ["", "mine"])
@pytest.mark.parametrize("written", [None, "mine", "another"])
@pytest.mark.parametrize("epoch", [None, 3, 4, 5])
@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("standby", [False, True])
def test_a_log_that_is_not_the_owners_fails_and_a_copy_is_warned_of(
    *, ours: str, written: str | None, epoch: int | None, owned: bool, standby: bool, tmp_path: Path
) -> None:
    """N4: a standby with another log.uri was noticed when it took over."""
    names = {"mine": "1" * 32, "another": "2" * 32}
    folder = open_folder(str(tmp_path))
    if ours:
        (tmp_path / "log.txt").write_text(names[ours])
    keys = ({"owner": HOLDER} if owned else {}) | ({"log": names[written]} if written else {})
    last = None if epoch is None else cast("Manifest", SimpleNamespace(epoch=epoch))
    (finding,) = changefeed.owners_log(EtcdKeys(**keys), "/root", folder, last=last, standby=standby)  # type: ignore[arg-type]  # what it reads
    expected = CheckStatus.OK
    if owned and written is not None:
        expected = (
            (CheckStatus.FAILED if standby else CheckStatus.WARNING)
            if ours != written
            else CheckStatus.WARNING
            if (epoch or 0) < 4
            else CheckStatus.OK
        )
    assert finding.status is expected, finding
    assert finding.setting == ("" if expected is CheckStatus.OK else "log.uri")


def a_feed(id: str, uri: str, *rules: str, topic: str = "") -> Changefeed:
    dispatchers = (Dispatcher(("*.*",), topic, ""),) if topic else ()
    return Changefeed(ChangefeedName("default", "default", id), "1", uri, filter=FeedFilter(rules), dispatchers=dispatchers)


def test_another_changefeed_in_the_same_topic_fails() -> None:
    """Finding 14f: its marks let R pass our rows, and its rows end the sidecar; what another wrote before is never deleted."""
    ours = a_feed("ours", "kafka://a:9092,b:9092/x?protocol=open-protocol", "shop.*", "changefeed_dump.*")
    in_it = a_feed("in-it", "kafka://b:9092/x?protocol=canal-json", "hr.*")
    elsewhere = a_feed("elsewhere", "kafka://c:9092/x", "hr.*")
    separate = [a_feed("apart", "kafka://a:9092/y", "shop.*"), a_feed("files", "file:///x", "*.*")]
    failing, warned = list(others(ours, [in_it, elsewhere, *separate], {}))
    assert (failing.status, warned.status) == (CheckStatus.FAILED, CheckStatus.WARNING)
    assert "default/default/in-it (normal) writes the same topics: x" in failing.what
    assert "other brokers" in warned.what
    (well,) = others(ours, separate, {})
    assert (well.status, well.what) == (CheckStatus.OK, "none of the other 2 changefeeds in etcd writes its topics")


def test_topics_of_tables_are_compared_by_the_tables_that_both_have() -> None:
    uri, tables = "kafka://a:9092/{}", {TableName("shop", "t"): TableSchema(TableName("shop", "t"), (), ())}
    ours = a_feed("ours", uri.format("x"), "shop.*", "changefeed_dump.*", topic="{schema}-{table}")
    same = a_feed("same", uri.format("y"), "shop.*", topic="{schema}-{table}")
    other = a_feed("other", uri.format("z"), "hr.*", topic="{schema}-{table}")
    (finding,) = others(ours, [same, other], tables)
    assert "default/default/same (normal) writes the same topics: shop-t" in finding.what


def test_a_resolved_mark_ahead_of_the_clusters_clock_fails() -> None:
    """Finding H6."""
    now_ms = int(time.time() * 1000)
    tail = Tail(None, None, kept_tables=frozenset())  # type: ignore[arg-type]  # what was read is put into it
    tail.resolved = {Lane("kafka/x/0"): ts_at(now_ms - 2000), Lane("kafka/x/1"): ts_at(now_ms + 600_000)}
    (ahead, behind) = lag(tail, 0.0)
    assert (ahead.status, behind.status) == (CheckStatus.FAILED, CheckStatus.OK)
    assert "ahead of the cluster's clock" in ahead.what


def test_who_starts_beside_another_changefeed_in_its_topic_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, other = (a_feed(id, "kafka://a:9092/x", "shop.*") for id in ("ours", "other"))
    gone = ChangefeedName("default", "default", "gone")

    def info(_: object, name: ChangefeedName) -> bytes:
        if name == gone:
            raise ConfigError("removed meanwhile", hint="")
        result = {"sink-uri": other.sink_uri, "create-time": "1", "start-ts": 1, "config": {"filter": {"rules": ["shop.*"]}}}
        return json.dumps(result).encode()

    monkeypatch.setattr(kafka_checks, "list_changefeeds", lambda _: [ours.name, other.name, gone])
    monkeypatch.setattr(kafka_checks, "read_changefeed_info", info)
    (finding,) = sharing(None, ours, [])  # type: ignore[arg-type]  # nobody asks it
    assert finding.startswith("changefeed default/default/other (normal) writes the same topics: x; give each a topic")


def test_tables_of_no_statistics_are_not_reported_as_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {TableName("shop", "analyzed"): 7, TableName("shop", "empty"): 0, TableName("shop", "loaded"): None}

    def estimates(_: TidbSchemas, tables: Sequence[TableName]) -> Sequence[TableEstimate]:
        return [TableEstimate(table, rows[table], None, "_tidb_rowid") for table in tables]

    monkeypatch.setattr(TidbSchemas, "estimates", estimates)
    carried = {name: TableSchema(name, (Column("id", "int", nullable=False),), ("id",)) for name in rows}
    (finding,) = read_keys(SourceSection(host="127.0.0.1", user="dump"), carried)
    assert finding.what.startswith("3 tables can be read in pieces, about 7 rows and those of 1 table of which TiDB has no statistics yet")
    del carried[TableName("shop", "loaded")]
    assert [one.what for one in read_keys(SourceSection(host="127.0.0.1", user="dump"), carried)] == [
        "2 tables can be read in pieces, about 7 rows"
    ]


def test_the_tables_that_cannot_be_dumped_are_named() -> None:
    keyed, keyless = (Column("id", "int", nullable=False),), (Column("v", "int"),)
    existing = {
        TableName(schema, name): TableSchema(TableName(schema, name), keyed if key else keyless, ("id",) if key else ())
        for schema, name, key in (("shop", "a", True), ("shop", "nokey", False), ("other", "x", True), ("other", "y", True))
    }
    name = ChangefeedName("default", "default", "orders")
    findings = list(tables(described(name, definition(rules=("shop.*",))), existing, server_tz="UTC"))
    texts = [one.what for one in findings]
    assert texts[:2] == ["1 of 4 tables can be dumped", "2 are not of the changefeed's rules: other.x, other.y"]
    assert "TiCDC does not replicate shop.nokey" in texts[2]
