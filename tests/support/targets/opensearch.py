"""The OpenSearch sink into a real node: its documents are the source's rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.opensearch_place import uri_of
from tests.support.read_back import read_back
from tests.support.recorded_target import Case
from tests.support.services.opensearch import OpenSearchNode
from tests.support.targets.target import Place, RecordedSink, Target, after_ddls, moves_rows, numbers, stamps


@contextmanager
def target(place: Place) -> Iterator[Target]:
    """A table of which a statement cannot be followed begins again, by the operator's word, and is not judged from then on."""
    node: OpenSearchNode = place.server
    output, seed = f"recorded{next(numbers)}", place.case.seed
    try:
        if place.amid_schema_changes:
            uri = uri_of(node, output, ddl_again=",".join(map(str, stamps(place.log))))
            lost = [(ddl.commit_ts, tables) for one in place.log.manifests for ddl in one.ddls if (tables := moves_rows(ddl))]
            yield Target(
                uri,
                read_back(uri),
                looks=after_ddls,
                judged=lambda name, ts: not any(since <= ts and name.table in tables for since, tables in lost),
            )
        else:
            uri = uri_of(node, output, bulk_rows=str((100, 5000)[seed % 2]), refresh=("interval", "accept")[seed % 2])
            yield Target(uri, read_back(uri))
    finally:
        node.remove(f"{output}*,position-{output}*")


OPENSEARCH = RecordedSink("opensearch", target, still=[Case("demo", "kv", "snapshot", 0)], server="opensearch", group="opensearch")
