"""The preflight (`ticdc-dump check`): everything that would make a dump wrong or stuck, in one list, in the order of the checks.

What a check needs stands behind it; all that can be carried out is, whatever failed. The probe is written before the feed is
watched for it, and after its end was noted. Nothing here changes what a running sidecar sees: see the files of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.config import read_config
from sidecar.errors import ConfigError
from sidecar.preflight import feed, here, kv, source, zone
from sidecar.preflight.check import Check, Finding, Known, Options, Result, Status, carried_out, of_error, ok

WATCH_GRACE_S = 15.0
"""Beyond `wait_s`, for a poll that is under way."""
SPARK_S = 180.0
RIGHTS_S = 2 * source.RIGHTS_MAX_S
KAFKA_S = 60.0
INFOS_S = 60.0


def checks(options: Options) -> Sequence[Check]:
    watch_s = options.wait_s + WATCH_GRACE_S
    return (
        Check("secrets", here.secrets, "the files of secrets"),
        Check("control address", here.control, "control.listen"),
        Check("metrics address", here.metrics, "metrics.listen"),
        Check("etcd", feed.etcd, "etcd.endpoints"),
        Check("changefeed", feed.changefeed, "changefeed.id, changefeed.namespace, changefeed.cluster", ("etcd",)),
        Check("changefeed state", feed.state, "sink-uri (changefeed)", ("changefeed",)),
        Check("etcd write", feed.etcd_write, "etcd.user", ("changefeed",)),
        Check("tidb", source.tidb, "source.host, source.port, source.user, source.password_file"),
        Check("clock", source.clock, "source.host", ("tidb",)),
        Check("gc life time", source.gc, "tidb_gc_life_time", ("tidb",)),
        Check("schemas", source.schemas, "filter.rules (changefeed)", ("tidb",), KAFKA_S),
        Check("changefeed settings", feed.settings, "sink-uri (changefeed)", ("changefeed",)),
        Check("tables", source.tables, "filter.rules (changefeed)", ("changefeed", "schemas")),
        Check("read keys", source.read_keys, "dumpstart --tables", ("tables",), KAFKA_S),
        Check("select rights", source.rights, "GRANT SELECT", ("tables",), RIGHTS_S),
        Check("watermark table", source.mark_table, "CREATE TABLE, GRANT SELECT", ("schemas",)),
        Check("log", here.log, "log.uri", ("changefeed",), KAFKA_S),
        Check("disk space", here.space, "log.uri, log.spill_folder"),
        Check("sinks", here.sinks, "sinks", ("log",), KAFKA_S),
        Check("spark", here.spark, "JAVA_HOME"),
        Check("spark session", here.spark_session, "spark.master, spark.memory", ("spark", "log"), SPARK_S),
        Check("kafka", feed.kafka, "kafka.brokers, kafka.client", ("changefeed",)),
        Check("topics", feed.topics, "sink-uri (changefeed)", ("kafka",)),
        Check("offsets", feed.offsets, "retention.ms (Kafka), log.uri", ("topics", "log"), KAFKA_S),
        Check("messages", feed.messages, "protocol (changefeed: sink-uri)", ("topics",), KAFKA_S),
        Check("watermark write", source.mark_write, "GRANT INSERT, UPDATE", ("changefeed", "watermark table")),
        Check("resolved marks", feed.resolved, "sink-uri (changefeed)", ("changefeed state", "messages"), watch_s),
        Check("lag", feed.lag, "TiCDC: the changefeed's lag", ("resolved marks",)),
        Check(
            "watermark arrives", _mark_arrives, "filter.rules (changefeed)", ("changefeed state", "messages", "watermark write"), watch_s
        ),
        Check("server time zone", zone.server_tz, "kafka.server_tz", ("messages", "tables"), KAFKA_S),
    )


_OF_KAFKA = frozenset(
    {"kafka", "topics", "offsets", "messages", "resolved marks", "lag", "watermark arrives", "server time zone", "changefeed settings"}
)


def checks_of_key_values(options: Options) -> Sequence[Check]:
    """For `feed = "push"` and `feed = "tikv"`."""
    return (
        *(check for check in checks(options) if check.name not in _OF_KAFKA),
        Check("changefeed settings", kv.settings, "filter (changefeed)", ("changefeed",)),
        Check("table infos", kv.infos, "source.status_port", ("tidb",), INFOS_S),
        Check("key-values", kv.who_brings_them, "tikv.pd, push.listen"),
    )


def _mark_arrives(known: Known) -> list[Finding]:
    source.mark_passes(known)
    return list(feed.mark_arrives(known))


@dataclass(frozen=True, slots=True)
class Report:
    """`ok`: nothing failed. `defect`: a check broke by an error of its own, so that the report is not whole."""

    config: Path
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        return all(result.status is not Status.FAILED for result in self.results)

    @property
    def defect(self) -> bool:
        return any(result.defect for result in self.results)

    def counts(self) -> dict[str, int]:
        return {status.value: sum(result.status is status for result in self.results) for status in Status}

    def to_json(self) -> dict[str, Any]:
        found = [
            {
                "name": result.name,
                "status": result.status.value,
                "took_s": round(result.took_s, 3),
                "findings": [
                    {"status": finding.status.value, "what": finding.what, "setting": finding.setting, "hint": finding.hint}
                    for finding in result.findings
                ],
            }
            for result in self.results
        ]
        return {"ok": self.ok, "config": str(self.config), "counts": self.counts(), "checks": found}


def preflight(path: Path, options: Options, shown: Callable[[Result], object] = lambda _: None) -> Report:
    """Check the settings in `path` and all that they name; `shown` hears each result as soon as it is there. Raises nothing of ours."""
    every = checks(options)
    try:
        config = read_config(path)
        every = every if config.feed == "kafka" else checks_of_key_values(options)
    except ConfigError as error:
        first = Result("settings", Status.FAILED, (of_error(error, setting=f"{path}"),))
        shown(first)
        why = (Finding(Status.SKIPPED, "needs 'settings'"),)
        return Report(path, (first, *(Result(check.name, Status.SKIPPED, why) for check in every)))
    first = Result("settings", Status.OK, (ok(f"{path} is complete"),))
    shown(first)
    known = Known(config=config, options=options)
    try:
        return Report(path, (first, *carried_out(every, known, shown)))
    finally:
        known.close()
