"""What the sink checks of its server before anything is written there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from urllib.parse import quote

from sidecar.shared.model.nouns import MARK_TABLE, TableSchema
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.opensearch.client import NOT_FOUND, OpenSearchSession
from spark_merge.sinks.opensearch.indices import Indices
from spark_merge.sinks.opensearch.position import position_of
from spark_merge.sinks.opensearch.uri import settings_of


def misfits(uri: SinkUri, schemas: Sequence[TableSchema]) -> Iterator[tuple[str, str]]:
    """`SinkKind.misfits`. Raises SinkError for a server that cannot be queried, or that has another log's position."""
    settings = settings_of(uri)
    with closing(OpenSearchSession(settings.server)) as session:
        accepted = position_of(session, settings.position_index, log_id=uri.log_id).look()
        indices = Indices(session, settings, log_id=uri.log_id)
        wanted = [schema for schema in schemas if schema.key and schema.name != MARK_TABLE]
        yield from settings.names.problems(schema.name for schema in wanted)
        there = indices.there(settings.names.alias(schema.name) for schema in wanted)
        for schema in wanted:
            alias = settings.names.alias(schema.name)
            if alias not in there and accepted is not None:
                yield f"alias {alias} leads to no index, and {schema.name} had rows there", "bring the index back from a snapshot"
            yield from indices.misfits(schema, there.get(alias))


def holds_rows(uri: SinkUri) -> bool:
    """There are documents under names that tables may have, and no position, of whatever log, says that we wrote any."""
    settings = settings_of(uri)
    with closing(OpenSearchSession(settings.server)) as session:
        path = f"/{settings.position_index}"
        if "error" not in session.asked("looking for the position", "GET", path, ignore=(NOT_FOUND,)):
            return False
        pattern = f"/{quote(settings.names.any(), safe='*')},-.*/_count"
        answer = session.asked("looking whether there are rows", "GET", pattern, params={"ignore_unavailable": "true"}, ignore=(NOT_FOUND,))
        return bool(answer.get("count", 0))
