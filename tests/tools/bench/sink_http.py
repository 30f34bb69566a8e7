"""The http: sink's target for tests/tools/bench/sinks.py: the sample receiver, and a plain POST of the same bodies to it."""

from __future__ import annotations

import itertools
import json
from functools import partial

import urllib3

from tests.support.services.http_receiver import HttpReceiver
from tests.tools.bench import sinks
from tests.tools.bench.figures import Cost, timed

BODY_BYTES = 1_000_000


def http_target(receiver: HttpReceiver) -> sinks.Target:
    return sinks.Target(
        "HTTP",
        receiver.uri,
        partial(_posted, receiver),
        "a plain POST of its lines to the same receiver",
        "one task: order; the receiver parses and syncs each body",
    )


def _posted(receiver: HttpReceiver, name: str) -> Cost:
    """All lines that the output has, to another one, by a client that does nothing else."""
    bodies, cost = _bodies(receiver, name), Cost()
    again, pool = receiver.url(f"{name}-again-{next(_numbers)}"), urllib3.PoolManager()
    after: dict[str, str] = {}
    with timed(cost):
        for number, body in enumerate(bodies):
            state = json.dumps({"seq": number})
            answer = pool.request("POST", again, body=body, headers={**after, "Ticdc-Dump-State": state}, retries=False)
            assert answer.status == 204, answer.data
            after = {"Ticdc-Dump-After": state}
    pool.clear()
    return cost


_numbers = itertools.count()


def _bodies(receiver: HttpReceiver, name: str) -> list[bytes]:
    results, held, size = list[bytes](), list[bytes](), 0
    for (line,) in receiver.query("SELECT line FROM record WHERE output = ? ORDER BY n", (f"/{name}",)):
        data = line.encode() + b"\n"
        if held and size + len(data) > BODY_BYTES:
            results.append(b"".join(held))
            held, size = [], 0
        held.append(data)
        size += len(data)
    return [*results, b"".join(held)]
