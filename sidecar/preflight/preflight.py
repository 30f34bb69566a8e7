"""The preflight (`ticdc-dump check`): everything that would make a dump wrong or stuck, in one list, in the order of the checks.

What a check needs stands behind it; all that can be carried out is, whatever failed. The probe is written before the feed is
watched for it, and after its end was noted. Nothing here changes what a running sidecar sees: see the files of this package.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.adapters.etcd.keys import changefeed_root
from sidecar.feeds.binlog import checks as binlog
from sidecar.feeds.checks import CHANGEFEED, CLOCK, ETCD, LOG, MARK, RIGHTS, SCHEMAS, STATE, TABLES, TIDB, LogEnd, Tables
from sidecar.feeds.kafka import checks as kafka
from sidecar.feeds.push import checks as push
from sidecar.feeds.storage import checks as storage
from sidecar.feeds.tikv import checks as tikv
from sidecar.preflight import changefeed, executors, holes, machine, ranges, source, zone
from sidecar.shared.config import read_config
from sidecar.shared.errors import ConfigError
from sidecar.shared.log.identity import known_id
from sidecar.shared.log.storage import open_folder
from sidecar.shared.process import secret_files
from sidecar.shared.process.checks import (
    Check,
    CheckFinding,
    Checking,
    CheckOptions,
    CheckResult,
    CheckStatus,
    Key,
    Result,
    carried_out,
    in_order,
    of_error,
    ok,
)

BRACKETS: Key[bool] = Key("brackets")
MARK_TABLE: Key[None] = Key("watermark table")
OWNERS_LOG: Key[None] = Key("owner's log")
SINKS: Key[frozenset[int]] = Key("sinks")
SPARK: Key[None] = Key("spark")

SPARK_S = 180.0
RIGHTS_S = 2 * source.RIGHTS_MAX_S
SINKS_S = 300.0
"""Of several that are not reachable each is waited for: machine.SINK_PATIENCE_S, and what its client takes for the last try."""
MANY_S = 60.0
"""Of a check that asks for many tables, or for many files."""

OWN: Mapping[str, Callable[[CheckOptions], Sequence[Check[Any]]]] = {
    "kafka": lambda options: (*kafka.checks(options), zone.CHECK),
    "push": push.checks,
    "push-messages": push.of_sinks,
    "storage": storage.checks,
    "tikv": tikv.checks,
    "binlog": binlog.checks,
}
"""What each way of the changes needs, as `Config.way` calls them."""


def checks(way: str, options: CheckOptions) -> Sequence[Check[Any]]:
    common = (*_of_this_process(), *_of_etcd(), *_of_tidb(), *_of_the_hand_off(), _MARK_WRITE)
    return [check for check in in_order(common, OWN[way](options)) if check.standby or not options.standby]


def _of_this_process() -> Sequence[Check[Any]]:
    return (
        Check(Key("secrets"), lambda it: machine.secrets(it.config), "the files of secrets", standby=True),
        Check(Key("secrets' rights"), lambda it: secret_files.check(it.config), "the files of secrets"),
        Check(Key("control address"), lambda it: machine.control(it.config.control, it.config.changefeed), "control.listen"),
        Check(Key("metrics address"), lambda it: machine.metrics(it.config.metrics.listen), "metrics.listen"),
        Check(Key("console address"), lambda it: machine.console(it.config.console, it.config.changefeed), "console.listen"),
    )


def _of_etcd() -> Sequence[Check[Any]]:
    named = "changefeed.id, changefeed.namespace, changefeed.cluster, changefeed.file"
    return (
        Check(ETCD, lambda it: changefeed.etcd(it.config, it.opened), "etcd.endpoints, etcd.folder", standby=True),
        Check(CHANGEFEED, lambda it: changefeed.changefeed(it[ETCD], it.config), named, (ETCD,), standby=True),
        Check(STATE, lambda it: changefeed.state(it[CHANGEFEED]), "sink-uri (changefeed)", (CHANGEFEED,)),
        Check(Key("etcd write"), _etcd_write, "etcd.user", (CHANGEFEED,)),
    )


def _of_tidb() -> Sequence[Check[Any]]:
    account = "source.host, source.port, source.user, source.password_file"
    return (
        Check(TIDB, lambda it: source.tidb(it.config.source), account, standby=True),
        Check(CLOCK, lambda it: source.clock(it.config.source), "source.host", (TIDB,)),
        Check(Key("gc life time"), lambda it: source.gc(it.config, it.get(CHANGEFEED, None)), "tidb_gc_life_time, tikv.pd", (TIDB,)),
        Check(Key("holes"), lambda it: holes.holes(it.config, it.get(ETCD, None), it.get(CHANGEFEED, None)), holes.SETTING, (TIDB,)),
        Check(SCHEMAS, lambda it: source.schemas(it.config.source), "filter.rules (changefeed)", (TIDB,), MANY_S),
        Check(TABLES, _tables, "filter.rules (changefeed)", (CHANGEFEED, SCHEMAS)),
        Check(Key("read keys"), lambda it: source.read_keys(it.config.source, it[TABLES]), "dumpstart --tables", (TABLES,), MANY_S),
        Check(Key("read ranges"), _ranges, ranges.SETTING, (TABLES,), MANY_S),
        Check(RIGHTS, _rights, "GRANT SELECT", (TABLES,), RIGHTS_S),
        Check(BRACKETS, _brackets, f"filter (changefeed), {MARK_TABLE.name}", (CHANGEFEED, TIDB)),
        Check(MARK_TABLE, _mark_table, "CREATE TABLE, GRANT SELECT", (SCHEMAS, BRACKETS)),
    )


def _of_the_hand_off() -> Sequence[Check[Any]]:
    return (
        Check(LOG, _log, "log.uri", (CHANGEFEED,), MANY_S, standby=True),
        Check(OWNERS_LOG, _owners_log, "log.uri", (ETCD, CHANGEFEED, LOG), standby=True),
        Check(Key("dump on record"), _dump_on_record, "log.uri", (ETCD, CHANGEFEED, LOG)),
        Check(Key("disk space"), lambda it: machine.space(it.config), "log.uri, log.spill_folder"),
        Check(SINKS, lambda it: machine.sinks(it.config, it[CHANGEFEED].log_id), "sinks", (LOG,), SINKS_S, standby=True),
        Check(Key("targets"), _targets, "sinks", (LOG, TABLES), SINKS_S),
        Check(SPARK, lambda it: machine.spark(it.config.spark), "JAVA_HOME", standby=True),
        Check(Key("spark session"), _spark_session, "spark.master, spark.memory", (SPARK, LOG), SPARK_S),
    )


def _etcd_write(it: CheckResult) -> Checking[None]:
    feed = it[CHANGEFEED]
    return changefeed.etcd_write(it[ETCD], changefeed_root(feed.name, feed.incarnation), write=it.options.write)


def _log(it: CheckResult) -> Checking[LogEnd | None]:
    return machine.log(it.config.log.uri, it[CHANGEFEED].log_id, write=it.options.write)


def _owners_log(it: CheckResult) -> Checking[None]:
    feed = it[CHANGEFEED]
    root = changefeed_root(feed.name, feed.incarnation)
    return changefeed.owners_log(it[ETCD], root, open_folder(it.config.log.uri), last=it[LOG], standby=it.options.standby)


def _dump_on_record(it: CheckResult) -> Checking[None]:
    feed = it[CHANGEFEED]
    own = known_id(open_folder(it.config.log.uri))
    return changefeed.dump_on_record(it[ETCD], changefeed_root(feed.name, feed.incarnation), log=own, last=it[LOG])


def _tables(it: CheckResult) -> Checking[Tables]:
    return source.tables(it[CHANGEFEED], it[SCHEMAS], server_tz=it.config.kafka.server_tz)


def _brackets(it: CheckResult) -> Checking[bool]:
    return source.brackets(it.config.source, it[CHANGEFEED], encoded=it.config.encoded)


def _mark_table(it: CheckResult) -> Checking[None]:
    return source.mark_table(it.config.source, it[SCHEMAS], marks=it[BRACKETS])


def _ranges(it: CheckResult) -> Checking[None]:
    return ranges.read_ranges(it.config.source, it[CHANGEFEED], it[TABLES], server_tz=it.config.kafka.server_tz)


def _rights(it: CheckResult) -> Checking[bool]:
    return source.rights(it.config.source, it[TABLES], it[SCHEMAS], it[CHANGEFEED].filter.rules)


def _targets(it: CheckResult) -> Checking[None]:
    fit: frozenset[int] = it.get(SINKS, frozenset[int]())
    return machine.targets(it.config, it[CHANGEFEED].log_id, it[TABLES], fit)


def _spark_session(it: CheckResult) -> Checking[None]:
    return executors.spark_session(it.config, requested_for=it.options.spark)


_MARK_WRITE = Check(
    MARK,
    lambda it: source.mark_write(it.config.source, it[CHANGEFEED], write=it.options.write),
    "GRANT INSERT, UPDATE",
    (CHANGEFEED, MARK_TABLE),
)


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """`ok`: nothing failed. `defect`: a check broke by an error of its own, so that the report is not whole."""

    config: Path
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        return all(result.status is not CheckStatus.FAILED for result in self.results)

    @property
    def defect(self) -> bool:
        return any(result.defect for result in self.results)

    def counts(self) -> dict[str, int]:
        return {status.value: sum(result.status is status for result in self.results) for status in CheckStatus}

    def to_json(self) -> dict[str, Any]:
        checks = [
            {
                "name": result.name,
                "status": result.status.value,
                "took_s": round(result.took_s, 3),
                "findings": [
                    {"status": finding.status.value, **{name: getattr(finding, name) for name in ("what", "detail", "setting", "hint")}}
                    for finding in result.findings
                ],
            }
            for result in self.results
        ]
        return {"ok": self.ok, "config": str(self.config), "counts": self.counts(), "checks": checks}


def preflight(
    path: Path,
    options: CheckOptions,
    shown: Callable[[Result], object] = lambda _: None,
    begins: Callable[[str], object] = lambda _: None,
) -> PreflightReport:
    """Check the settings in `path` and all that they name; `shown` receives each result as soon as it is there, `begins` each check's name
    before that. Raises nothing of ours."""
    try:
        config = read_config(path)
    except ConfigError as error:
        first = Result("settings", CheckStatus.FAILED, (of_error(error, setting="--config"),))
        shown(first)
        why = (CheckFinding(CheckStatus.SKIPPED, "needs 'settings'"),)
        return PreflightReport(path, (first, *(Result(check.name, CheckStatus.SKIPPED, why) for check in checks("kafka", options))))
    first = Result("settings", CheckStatus.OK, (ok(f"{path} is complete"),))
    shown(first)
    check_result = CheckResult(config, options)
    umask = os.umask(int(config.files.umask, 8))  # what is probed by writing is as the sidecar would write it
    try:
        return PreflightReport(path, (first, *carried_out(checks(config.way, options), check_result, shown, begins)))
    finally:
        os.umask(umask)
        check_result.close()
