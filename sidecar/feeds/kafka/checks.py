"""What a Kafka feed needs: a changefeed whose stream can carry a dump, and its topics as they really are.

- The definition is judged by ticdc/suitability; the tables count where TiDB returned them, else the settings alone.
- Every partition must get resolved marks: one that does not holds every other lane back for ever. TiCDC sends them to the first
  `partition-num` partitions of a topic only (facts: tiflow, topic manager and DDL sink).
- What the log has read, and wants to read on from, must be there still: checked by the feed's own `seek`, which is what a start does.
- A topic is one changefeed's: another one's marks and rows would be taken for this one's.
- The feed's end is noted before the probe of the watermark table is written, and watched for it after.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from sidecar.adapters.etcd.changefeed import list_changefeeds, read_changefeed_info, read_checkpoint_ts
from sidecar.adapters.etcd.keys import Keys
from sidecar.feeds.checks import CHANGEFEED, CLOCK, ETCD, LOG, MARK, RIGHTS, SCHEMAS, STATE, TABLES, Tables, age_s
from sidecar.feeds.encoded.checks import HIDDEN, LARGE_ROWS, SETTINGS
from sidecar.feeds.encoded.make import of_whole_rows
from sidecar.feeds.kafka.client import REQUEST_TIMEOUT_S, Cluster
from sidecar.feeds.kafka.feed import KafkaFeed
from sidecar.feeds.kafka.lanes import PartitionKey, TableTopics, partition_of
from sidecar.feeds.kafka.make import brokers_of, client_of, reading
from sidecar.feeds.kafka.replication import replication
from sidecar.feeds.kafka.tail import Tail
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.config import KafkaSection
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable
from sidecar.shared.model.nouns import MARK_TABLE, Lane, TableName
from sidecar.shared.process.checks import (
    Check,
    CheckFinding,
    Checking,
    CheckOptions,
    CheckResult,
    CheckSkipped,
    CheckStatus,
    Key,
    failed,
    listed,
    ok,
    warning,
)
from sidecar.shared.ticdc.changefeed import KAFKA_SCHEMES, Changefeed
from sidecar.shared.ticdc.changefeed_info import changefeed, codec_of, kafka_place
from sidecar.shared.ticdc.event_filter import FilterRules
from sidecar.shared.ticdc.table_routes import TableRoutes
from sidecar.shared.ticdc.topics import marked_topics, written_topics
from sidecar.shared.ticdc.topics import topics as topics_of

TOPICS_ANSWER_S = 10.0
LOOK_BACK_S = 15.0
QUEUE_BYTES_MAX = 32 << 20
LAG_HIGH_S = 30.0
"""TiCDC is seconds behind while all is well."""
AHEAD_HIGH_S = 10.0
"""Clocks differ by less."""
WATCH_GRACE_S = 15.0
"""Beyond `wait_s`, for a poll that is under way."""
KAFKA_S = 60.0

Partitions = tuple[PartitionKey, ...]

KAFKA: Key[Cluster] = Key("kafka")
TOPICS: Key[Partitions] = Key("topics")
OTHERS: Key[None] = Key("other changefeeds")
REPLICATION: Key[None] = Key("replication")
OFFSETS: Key[None] = Key("offsets")
MESSAGES: Key[Tail] = Key("messages")
RESOLVED: Key[None] = Key("resolved marks")
LAG: Key[None] = Key("lag")
ARRIVES: Key[None] = Key("watermark arrives")


def checks(options: CheckOptions) -> Sequence[Check[Any]]:
    watch_s = options.wait_s + WATCH_GRACE_S
    return (
        SETTINGS,
        Check(OTHERS, _others, "sink-uri (changefeed)", (ETCD, CHANGEFEED), KAFKA_S, before=MARK),
        HIDDEN,
        LARGE_ROWS,
        Check(KAFKA, _kafka, "kafka.brokers, kafka.client", (CHANGEFEED,), before=MARK, standby=True),
        Check(TOPICS, lambda it: topics(it[CHANGEFEED], it[KAFKA], it.get(TABLES, {})), "sink-uri (changefeed)", (KAFKA,), before=MARK),
        Check(REPLICATION, lambda it: replication(it[KAFKA], it[TOPICS]), "Kafka: the topics' settings", (TOPICS,), before=MARK),
        Check(OFFSETS, _offsets, "retention.ms (Kafka), log.uri", (TOPICS, LOG), KAFKA_S, before=MARK),
        Check(MESSAGES, _messages, "protocol (changefeed: sink-uri)", (TOPICS,), KAFKA_S, before=MARK),
        Check(RESOLVED, _resolved, "sink-uri (changefeed)", (STATE, MESSAGES), watch_s),
        Check(LAG, lambda it: lag(it[MESSAGES], it.get(CLOCK, 0.0)), "TiCDC: the changefeed's lag", (RESOLVED,)),
        Check(ARRIVES, _mark_arrives, "filter.rules (changefeed)", (STATE, MESSAGES, MARK), watch_s),
    )


def _kafka(it: CheckResult) -> Checking[Cluster]:
    return kafka(it[CHANGEFEED], it.config.kafka)


def _others(it: CheckResult) -> Checking[None]:
    if it.config.changefeed.file:
        raise CheckSkipped("whether another changefeed writes the same topics is not known: TiCDC's etcd is out of reach")
    existing: Tables = it.get(SCHEMAS, {})
    yield from others(it[CHANGEFEED], _beside(it[ETCD], it[CHANGEFEED]), existing)


def sharing(client: Keys, ours: Changefeed, existing: Iterable[TableName]) -> Sequence[str]:
    """What is wrong with the changefeeds that write the same topics, for who starts all the same."""
    findings = others(ours, _beside(client, ours), existing)
    return [f"{finding.what}; {finding.hint}" for finding in findings if finding.status is CheckStatus.FAILED]


def _beside(client: Keys, ours: Changefeed) -> list[Changefeed]:
    beside = []
    for name in list_changefeeds(client):
        try:
            beside += [changefeed(name, read_changefeed_info(client, name))] if name != ours.name else []
        except ConfigError:
            continue  # removed since they were listed, or no definition: it sends nothing
    return beside


def others(ours: Changefeed, theirs: Sequence[Changefeed], existing: Iterable[TableName]) -> Checking[None]:
    """`existing`: all tables, empty if they are not known: then the default topics and those of the watermark table are compared."""
    existing = frozenset(existing)
    mine, count = _every_topic(ours, existing), 0
    for other in theirs:
        shared = mine & _every_topic(other, existing)
        count += bool(shared)
        if not shared:
            continue
        what = f"changefeed {other.name} ({other.state}) writes the same topics: {listed(sorted(shared))}"
        hint = "give each a topic of its own, and begin a new log: marks and rows of the one are taken for the other's"
        if set(ours.sink.hosts) & set(other.sink.hosts):
            yield failed(what, setting="sink-uri (changefeed)", hint=hint)
        else:
            yield warning(
                f"{what}, of other brokers by their names", setting="sink-uri (changefeed)", hint=f"if they are the same Kafka: {hint}"
            )
    if not count:
        yield ok(f"none of the other {len(theirs)} changefeeds in etcd writes its topics")


def _every_topic(one: Changefeed, existing: Iterable[TableName]) -> frozenset[str]:
    """Empty for a sink that is none of Kafka's, or that cannot be read: its own check says so."""
    try:
        return written_topics(one, kafka_place(one).topic, filter(FilterRules.of(one).has, {MARK_TABLE, *existing}))
    except (ConfigError, FeedUnsuitable):
        return frozenset()


def kafka(changefeed: Changefeed, section: KafkaSection) -> Checking[Cluster]:
    if changefeed.sink.scheme not in KAFKA_SCHEMES:
        raise CheckSkipped("the changefeed's sink is none of Kafka's: see 'changefeed settings'")
    cluster = Cluster(brokers_of(changefeed, section), client_of(changefeed, section))
    try:
        count = cluster.broker_count()
    except FeedLost:
        cluster.check(wait_s=1.0)  # what librdkafka would repeat for ever, its callback reports
        raise cluster.lost(REQUEST_TIMEOUT_S) from None
    cluster.answered()
    yield ok(f"{count} brokers, by {cluster.brokers}")
    return cluster


def topics(changefeed: Changefeed, cluster: Cluster, carried: Tables) -> Checking[Partitions]:
    """TiCDC makes a topic when its first table comes, and sends resolved marks to it from then on."""
    default = kafka_place(changefeed).topic
    marked = _marked(changefeed, carried)
    question = cluster.ask(topics_of(changefeed, default, carried))
    existing = question.topics() if question.wait(TOPICS_ANSWER_S) else None
    if existing is None:
        raise cluster.lost(TOPICS_ANSWER_S)
    makes_itself = changefeed.sink.parameters.get("auto-create-topic", "true").lower() not in ("false", "0", "f")
    for name in sorted(marked - existing.keys()):
        what = f"topic {name} does not exist"
        if name == default or not makes_itself:
            hint = "create it with the partitions that partition-num names, or see why TiCDC could not (its log)"
            yield failed(what, setting="Kafka: create the topic (changefeed: sink-uri, auto-create-topic)", hint=hint)
        else:
            yield warning(what, setting="sink.dispatchers (changefeed)", hint="TiCDC makes it with its first row: then check again")
    partitions = tuple((name, number) for name, topic in sorted(existing.items()) for number in range(topic.partitions))
    if partitions:
        yield ok(f"{len(existing)} topics with {len(partitions)} partitions: {listed(sorted(existing))}")
    return partitions


def _marked(changefeed: Changefeed, carried: Tables) -> frozenset[str]:
    """The topics that must be there, and get resolved marks; others may be: of tables without a key, of other spellings."""
    return marked_topics(changefeed, kafka_place(changefeed).topic, [name for name, schema in carried.items() if schema.key])


def _offsets(it: CheckResult) -> Checking[None]:
    last = it[LOG]
    if last is None or not last.positions:
        yield of_beginning(it.config.kafka)
        return
    feed = _feed(it)
    try:
        feed.seek(last.positions, last.incarnations, last.read_ends)
    finally:
        feed.close()
    yield ok(f"all {len(last.positions)} partitions have what the log reads on from")


def of_beginning(section: KafkaSection) -> CheckFinding:
    """Of a log that is new."""
    if section.begin == "topic":
        what = "the log is new and begins at the topics' oldest messages (kafka.begin): they are read with the present tables"
        hint = "begin now and dump: rows that are older than a DDL of their table are not what they were, enum and set labels among them"
        return warning(what, setting="kafka.begin", hint=hint)
    why = "kafka.begin" if section.begin else "the default of kafka.begin"
    return ok(f"the log is new and begins now ({why}): what is older in the topics is skipped, a dump brings its rows")


def _feed(it: CheckResult) -> KafkaFeed:
    wanted = frozenset(topic for topic, _ in it[TOPICS])
    section = replace(it.config.kafka, queue_bytes_max=min(it.config.kafka.queue_bytes_max, QUEUE_BYTES_MAX))
    return reading(it[CHANGEFEED], section, lambda: wanted, lambda: TableTopics(wanted, wanted))


def _messages(it: CheckResult) -> Checking[Tail]:
    """The newest ones are read; from its end on the feed is watched."""
    cluster, partitions = it[KAFKA], it[TOPICS]
    feed = _feed(it)
    it.opened.callback(feed.close)
    carried, routes = it.get(TABLES, {}), TableRoutes.of(it[CHANGEFEED])
    names = {routes.target(name): name for name in (*carried, MARK_TABLE)}
    codec = of_whole_rows(_codec(it[CHANGEFEED]), it[CHANGEFEED])
    tail = Tail(feed, codec, kept_tables=_with_times(carried), names=names)
    whole = tail.look_back(cluster.available(partitions), timeout_s=LOOK_BACK_S)
    tail.begin(cluster.available(partitions))
    cut = "" if whole else f" (as many as came in {LOOK_BACK_S:.0f} s)"
    yield ok(f"the newest {tail.messages} messages{cut} are {tail.codec.name}, of {len(tail.tables)} tables")
    existing = it.get(SCHEMAS, None)
    known = {name.folded() for name in existing or ()}
    if existing is not None and (unseen := sorted(name for name in tail.tables if name.folded() not in known)):
        yield of_unseen(unseen, user=it.config.source.user, sees_every_table=it.get(RIGHTS, False))  # what the check returned
    return tail


def _with_times(carried: Tables) -> frozenset[TableName]:
    return frozenset(name for name, schema in carried.items() if any(column.kind == "timestamp" for column in schema.columns))


def of_unseen(tables: list[TableName], *, user: str, sees_every_table: bool) -> CheckFinding:
    what = f"the feed has rows of {listed(tables)}, which this account does not see in information_schema"
    if sees_every_table:
        hint = "nothing if they were dropped since; the sidecar stops at such rows if its log has not passed them"
        return warning(what, setting="the tables", hint=hint)
    grants = "; ".join(f"GRANT SELECT ON `{table.schema}`.`{table.table}` TO '{user}'@'%'" for table in tables[:10])
    return failed(what, setting="GRANT SELECT", hint=f"{grants}; or leave the tables out by filter.rules, if they were not dropped since")


def _codec(changefeed: Changefeed) -> Codec:
    try:
        return codec_of(changefeed)
    except FeedUnsuitable:
        raise CheckSkipped("the changefeed's protocol cannot carry a dump: see 'changefeed settings'") from None


def _resolved(it: CheckResult) -> Checking[None]:
    tail, wait_s = it[MESSAGES], it.options.wait_s
    marked = _marked(it[CHANGEFEED], it.get(TABLES, {}))
    lanes = {lane for lane in tail.lanes() if partition_of(lane)[0] in marked}
    tail.watch(lambda: lanes <= tail.resolved.keys(), timeout_s=wait_s)
    silent = sorted(lanes - tail.resolved.keys())
    if not silent:
        yield ok(f"all {len(lanes)} partitions got one within {wait_s:g} s")
        return
    if not tail.resolved:
        what = f"no partition got any within {wait_s:g} s; {_checkpoint(it)}"
        hint = "see that TiCDC runs and the changefeed advances (cdc cli changefeed query); with much lag give a longer --wait"
        yield failed(what, setting="TiCDC: the changefeed", hint=hint)
        return
    what = f"no resolved mark within {wait_s:g} s in {listed(silent)}"
    yield failed(what, setting="partition-num (changefeed: sink-uri)", hint=_of_partition_num(it[CHANGEFEED], it[TOPICS], silent))


def _of_partition_num(changefeed: Changefeed, partitions: Partitions, silent: list[Lane]) -> str:
    topic = silent[0].split("/")[1]
    there = sum(name == topic for name, _ in partitions)
    given = changefeed.sink.parameters.get("partition-num", "")
    if given.isdecimal() and int(given) < there:
        how = f"topic {topic} has {there} partitions and TiCDC marks only the first {given}: set partition-num={there}"
    else:
        how = f"let TiCDC count the {there} partitions of topic {topic} again"
    return f"{how} (cdc cli changefeed pause, update --sink-uri=…, resume)"


def _checkpoint(it: CheckResult) -> str:
    ts = read_checkpoint_ts(it[ETCD], it[CHANGEFEED].name)
    if ts is None:
        return "TiCDC has recorded no checkpoint"
    return f"TiCDC's checkpoint is {age_s(ts, clock_ahead_s=it.get(CLOCK, 0.0)):.0f} s old"


def lag(tail: Tail, clock_ahead_s: float) -> Checking[None]:
    lag_s = age_s(min(tail.resolved.values()), clock_ahead_s=clock_ahead_s)
    ahead_s = -age_s(max(tail.resolved.values()), clock_ahead_s=clock_ahead_s)
    if ahead_s > AHEAD_HIGH_S:
        what = f"a resolved mark is {ahead_s:.0f} s ahead of the cluster's clock: what follows would be dropped as repeats"
        hint = "see that nothing but this changefeed writes its topics, and that source.host is its upstream TiDB"
        yield failed(what, setting="sink-uri (changefeed)", hint=hint)
    what = f"the feed is {lag_s:.1f} s behind the cluster's clock"
    if lag_s > LAG_HIGH_S:
        hint = "windows close only that late, and a dump takes as much longer: see TiCDC's resolved and checkpoint lag"
        yield warning(what, setting="TiCDC: the changefeed's lag", hint=hint)
    else:
        yield ok(what)


def _mark_arrives(it: CheckResult) -> Checking[None]:
    """The probe that 'watermark write' sent, if the feed carries it."""
    tail, (uuid, written_s), wait_s = it[MESSAGES], it[MARK], it.options.wait_s
    if tail.watch(lambda: uuid in tail.marks, timeout_s=max(1.0, wait_s - (time.time() - written_s))):
        yield ok(f"the UPDATE of {MARK_TABLE} came by the feed, with commit_ts {tail.marks[uuid]}")
        return
    ahead_s = it.get(CLOCK, 0.0)
    passed = bool(tail.resolved) and age_s(max(tail.resolved.values()), clock_ahead_s=ahead_s) < time.time() - written_s - 1.0
    if passed:
        what = f"the feed has passed the UPDATE of {MARK_TABLE} and does not have it"
        hint = f"let the changefeed's filter.rules and event-filters pass {MARK_TABLE}, and see that source.host is its upstream TiDB"
        yield failed(what, setting="filter (changefeed), source.host", hint=hint)
    else:
        what = f"the UPDATE of {MARK_TABLE} has not come within {wait_s:g} s, and neither has a resolved mark after it"
        hint = "see 'resolved marks' and 'lag'; with much lag give a longer --wait"
        yield failed(what, setting="TiCDC: the changefeed's lag", hint=hint)
