"""Matching TiKV's raw messages into entries, on the `shop` recording played over and over, beside protobuf's parsing of the same bytes.

What the matcher adds is what the two costs differ by: it is what the sidecar pays for being its own puller, in bytes as they come
over the wire.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.kv_matcher import RegionMatcher
from tests.support.tikv.recorded import Raw, raw
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Cost, Figure, best, timed
from ticdc_dump.tikv import cdcpb_pb2

REPEATS = 10
LIMIT = "protobuf to Python values, one thread"


def measure(bench: Bench) -> Iterator[Figure]:
    """MB a second of one core, parsed and matched. The ratios say which part of the parser's speed is left."""
    recorded = raw("shop")
    repeats = bench.sized(REPEATS)
    size_mb = repeats * sum(map(len, recorded.messages)) / 1e6
    rows = repeats * sum(len(event.entries.entries) for message in recorded.events() for event in message.events)
    parsed = best(lambda: _parsed(recorded, repeats))
    matched = best(lambda: _matched(recorded, repeats))
    yield Figure(
        "TiKV's change feed: parse and match",
        size_mb / matched.wall_s,
        "MB/s",
        "",
        LIMIT,
        cpu_us=matched.cpu_s / rows * 1e6,
        reference=f"parse only {size_mb / parsed.wall_s:,.0f} MB/s",
        ratio=parsed.wall_s / matched.wall_s,
        cpu_ratio=parsed.cpu_s / matched.cpu_s if matched.cpu_s else None,
    )


def _parsed(recorded: Raw, repeats: int) -> Cost:
    cost = Cost()
    with timed(cost):
        for _ in range(repeats):
            for message in recorded.messages:
                cdcpb_pb2.ChangeDataEvent.FromString(message)
    return cost


def _matched(recorded: Raw, repeats: int) -> Cost:
    cost = Cost()
    for _ in range(repeats):
        matchers = {number: RegionMatcher(it.region, it.range, it.from_ts) for number, it in recorded.subscriptions.items()}
        of_region = {it.region: matchers[number] for number, it in recorded.subscriptions.items()}
        with timed(cost):
            for data in recorded.messages:
                message = cdcpb_pb2.ChangeDataEvent.FromString(data)
                for event in message.events:
                    matchers[event.request_id].entries(event.entries.entries)
                for region in message.resolved_ts.regions:
                    of_region[region].resolve(CommitTs(message.resolved_ts.ts))
    return cost
