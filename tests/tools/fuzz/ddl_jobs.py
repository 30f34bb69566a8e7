"""DDL jobs of raw key-values: damaged JSON of `job_meta`, read by shared/rowcodec/ddl_job.py; and what its TableInfos make of a table."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.ddl_job import ddl_job
from sidecar.shared.rowcodec.kv_layout import kv_table_of, layout_of
from sidecar.shared.rowcodec.kv_table import kv_table
from sidecar.shared.rowcodec.table_info import table_schema
from sidecar.shared.schema.ddl import DdlJob
from tests.tools.fuzz import slow_jobs
from tests.tools.fuzz.damage import damaged_json
from tests.tools.fuzz.seeds import jobs
from tests.tools.fuzz.verdict import Counts, Refused, differ, ours

_TABLES_ONE_IN = 4
"""Tables are made of the TableInfos of so many of the jobs that are read: making them costs most."""


def batch(random: Random, size: int) -> Counts:
    """Raises Fault."""
    counts = Counts()
    for _ in range(size):
        commit_ts, meta = random.choice(jobs())
        if random.randrange(50):
            meta = damaged_json(random, meta, random.choice(jobs())[1])
        counts.messages += 1
        result = ours(lambda meta=meta, ts=commit_ts: ddl_job(meta, commit_ts=CommitTs(ts), at="entry"), "ddl_job", meta)  # type: ignore[misc]  # defaults that bind
        expected = _slowly(meta, commit_ts)
        if isinstance(result, TicdcDumpError):
            counts.refused[type(result).__name__] += 1
            counts.only_slow += not isinstance(expected, Refused)
            continue
        if slow_jobs.reported(result) != expected:
            raise differ("ddl_job", slow_jobs.reported(result), expected, meta)
        counts.equal += 1
        if isinstance(result, DdlJob) and not random.randrange(_TABLES_ONE_IN):
            for one in result.tables:
                counts.rows += 1
                _table(one.info, meta)
    return counts


def _slowly(meta: bytes, commit_ts: int) -> Any:
    """What a dict that lacks a key, or holds another type, raises is a no."""
    try:
        return slow_jobs.job(meta, commit_ts)
    except Refused as refused:
        return refused
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return Refused(str(error))


def _table(info: Mapping[str, Any], meta: bytes) -> None:
    """Of each TableInfo that a job brings tables are made, and read again out of the log's schemas."""
    table = ours(lambda: kv_table(info, schema="shop"), "kv_table", meta)
    ours(lambda: table_schema(dict(info), schema="shop"), "table_schema", meta)
    if isinstance(table, TicdcDumpError):
        return
    layout = layout_of(1, info, new_collation=True)
    schema = type(table.schema)(table.schema.name, table.schema.columns, table.schema.key, layout=layout)
    again = ours(lambda: kv_table_of(schema), "layout", meta)
    if not isinstance(again, TicdcDumpError) and again.columns != table.columns:
        raise differ("layout", again, table, meta)
