"""All states that can be reached within bounds, breadth first: so the first violation has the shortest trace.

A process that is amid an operation runs on until it has ended, freezes or dies. So each freeze is one of a bounded number, and each call of
a storage is a place where it can happen: what froze wakes at any time, or never.

A violation is what a step raises, and a state from which the steps without a fault no longer lead to the end: every sink has accepted all
changes, or an operator has restored something and a process has stopped with an error.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tests.model import faults, owner_steps, sink_steps
from tests.model.rules import Rules
from tests.model.state import NONE, Bounds, Violation, World, first_world

INVARIANTS = {
    "order": "a sink shows each change once, behind the one before it (P2, P5)",
    "lost": "from every state a run without faults ends with all changes in every sink (P4)",
    "begun": "a batch that is begun is never completed by other segments",
    "accepted": "what is accepted is what the log has, and readers see all of it",
    "retention": "nothing is removed that a sink or the next owner needs",
    "one manifest": "no two owners have committed one segment",
    "record": "a sink's record knows each segment up to its own",
    "stopped": "no process stops with an error if no operator has restored anything (P6)",
}


@dataclass(frozen=True, slots=True)
class Exploration:
    """`states`, `steps`: how many there are. `violation`: the first one, with the `trace` of states that leads to it."""

    states: int
    steps: int
    ends: int
    violation: Violation | None = None
    trace: tuple[World, ...] = ()

    def story(self) -> str:
        """The violation, and what each step that leads to it has changed."""
        steps = [_changes(before, after) for before, after in pairwise(self.trace)]
        return "\n".join([str(self.violation), *(f"{number:3} {text}" for number, text in enumerate(steps, 1))])


def _changes(before: World, after: World) -> str:
    changed = [name for name in World._fields if getattr(before, name) != getattr(after, name)]
    texts = []
    for name in changed:
        new = getattr(after, name)
        match name:
            case "files":
                old_files, new_files = dict(before.files), dict(after.files)
                texts += [f"removes {one}" for one in old_files.keys() - new_files.keys()]
                texts += [f"writes {one} {content}" for one, content in new_files.items() if old_files.get(one) != content]
            case "owners":
                texts.append("owners " + ", ".join(f"{one.epoch} {one.at}" for one in new))
            case "workers":
                texts.append("workers " + ", ".join(f"{one.epoch} {'/'.join(loop.at for loop in one.loops)}" for one in new))
            case _:
                texts.append(f"{name} {new}")
    return "; ".join(texts)


def explore(bounds: Bounds, rules: Rules | None = None) -> Exploration:
    """All states within the bounds, or those up to the first violation."""
    rules = rules or Rules()
    first = canonical(first_world(bounds))
    number_of, worlds, parents = {first: 0}, [first], array("l", [NONE])
    sources, results = array("l"), array("l")
    steps = 0
    for number, world in enumerate(worlds):
        try:
            for is_fault, successor in _run_on(rules, bounds, _successors(rules, bounds, world)):
                steps += 1
                after = canonical(successor)
                if (known := number_of.get(after)) is None:
                    known = number_of[after] = len(worlds)
                    worlds.append(after)
                    parents.append(number)
                if not is_fault:
                    sources.append(number)
                    results.append(known)
        except Violation as error:
            return Exploration(len(worlds), steps, 0, error, _trace(worlds, parents, number))
    ends = [number for number, world in enumerate(worlds) if is_end(bounds, world)]
    doomed = _doomed(len(worlds), sources, results, ends)
    if doomed is None:
        return Exploration(len(worlds), steps, len(ends))
    violation = Violation("lost", "no run without faults leads from here to the end")
    return Exploration(len(worlds), steps, len(ends), violation, _trace(worlds, parents, doomed))


def is_end(bounds: Bounds, world: World) -> bool:
    if all(target.position.accepted and target.position.accepted.upto == bounds.changes for target in world.targets):
        return True
    places = [owner.at for owner in world.owners] + [loop.at for worker in world.workers for loop in worker.loops]
    return world.restored and "stopped" in places


def canonical(world: World) -> World:
    """Of the worlds that differ only by which process is called the first one."""
    owners, workers, running = world.owners, world.workers, world.running
    if len(owners) == 2 and owners[1] < owners[0]:
        owners, running = owners[::-1], 1 - running if running in (0, 1) else running
    if len(workers) == 2 and workers[1] < workers[0]:
        loops = len(world.targets)
        workers = workers[::-1]
        if running >= len(owners):
            worker, sink = divmod(running - len(owners), loops)
            running = len(owners) + (1 - worker) * loops + sink
    if owners is world.owners and workers is world.workers:
        return world
    return world._replace(owners=owners, workers=workers, running=running)


def _successors(rules: Rules, bounds: Bounds, world: World) -> Iterator[tuple[bool, World]]:
    """Whether the step is a fault, and what comes of it."""
    if world.running != NONE:
        yield from ((False, one) for one in _next_call(rules, bounds, world, world.running))
        yield from ((True, one) for one in faults.of_running(bounds, world))
        return
    for number in range(len(world.owners) + len(world.workers) * len(world.targets)):
        yield from ((False, one) for one in _begun_or_woken(rules, bounds, world, number))
    yield from ((False, one) for one in faults.of_operators_and_time(world))
    yield from ((True, one) for one in faults.between_operations(bounds, world))


def _run_on(rules: Rules, bounds: Bounds, steps: Iterator[tuple[bool, World]]) -> Iterator[tuple[bool, World]]:
    """A process that nothing can interrupt any more makes its next calls in the same step."""
    for is_fault, world in steps:
        if world.running == NONE or faults.can_interrupt(bounds, world):
            yield is_fault, world
        else:
            yield from _run_on(rules, bounds, ((is_fault, one) for one in _next_call(rules, bounds, world, world.running)))


def _next_call(rules: Rules, bounds: Bounds, world: World, number: int) -> Iterator[World]:
    if number < len(world.owners):
        return owner_steps.STEPS[world.owners[number].at](rules, bounds, world, number)
    return sink_steps.STEPS[faults.loop_of(world, number).at](rules, bounds, world, number)


def _begun_or_woken(rules: Rules, bounds: Bounds, world: World, number: int) -> Iterator[World]:
    if number < len(world.owners):
        if world.owners[number].at in owner_steps.ENDS:
            return owner_steps.operations(rules, bounds, world, number)
    elif faults.loop_of(world, number).at in sink_steps.ENDS:
        return sink_steps.operations(rules, bounds, world, number)
    return _next_call(rules, bounds, world, number)


def _doomed(states: int, sources: array[int], results: array[int], ends: list[int]) -> int | None:
    """The first state from which no step leads to an end."""
    starts = array("l", bytes(8 * (states + 1)))
    for result in results:
        starts[result + 1] += 1
    for state in range(states):
        starts[state + 1] += starts[state]
    filled, before = array("l", starts), array("l", bytes(8 * len(sources)))
    for source, result in zip(sources, results, strict=True):
        before[filled[result]] = source
        filled[result] += 1
    good = bytearray(states)
    todo = list(ends)
    for state in ends:
        good[state] = 1
    while todo:
        state = todo.pop()
        for source in before[starts[state] : starts[state + 1]]:
            if not good[source]:
                good[source] = 1
                todo.append(source)
    first = good.find(0)
    return None if first < 0 else first


def _trace(worlds: list[World], parents: array[int], last: int) -> tuple[World, ...]:
    numbers = [last]
    while parents[numbers[-1]] != NONE:
        numbers.append(parents[numbers[-1]])
    return tuple(worlds[number] for number in reversed(numbers))
