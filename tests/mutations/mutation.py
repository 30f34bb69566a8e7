"""One change of the source that breaks a promise, and the test that must fail by it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    old: str
    new: str
    caught_by: str


SIMULATION = "tests/simulation/test_simulation.py::test_every_life_ends_with_the_output_equal_to_the_source[0]"
SINKS = "tests/contract/test_sink_port.py"
