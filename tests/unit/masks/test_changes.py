"""Schema changes of masked columns: which go through, with what existing rows have then, and which stop the sink by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa
import pytest

from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, Seq, TableDefinition, TableName, TableSchema
from spark_merge.ddl.effects import effects
from spark_merge.ddl.eras import eras
from spark_merge.masks.changes import check_changes
from spark_merge.masks.rules import ColumnRules
from spark_merge.masks.tables import masked_table
from spark_merge.port.contract import Head
from tests.support.masked import SALT, rules, slow_hash

T = TableName("s", "t")
ID = Column("id", "int", nullable=False)
EMAIL, MAIL, AGE = Column("email", "text"), Column("mail", "text"), Column("age", "int")
TYPES = {"id": "bigint(20)", "email": "varchar(50)", "mail": "varchar(50)", "age": "int(11)"}


def table(*columns: Column, name: TableName = T, types: dict[str, str] | None = None, default: str | None = None) -> TableSchema:
    made = [ColumnDefinition(one.name, (types or TYPES)[one.name], one.nullable, default=default) for one in (ID, *columns)]
    return TableSchema(name, (ID, *columns), ("id",), table_id=5, definition=TableDefinition(tuple(made)))


def head(before: TableSchema, query: str, after: TableSchema) -> Head:
    ddl = DdlRecord(CommitTs(90), *before.name, query)
    manifest = Manifest(Seq(3), 1, CommitTs(0), CommitTs(90), None, 0, 0, {}, "s", "c", (ddl,), next_schemas="n")
    return Head(manifest, {before.name: before}, {after.name: after})


def check(given: Head, by: ColumnRules, *, statements: bool = False, done: Collection[CommitTs] = ()) -> None:
    check_changes(given, by, statements=statements, done=done)


RENAME = head(table(EMAIL), "ALTER TABLE t RENAME COLUMN email TO mail", table(MAIL))
BACK = head(table(MAIL), "ALTER TABLE t RENAME COLUMN mail TO email", table(EMAIL))
MOVED = head(table(EMAIL), "RENAME TABLE t TO u", table(EMAIL, name=TableName("s", "u")))


@pytest.mark.parametrize("given", [{"leave_out": "s.t.email"}, {"hash": "s.t.email"}, {"constant": "s.t.email=>'x'"}])
@pytest.mark.parametrize("change", [RENAME, BACK, MOVED], ids=["out of the rule", "into it", "with its table"])
def test_a_column_that_gets_another_rule_by_its_name_stops(change: Head, given: dict[str, str]) -> None:
    """What the target has of it stays as it is."""
    with pytest.raises(
        SinkError, match=r"segment 3, the DDL at commit_ts 90: column e?mail of s\.t gets another column rule by it.*"
    ) as stopped:
        check(change, rules(**given))
    assert "another name=, and dump again; let one rule match both names" in stopped.value.hint


@pytest.mark.parametrize("given", [{"leave_out": "s.*.*mail"}, {"hash": "s.*.*mail"}, {"constant": "s.*.email=>NULL,s.*.mail=>NULL"}])
@pytest.mark.parametrize("change", [RENAME, BACK, MOVED])
def test_a_column_with_the_same_rule_under_both_names_is_renamed(change: Head, given: dict[str, str]) -> None:
    check(change, rules(**given))


def test_of_two_constants_the_values_count() -> None:
    check(RENAME, rules(constant="s.*.email=>'x',s.*.mail=>'x'"))
    with pytest.raises(SinkError, match=r"constant=s.*email and constant=s.*mail"):
        check(RENAME, rules(constant="s.*.email=>'x',s.*.mail=>'y'"))


@pytest.mark.parametrize(
    ("before", "after", "goes"),
    [
        ("varchar(50)", "varchar(99)", True),
        ("varchar(50)", "varchar(9)", False),
        ("varchar(50)", "text", True),
    ],
)
def test_a_hashed_column_keeps_the_texts_of_its_values(before: str, after: str, goes: bool) -> None:
    """A hash of another text would come with no change event."""
    change = head(
        table(EMAIL, types=TYPES | {"email": before}), "ALTER TABLE t MODIFY email x", table(EMAIL, types=TYPES | {"email": after})
    )
    change = replace(change, manifest=replace(change.manifest, ddls=(DdlRecord(CommitTs(90), *T, f"ALTER TABLE t MODIFY email {after}"),)))
    check(change, rules(leave_out="s.t.email"))
    check(change, rules(constant="s.t.email=>NULL"))
    if goes:
        check(change, rules(hash="s.t.email"))
    else:
        with pytest.raises(SinkError, match=r"hash=s\.t\.email: column email of s\.t has other texts after it"):
            check(change, rules(hash="s.t.email"))


def test_an_integer_whose_digits_stay_keeps_its_hash_and_one_that_gets_a_point_does_not() -> None:
    wider = head(table(AGE), "ALTER TABLE t MODIFY age bigint", table(AGE, types=TYPES | {"age": "bigint(20)"}))
    check(wider, rules(hash="s.t.age"))
    decimal = table(Column("age", "decimal", length=20, scale=2), types=TYPES | {"age": "decimal(20,2)"})
    with pytest.raises(SinkError, match="other texts"):
        check(head(table(AGE), "ALTER TABLE t MODIFY age decimal(20,2)", decimal), rules(hash="s.t.age"))


def test_a_year_that_becomes_an_integer_gets_other_digits() -> None:
    year = table(Column("age", "year"), types=TYPES | {"age": "year(4)"})
    with pytest.raises(SinkError, match="other texts"):
        check(head(year, "ALTER TABLE t MODIFY age int", table(AGE)), rules(hash="s.t.age"))


def test_a_column_that_becomes_the_key_stops() -> None:
    with pytest.raises(ConfigError, match=r"hash=s\.t\.email matches column email of s\.t, which is of the handle key"):
        check(head(table(EMAIL), "ALTER TABLE t ADD PRIMARY KEY (email)", replace(table(EMAIL), key=("email",))), rules(hash="s.t.email"))


ADD = head(table(), "ALTER TABLE t ADD COLUMN email varchar(50) DEFAULT 'a@x'", table(EMAIL, default="'a@x'"))


@pytest.mark.parametrize(
    ("given", "existing"),
    [({"leave_out": "s.t.email"}, []), ({"hash": "s.t.email"}, [slow_hash("a@x")]), ({"constant": "s.t.email=>'c'"}, ["c"])],
)
def test_a_new_column_is_masked_in_the_rows_that_were_there(given: dict[str, str], existing: list[str]) -> None:
    """For sinks that carry DDLs out, and for readers of outputs that keep rows of all times."""
    by, after = rules(**given), ADD.next_schemas[T]
    check(ADD, by)
    shown = masked_table(after, by.of(after), SALT, statements=False).schema
    (effect,) = effects(replace(ADD, next_schemas={T: shown}))
    assert [one.existing for one in effect.columns if one.before is None] == existing
    oldest = eras(shown, ADD.ddls)[-1]
    assert [one.existing for one in oldest.columns if one.name is None] == existing


def test_where_tidbs_own_statement_makes_another_value_than_the_constant_it_stops() -> None:
    by = rules(constant="s.t.email=>'c'")
    with pytest.raises(
        SinkError, match=r"rows of s\.t that were there have 'a@x' in the new column email, and constant=.* says 'c'"
    ) as stopped:
        check(ADD, by, statements=True)
    assert "ddl-done=90" in stopped.value.hint
    check(ADD, by, statements=True, done={CommitTs(90)})
    check(ADD, rules(constant="s.t.email=>'a@x'"), statements=True)
    unknown = head(table(), "ALTER TABLE t ADD COLUMN email varchar(50) DEFAULT (uuid())", table(EMAIL, default="uuid()"))
    with pytest.raises(SinkError, match="have the computed default uuid"):
        check(unknown, by, statements=True)
    check(unknown, by)


def pair(query: str, *tables: TableSchema) -> Head:
    """They are there before and after; EXCHANGE changes the ids of rows."""
    ddl = DdlRecord(CommitTs(90), *tables[0].name, query)
    manifest = Manifest(Seq(3), 1, CommitTs(0), CommitTs(90), None, 0, 0, {}, "s", "c", (ddl,), next_schemas="n")
    parted, *others = tables
    before = {parted.name: replace(parted, physical_ids=(51, 52))} | {
        one.name: replace(one, table_id=6, physical_ids=(6,)) for one in others
    }
    after = {parted.name: replace(parted, physical_ids=(6, 52))} | {
        one.name: replace(one, table_id=51, physical_ids=(51,)) for one in others
    }
    return Head(manifest, before, after)


EXCHANGE = "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u"
U = TableName("s", "u")


@pytest.mark.parametrize("given", ["s.t.email", "s.u.email"])
def test_two_tables_with_other_rules_exchange_no_rows(given: str) -> None:
    with pytest.raises(SinkError, match=r"s\.t and s\.u exchange rows by it, and their columns have other rules"):
        check(pair(EXCHANGE, table(EMAIL), table(EMAIL, name=U)), rules(constant=f"{given}=>NULL"), statements=True)


def test_two_tables_with_the_same_rules_do() -> None:
    check(pair(EXCHANGE, table(EMAIL), table(EMAIL, name=U)), rules(constant="s.*.email=>NULL"), statements=True)


def test_a_table_that_the_log_does_not_have_gives_its_rows_to_no_masked_one() -> None:
    """The target may have it."""
    one = pair(EXCHANGE, table(EMAIL))
    with pytest.raises(SinkError, match=r"exchange rows by it"):
        check(one, rules(constant="s.t.email=>NULL"), statements=True)


@pytest.mark.parametrize("query", ["", "ALTER TABLE t SOMETHING NEW"])
def test_a_masked_column_that_may_have_another_name_without_a_statement_stops(query: str) -> None:
    """Of a changefeed that hides DDLs the log has no text."""
    with pytest.raises(SinkError, match=r"email of s\.t is gone by it, and mail has come|another column rule"):
        check(head(table(EMAIL), query, table(MAIL)), rules(leave_out="s.t.email"))
    check(head(table(EMAIL), query, table()), rules(leave_out="s.t.email"))
    check(head(table(EMAIL), query, table(MAIL)), rules(leave_out="s.t.email,s.t.mail"))


@pytest.mark.parametrize("given", [{"hash": "s.t.email"}, {"constant": "s.t.email=>'x'"}])
def test_rows_from_before_a_wider_type_are_read_back_as_they_are(given: dict[str, str]) -> None:
    """No statement has converted a hash, which is longer than the type that the statement names."""
    after, by = table(EMAIL), rules(**given)
    ddl = DdlRecord(CommitTs(90), *T, "ALTER TABLE t MODIFY COLUMN email varchar(50)")
    check(head(table(EMAIL, types=TYPES | {"email": "varchar(20)"}), ddl.query, after), by)
    shown = masked_table(after, by.of(after), SALT, statements=False).schema
    oldest = eras(shown, [ddl])[-1]
    hashes = pa.array([slow_hash("a@x")])
    for types in (None, {"id": ID, "email": Column("email", "text")}):
        assert oldest.present({"id": pa.array(["1"]), "email": hashes}, 1, types=types)[1].equals(hashes)
