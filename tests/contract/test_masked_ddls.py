"""Schema changes at sinks whose column rules mask a new, a renamed or a dropped column: rows that were there, and those that come after."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, TableDefinition, TableSchema
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Readable, newest
from spark_merge.sinks.registry import open_sink
from tests.support.deliveries import ORDERS, Segments, change
from tests.support.masked import salt_file, slow_hash

Texts = tuple[str | None, ...]
ID, NAME = Column("id", "int", nullable=False), Column("name", "text")
EMAIL, MAIL = Column("email", "text"), Column("e_mail", "text")
OUTPUTS = [
    "sqlite://{}/out.db?",
    "delta://{}/lake?mode=merge&commit-interval=0s&",
    "delta://{}/lake?mode=append&commit-interval=0s&",
    "file://{}/out?format=jsonl&",
    "file://{}/out?format=parquet&",
    "file://{}/out?protocol=csv&csv.include-commit-ts=true&flush-interval=2s&",
]


def table(*columns: Column, defaults: Mapping[str, str] | None = None) -> TableSchema:
    made = tuple(
        ColumnDefinition(one.name, "int(11)" if one.kind == "int" else "varchar(50)", one.nullable, default=(defaults or {}).get(one.name))
        for one in columns
    )
    return TableSchema(ORDERS, columns, ("id",), table_id=7, definition=TableDefinition(made))


class Output:
    """A sink, and the table as it is at each segment."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri, self.log = uri, open_folder(str(folder / "log"))
        self.schema, self.seq = table(ID, NAME), 0

    def deliver(self, *rows: Texts, ddl: str = "", after: TableSchema | None = None) -> None:
        """Inserts of a segment that a DDL ends. A worker that dies behind the tasks is followed by another one."""
        self.seq += 1
        changes = [change(self.seq, 100 * self.seq - 50 + at, after=list(row), ordinal=at) for at, row in enumerate(rows)]
        ddls = {self.seq: (DdlRecord(CommitTs(100 * self.seq), *ORDERS, ddl),)} if ddl else {}
        segments, now = Segments([self.seq], changes, ddls), {ORDERS: self.schema}
        then = now if after is None else {ORDERS: after}
        for dies in (True, False):
            sink = open_sink(self.uri, log_id="log-1")
            sink.open(epoch=None)
            batch = sink.plan([replace(one, next_schemas=then) for one in segments.heads(now)], cores=2)
            writer = pickle.loads(pickle.dumps(batch.writer))
            outcomes = [writer(task, segments.portions(task, now, self.log)) for stage in batch.stages for task in stage]
            if not dies:
                sink.accept(batch, outcomes)
            sink.close()
        self.schema = then[ORDERS]

    def accepted(self) -> Accepted | None:
        return open_sink(self.uri, log_id="log-1").look()

    def rows(self) -> tuple[Sequence[str], list[Texts]]:
        """As the target has them."""
        sink = open_sink(self.uri, log_id="log-1")
        assert isinstance(sink, Readable)
        reading = sink.reading(self.schema, parts=2)
        rows = newest(reading, reading.schema or self.schema)
        return rows.column_names, sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True), key=repr)


@pytest.fixture(params=OUTPUTS)
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


def add_and_rename(output: Output) -> None:
    """`old@x` is the default of a column that is added; it is then called otherwise, and another one is dropped."""
    output.deliver(("1", "Ann"))
    output.deliver(
        ("2", "Bob"),
        ddl="ALTER TABLE `orders` ADD COLUMN `email` VARCHAR(50) DEFAULT 'old@x'",
        after=table(ID, NAME, EMAIL, defaults={"email": "'old@x'"}),
    )
    output.deliver(("3", "Cid", "c@x"), ("4", None, None))
    output.deliver(
        ddl="ALTER TABLE `orders` RENAME COLUMN `email` TO `e_mail`", after=table(ID, NAME, MAIL, defaults={"e_mail": "'old@x'"})
    )
    output.deliver(("5", "Eva", "e@x"))
    output.deliver(ddl="ALTER TABLE `orders` DROP COLUMN `name`", after=table(ID, MAIL, defaults={"e_mail": "'old@x'"}))
    output.deliver(("6", "f@x"))


MAILS = {"1": "old@x", "2": "old@x", "3": "c@x", "4": None, "5": "e@x", "6": "f@x"}


def test_a_hashed_column_has_hashes_alone_from_its_default_on(base: str, tmp_path: Path) -> None:
    output = Output(f"{base}hash=*.*.*mail&salt-file={salt_file(tmp_path)}", tmp_path)
    add_and_rename(output)
    assert output.rows() == (["id", "e_mail"], [(key, None if text is None else slow_hash(text)) for key, text in MAILS.items()])


def test_a_constant_is_in_all_rows(base: str, tmp_path: Path) -> None:
    output = Output(f"{base}constant=*.*.*mail=>'x'", tmp_path)
    add_and_rename(output)
    assert output.rows() == (["id", "e_mail"], [(key, "x") for key in MAILS])


def test_a_column_that_is_left_out_never_comes(base: str, tmp_path: Path) -> None:
    output = Output(f"{base}leave-out=*.*.*mail", tmp_path)
    add_and_rename(output)
    assert output.rows() == (["id"], [(key,) for key in MAILS])


@pytest.mark.parametrize("rule", ["hash=shop.orders.email", "leave-out=shop.orders.email", "constant=shop.orders.email=>NULL"])
def test_a_rename_out_of_a_rule_stops_with_nothing_delivered(base: str, tmp_path: Path, rule: str) -> None:
    output = Output(f"{base}{rule}&salt-file={salt_file(tmp_path)}", tmp_path)
    output.schema = table(ID, EMAIL)
    output.deliver(("1", "a@x"))
    before = output.accepted(), output.rows()
    with pytest.raises(SinkError, match=r"column email of shop\.orders gets another column rule by it"):
        output.deliver(("2", "b@x"), ddl="ALTER TABLE `orders` RENAME COLUMN `email` TO `e_mail`", after=table(ID, MAIL))
    assert (output.accepted(), output.rows()) == before
