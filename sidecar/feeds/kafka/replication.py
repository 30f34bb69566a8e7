"""Whether the brokers can lose what TiCDC wrote: what the preflight says of each topic's settings.

- `unclean.leader.election.enable=true`: a replica that lacks messages may become the leader, and they are gone. The feed stops then
  (truncation); it cannot bring them back.
- With more than one replica, `min.insync.replicas=1` lets a single broker confirm a message (TiCDC writes with acks=all). If that broker is
  lost, so is the message. Kafka's documentation recommends 2 of 3 replicas.
- One replica has no such setting: what its disk loses is lost. That is no warning, because a test cluster has it on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.feeds.kafka.client import Cluster, Replication
from sidecar.feeds.kafka.lanes import PartitionKey
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.process.checks import Checking, CheckSkipped, listed, ok, warning

INSYNC_MIN = 2


def replication(cluster: Cluster, partitions: tuple[PartitionKey, ...]) -> Checking[None]:
    try:
        topics = cluster.replication({topic for topic, _ in partitions})
    except FeedUnsuitable as error:
        raise CheckSkipped(
            f"the topics' settings cannot be read: {error.message}",
            setting="Kafka: ACLs",
            hint="grant this user DescribeConfigs on the topics",
        ) from None
    yield from of_replication(topics)


def of_replication(topics: Mapping[str, Replication]) -> Checking[None]:
    unclean = sorted(name for name, topic in topics.items() if topic.unclean)
    unsafe = sorted(name for name, topic in topics.items() if topic.min_insync < min(INSYNC_MIN, topic.replicas))
    single = sorted(name for name, topic in topics.items() if topic.replicas == 1)
    if unclean:
        yield warning(
            f"a replica that lacks messages may become the leader of {listed(unclean)}: then they are lost, and the sidecar stops",
            setting="unclean.leader.election.enable (Kafka)",
            hint="set it to false on these topics",
        )
    if unsafe:
        yield warning(
            f"one replica is enough to confirm a message in {listed(unsafe)}: if its broker is lost, so is the message",
            setting="min.insync.replicas (Kafka)",
            hint="set it to 2 on these topics, with three replicas: then one broker may be down",
        )
    if not unclean and not unsafe:
        well = f"one broker can be lost, and no message of {len(topics)} topics with it"
        yield ok(f"one replica only, so what its broker loses is lost: {listed(single)}" if single else well)
