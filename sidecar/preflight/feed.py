"""etcd, the changefeed's definition, and its Kafka topics as they really are.

- Keys are written below our own root only, compared with what was there, and hang on a lease: nothing is left behind.
- The definition is judged by core/suitability; the tables count where TiDB told them, else the settings alone.
- Every partition must get resolved marks: one that does not holds every other lane back for ever. TiCDC sends them to the first
  `partition-num` partitions of a topic only (facts: tiflow, topic manager and DDL sink).
- What the log wants to read on from must be there still: asked by the feed's own `seek`, which is what a start does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

from sidecar.adapters.changefeed_info import client_settings, codec_of, kafka_place, masked
from sidecar.adapters.etcd_changefeed import TICDC_ROOT, list_changefeeds, read_checkpoint_ts
from sidecar.adapters.etcd_client import ROOT, Compare, Delete, EtcdClient, Put
from sidecar.adapters.etcd_owner import KEEPALIVES_A_LEASE, owner
from sidecar.codecs.contract import Codec
from sidecar.config import read_secret
from sidecar.core.changefeed import KAFKA_SCHEMES
from sidecar.core.model import MARK_TABLE, Lane, TableName
from sidecar.core.suitability import Problem, problems
from sidecar.core.topics import topics as topics_of
from sidecar.definition import read_definition
from sidecar.errors import CoordinationError, FeedLost, FeedUnsuitable
from sidecar.feeds.kafka import KafkaFeed
from sidecar.feeds.kafka_client import REQUEST_TIMEOUT_S, Cluster
from sidecar.preflight.check import Finding, Known, Skip, failed, listed, ok, warning
from sidecar.preflight.tail import Tail

LEASE_LOW_S, LEASE_HIGH_S = 5, 60
"""Below, an election of etcd's takes a lease with it; above, a standby takes over only after so long."""
PROBE_LEASE_S = 30
TOPICS_ANSWER_S = 10.0
LOOK_BACK_S = 15.0
QUEUE_BYTES_MAX = 32 << 20
LAG_HIGH_S = 30.0
"""TiCDC is seconds behind while all is well."""
TSO_LOGICAL_BITS = 18


def age_s(known: Known, ts: int) -> float:
    """Of a TSO, by the clock that made it as far as that is known."""
    return time.time() + known.clock_ahead_s - (ts >> TSO_LOGICAL_BITS) / 1000


# ---- etcd -----------------------------------------------------------------------------------------------------------


def etcd(known: Known) -> Iterator[Finding]:
    section = known.config.etcd
    known.client = EtcdClient(section)
    known.closers.append(known.client.close)
    began_s = time.monotonic()
    there = list_changefeeds(known.client)
    took_s = time.monotonic() - began_s
    yield ok(f"{', '.join(section.endpoints)} answered in {took_s * 1000:.0f} ms and has {len(there)} changefeeds")
    if not LEASE_LOW_S <= section.lease_s <= LEASE_HIGH_S:
        why = "an election in etcd can take longer" if section.lease_s < LEASE_LOW_S else "a standby waits that long"
        yield warning(f"a lease of {section.lease_s} s: {why}", setting="etcd.lease_s", hint="give about 10")
    if took_s > section.lease_s / KEEPALIVES_A_LEASE / 2:
        what = f"an answer took {took_s:.1f} s, and keepalives are sent every {section.lease_s / KEEPALIVES_A_LEASE:.1f} s"
        yield warning(what, setting="etcd.lease_s", hint="look at etcd's latency, or raise it")


def changefeed(known: Known) -> Iterator[Finding]:
    known.definition = read_definition(known.client, known.config)
    found = known.definition.changefeed
    made_by = f", made by TiCDC {found.creator_version}" if found.creator_version else ""
    yield ok(f"{found.name} is {found.protocol} to {masked(found.sink_uri)}{made_by}")
    holder = owner(known.client, known.definition.root)
    yield ok(f"owned by {holder.host} (pid {holder.pid}) since {holder.since}" if holder else "no sidecar owns it now")


def etcd_write(known: Known) -> Iterator[Finding]:
    root = known.definition.root
    if not root.startswith(ROOT) or root.startswith(TICDC_ROOT.rstrip("/")):
        yield failed(f"the root {root} is in TiCDC's own", setting="none", hint="report this: an unknown key there stops TiCDC")
        return
    if not known.options.write:
        raise Skip("not tried (--no-write)")
    client, key = known.client, f"{root}/preflight/{uuid4().hex}"
    lease = client.grant(PROBE_LEASE_S)
    try:
        made = client.transact([Compare(key, "created", 0)], [Put(key, b"", lease)])
        again = client.transact([Compare(key, "created", 0)], [Put(key, b"", lease)])
        gone = client.transact([Compare(key, "created", made.revision)], [Delete(key)])
    finally:
        client.revoke(lease)
    if not made.succeeded or again.succeeded or not gone.succeeded:
        raise CoordinationError(f"etcd does not hold a transaction's compares ({key})", hint="is it a real etcd, of version 3.4 or later?")
    yield ok(f"a key below {root} was put with a lease, fenced and deleted")


# ---- the changefeed -------------------------------------------------------------------------------------------------


def state(known: Known) -> Iterator[Finding]:
    found = known.definition.changefeed
    against = [problem for problem in problems(found) if problem.setting == "state"]
    yield from map(of_problem, against)
    if not against:
        if found.state in ("warning", "pending") or found.error:
            what = f"{found.state}: TiCDC tries again after {found.error or 'an error that it does not tell'}"
            yield warning(what, setting="the changefeed's state", hint="mend what its error says; see cdc cli changefeed query")
        else:
            yield ok(found.state)


def settings(known: Known) -> Iterator[Finding]:
    against = [problem for problem in problems(known.definition.changefeed, known.existing) if problem.setting != "state"]
    yield from map(of_problem, against)
    if not against:
        by = f"judged by {len(known.existing)} tables" if known.existing is not None else "judged without the tables"
        yield ok(f"protocol, whole rows, filter and dispatchers are fit for a dump ({by})")


def of_problem(problem: Problem) -> Finding:
    return failed(problem.what, setting=f"{problem.setting} (changefeed)", hint=problem.hint)


# ---- Kafka ----------------------------------------------------------------------------------------------------------


def kafka(known: Known) -> Iterator[Finding]:
    changefeed, section = known.definition.changefeed, known.config.kafka
    if changefeed.sink.scheme not in KAFKA_SCHEMES:
        raise Skip("the changefeed's sink is none of Kafka's: see 'changefeed settings'")
    place = kafka_place(changefeed)
    known.kafka_client = client_settings(changefeed) | dict(section.client)
    if section.sasl_password_file:
        known.kafka_client["sasl.password"] = read_secret(section.sasl_password_file)
    known.cluster = cluster = Cluster(section.brokers or place.brokers, known.kafka_client)
    try:
        count = cluster.broker_count()
    except FeedLost:
        cluster.check(wait_s=1.0)  # what librdkafka would repeat for ever is told by its callback
        raise cluster.lost(REQUEST_TIMEOUT_S) from None
    cluster.answered()
    yield ok(f"{count} brokers, by {cluster.brokers}")


def topics(known: Known) -> Iterator[Finding]:
    """TiCDC makes a topic when its first table comes, and sends resolved marks to it from then on."""
    changefeed = known.definition.changefeed
    default = kafka_place(changefeed).topic
    wanted = topics_of(changefeed, default, [name for name, schema in known.carried.items() if schema.key])
    asked = known.cluster.ask(wanted)
    found = asked.topics() if asked.wait(TOPICS_ANSWER_S) else None
    if found is None:
        raise known.cluster.lost(TOPICS_ANSWER_S)
    makes_itself = changefeed.sink.parameters.get("auto-create-topic", "true").lower() not in ("false", "0", "f")
    for name in sorted(wanted - found.keys()):
        what = f"topic {name} does not exist"
        if name == default or not makes_itself:
            hint = "create it with the partitions that partition-num names, or see why TiCDC could not (its log)"
            yield failed(what, setting="Kafka: create the topic (changefeed: sink-uri, auto-create-topic)", hint=hint)
        else:
            yield warning(what, setting="sink.dispatchers (changefeed)", hint="TiCDC makes it with its first row: then check again")
    known.partitions = tuple((name, number) for name, topic in sorted(found.items()) for number in range(topic.partitions))
    if known.partitions:
        yield ok(f"{len(found)} topics with {len(known.partitions)} partitions: {listed(sorted(found))}")


def offsets(known: Known) -> Iterator[Finding]:
    if known.last is None or not known.last.positions:
        yield ok("the log is new and begins at what is there")
        return
    feed = new_feed(known)
    try:
        feed.seek(known.last.positions)
    finally:
        feed.close()
    yield ok(f"all {len(known.last.positions)} partitions have what the log reads on from")


def new_feed(known: Known) -> KafkaFeed:
    section, name = known.config.kafka, known.definition.changefeed.name
    wanted = frozenset(topic for topic, _ in known.partitions)
    return KafkaFeed(
        known.cluster.brokers,
        lambda: wanted,
        client=known.kafka_client,
        group=section.group or f"ticdc-dump-{name.namespace}-{name.id}",
        queue_bytes_max=min(section.queue_bytes_max, QUEUE_BYTES_MAX),
        present=(lambda: wanted) if any(one.topic for one in known.definition.changefeed.dispatchers) else None,
    )


def messages(known: Known) -> Iterator[Finding]:
    """The newest ones are read; from its end on the feed is watched."""
    feed = new_feed(known)
    known.closers.append(feed.close)
    with_times = (name for name, schema in known.carried.items() if any(column.kind == "timestamp" for column in schema.columns))
    known.tail = tail = Tail(feed, _codec(known), kept_tables=frozenset(with_times))
    whole = tail.look_back(known.cluster.available(known.partitions), timeout_s=LOOK_BACK_S)
    tail.begin(known.cluster.available(known.partitions))
    cut = "" if whole else f" (as many as came in {LOOK_BACK_S:.0f} s)"
    yield ok(f"the newest {tail.messages} messages{cut} are {tail.codec.name}, of {len(tail.tables)} tables")
    if known.existing is not None and (unseen := sorted(tail.tables - known.existing.keys())):
        yield _of_unseen(known, unseen)


def _of_unseen(known: Known, tables: list[TableName]) -> Finding:
    what = f"the feed has rows of {listed(tables)}, which this account does not see in information_schema"
    if known.sees_every_table:
        hint = "nothing if they were dropped since; the sidecar stops at such rows if its log has not passed them"
        return warning(what, setting="the tables", hint=hint)
    user = known.config.source.user
    grants = "; ".join(f"GRANT SELECT ON `{table.schema}`.`{table.table}` TO '{user}'@'%'" for table in tables[:10])
    return failed(what, setting="GRANT SELECT", hint=f"{grants}; or leave the tables out by filter.rules, if they were not dropped since")


def _codec(known: Known) -> Codec:
    try:
        return codec_of(known.definition.changefeed)
    except FeedUnsuitable:
        raise Skip("the changefeed's protocol cannot carry a dump: see 'changefeed settings'") from None


def resolved(known: Known) -> Iterator[Finding]:
    tail, wait_s = known.tail, known.options.wait_s
    lanes = tail.lanes()
    tail.watch(lambda: lanes <= tail.resolved.keys(), timeout_s=wait_s)
    silent = sorted(lanes - tail.resolved.keys())
    if not silent:
        yield ok(f"all {len(lanes)} partitions got one within {wait_s:g} s")
        return
    if not tail.resolved:
        what = f"no partition got any within {wait_s:g} s; {_checkpoint(known)}"
        hint = "see that TiCDC runs and the changefeed advances (cdc cli changefeed query); with much lag give a longer --wait"
        yield failed(what, setting="TiCDC: the changefeed", hint=hint)
        return
    what = f"no resolved mark within {wait_s:g} s in {listed(silent)}"
    yield failed(what, setting="partition-num (changefeed: sink-uri)", hint=_of_partition_num(known, silent))


def _of_partition_num(known: Known, silent: list[Lane]) -> str:
    topic = silent[0].split("/")[1]
    there = sum(name == topic for name, _ in known.partitions)
    given = known.definition.changefeed.sink.parameters.get("partition-num", "")
    if given.isdecimal() and int(given) < there:
        how = f"topic {topic} has {there} partitions and TiCDC marks only the first {given}: set partition-num={there}"
    else:
        how = f"let TiCDC count the {there} partitions of topic {topic} again"
    return f"{how} (cdc cli changefeed pause, update --sink-uri=…, resume)"


def _checkpoint(known: Known) -> str:
    ts = read_checkpoint_ts(known.client, known.definition.changefeed.name)
    return "TiCDC has recorded no checkpoint" if ts is None else f"TiCDC's checkpoint is {age_s(known, ts):.0f} s old"


def lag(known: Known) -> Iterator[Finding]:
    behind = min(known.tail.resolved.values())
    lag_s = age_s(known, behind)
    what = f"the feed is {lag_s:.1f} s behind the cluster's clock"
    if lag_s > LAG_HIGH_S:
        hint = "windows close only that late, and a dump takes as much longer: see TiCDC's resolved and checkpoint lag"
        yield warning(what, setting="TiCDC: the changefeed's lag", hint=hint)
    else:
        yield ok(what)


def mark_arrives(known: Known) -> Iterator[Finding]:
    """The probe that 'watermark write' sent, if the feed carries it."""
    tail, (uuid, written_s), wait_s = known.tail, known.mark, known.options.wait_s
    if tail.watch(lambda: uuid in tail.marks, timeout_s=max(1.0, wait_s - (time.time() - written_s))):
        yield ok(f"the UPDATE of {MARK_TABLE} came by the feed, with commit_ts {tail.marks[uuid]}")
        return
    passed = bool(tail.resolved) and min(age_s(known, ts) for ts in tail.resolved.values()) < time.time() - written_s - 1.0
    if passed:
        what = f"the feed has passed the UPDATE of {MARK_TABLE} and does not have it"
        hint = f"let the changefeed's filter.rules and event-filters pass {MARK_TABLE}, and see that source.host is its upstream TiDB"
        yield failed(what, setting="filter (changefeed), source.host", hint=hint)
    else:
        what = f"the UPDATE of {MARK_TABLE} has not come within {wait_s:g} s, and neither has a resolved mark after it"
        hint = "see 'resolved marks' and 'lag'; with much lag give a longer --wait"
        yield failed(what, setting="TiCDC: the changefeed's lag", hint=hint)
