"""A share of what `make hostile` tries, and the frame itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event

import pytest

from sidecar.shared.errors import ConfigError
from tests.tools.hostile.areas import AREAS
from tests.tools.hostile.attempts import FAULTS, Area, Attempt, Fault, Outcome, carried_out, outcome_of, refuses, serves, table


@pytest.mark.parametrize("area", [area for area in AREAS if not area.whole], ids=lambda area: area.name)
def test_a_share_of_each_area_is_refused_or_harmless(area: Area) -> None:
    rows = carried_out(area, whole=False)
    assert not rows.faults, "\n".join(rows.faults)
    assert rows.tried > 0


def breaks() -> Outcome:
    raise KeyError("a defect")


def refused() -> Outcome:
    raise ConfigError("no", hint="yes")


def test_each_outcome_is_counted_and_faults_are_named() -> None:
    never = Event()

    @contextmanager
    def opened() -> Iterator[Sequence[Attempt]]:
        yield [
            refuses("said no", refused),
            refuses("said yes", lambda: "taken"),
            serves("odd", lambda: 1),
            serves("nothing", lambda: None),
            Attempt("stands", lambda: Outcome.HARMLESS if never.wait() else Outcome.HANG, within_s=0.1),
            Attempt("broken", breaks),
            Attempt("many", lambda: Outcome.HARMLESS, inputs=7),
            Attempt("long", breaks, whole=True),
        ]

    rows = carried_out(Area("area", 15, opened), whole=False)
    never.set()
    assert rows.tried == 13
    assert rows.outcomes == {Outcome.REFUSED: 1, Outcome.HARMLESS: 8, Outcome.ACCEPTED: 1, Outcome.FOREIGN: 2, Outcome.HANG: 1}
    assert [fault.split(": ")[1] for fault in rows.faults] == ["14 inputs, and 15 are promised", "said yes", "nothing", "stands", "broken"]
    assert "| area | 13 | 1 | 8 | 1 | 1 | 0 | 2 |" in table([rows])
    assert "| sum | 13 |" in table([rows])


def test_a_secret_in_an_error_is_a_leak_whatever_the_error_is() -> None:
    assert outcome_of(ConfigError("token s3cret", hint="x"), secrets=["s3cret"]) is Outcome.LEAK
    assert outcome_of(Fault(Outcome.LEAK, "x")) is Outcome.LEAK
    assert outcome_of(TimeoutError()) is Outcome.HANG
    assert len(FAULTS) == 4
