"""ClickHouse's engine (chdb behind our HTTP front) as a target of `sinks.py`; beside it the same rows, inserted by hand."""

from __future__ import annotations

import time
from functools import partial
from urllib.parse import quote

import pyarrow as pa

from tests.support.services.clickhouse import ClickHouse
from tests.tools.bench.account import ACCOUNT
from tests.tools.bench.figures import Cost, timed
from tests.tools.bench.sinks import Target

BLOCK_ROWS = 200_000


def clickhouse(server: ClickHouse) -> Target:
    """The password is in a file: Spark's workers have the environment that the first measurement had."""
    password = server.folder / "password"
    password.write_text(server.password)

    def uri(name: str) -> str:
        database = name.replace("-", "_")
        routes = quote(f"{ACCOUNT.schema}.*=>{database}.*")
        account = f"{server.user}@{server.host}:{server.port}"
        return f"clickhouse://{account}/ticdc_dump_{database}?password-file={password}&routes={routes}"

    return Target(
        "ClickHouse", uri, partial(_inserted, server), "inserts of the same rows", "the engine, which shares the cores", "≥ 0.8 ×"
    )


def _inserted(server: ClickHouse, name: str) -> Cost:
    source = f"`{name.replace('-', '_')}`.`{ACCOUNT.table}__rows`"
    like, cost = f"{source[:-1]}_again_{time.monotonic_ns()}`", Cost()
    server.execute(f"CREATE TABLE {like} AS {source}")
    rows = server.arrow(f"SELECT * FROM {source}").combine_chunks()
    with timed(cost):
        for start in range(0, rows.num_rows, BLOCK_ROWS):
            out = pa.BufferOutputStream()
            with pa.ipc.new_stream(out, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
                writer.write_table(rows.slice(start, BLOCK_ROWS))
            server.post(f"INSERT INTO {like} FORMAT ArrowStream\n".encode() + out.getvalue().to_pybytes())
    return cost
