"""What is understood of TiDB's DDLs: all of the recordings but views, and what each word of TiDB's own becomes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.replay.recording import Recording
from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.model.nouns import Ddl, Message, TableName
from sidecar.shared.mysql.flavour import Flavour, flavour_of
from sidecar.shared.sql.text import quoted
from spark_merge.ddl.parser import parsed
from spark_merge.ddl.statement import Feature, StatementKind
from spark_merge.sinks.mysql.ddl_dialect import DECISIONS, TableCharset, rendered
from tests.support.recordings import recording

RECORDINGS = ("demo", "shop", "shop-new", "ddl", "ddl-new", "filter", "rowformats", "restart", "large", "tz")
MARIADB, MYSQL, TIDB = Flavour.MARIADB, Flavour.MYSQL, Flavour.TIDB
CREATED = " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def for_target(text: str, dialect: Flavour = MARIADB, schema: str = "s") -> str:
    return rendered(parsed(text, schema), dialect)


# ---- the recordings ----------------------------------------------------------------------------------------------------


def history(name: str) -> Iterator[tuple[str, str]]:
    """As the authors wrote them: what a feed of raw key-values tells."""
    for line in (recording(name) / "schema" / "ddl_history.jsonl").read_text().splitlines():
        job = json.loads(line)["job_meta"]
        job = json.loads(job) if isinstance(job, str) else job
        if job.get("query"):
            yield job["schema_name"], job["query"]


def statements(name: str, feed: str) -> Iterator[tuple[str, str]]:
    """As TiCDC sent them."""
    result = Recording(recording(name))
    config = result.feed_config(feed)
    codec = config.codec()
    for lane, messages in result.messages(config).items():
        for number, one in enumerate(messages):
            for envelope in codec.envelopes(Message(lane, number, one.key, one.value)):
                if isinstance(envelope, Ddl):
                    yield envelope.schema, envelope.query


@pytest.mark.recordings
@pytest.mark.parametrize("name", RECORDINGS)
def test_every_recorded_ddl_but_views_is_understood_as_its_author_wrote_it(name: str) -> None:
    seen = set(history(name))
    assert len(seen) > 20
    for schema, query in seen:
        check(schema, query)


@pytest.mark.recordings
@pytest.mark.parametrize("feed", ["open-protocol", "canal-json"])
@pytest.mark.parametrize("name", ["ddl", "ddl-new"])
def test_every_recorded_ddl_but_views_is_understood_as_ticdc_sent_it(name: str, feed: str) -> None:
    seen = set(statements(name, feed))
    assert len(seen) >= 28
    for schema, query in seen:
        check(schema, query)


def check(schema: str, query: str) -> None:
    """It is given to each target, and what a target is given is understood to the same text: nothing is half copied."""
    statement = parsed(query, schema)
    if statement.kind is StatementKind.CREATE_VIEW:
        with pytest.raises(UnsupportedDdl, match="makes a view"):
            rendered(statement, MARIADB)
        return
    for dialect in Flavour:
        text = rendered(statement, dialect)
        assert statement.kind is StatementKind.NOTHING or text
        assert rendered(parsed(text, "another"), dialect) == text, "names have schemas, and nothing else changes"


# ---- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "leaving"),
    [
        ("DROP PARTITION IF EXISTS p0, `P 1`", ("p0", "P 1")), ("TRUNCATE PARTITION p0", ("p0",)), ("TRUNCATE PARTITION ALL", ()),
        ("FIRST PARTITION LESS THAN (9)", None), ("ADD COLUMN a INT", None),
    ],
)  # fmt: skip
def test_the_partitions_whose_rows_leave_are_named(change: str, leaving: tuple[str, ...] | None) -> None:
    assert parsed(f"ALTER TABLE t {change}", "s").leaving == leaving


def test_tables_are_named_in_the_order_of_the_text_and_moves_in_turn() -> None:
    statement = parsed("rename table a to tmp, b to a, tmp to b", "s")
    assert statement.tables() == tuple(TableName("s", one) for one in ("a", "tmp", "b"))
    assert [(one.table, to.table) for one, to in statement.moves] == [("a", "tmp"), ("b", "a"), ("tmp", "b")]
    exchanged = parsed("alter table t exchange partition `P 1` with table u", "s")
    assert (exchanged.kind, exchanged.leaving, exchanged.moves) == (
        StatementKind.EXCHANGE,
        ("P 1",),
        ((TableName("s", "t"), TableName("s", "u")),),
    )


# ---- what TiDB alone knows -----------------------------------------------------------------------------------------------

TABLE, ALTER = "CREATE TABLE `s`.`t` (", "ALTER TABLE `s`.`t`"


@pytest.mark.parametrize("text", ["", "select 1", "drop table t */", "create table t (`a int)"])
def test_what_is_not_understood_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(UnsupportedDdl, match=r"(?s)DDL.*ddl-done"):
        for_target(text)


def test_a_statement_that_is_cut_anywhere_is_refused_or_another_whole_one() -> None:
    """Never a half: what is left of a cut statement is a statement by itself, or is refused."""
    whole = "alter table `t` add column (`a` int default 1, b varchar(5) collate utf8mb4_bin not null), drop index `i`, add key k (a, b)"
    taken = []
    for end in range(len(whole)):
        try:
            taken.append(for_target(whole[:end]))
        except UnsupportedDdl:
            continue
    assert all(text.count("(") == text.count(")") and not text.endswith(",") for text in taken)
    assert len(taken) < 30


# ---- options that change no row ----------------------------------------------------------------------------------------

VIEWS = [
    f"CREATE {replace}{algorithm}{definer}{security}VIEW v (a) AS SELECT 1"
    for replace in ("", "OR REPLACE ")
    for algorithm in ("", "ALGORITHM = MERGE ")
    for definer in ("", "DEFINER = `root`@`%` ", "DEFINER='a b'@'10.%' ", "DEFINER = CURRENT_USER() ", "DEFINER = root ")
    for security in ("", "SQL SECURITY INVOKER ")
]


@pytest.mark.parametrize("text", VIEWS)
def test_a_view_is_one_however_it_is_defined(text: str) -> None:
    assert parsed(text, "s").kind is StatementKind.CREATE_VIEW


def test_a_table_with_a_column_of_that_name_is_no_view() -> None:
    statement = parsed("create table t (view int, b int as (view + 1))", "s")
    assert (statement.kind, statement.tables()) == (StatementKind.CREATE_TABLE, (TableName("s", "t"),))


PLACES = {
    "a table's": ("create table t (a int) {}", f"{TABLE} `a` int){CREATED}"),
    "a table's, after others": ("create table t (a int) comment 'x' {} auto_increment = 3",
                                f"{TABLE} `a` int){CREATED} comment 'x' auto_increment = 3"),
    "a table's, after its partitions": ("create table t (a int) partition by hash (a) partitions 2 {}",
                                        f"{TABLE} `a` int){CREATED} partition by hash (a) partitions 2"),
    "a change's": ("alter table t add b int, {}", f"{ALTER} add `b` int"),
    "a column's": ("create table t (a int {} default 1)", f"{TABLE} `a` int default 1){CREATED}"),
    "an index's": ("create index i on t (a) {}", "create index `i` on `s`.`t` ( `a`)"),
    "an index's of a table": ("create table t (a int, key (a) {} comment 'x')", f"{TABLE} `a` int, key ( `a`) comment 'x'){CREATED}"),
    "an index's of a change": ("alter table t add unique u (a) {}", f"{ALTER} add unique `u` ( `a`)"),
    "a partition's": ("alter table t add partition (partition p values less than (9) {})",
                      f"{ALTER} add partition (partition `p` values less than (9))"),
    "a schema's": ("create database s {}", "CREATE DATABASE `s` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
}  # fmt: skip
OPTIONS = (
    "/*T![new] FROBNICATE */", "/*T![new] FROB NICATE = 'on' */", "/*T![new] FROB = DEFAULT */", "/*T![new,ttl] FROB (1, `a`) MODE 3 */",
    "/*T! FROB = `p` */", "/*!99999 FROB = (BETWEEN (1) AND (9) REGIONS 4) */", "/*T![placement] FROB=1 */ /*T![placement] NICATE=2 */",
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_is_not_known_is_kept_for_tidb_alone(place: str, option: str) -> None:
    text, plain = PLACES[place]
    assert [for_target(text.format(option), one).replace(" )", ")") for one in (MARIADB, MYSQL)] == [plain] * 2
    if place != "a schema's":  # a target's schemas have no options but charset and collation
        kept = for_target(text.format(option), TIDB)
        assert option.partition(" */")[0] in kept
        assert for_target(kept, TIDB) == kept


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "more",
    ["ADD c INT", "FROB = 1, c INT", "DROP c", "FROB DEFAULT 5", "NOT NULL FROB", "FROB AS (b)", "PARTITION p9", "TRUNCATE PARTITION p",
     "RENAME TO u", "FROB (SELECT 1)", "FROB = SELECT", "AFTER c", "COLLATE x", "1", ""],
)  # fmt: skip
def test_a_comment_of_a_feature_that_is_not_known_may_not_hold_more_than_options(place: str, more: str) -> None:
    with pytest.raises(UnsupportedDdl, match=r"(?s)DDL.*ddl-done"):
        for_target(PLACES[place][0].format(f"/*T![new] {more} */"))


def test_a_comment_that_tidb_reads_is_read_as_the_grammar_has_it() -> None:
    """What the grammar knows is no unknown option, wherever the comment ends."""
    text = "create table t (a int /*!50100 , b int */) /*!50100 PARTITION BY HASH (a) PARTITIONS 2 */"
    assert for_target(text) == f"{TABLE} `a` int , `b` int){CREATED} PARTITION BY HASH (a) PARTITIONS 2".replace("int ,", "int,")
    for word in ("after a", "first"):
        assert for_target(f"alter table t add c int /*!50100 {word} */").count(word.upper()[:3].lower()) == 1


# ---- the small parts ---------------------------------------------------------------------------------------------------


def test_names_are_quoted_for_every_dialect() -> None:
    assert quoted("a`b") == "`a``b`"


def test_dialects_are_known_by_their_versions() -> None:
    assert [flavour_of(one) for one in ("8.0.11-TiDB-v8.5.0", "11.4.2-MariaDB-log", "8.0.36")] == [TIDB, MARIADB, MYSQL]


def test_mysql_has_no_condition_of_a_column_or_an_index() -> None:
    text = "alter table t add column if not exists a int, drop index if exists i"
    assert for_target(text, MYSQL) == f"{ALTER} add column `a` int, drop index `i`"
    assert for_target(text, MARIADB) == f"{ALTER} add column IF NOT EXISTS `a` int, drop index IF EXISTS `i`"


def test_a_table_without_a_charset_gets_the_logs() -> None:
    assert rendered(parsed("create table t (a int)", "s"), MYSQL, TableCharset("gbk", "gbk_bin")).endswith(
        "CHARACTER SET gbk COLLATE gbk_bin"
    )


def test_every_decision_is_on_the_page() -> None:
    """In the first cell of a row of "TiDB's own words", which words with one answer share."""
    page = (Path(__file__).resolve().parents[3] / "deploy" / "SQL-DDL.md").read_text().partition("### TiDB's own words")[2]
    cells = re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
    on_the_page = [word.partition(" (")[0] for cell in cells for word in re.split(r", (?![^(]*\))", cell)]
    for kind in {kind for decisions in DECISIONS.values() for kind in decisions}:
        assert kind in on_the_page, Feature(kind, "")
