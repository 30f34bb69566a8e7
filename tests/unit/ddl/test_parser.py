"""What is understood of TiDB's DDLs: all of the recordings but views, and what each word of TiDB's own becomes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sidecar.core.model import Ddl, Message, TableName
from sidecar.errors import UnsupportedDdl
from sidecar.mysql.flavour import Flavour, flavour_of
from sidecar.replay.recording import Recording
from sidecar.sql.text import quoted
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


def told(name: str, feed: str) -> Iterator[tuple[str, str]]:
    """As TiCDC sent them."""
    found = Recording(recording(name))
    config = found.feed_config(feed)
    codec = config.codec()
    for lane, messages in found.messages(config).items():
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
    seen = set(told(name, feed))
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
    ("text", "expected"),
    [
        ("RENAME TABLE a TO t, `b` TO o.b2;", "RENAME TABLE `s`.`a` TO `s`.`t`, `s`.`b` TO `o`.`b2`"),
        ("alter table t rename as u", "ALTER TABLE `s`.`t` rename TO `s`.`u`"),
        ("CREATE TABLE `b` LIKE `o`.`a`", "CREATE TABLE `s`.`b` LIKE `o`.`a`"),
        ("create table b (like a)", "CREATE TABLE `s`.`b` LIKE `s`.`a`"),
        ("drop table if exists a, o.b cascade", "DROP TABLE `s`.`a`, `o`.`b`"),
        ("drop view v", "DROP VIEW `s`.`v`"),
        ("truncate `a``; drop table x; -- `", "TRUNCATE TABLE `s`.`a``; drop table x; -- `"),
        ("truncate `we``ird`", "TRUNCATE TABLE `s`.`we``ird`"),
        ("drop index i on t algorithm=inplace", "drop index `i` on `s`.`t`"),
        ("create unique index i on t (a(3) desc, b) comment 'x'", "create unique index `i` on `s`.`t` ( `a`(3) desc, `b`) comment 'x'"),
        (
            "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE o.u WITH VALIDATION",
            "ALTER TABLE `s`.`t` EXCHANGE PARTITION `p` WITH TABLE `o`.`u` WITHOUT VALIDATION",
        ),
        (
            "alter table t add constraint fk foreign key (a) references p (id) on delete set null on update cascade",
            "ALTER TABLE `s`.`t` add constraint `fk` foreign key ( `a`) references `s`.`p` ( `id`) on delete set null on update cascade",
        ),
        ("create table t (a int references p(id))", "CREATE TABLE `s`.`t` ( `a` int)" + CREATED),
        ("/* by bob */ drop table /* not b */ a -- the end", "DROP TABLE `s`.`a`"),
        ("create table t (a int default 1, `index` int)", "CREATE TABLE `s`.`t` ( `a` int default 1, `index` int)" + CREATED),
    ],
)
def test_each_name_of_a_table_is_one_and_has_its_schema(text: str, expected: str) -> None:
    assert for_target(text) == expected


def test_tables_are_named_in_the_order_of_the_text_and_moves_in_turn() -> None:
    found = parsed("rename table a to tmp, b to a, tmp to b", "s")
    assert found.tables() == tuple(TableName("s", one) for one in ("a", "tmp", "b"))
    assert [(one.table, to.table) for one, to in found.moves] == [("a", "tmp"), ("b", "a"), ("tmp", "b")]
    exchanged = parsed("alter table t exchange partition `P 1` with table u", "s")
    assert (exchanged.kind, exchanged.partition, exchanged.moves) == (
        StatementKind.EXCHANGE,
        "P 1",
        ((TableName("s", "t"), TableName("s", "u")),),
    )


# ---- what TiDB alone knows -----------------------------------------------------------------------------------------------

TABLE, ALTER = "CREATE TABLE `s`.`t` (", "ALTER TABLE `s`.`t`"


@pytest.mark.parametrize(
    ("text", "mariadb", "tidb"),
    [
        (
            "create table t (`id` bigint primary key /*T![clustered_index] CLUSTERED */ /*T![auto_rand] AUTO_RANDOM(5, 54) */)"
            " /*T! SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=2 */ /*T![auto_id_cache] AUTO_ID_CACHE=1 */",
            f"{TABLE} `id` bigint primary key){CREATED}",
            f"{TABLE} `id` bigint primary key CLUSTERED AUTO_RANDOM(5, 54)){CREATED}"
            " SHARD_ROW_ID_BITS = 4 PRE_SPLIT_REGIONS = 2 AUTO_ID_CACHE = 1",
        ),
        (
            "create table t (a datetime) engine=innodb /*T![placement] PLACEMENT POLICY=`p` */ /*T![ttl] TTL=`a` + INTERVAL 1 DAY */"
            " /*T![ttl] TTL_ENABLE='ON' */ /*T![ttl] TTL_JOB_INTERVAL='1h' */ default charset=latin1 comment='x'",
            f"{TABLE} `a` datetime) CHARACTER SET latin1 COLLATE latin1_bin comment='x'",
            f"{TABLE} `a` datetime) CHARACTER SET latin1 COLLATE latin1_bin TTL = `a` + INTERVAL 1 DAY TTL_ENABLE = 'OFF' comment='x'",
        ),
        (
            "create table t (v varchar(9) collate utf8mb4_0900_ai_ci not null) collate utf8mb4_0900_bin",
            f"{TABLE} `v` varchar(9) COLLATE utf8mb4_uca1400_nopad_ai_ci NOT NULL) COLLATE utf8mb4_nopad_bin",
            f"{TABLE} `v` varchar(9) COLLATE utf8mb4_0900_ai_ci NOT NULL) COLLATE utf8mb4_0900_bin",
        ),
        (
            "create table t (v varchar(36) default uuid(), check (v <> ''), w int as (1) stored not null, x int constraint c check (x > 1)"
            ")",
            f"{TABLE} `v` varchar(36) default (uuid()), `w` int as (1) stored, `x` int){CREATED}",
            f"{TABLE} `v` varchar(36) default uuid(), `w` int as (1) stored NOT NULL, `x` int){CREATED}",
        ),
        ("alter table t alter index i invisible", f"{ALTER} alter index `i` IGNORED", f"{ALTER} alter index `i` invisible"),
        ("alter table t set tiflash replica 2 location labels 'a', 'b'", "", ""),
        ("alter table t add constraint c check (a > 1) not enforced, drop check d", "", ""),
        ("alter table t remove ttl, add b int, algorithm=instant", f"{ALTER} add `b` int", f"{ALTER} REMOVE TTL, add `b` int"),
        ("alter table t auto_random_base 9, cache", "", "ALTER TABLE `s`.`t` AUTO_RANDOM_BASE = 9"),
        ("alter table t convert to charset gbk", *["ALTER TABLE `s`.`t` convert to CHARACTER SET gbk COLLATE gbk_chinese_ci"] * 2),
        ("create database d", *["CREATE DATABASE `d` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"] * 2),
        ("alter database d placement policy p", "", ""),
        ("create placement policy p followers=4", "", ""),
        ("create table t (a varchar(5) default _UTF8MB4'n/a', b bit(3) default b'101', c int default -1)",
         *[f"{TABLE} `a` varchar(5) default _UTF8MB4'n/a', `b` bit(3) default b'101', `c` int default -1){CREATED}"] * 2),
    ],
)  # fmt: skip
def test_what_tidb_alone_knows_is_left_out_or_translated(text: str, mariadb: str, tidb: str) -> None:
    assert (for_target(text, MARIADB), for_target(text, TIDB)) == (mariadb, tidb)


@pytest.mark.parametrize(
    ("text", "feature", "also_mysql"),
    [
        ("create table t (v vector(3))", "vector", True),
        ("alter table t add index i ((lower(v)))", "expression index", False),
        ("alter table t add column v varchar(9) as (j->>'$.a')", "json path", False),
        ("alter table t add unique i (v) global", "global index", True),
        ("create table t (a int) partition by list (a) (partition p values in (1, default))", "default partition", True),
        (
            "create table t (a int) partition by range (a) interval (10) first partition less than (10) last partition less than (90)",
            "interval partitions",
            True,
        ),
        ("create table t (v varchar(5) charset gb18030)", "charset", False),
    ],
)
def test_what_a_target_has_not_is_refused_by_name(text: str, feature: str, also_mysql: bool) -> None:
    with pytest.raises(UnsupportedDdl, match=f"has what MariaDB has not: {feature}"):
        for_target(text)
    if also_mysql:
        with pytest.raises(UnsupportedDdl, match=f"has what MySQL has not: {feature}"):
            for_target(text, MYSQL)
    else:
        assert for_target(text, MYSQL)
    assert for_target(text, TIDB)


@pytest.mark.parametrize(
    "text",
    [
        "", "select 1", "recover table t", "flashback table t to u", "create temporary table t (a int)",
        "drop table a; drop table b",
        "create table t as select * from u", "create table t (a int) select 1", "alter table t add a geometry", "alter table t frobnicate",
        "alter table t add column a int default nextval(s)", "alter table t add column a int default next value for s",
        "create table t (a int, b int as ((select 1)))", "alter table t add a int after", "rename table a", "rename table a to b,",
        "create table t (a int, b int as (a || 1))", "create table t (a int, b varchar(9) as (concat(\"a\", 1)))",
        "create table t (a int", "/*T![new] drop table t */", "drop table t */", "drop table 't'", "alter table t drop",
        "create fulltext index i on t",
        "/* CREATE_TABLE: its job holds no statement */", "create user u", "grant all on *.* to u",
        "insert into t values (1)", "create table t (`a int)",
    ],
)  # fmt: skip
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
    found = parsed("create table t (view int, b int as (view + 1))", "s")
    assert (found.kind, found.tables()) == (StatementKind.CREATE_TABLE, (TableName("s", "t"),))


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


@pytest.mark.parametrize(
    ("text", "mariadb", "tidb"),
    [
        ("alter table t FORCE AUTO_INCREMENT=1", f"{ALTER} AUTO_INCREMENT=1", f"{ALTER} FORCE AUTO_INCREMENT=1"),
        ("alter table t /*T![force_inc] FORCE  */AUTO_INCREMENT = 1", f"{ALTER} AUTO_INCREMENT = 1", f"{ALTER} FORCE AUTO_INCREMENT = 1"),
        ("alter table t force auto_random_base 9", "", f"{ALTER} FORCE AUTO_RANDOM_BASE = 9"),
        ("alter table t /*T![auto_rand_base] AUTO_RANDOM_BASE = 9 */", "", f"{ALTER} AUTO_RANDOM_BASE = 9"),
        ("alter table t FORCE, force auto_increment 7", f"{ALTER} auto_increment 7", f"{ALTER} FORCE auto_increment 7"),
        ("alter table t /*T![affinity] AFFINITY = 'table' */", "", f"{ALTER} /*T![affinity] AFFINITY = 'table' */"),
        ("alter table t affinity 'table'", "", f"{ALTER} /*T![affinity] AFFINITY = 'table' */"),
        ("create index i on t (a) /*T![pre_split] PRE_SPLIT_REGIONS = (BY (1),(2)) */", *["create index `i` on `s`.`t` ( `a`)"] * 2),
        ("create index i on t (a) PRE_SPLIT_REGIONS = 4", *["create index `i` on `s`.`t` ( `a`)"] * 2),
    ],
)
def test_options_of_tidbs_releases(text: str, mariadb: str, tidb: str) -> None:
    assert (for_target(text, MARIADB), for_target(text, TIDB)) == (mariadb, tidb)


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
    from pathlib import Path

    page = (Path(__file__).resolve().parents[3] / "deploy" / "SQL-DDL.md").read_text()
    for kind in {kind for decisions in DECISIONS.values() for kind in decisions}:
        assert f"| {kind} |" in page, Feature(kind, "")
