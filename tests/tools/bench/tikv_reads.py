"""A dump's chunks read from TiKV beside SQL: the same rows, from a stand-in of PD and one store and from MariaDB, each a process of its own
whose CPU does not count. Up to the chunks' files, decoded.

The stand-in is `python -m tests.tools.bench.tikv_reads ROWS`: its answers are made beforehand, so it is as quick as gRPC is in Python. It
prints PD's address, and ends with its standard input.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import grpc

from sidecar.adapters.tidb.source import TidbSource, own_readers
from sidecar.replay.kv_rows import row_key
from sidecar.shared.config import SourceSection, TikvSection
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.keyset import Key, quoted_table
from sidecar.shared.model.messages import Brackets, ChunkRead, ReadChunk, ReadWith
from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.reads.tikv_reads import TikvReads
from sidecar.shared.rowcodec.kv_layout import kv_table_of, layout_of, schema_under
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.sql.text import quoted
from tests.contract.test_sources import declared
from tests.support.recordings import recording
from tests.support.services.mariadb import MariaDb
from tests.support.tikv.recorded import whole_history
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Cost, Figure, beside, best_in_turn, rate, timed
from ticdc_dump.tikv import kvrpcpb_pb2, metapb_pb2, pdpb_pb2

ROWS = 600_000
CHUNK_ROWS = 50_000
READERS = 2
TABLE = TableName("zero", "customer")
POLL_S = 0.001
CLUSTER_ID = 1


def measure(bench: Bench) -> Iterator[Figure]:
    rows = bench.sized(ROWS)
    with (
        MariaDb(bench.new_folder("mariadb"), settings={"innodb-buffer-pool-size": "256M", "skip-log-bin": "ON"}) as db,
        serving(rows) as pd,
    ):
        fill(db, rows)
        for readers in (1, READERS):
            folder = bench.new_folder(f"chunks-{readers}")
            by_sql = partial(read_all, db.settings(), None, folder, rows=rows, readers=readers)
            by_tikv = partial(read_all, db.settings(), TikvSection(pd=(pd,)), folder, rows=rows, readers=readers)
            sql, tikv = best_in_turn(by_sql, by_tikv)
            figure = rate(f"chunk reads from TiKV, {readers} readers", rows, tikv, aim="≥ 2 × per core", limit="decoding, one process")
            yield beside(figure, "SELECTs", rows, sql)


def read_all(settings: SourceSection, tikv: TikvSection | None, folder: Path, *, rows: int, readers: int) -> Cost:
    """The whole table, in as many ranges as readers, chunk after chunk. `tikv` None: by SQL."""
    cost, write = Cost(), partial(write_chunk, open_folder(str(folder)))
    raw = TikvReads(tikv, {}) if tikv is not None else None
    make = own_readers(settings, raw, write_chunk=write, readers_max=readers)
    source = TidbSource(settings, schemas={TABLE: schema()}, write_chunk=write, changefeed_id="bench", make_readers=make)
    edges = [rows * part // readers - 1 for part in range(readers + 1)]
    try:
        with timed(cost):
            read = _walk(source, [_key(edge, raw is not None) for edge in edges], ReadWith.TIKV if raw is not None else ReadWith.SQL)
    finally:
        source.close()
    assert read == rows, f"{read} of {rows} rows were read"
    return cost


def _key(handle: int, is_raw: bool) -> Key:
    return (row_key(schema().table_id, handle).hex() if is_raw else str(handle),)


def _walk(source: TidbSource, edges: list[Key], read_with: ReadWith) -> int:
    uppers: dict[int, Key] = {}
    number = rows = 0

    def ask(after: Key | None, upper: Key) -> None:
        nonlocal number
        number += 1
        uppers[number] = upper
        source.request(ReadChunk("0123456789abcdef", 1, number, TABLE, after, upper, CHUNK_ROWS, Brackets.WATERMARK, read_with=read_with))

    for low, high in pairwise(edges):
        ask(low, high)
    while uppers:
        for event in source.results():
            assert isinstance(event, ChunkRead), event
            upper = uppers.pop(event.number)
            rows += event.file.rows
            if not event.exhausted:
                ask(event.file.last, upper)
        time.sleep(POLL_S)  # a source reports what is done only to a query
    return rows


# ---- the rows -------------------------------------------------------------------------------------------------------


def schema() -> TableSchema:
    (path,) = list((recording("zero") / "schema").glob(f"*/{TABLE}.json"))[:1]
    return schema_under(TableSchema(TABLE, (), ()), layout_of(1, json.loads(path.read_bytes()), new_collation=True))


def values() -> list[bytes]:
    """Of the recording's rows, without repeats."""
    start = row_key(schema().table_id, 0)[:11]
    return list({row.key: row.value for row in whole_history("zero").log if row.key.startswith(start) and row.value}.values())


def fill(db: MariaDb, rows: int) -> None:
    table, kv_table = schema(), kv_table_of(schema())
    columns = ", ".join(f"{quoted(column.name)} {declared(column)}" for column in table.columns)
    name, first = quoted_table(TABLE), values()
    db.execute(f"CREATE DATABASE {TABLE.schema}", f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({quoted(table.key[0])}))")
    place = table.column_names().index(table.key[0])
    texts = [decode_row(kv_table, row_key(table.table_id, 0), value) for value in first]
    places = ", ".join("CAST(%s AS UNSIGNED)" if column.kind == "bit" else "%s" for column in table.columns)
    with db.connect(sql_mode="") as connection, connection.cursor() as cursor:
        for begin in range(0, rows, len(first)):
            numbered = [[*row[:place], str(begin + at), *row[place + 1 :]] for at, row in enumerate(texts[: rows - begin])]
            cursor.executemany(f"INSERT INTO {name} VALUES ({places})", numbered)
        connection.commit()
    db.execute(f"ANALYZE TABLE {name}")


# ---- the stand-in ---------------------------------------------------------------------------------------------------


@contextmanager
def serving(rows: int) -> Iterator[str]:
    """PD's address."""
    with Popen([sys.executable, "-m", "tests.tools.bench.tikv_reads", str(rows)], stdin=PIPE, stdout=PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


def main(rows: int) -> None:
    table_id, first = schema().table_id, values()
    pairs = []
    for handle in range(rows):
        data = kvrpcpb_pb2.KvPair(key=row_key(table_id, handle), value=first[handle % len(first)]).SerializeToString()
        pairs.append(b"\x12" + _varint(len(data)) + data)
    peer = metapb_pb2.Peer(id=1, store_id=1)
    region = metapb_pb2.Region(id=1, region_epoch=metapb_pb2.RegionEpoch(conf_ver=1, version=1), peers=[peer])
    header = pdpb_pb2.ResponseHeader(cluster_id=CLUSTER_ID)
    server = grpc.server(ThreadPoolExecutor(2 * READERS + 2))
    port = server.add_insecure_port("127.0.0.1:0")
    address = f"127.0.0.1:{port}"

    def scan(data: bytes, _: Any) -> bytes:
        request = kvrpcpb_pb2.ScanRequest.FromString(data)
        begin, end = (_handle(key, table_id, rows) for key in (request.start_key, request.end_key))
        return b"".join(pairs[begin : min(end, begin + request.limit)])

    def members(_: bytes, __: Any) -> bytes:
        leader = pdpb_pb2.Member(name="pd", member_id=1, client_urls=[f"http://{address}"])
        return bytes(pdpb_pb2.GetMembersResponse(header=header, members=[leader], leader=leader).SerializeToString())

    def regions(_: bytes, __: Any) -> bytes:
        only = pdpb_pb2.Region(region=region, leader=peer)
        return bytes(pdpb_pb2.ScanRegionsResponse(header=header, regions=[only]).SerializeToString())

    def store(_: bytes, __: Any) -> bytes:
        only = metapb_pb2.Store(id=1, address=address, version="9.0.0")
        return bytes(pdpb_pb2.GetStoreResponse(header=header, store=only).SerializeToString())

    def tso(requests: Iterator[bytes], _: Any) -> Iterator[bytes]:
        for _request in requests:
            yield pdpb_pb2.TsoResponse(header=header, count=1, timestamp=pdpb_pb2.Timestamp(physical=1, logical=1)).SerializeToString()

    unary = grpc.unary_unary_rpc_method_handler
    services = {
        "pdpb.PD": {"GetMembers": unary(members), "ScanRegions": unary(regions), "GetStore": unary(store)},
        "tikvpb.Tikv": {"KvScan": unary(scan)},
    }
    services["pdpb.PD"]["Tso"] = grpc.stream_stream_rpc_method_handler(tso)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, calls) for name, calls in services.items()])
    server.start()
    sys.stdout.write(address + "\n")
    sys.stdout.flush()
    sys.stdin.read()


def _handle(key: bytes, table_id: int, rows: int) -> int:
    """The first one whose key is `key` or comes after it."""
    prefix = row_key(table_id, 0)[:11]
    if not key.startswith(prefix):
        return 0 if key < prefix else rows
    handle = int.from_bytes(key[11:19].ljust(8, b"\0"), "big") - (1 << 63)
    return min(max(handle + (len(key) > 19), 0), rows)


def _varint(number: int) -> bytes:
    result = b""
    while number > 127:
        result += bytes([number & 127 | 128])
        number >>= 7
    return result + bytes([number])


if __name__ == "__main__":
    main(int(sys.argv[1]))
