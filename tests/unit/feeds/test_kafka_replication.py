"""What the preflight says of topics whose brokers can lose what TiCDC wrote."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pytest

from sidecar.feeds.kafka.client import Replication
from sidecar.feeds.kafka.replication import of_replication, replication
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.process.checks import CheckSkipped, CheckStatus


def findings(*topics: Replication) -> dict[str, str]:
    """What each finding says by the setting that it names; the empty setting: all is well."""
    results = list(of_replication({f"t{number}": topic for number, topic in enumerate(topics)}))
    assert all((one.status is CheckStatus.OK) == (not one.setting) == (not one.hint) for one in results)
    return {one.setting.partition(" ")[0]: one.what for one in results}


def test_each_setting_that_can_lose_a_message_is_a_warning() -> None:
    for replicas, min_insync, unclean in product((1, 2, 3, 5), (1, 2, 3), (False, True)):
        of = findings(Replication(replicas, min_insync, unclean=unclean), Replication(3, 2, unclean=False))
        assert ("unclean.leader.election.enable" in of) == unclean
        assert ("min.insync.replicas" in of) == (replicas > 1 and min_insync == 1)
        assert ("" in of) == (len(of) == 1 and not unclean and (replicas == 1 or min_insync > 1))
        assert all("t0" in what and "t1" not in what for setting, what in of.items() if setting)


def test_a_single_replica_is_no_warning_and_is_reported() -> None:
    assert findings(Replication(1, 1, unclean=False)) == {"": "one replica only, so what its broker loses is lost: t0"}
    assert findings(Replication(3, 2, unclean=False)) == {"": "one broker can be lost, and no message of 1 topics with it"}


class Refusing:
    def replication(self, topics: Iterable[str]) -> None:
        raise FeedUnsuitable(f"Kafka refuses {sorted(topics)}", hint="grant Read")


def test_settings_that_may_not_be_read_are_no_failure() -> None:
    with pytest.raises(CheckSkipped) as skip:
        list(replication(Refusing(), (("b", 0), ("a", 0), ("b", 1))))  # type: ignore[arg-type]  # it has what is called
    assert skip.value.why == "the topics' settings cannot be read: Kafka refuses ['a', 'b']"
    assert "DescribeConfigs" in skip.value.hint
