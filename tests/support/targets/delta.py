"""The Delta sink into a local folder: of a log of changes, and of merged tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import quote

from spark_merge.sinks.delta.columns import Mode
from tests.support.lake_read_back import read_back
from tests.support.recorded_target import Case
from tests.support.targets.target import MOVE_ROWS, Place, RecordedSink, Target, after_each, stamps

MODES: tuple[Mode, ...] = ("append", "merge")
ROUTES = "shop.nokey2=>shop.nokey,shop.ci_pk2=>shop.ci_pk,shop.dec_pk2=>shop.dec_pk"
"""Tables that the recordings rename, so that they stay in their places."""

LOST = frozenset[str]().union(*MOVE_ROWS.values())


@contextmanager
def target(place: Place) -> Iterator[Target]:
    """Without schema changes, seeds take the modes in turn. Amid them the operator has said before that he sees to the statements that
    cannot be followed, and nobody did."""
    if not place.amid_schema_changes:
        mode = MODES[place.case.seed % len(MODES)]
        uri = f"delta://{place.folder}/out?mode={mode}"
        yield Target(uri, partial(read_back, uri))
        return
    done = ",".join(map(str, stamps(place.log)))
    uri = f"delta://{place.folder}/out?mode=merge&routes={quote(ROUTES)}&ddl-done={done}"
    yield Target(uri, partial(read_back, uri), looks=after_each, judged=lambda name, _: name.table not in LOST)


DELTA = RecordedSink("delta", target, still=[Case("rowformats", "kv", "snapshot", 0)], seeds=10)
