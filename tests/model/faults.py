"""What happens to processes, and what operators do: freezes, deaths, leases that run out, starts, backups and restores."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import owner_steps, sink_steps
from tests.model.state import NONE, Bounds, Loop, Owner, Worker, World

DEAD = ("standby", "stopped")


def loop_of(world: World, number: int) -> Loop:
    worker, sink = divmod(number - len(world.owners), len(world.targets))
    return world.workers[worker].loops[sink]


def can_interrupt(bounds: Bounds, world: World) -> bool:
    """Whether something can happen amid the operation that is under way."""
    kind = "owner" if world.running < len(world.owners) else "loop"
    return kind in bounds.frozen and bool(world.left.freezes or world.left.deaths)


def of_running(bounds: Bounds, world: World) -> Iterator[World]:
    """The process that is amid an operation freezes before its next call, or dies there."""
    if not can_interrupt(bounds, world):
        return
    if world.left.freezes:
        yield world._replace(running=NONE, left=world.left._replace(freezes=world.left.freezes - 1))
    if world.left.deaths:
        yield _die(world, world.running)


def _die(world: World, number: int) -> World:
    """Another one stands by in its place. Its lease stays until it runs out."""
    world = world._replace(running=NONE, left=world.left._replace(deaths=world.left.deaths - 1))
    if number < len(world.owners):
        return world._replace(owners=(*world.owners[:number], Owner(), *world.owners[number + 1 :]))
    return sink_steps.without_worker(world, (number - len(world.owners)) // len(world.targets))


def of_operators_and_time(world: World) -> Iterator[World]:
    """A lease whose owner is gone runs out. An owner starts a worker where it has none, or one that does not answer. A worker ends with its
    owner. A backup is taken at any time, once."""
    if world.lease and not any(owner.epoch == world.lease and owner.at not in DEAD for owner in world.owners):
        yield world._replace(lease=0)
    off = next((number for number, worker in enumerate(world.workers) if not worker.epoch), None)
    serving = {owner.epoch for owner in world.owners if owner.at == "serve" and owner.epoch == world.lease}
    answering = {worker.epoch for worker in world.workers if worker.epoch and not _is_frozen(worker)}
    if off is not None:
        yield from (sink_steps.with_worker(world, off, epoch) for epoch in serving - answering)
    alive = {owner.epoch for owner in world.owners if owner.at not in DEAD}
    for number, worker in enumerate(world.workers):
        if worker.epoch and worker.epoch not in alive and not _is_frozen(worker):
            yield sink_steps.without_worker(world, number)


def _is_frozen(worker: Worker) -> bool:
    return any(loop.at not in sink_steps.ENDS for loop in worker.loops)


def between_operations(bounds: Bounds, world: World) -> Iterator[World]:
    """A process dies that does nothing, a lease runs out although its owner lives, and what an operator restores."""
    left = world.left
    if left.lapses and world.lease:
        yield world._replace(lease=0, left=left._replace(lapses=left.lapses - 1))
    if left.deaths and "loop" in bounds.frozen:
        yield from (_die(world, len(world.owners) + number * len(world.targets)) for number, one in enumerate(world.workers) if one.epoch)
    if left.deaths and "owner" in bounds.frozen:
        yield from (_die(world, number) for number, one in enumerate(world.owners) if one.at not in owner_steps.ENDS[::2])
    if left.log_restores and not world.copy:
        yield world._replace(copy=(world.files, world.history, world.report))
    if left.log_restores and world.copy:
        files, history, report = world.copy
        if (files, history) != (world.files, world.history):
            stopped = world if bounds.under_workers else _without_processes(world)
            yield stopped._replace(
                files=files,
                history=history,
                report=report,
                copy=(),
                restored=True,
                left=left._replace(log_restores=left.log_restores - 1),
                lease=0,
                owners=(Owner(),) * len(world.owners),
            )
    if left.sink_restores and not world.sink_copy:
        yield world._replace(sink_copy=world.targets)
    if left.sink_restores and world.sink_copy and world.sink_copy != world.targets:
        yield _without_processes(world)._replace(
            targets=world.sink_copy, sink_copy=(), restored=True, left=left._replace(sink_restores=left.sink_restores - 1)
        )


def _without_processes(world: World) -> World:
    """An operator who restores something stops all processes before."""
    for number in range(len(world.workers)):
        world = sink_steps.without_worker(world, number)
    return world._replace(lease=0, owners=(Owner(),) * len(world.owners))
