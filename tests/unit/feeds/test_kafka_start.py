"""Where reading begins, told by a cluster that only answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from sidecar.adapters.memory.clock import MemoryClock
from sidecar.feeds.kafka.lanes import PartitionKey, Topic
from sidecar.feeds.kafka.start import Start, WantedStart
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import ReadEnd


@dataclass
class Cluster:
    """`there`: by topic its id, and of each partition the first offset and the end."""

    there: Mapping[str, tuple[str | None, Sequence[tuple[int, int]]]]

    def ask(self, topics: frozenset[str]) -> Cluster:
        return Cluster({name: result for name, result in self.there.items() if name in topics})

    def wait(self, _: float) -> bool:
        return True

    def topics(self) -> dict[str, Topic]:
        return {name: Topic(id, len(offsets)) for name, (id, offsets) in self.there.items()}

    def available(self, partitions: Sequence[PartitionKey]) -> dict[PartitionKey, tuple[int, int]]:
        return {(name, number): self.there[name][1][number] for name, number in partitions}

    def continues_at(self, read_ends: Mapping[PartitionKey, ReadEnd]) -> dict[PartitionKey, int]:
        return {key: min(read_end.position, end) for key, read_end in read_ends.items() for _, end in self.available([key]).values()}

    def answered(self) -> None: ...

    def check(self, *, wait_s: float = 0.0) -> None: ...


def start(cluster: Cluster, wanted: WantedStart) -> dict[PartitionKey, int]:
    return Start(cluster, MemoryClock(0.0), wanted).positions  # type: ignore[arg-type]  # what is asked of it


def test_a_topic_made_again_while_nobody_looked_is_a_gap_however_long_it_is() -> None:
    wanted = WantedStart({("t", 0): 14}, frozenset({"t"}), frozenset(), {"t": "id of before"})
    assert start(Cluster({"t": ("id of before", [(3, 47)])}), wanted) == {("t", 0): 14}
    with pytest.raises(FeedUnsuitable, match=r"(?s)re-created \(its id was id of before and is another\).*new log"):
        start(Cluster({"t": ("another", [(0, 47)])}), wanted)


@pytest.mark.parametrize(("known", "value"), [({}, "id"), ({"t": "id"}, None)], ids=["a log of before", "brokers before 2.8"])
def test_without_ids_a_topic_is_the_one_of_its_name(known: Mapping[str, str], value: str | None) -> None:
    wanted = WantedStart({("t", 0): 14}, frozenset({"t"}), frozenset(), known)
    assert start(Cluster({"t": (value, [(0, 47)])}), wanted) == {("t", 0): 14}


def test_a_topic_that_may_go_and_was_made_again_is_read_from_its_beginning() -> None:
    wanted = WantedStart({("t", 0): 14, ("gone", 0): 9}, frozenset({"t"}), frozenset({"gone"}), {"t": "1", "gone": "2"})
    wanted = replace(wanted, read_ends={("t", 0): ReadEnd(15, 0), ("gone", 0): ReadEnd(9, 0)})
    result = start(Cluster({"t": ("1", [(0, 47)]), "gone": ("3", [(0, 4)])}), wanted)
    assert result == {("t", 0): 14, ("gone", 0): 0}
