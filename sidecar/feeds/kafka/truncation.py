"""Whether what was read of a partition is still there.

**A position in Kafka has its leader epoch.** A partition can lose its end: an unclean leader election, a disk of the only replica in sync.
Then it grows again, and other messages are at the offsets that were read. If it grows past a position, no offset shows the loss.

- Each leader of a partition has an epoch, greater than those before, and each message has its leader's. A leader writes behind what it
  has. So what was read to position p, the last message in epoch e, is there exactly if e ends at p or above (KIP-320).
- The log has that pair of each partition beside its position (`Manifest.read_ends`), which is at or above the position: of what was read
  and is not durable yet, a loss counts as well.
- At each start all of them are checked, in `check_still_there`, before anything is read. While reading librdkafka checks: a broker
  rejects a fetch of an old epoch, then librdkafka compares again. What it reports is checked here too, for the offsets that are lost.
- A log of 0.4 or before has no epochs, nor have messages in Kafka's format of before 0.11: there offsets alone count. A broker of before
  2.1 does not know where an epoch ends. What a partition loses before a manifest names it as read is not noticed at the next start.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.feeds.kafka.client import Cluster
from sidecar.feeds.kafka.lanes import PartitionKey, cut_off
from sidecar.shared.model.nouns import ReadEnd


def check_still_there(cluster: Cluster, read_ends: Mapping[PartitionKey, ReadEnd]) -> None:
    """Waits for the brokers. Raises FeedUnsuitable for a partition that lost something that was read, FeedLost if none answers."""
    first = cluster.continues_at(read_ends)
    for partition, read_end in sorted(read_ends.items()):
        if lost := range(first[partition], read_end.position):
            raise cut_off(partition, read_end, lost)
