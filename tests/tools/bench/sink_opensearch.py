"""OpenSearch as a target of tests/tools/bench/sinks.py: a node of one process on this machine, beside the client's own bulk helper."""

from __future__ import annotations

import contextlib
import json
import time
from functools import partial

from opensearchpy import OpenSearch, helpers

from tests.support.opensearch_place import documents, uri_of
from tests.support.services.opensearch import OpenSearchNode
from tests.tools.bench.account import ACCOUNT
from tests.tools.bench.figures import Cost, timed
from tests.tools.bench.sinks import Target

BULK_ROWS = 5_000


def opensearch_target(node: OpenSearchNode) -> Target:
    """Documents of a name that has been loaded are deleted when the next one begins: the node's disk is the bench's."""
    return Target(
        "OpenSearch",
        partial(_uri, node),
        partial(_bulk, node),
        "the client's own bulk helper, one process, of the same documents",
        "the node, which shares the cores",
    )


def _uri(node: OpenSearchNode, name: str) -> str:
    return uri_of(node, name.replace(" ", "-"))


def _bulk(node: OpenSearchNode, name: str) -> Cost:
    alias = f"{name.replace(' ', '-')}.{ACCOUNT.schema}.{ACCOUNT.table}"
    again, cost = f"again-{time.monotonic_ns()}", Cost()
    (result,) = json.loads(node.text("GET", f"/{alias}")).values()
    settings = {"number_of_replicas": 0, "number_of_shards": 1}
    node.ask("PUT", f"/{again}", {"mappings": result["mappings"], "settings": {"index": settings}})
    rows = [{"_op_type": "index", "_index": again, "_id": row["id"], "_source": row} for row in documents(node, alias)]
    with contextlib.closing(OpenSearch([{"host": "127.0.0.1", "port": node.port}], timeout=60)) as client, timed(cost):
        done, _ = helpers.bulk(client, rows, chunk_size=BULK_ROWS)
    assert done == len(rows)
    node.remove(again)
    return cost
