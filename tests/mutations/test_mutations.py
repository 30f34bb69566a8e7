"""The tests must notice: each mutation breaks one promise, and the test named beside it must fail.

A mutation whose text is no longer in its symbol exactly once fails here, so the list cannot go stale unseen. Each costs what its test
takes and some tenths of a second (warm.py): name the quickest test that says what was broken, by its whole id.

`make rest` makes those of symbols that have changed since everything passed (chosen.py), and a sixtieth of the others, another with each
commit; `make matrix` makes all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lanes import LANE
from tests.mutations.avro import AVRO
from tests.mutations.certificates import CERTIFICATES
from tests.mutations.chosen import chosen
from tests.mutations.console import CONSOLE
from tests.mutations.ddls import DDLS
from tests.mutations.debezium import DEBEZIUM
from tests.mutations.demo import DEMO
from tests.mutations.dumps import DUMPS
from tests.mutations.feeds import FEEDS, PUMPS, STORAGE
from tests.mutations.given import GIVEN
from tests.mutations.holes import HOLED
from tests.mutations.init import INIT
from tests.mutations.lakes import LAKE_SINKS
from tests.mutations.masks import MASKING
from tests.mutations.merging import MERGING
from tests.mutations.mutation import Mutation, mutated
from tests.mutations.owners import FENCES, LOGS
from tests.mutations.repairs import REPAIRS
from tests.mutations.sessions import SESSIONS
from tests.mutations.several import SEVERAL
from tests.mutations.terminal import TERMINAL
from tests.mutations.texts import TEXTS
from tests.mutations.tikv_reads import TIKV_READS
from tests.mutations.verifying import VERIFYING
from tests.mutations.visible import VISIBLE
from tests.mutations.warm import Warm

ROOT = Path(__file__).parents[2]

MUTATIONS = [
    *FENCES,
    *LOGS,
    *PUMPS,
    *STORAGE,
    *FEEDS,
    *DUMPS,
    *TIKV_READS,
    *SEVERAL,
    *SESSIONS,
    *MERGING,
    *MASKING,
    *LAKE_SINKS,
    *DDLS,
    *VERIFYING,
    *AVRO,
    *DEBEZIUM,
    *CERTIFICATES,
    *TERMINAL,
    *VISIBLE,
    *INIT,
    *DEMO,
    *CONSOLE,
    *TEXTS,
    *REPAIRS,
    *GIVEN,
    *HOLED,
]


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with Warm() as process:
        yield process


def test_each_mutation_can_be_made() -> None:
    texts = {name: (ROOT / name).read_text() for name in {mutation.file for mutation in MUTATIONS}}
    for one in MUTATIONS:
        assert mutated(texts[one.file], one.place, one.old, one.new) != texts[one.file], f"{one.name} changes nothing"
    assert len({one.name for one in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("mutation", MUTATIONS if LANE.whole else chosen(MUTATIONS, ROOT), ids=lambda mutation: mutation.name)
def test_the_mutation_is_caught(mutation: Mutation, warm: Warm) -> None:
    code, output = warm.run(place=mutation.place, old=mutation.old, new=mutation.new, test=mutation.caught_by)
    assert code == pytest.ExitCode.TESTS_FAILED, f"{mutation.caught_by} did not fail, but ended with {code}:\n{output}"


def test_without_a_mutation_nothing_fails(warm: Warm) -> None:
    """Else every mutation would look caught."""
    code, output = warm.run(
        place="spark_merge/merge/rule.py::merged",
        old=" <= window.high_ts}",
        new=" <= window.high_ts}",
        test="tests/unit/merge/test_rule.py",
    )
    assert code == pytest.ExitCode.OK, output
