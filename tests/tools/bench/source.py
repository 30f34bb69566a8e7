"""Chunk reads through the source: SELECT to a durable chunk file, chunk after chunk, as a dump without throttles asks for them.

Beside it one plain SELECT of the same table by connectorx into Arrow, which casts and writes nothing. CPU is that of this process: the
server's is its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import connectorx

from sidecar.adapters.tidb.source import MakeReaders, TidbSource
from sidecar.shared.config import SourceSection
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.keyset import Key, quoted_table
from sidecar.shared.model.messages import Brackets, ChunkRead, ReadChunk
from sidecar.shared.model.nouns import TableName
from tests.support.services.mariadb import MariaDb
from tests.tools.bench import account
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Cost, Figure, beside, best_in_turn, rate, timed, timed_tree

ROWS = 300_000
CHUNK_ROWS = 10_000
POLL_S = 0.001

_COLUMNS = """(
  id BIGINT PRIMARY KEY, customer INT NOT NULL, email VARCHAR(60) NOT NULL, name VARCHAR(60), amount DECIMAL(20,4) NOT NULL,
  state ENUM('new','active','frozen','closed') NOT NULL, opened DATETIME(6) NOT NULL, updated TIMESTAMP(6) NOT NULL, birthday DATE,
  score DOUBLE, note TEXT, version INT NOT NULL)"""


def measure(bench: Bench) -> Iterator[Figure]:
    """Rows a second of each reader, one chunk at a time and four side by side."""
    rows = bench.sized(ROWS)
    with MariaDb(bench.new_folder("mariadb"), settings={"innodb-buffer-pool-size": "256M", "skip-log-bin": "ON"}) as db:
        fill(db, rows)
        for readers, aim in ((1, 0.65), (4, 0.8)):
            reading = partial(read_all, db.settings(), bench.new_folder("chunks"), rows=rows, readers=readers)
            plain, cost = best_in_turn(partial(_plain, db), reading)
            side = "" if readers == 1 else f", {readers} side by side"
            limit = "one connection of the server" if readers == 1 else "the machine's cores, which the server shares"
            figure = rate(f"chunk reads{side}", rows, cost, aim=f"≥ {aim} of a plain SELECT", limit=limit)
            yield beside(figure, "SELECT * by connectorx", rows, plain)


def make_table(db: MariaDb, schema: str) -> None:
    db.execute(f"CREATE TABLE {quoted_table(TableName(schema, account.ACCOUNT.table))} {_COLUMNS}")


def fill(db: MariaDb, rows: int) -> None:
    db.execute(f"CREATE DATABASE {account.ACCOUNT.schema}")
    make_table(db, account.ACCOUNT.schema)
    places = ", ".join(["%s"] * len(account.SCHEMA.columns))
    with contextlib.closing(db.connect()) as connection, connection.cursor() as cursor:
        for first in range(0, rows, CHUNK_ROWS):
            values = list(zip(*(column.to_pylist() for column in account.rows(first, min(CHUNK_ROWS, rows - first)).columns), strict=True))
            cursor.executemany(f"INSERT INTO {quoted_table(account.ACCOUNT)} VALUES ({places})", values)
    db.execute(f"ANALYZE TABLE {quoted_table(account.ACCOUNT)}")


def _plain(db: MariaDb) -> Cost:
    cost, url = Cost(), f"mysql://{db.user}:{quote(db.password, safe='')}@{db.host}:{db.port}/"
    with timed(cost):
        connectorx.read_sql(url, f"SELECT * FROM {quoted_table(account.ACCOUNT)}", return_type="arrow", protocol="text")
    return cost


def read_all(
    settings: SourceSection, folder: Path, *, rows: int, readers: int, where: str | None = None, remote: MakeReaders | None = None
) -> Cost:
    """The whole table, cut into as many ranges as there are readers, each read chunk after chunk. `remote`: by readers elsewhere,
    whose CPU counts too."""
    cost, log = Cost(), open_folder(str(folder))
    source = TidbSource(
        settings,
        schemas={account.ACCOUNT: account.SCHEMA},
        write_chunk=partial(write_chunk, log),
        changefeed_id="bench",
        readers_max=readers,
        make_readers=remote,
    )
    try:
        with timed(cost) if remote is None else timed_tree(cost):
            read = _walk(source, [rows * part // readers for part in range(readers + 1)], where)
    finally:
        source.close()
    assert read == rows, f"{read} of {rows} rows were read"
    return cost


def _walk(source: TidbSource, cuts: list[int], where: str | None) -> int:
    uppers: dict[int, Key | None] = {}
    number = rows = 0

    def ask(after: Key | None, upper: Key | None, follows: int | None = None) -> None:
        nonlocal number
        number += 1
        uppers[number] = upper
        command = ReadChunk("0123456789abcdef", 1, number, account.ACCOUNT, after, upper, CHUNK_ROWS, Brackets.WATERMARK)
        source.request(replace(command, ahead=True, follows=follows, where=where))

    for low, high in pairwise(cuts):
        ask((str(low - 1),), (str(high - 1),))
    while uppers:
        for event in source.results():
            assert isinstance(event, ChunkRead), event
            upper = uppers.pop(event.number)
            rows += event.file.rows
            if not event.exhausted:
                ask(event.file.last, upper, follows=event.number)
        time.sleep(POLL_S)  # a source reports what is done only to a query
    return rows
