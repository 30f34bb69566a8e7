"""Which action a DDL statement is, from its text alone: TiCDC sends it in its messages, and a log keeps the text.

- A statement of several changes of a table is TiDB's MULTI_SCHEMA_CHANGE, and so is `ADD COLUMN (a …, b …)`.
- Of RENAME TABLE with several tables TiCDC makes a message a table, each a RENAME_TABLE.
- What the text does not show: TiDB omits parts that `IF [NOT] EXISTS` makes vain, and takes the rest for a change alone. Options of a
  table that stand beside each other without a comma are a job each, with the same text: it is the first one's action.
- ADD PARTITION of HASH and KEY partitions, COALESCE, MERGE and SPLIT are one job of TiDB's, REORGANIZE_PARTITION. FIRST and LAST PARTITION
  of interval partitions are the DROP and ADD that TiDB makes of them.
- ENGINE and ROW_FORMAT are options without a job.

Source: pingcap/tidb pkg/parser/parser.y, pkg/ddl/executor.go::AlterTable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.schema.ddl import Action
from sidecar.shared.sql.lexer import tokens
from sidecar.shared.sql.text import for_servers

_A = Action
_NAME = "`"
"""Stands for a quoted name, which is no keyword."""

_OF_STATEMENTS: tuple[tuple[str, Action], ...] = (
    (r"CREATE (OR REPLACE )?(ALGORITHM|DEFINER|SQL SECURITY|VIEW) .*", _A.CREATE_VIEW),
    (r"CREATE (DATABASE|SCHEMA) .*", _A.CREATE_SCHEMA),
    (r"CREATE (GLOBAL TEMPORARY )?TABLE .*", _A.CREATE_TABLE),
    (r"CREATE (VECTOR|COLUMNAR) INDEX .*", _A.ADD_COLUMNAR_INDEX),
    (r"CREATE FULLTEXT INDEX .*", _A.ADD_FULLTEXT_INDEX),
    (r"CREATE HYBRID INDEX .*", _A.CREATE_HYBRID_INDEX),
    (r"CREATE (UNIQUE )?INDEX .*", _A.ADD_INDEX),
    (r"DROP (DATABASE|SCHEMA) .*", _A.DROP_SCHEMA),
    (r"DROP (GLOBAL TEMPORARY )?TABLES? .*", _A.DROP_TABLE),
    (r"DROP VIEW .*", _A.DROP_VIEW),
    (r"DROP INDEX (IF EXISTS )?PRIMARY .*", _A.DROP_PRIMARY_KEY),
    (r"DROP INDEX .*", _A.DROP_INDEX),
    (r"TRUNCATE .*", _A.TRUNCATE_TABLE),
    (r"RENAME TABLES? .*", _A.RENAME_TABLE),
    (r"(RECOVER|FLASHBACK) TABLE .*", _A.RECOVER_TABLE),
    (r"FLASHBACK (DATABASE|SCHEMA) .*", _A.RECOVER_SCHEMA),
    (r"ALTER (DATABASE|SCHEMA) .*(CHARACTER SET|CHAR SET|CHARSET|COLLATE) .*", _A.MODIFY_SCHEMA_CHARSET),
    (r"ALTER (DATABASE|SCHEMA) .*PLACEMENT .*", _A.MODIFY_SCHEMA_PLACEMENT),
    (r"ALTER (DATABASE|SCHEMA) .*SET TIFLASH .*", _A.SET_TIFLASH_REPLICA),
    (r"ALTER (DATABASE|SCHEMA) .*READ ONLY .*", _A.MODIFY_SCHEMA_READ_ONLY),
    (r"CREATE SEQUENCE .*", _A.CREATE_SEQUENCE),
    (r"ALTER SEQUENCE .*", _A.ALTER_SEQUENCE),
    (r"DROP SEQUENCE .*", _A.DROP_SEQUENCE),
    (r"CREATE (OR REPLACE )?PLACEMENT POLICY .*", _A.CREATE_PLACEMENT_POLICY),
    (r"ALTER PLACEMENT POLICY .*", _A.ALTER_PLACEMENT_POLICY),
    (r"DROP PLACEMENT POLICY .*", _A.DROP_PLACEMENT_POLICY),
    (r"CREATE RESOURCE GROUP .*", _A.CREATE_RESOURCE_GROUP),
    (r"ALTER RESOURCE GROUP .*", _A.ALTER_RESOURCE_GROUP),
    (r"DROP RESOURCE GROUP .*", _A.DROP_RESOURCE_GROUP),
    (r"LOCK TABLES? .*", _A.LOCK_TABLE),
    (r"UNLOCK TABLES? .*", _A.UNLOCK_TABLE),
    (r"FLASHBACK CLUSTER .*", _A.FLASHBACK_CLUSTER),
    (r"ADMIN REPAIR TABLE .*", _A.REPAIR_TABLE),
)
_OF_TABLES: tuple[tuple[str, Action], ...] = (
    (r"ADD PARTITION (IF NOT EXISTS )?(NO_WRITE_TO_BINLOG |LOCAL )?PARTITIONS .*", _A.REORGANIZE_PARTITION),
    (r"ADD PARTITION (?!.* (VALUES|DEFAULT) ).*", _A.REORGANIZE_PARTITION),
    (r"(ADD|LAST) PARTITION .*", _A.ADD_TABLE_PARTITION),
    (r"ADD (CONSTRAINT (\S+ )?)?PRIMARY KEY .*", _A.ADD_PRIMARY_KEY),
    (r"ADD (CONSTRAINT (\S+ )?)?FOREIGN KEY .*", _A.ADD_FOREIGN_KEY),
    (r"ADD (CONSTRAINT (\S+ )?)?CHECK \( .*", _A.ADD_CHECK_CONSTRAINT),
    (r"ADD (VECTOR|COLUMNAR) (INDEX|KEY) .*", _A.ADD_COLUMNAR_INDEX),
    (r"ADD FULLTEXT .*", _A.ADD_FULLTEXT_INDEX),
    (r"ADD (CONSTRAINT (\S+ )?)?(UNIQUE|INDEX|KEY) .*", _A.ADD_INDEX),
    (r"ADD (?!STATS_EXTENDED ).*", _A.ADD_COLUMN),
    (r"(DROP|FIRST) PARTITION .*", _A.DROP_TABLE_PARTITION),
    (r"DROP PRIMARY KEY .*", _A.DROP_PRIMARY_KEY),
    (r"DROP FOREIGN KEY .*", _A.DROP_FOREIGN_KEY),
    (r"DROP (CHECK|CONSTRAINT) .*", _A.DROP_CHECK_CONSTRAINT),
    (r"DROP (INDEX|KEY) .*", _A.DROP_INDEX),
    (r"DROP (?!STATS_EXTENDED ).*", _A.DROP_COLUMN),
    (r"(MODIFY|CHANGE|RENAME COLUMN) .*", _A.MODIFY_COLUMN),
    (r"RENAME (INDEX|KEY) .*", _A.RENAME_INDEX),
    (r"RENAME .*", _A.RENAME_TABLE),
    (r"ALTER INDEX .*", _A.ALTER_INDEX_VISIBILITY),
    (r"ALTER (CHECK|CONSTRAINT) .*", _A.ALTER_CHECK_CONSTRAINT),
    (r"ALTER .*(SET|DROP) DEFAULT .*", _A.SET_DEFAULT_VALUE),
    (r"TRUNCATE PARTITION .*", _A.TRUNCATE_TABLE_PARTITION),
    (r"EXCHANGE PARTITION .*", _A.EXCHANGE_PARTITION),
    (r"(REORGANIZE|COALESCE|MERGE FIRST|SPLIT MAXVALUE) PARTITION .*", _A.REORGANIZE_PARTITION),
    (r"REMOVE PARTITIONING .*", _A.REMOVE_PARTITIONING),
    (r"REMOVE TTL .*", _A.REMOVE_TTL),
    (r"PARTITION BY .*", _A.ALTER_TABLE_PARTITIONING),
    (r"PARTITION .*ATTRIBUTES .*", _A.ALTER_PARTITION_ATTRIBUTES),
    (r"PARTITION .*PLACEMENT .*", _A.ALTER_PARTITION_PLACEMENT),
    (r"COMMENT .*", _A.MODIFY_TABLE_COMMENT),
    (r"(DEFAULT |CONVERT TO )?(CHARACTER SET|CHAR SET|CHARSET|COLLATE) .*", _A.MODIFY_TABLE_CHARSET),
    (r"(FORCE )?AUTO_INCREMENT .*", _A.REBASE_AUTO_ID),
    (r"(FORCE )?AUTO_RANDOM_BASE .*", _A.REBASE_AUTO_RANDOM),
    (r"AUTO_ID_CACHE .*", _A.MODIFY_AUTO_ID_CACHE),
    (r"SHARD_ROW_ID_BITS .*", _A.SHARD_ROW_ID),
    (r"SET TIFLASH .*", _A.SET_TIFLASH_REPLICA),
    (r"TTL(_ENABLE|_JOB_INTERVAL)? .*", _A.ALTER_TTL),
    (r"ATTRIBUTES .*", _A.ALTER_TABLE_ATTRIBUTES),
    (r"STATS_OPTIONS .*", _A.ALTER_STATS_OPTIONS),
    (r"AFFINITY .*", _A.ALTER_TABLE_AFFINITY),
    (r"READ ONLY .*", _A.LOCK_TABLE),
    (r"READ WRITE .*", _A.UNLOCK_TABLE),
    (r"PLACEMENT .*", _A.ALTER_TABLE_PLACEMENT),
    (r"CACHE .*", _A.CACHE_TABLE),
    (r"NOCACHE .*", _A.NOCACHE_TABLE),
)
_STATEMENTS = [(re.compile(pattern), action) for pattern, action in _OF_STATEMENTS]
_CHANGES = [(re.compile(pattern), action) for pattern, action in _OF_TABLES]
_HOW = re.compile(r"(ALGORITHM|LOCK) .*")
"""How it is done, not what."""

_OF_PARTITIONS = re.compile(
    r"(TRUNCATE|DROP|REORGANIZE|EXCHANGE|ADD|CHECK|OPTIMIZE|REPAIR|REBUILD|IMPORT|DISCARD) PARTITION .*|PARTITION BY .*"
)
"""Whose commas part partitions; nothing stands beside them."""

_WITHOUT_A_JOB = re.compile(r"((ENGINE|ROW_FORMAT) (= )?\S+ )+(?=\S)")
_WITHOUT_A_COMMA = re.compile(
    r"(?<=\S )(?=PARTITION BY |REMOVE (PARTITIONING|TTL) |REORGANIZE PARTITION |SPLIT MAXVALUE PARTITION |MERGE FIRST PARTITION "
    r"|PARTITION \S+ (?:ATTRIBUTES|PLACEMENT) )"
)
"""What the grammar has behind the list of changes (parser.y::AlterTableSpecSingleOpt)."""

_ALTER_TABLE = re.compile(r"ALTER (IGNORE )?TABLE \S+ (\. \S+ )?")
_COLUMNS = re.compile(r"ADD (COLUMN )?(IF NOT EXISTS )?\( .*")


def action_of(query: str) -> Action:
    """Raises UnsupportedDdl for a statement that is none of those that TiDB has a job for."""
    words = [word for word in _words(query) if word != ";"]
    statement = " ".join([*words, ""])
    altered = _ALTER_TABLE.match(statement)
    if altered is None:
        return _first(_STATEMENTS, statement, query)
    rest = words[len(altered[0].split()) :]
    if _OF_PARTITIONS.match(" ".join([*rest, ""])):
        return _first(_CHANGES, " ".join([*rest, ""]), query)
    parts = [one for part in _parts(rest) for one in _WITHOUT_A_COMMA.split(" ".join([*part, ""])) if one]
    changes = [_WITHOUT_A_JOB.sub("", one, count=1) for one in parts if not _HOW.match(one)]
    if len(changes) == 1 and _COLUMNS.match(changes[0]):
        changes = [" ".join(["ADD", *part, ""]) for part in _parts(_in_brackets(changes[0].split()))]
    return _A.MULTI_SCHEMA_CHANGE if len(changes) > 1 else _first(_CHANGES, "".join(changes), query)


_KEEP_ROWS = frozenset(
    {_A.CREATE_VIEW, _A.DROP_VIEW, _A.ADD_INDEX, _A.DROP_INDEX, _A.RENAME_INDEX, _A.ALTER_INDEX_VISIBILITY, _A.ADD_COLUMNAR_INDEX}
    | {_A.ADD_FULLTEXT_INDEX, _A.CREATE_HYBRID_INDEX, _A.ADD_FOREIGN_KEY, _A.DROP_FOREIGN_KEY, _A.SET_TIFLASH_REPLICA}
    | {_A.ADD_CHECK_CONSTRAINT, _A.DROP_CHECK_CONSTRAINT, _A.ALTER_CHECK_CONSTRAINT}
)


def keeps_rows(query: str) -> bool:
    """Whether rows, columns and partitions are after the statement what they were before, whatever its options: of views, indexes, foreign
    keys and checks. False also for a statement that is not known."""
    try:
        return action_of(query) in _KEEP_ROWS
    except UnsupportedDdl:
        return False


def _first(rules: Sequence[tuple[re.Pattern[str], Action]], text: str, query: str) -> Action:
    for pattern, action in rules:
        if pattern.fullmatch(text):
            return action
    raise UnsupportedDdl(
        f"which of TiDB's schema changes this is, is not known: {query!r}",
        hint="report this statement with the versions of TiDB and ticdc-dump",
    )


def _words(query: str) -> Iterator[str]:
    """Words in capitals; names, literals and variables as marks that no keyword equals, each without a blank."""
    for token in tokens(for_servers(query)):
        match token.kind:
            case "name":
                yield "PRIMARY" if token.value.upper() == "PRIMARY" else _NAME
            case "string":
                yield "''"
            case "number":
                yield "0"
            case "variable":
                yield "@"
            case "word" | "sign" | "invalid":
                yield token.value


def _parts(words: Sequence[str]) -> Iterator[list[str]]:
    """Between commas outside of brackets. A text begins no part: it is another label of a TiFlash replica."""
    depth, part = 0, list[str]()
    for word, following in zip(words, [*words[1:], ""], strict=False):
        depth += (word == "(") - (word == ")")
        if word == "," and not depth and following != "''":
            yield part
            part = []
        else:
            part.append(word)
    yield part


def _in_brackets(words: Sequence[str]) -> Sequence[str]:
    return words[words.index("(") + 1 : len(words) - 1]
