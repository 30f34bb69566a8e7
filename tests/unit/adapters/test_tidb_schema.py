"""What orders reads and how a type's labels are read, by the schema alone (tests/integration/test_tidb_schema.py: by a server)."""

from __future__ import annotations

import pytest

from sidecar.adapters.tidb.schema import TableFacts, read_key
from sidecar.adapters.tidb.sql import Flavour
from sidecar.core.model import Column, TableName, TableSchema
from sidecar.errors import SourceError

TABLE = TableName("app", "t")
ID, NAME, PRICE = Column("id", "int", nullable=False), Column("name", "text", nullable=False), Column("price", "double", nullable=False)


def facts(*, clustered: bool | None = True, partitioned: bool = False) -> TableFacts:
    return TableFacts(rows=1, bytes=1, clustered=clustered, partitioned=partitioned, charsets={"name": ("utf8mb4", "utf8mb4_bin")})


# ---- what orders the SELECTs ----------------------------------------------------------------------------------------


def test_a_clustered_primary_key_orders_the_reads() -> None:
    key = read_key(TableSchema(TABLE, (ID, NAME), ("name", "id")), facts(), Flavour.TIDB)
    assert [(part.column.name, part.charset, part.collation) for part in key.columns] == [
        ("name", "utf8mb4", "utf8mb4_bin"),
        ("id", "", ""),
    ]


def test_tidb_reads_a_table_without_a_clustered_key_by_rowid_whatever_its_key_is() -> None:
    assert read_key(TableSchema(TABLE, (ID, PRICE), ("price",)), facts(clustered=False), Flavour.TIDB).by_rowid


def test_a_partitioned_table_is_never_read_by_rowid() -> None:
    """EXCHANGE PARTITION can leave two rows of it with one _tidb_rowid."""
    unclustered = facts(clustered=False, partitioned=True)
    assert not read_key(TableSchema(TABLE, (ID, PRICE), ("id",)), unclustered, Flavour.TIDB).by_rowid
    with pytest.raises(SourceError, match="price is a double"):
        read_key(TableSchema(TABLE, (ID, PRICE), ("price",)), unclustered, Flavour.TIDB)


def test_other_servers_have_no_rowid() -> None:
    assert not read_key(TableSchema(TABLE, (ID,), ("id",)), facts(clustered=None), Flavour.MARIADB).by_rowid


def test_a_table_without_a_key_is_refused_also_where_a_rowid_would_help() -> None:
    with pytest.raises(SourceError, match="does not replicate"):
        read_key(TableSchema(TABLE, (ID,), ()), facts(clustered=False), Flavour.TIDB)
