"""What TiCDC sends of a table whose rows are deleted softly, and what a dump reads of it, ends in every protocol as what TiDB shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sidecar.shared.codecs.csv import CODEC, CsvCodec
from sidecar.shared.codecs.registry import CARRIERS
from sidecar.shared.errors import SourceError
from sidecar.shared.model.messages import Brackets, ReadChunk
from sidecar.shared.model.nouns import Change, Lane, Message, TableSchema
from sidecar.shared.model.soft_delete import SOFT_DELETE_TIME
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.key_ranges import KeySpan
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.read import ChunkReader, SelectedChunk
from sidecar.shared.reads.tables import read_schemas
from spark_merge.codecs.decode.rows import decode
from spark_merge.port.readable import rows_of as parts_rows
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.sinks.mysql.server_table import ServerColumn, ServerTable
from spark_merge.verify.source import SqlSource
from tests.contract.test_protocols import codec_of, encoder_of, rows_of
from tests.lanes import examples
from tests.support.services.fake_tidb import FakeTable, FakeTidb
from tests.unit.decode.log import logged
from tests.unit.decode.test_csv import row as csv_row
from tests.unit.encode.open_tables import Image, changes, table

SOFT = table([("id", "int(11)"), ("name", "varchar(20)"), (SOFT_DELETE_TIME, "timestamp(6)")])
SOFT = replace(SOFT, columns=(*SOFT.columns[:-1], replace(SOFT.columns[-1], scale=6)))
TIME = "2026-08-01 10:00:00.000000"
OPTIONS = "/*T![softdelete] SOFTDELETE=RETENTION 7 DAY */"
TIDB_TABLE = FakeTable(10, {"id": "bigint NOT NULL", "name": "varchar(20)", SOFT_DELETE_TIME: "timestamp(6)"}, options=OPTIONS)
KEYS = 4
Images = tuple[Image | None, Image | None]


@dataclass
class SoftTable:
    """A SOFTDELETE table as TiKV has it, and what TiCDC's new architecture sends of each change (EvaluateRowPolicy)."""

    rows: dict[str, Image] = field(default_factory=dict)
    sent: list[Images] = field(default_factory=list)
    written: int = 0

    def shown(self) -> dict[str, Image]:
        return {key: image for key, image in self.rows.items() if image[2] is None}

    def change(self, random: Random) -> None:
        key = str(random.randrange(KEYS))
        before, live = self.rows.get(key), key in self.shown()
        self.written += 1
        new: Image = [key, f"v{self.written}", None]
        match random.choice(["INSERT", "UPDATE", "DELETE", "RECOVER VALUES", "clean-up"]):
            case "INSERT" if not live:
                self._put(key, new)
            case "UPDATE" if live:
                self._put(key, new)
            case "DELETE" if live and before is not None:
                self._put(key, [*before[:2], TIME])
            case "RECOVER VALUES" if before is not None and not live:
                self._put(key, [*before[:2], None])
            case "clean-up" if before is not None and not live:
                del self.rows[key]  # TiCDC omits what is really deleted

    def _put(self, key: str, after: Image) -> None:
        before = self.rows.get(key)
        self.rows[key] = after
        turned = before is not None and before[2] is None and after[2] is not None
        self.sent.append((before, None if turned else after))


def of_messages(protocol: str) -> Callable[[Sequence[Images]], list[dict[str, Any]]]:
    def read(images: Sequence[Images]) -> list[dict[str, Any]]:
        codec, rows = codec_of(protocol), changes(SOFT, *images)
        of_log = logged(rows_of(codec, encoder_of(protocol, "new").rows(SOFT, rows, None)), codec=protocol)
        return sorted(decode(of_log, codec=protocol, schemas={SOFT.name: SOFT}).to_pylist(), key=lambda one: int(one["ordinal"]))

    return read


def of_csv(images: Sequence[Images]) -> list[dict[str, Any]]:
    codec, results = CsvCodec(), []
    for number, (before, after) in enumerate(images):
        kind = "DELETE" if after is None else "INSERT" if before is None else "UPDATE"
        value = csv_row(kind, after or before or [], before if kind == "UPDATE" else None, of=SOFT)
        results += [one for one in codec.envelopes(Message(Lane("storage"), number, None, value)) if isinstance(one, Change)]
    rows = decode(logged(results, codec=CODEC), codec=CODEC, schemas={SOFT.name: SOFT}, server_tz="UTC").to_pylist()
    return sorted(rows, key=lambda one: int(one["ordinal"]))


FEEDS = {CODEC: of_csv} | {protocol: of_messages(protocol) for protocol in CARRIERS}


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("seed", range(examples(20)))
def test_a_dump_and_what_ticdc_sends_after_it_end_as_what_tidb_shows(feed: str, seed: int) -> None:
    """A row that comes again is an UPDATE of one that the output lacks: it is put whatever there is."""
    random, source = Random(seed), SoftTable()
    for _ in range(random.randrange(10)):
        source.change(random)
    output = dict(source.shown())
    source.sent.clear()
    for _ in range(30):
        source.change(random)
    for one in FEEDS[feed](source.sent):
        if one["op"] == "delete":
            output.pop(one["before"][0], None)
        else:
            output[one["after"][0]] = one["after"]
    assert output == source.shown()


def test_the_story_has_updates_of_rows_that_no_output_has() -> None:
    random, source = Random(0), SoftTable()
    for _ in range(200):
        source.change(random)
    assert any(before is not None and before[2] is not None and after is not None for before, after in source.sent)


# ---- what is read of it ---------------------------------------------------------------------------------------------


@pytest.fixture
def tidb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTidb]:
    monkeypatch.setenv(SqlServer.PASSWORD, "")
    columns = [ServerColumn(name, text, None, generated=False) for name, text in TIDB_TABLE.columns.items()]
    monkeypatch.setattr("spark_merge.verify.source.read_table", lambda *_: ServerTable(tuple(columns), ()))
    with FakeTidb(tmp_path) as fake:
        yield fake


def schema_of(tidb: FakeTidb, shown: FakeTable) -> TableSchema:
    tidb.history = {0: {SOFT.name: shown}}
    with closing(MysqlSession(Account.of(tidb.settings()), Role.READ_SOURCE)) as session:
        return read_schemas(session)[SOFT.name]


def dumped(tidb: FakeTidb, schema: TableSchema) -> pa.Table:
    command = ReadChunk("d" * 16, 1, 1, SOFT.name, None, None, 100, brackets=Brackets.WATERMARK)
    with closing(MysqlSession(Account.of(tidb.settings()), Role.READ_SOURCE)) as session:
        chunk = ChunkReader({schema.name: schema}).read(session, command, stopped=lambda: False)
    assert isinstance(chunk, SelectedChunk)
    return chunk.texts(where="")


def compared(tidb: FakeTidb, schema: TableSchema) -> pa.Table:
    settings = tidb.settings()
    source = SqlSource(SqlServer(((settings.host, settings.port),), settings.user))
    (part,) = source.ranges(schema, [KeySpan()], form=None)
    return pa.concat_tables(one.rows for one in parts_rows(part))


@pytest.mark.parametrize("read", [dumped, compared], ids=["a dump", "a verification"])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_read_of_the_source_are_the_rows_that_tidb_shows(tidb: FakeTidb, read: Callable[..., pa.Table], seed: int) -> None:
    random, source = Random(seed), SoftTable()
    for _ in range(30):
        source.change(random)
    schema = schema_of(tidb, replace(TIDB_TABLE, rows=tuple(map(tuple, source.rows.values()))))
    assert [list(one.values()) for one in read(tidb, schema).to_pylist()] == list(source.shown().values())


@pytest.mark.parametrize("read", [dumped, compared], ids=["a dump", "a verification"])
def test_a_table_that_only_has_the_column_is_not_read(tidb: FakeTidb, read: Callable[..., pa.Table]) -> None:
    schema = schema_of(tidb, replace(TIDB_TABLE, options=f"COMMENT='{OPTIONS}'", rows=(("1", "a", TIME),)))
    with pytest.raises(SourceError, match=f"shop.t has a column {SOFT_DELETE_TIME}, and its rows are not deleted softly"):
        read(tidb, schema)


@pytest.mark.parametrize(("role", "value"), [(role, "1" if role.at_source else "0") for role in Role])
def test_only_the_source_is_read_with_the_translation(tidb: FakeTidb, role: Role, value: str) -> None:
    with closing(MysqlSession(Account.of(tidb.settings()), role)) as session:
        assert session.rows("SELECT @@tidb_translate_softdelete_sql") == ((value,),)
