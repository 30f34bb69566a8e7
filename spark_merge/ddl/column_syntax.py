"""Columns, indexes, constraints and options of tables, as TiDB's grammar has them (pingcap/tidb pkg/parser/parser.y)."""

from __future__ import annotations

from spark_merge.ddl.reader import TokenReader, words
from spark_merge.ddl.statement import DefaultPiece, Feature, FeatureKind, FormulaPiece, Piece, Pieces, TypePiece

_TYPES = words(
    "TINYINT SMALLINT MEDIUMINT INT INTEGER BIGINT INT1 INT2 INT3 INT4 INT8 MIDDLEINT BOOL BOOLEAN BIT FLOAT FLOAT4 FLOAT8 DOUBLE REAL"
    " DECIMAL DEC FIXED NUMERIC DATE TIME DATETIME TIMESTAMP YEAR CHAR CHARACTER VARCHAR VARCHARACTER BINARY VARBINARY"
    " TINYTEXT TEXT MEDIUMTEXT LONGTEXT TINYBLOB BLOB MEDIUMBLOB LONGBLOB ENUM SET JSON VECTOR"
)
_OTHER_NAMES = {
    "NATIONAL CHAR|CHARACTER VARYING": "VARCHAR", "NATIONAL VARCHAR|VARCHARACTER": "VARCHAR", "NATIONAL CHAR|CHARACTER": "CHAR",
    "NCHAR VARCHAR|VARCHARACTER|VARYING": "VARCHAR", "NVARCHAR": "VARCHAR", "NCHAR": "CHAR",
    "LONG VARBINARY": "MEDIUMBLOB", "LONG VARCHAR|VARCHARACTER": "MEDIUMTEXT", "LONG CHAR|CHARACTER VARYING": "MEDIUMTEXT",
    "LONG": "MEDIUMTEXT",
}  # fmt: skip
DEFAULT_COLLATIONS = {
    "utf8mb4": "utf8mb4_bin", "utf8": "utf8_bin", "utf8mb3": "utf8_bin", "latin1": "latin1_bin", "ascii": "ascii_bin",
    "gbk": "gbk_chinese_ci", "gb18030": "gb18030_chinese_ci", "binary": "binary",
}  # fmt: skip
"""What a charset without a collation means in TiDB."""

_NULLABILITY: FeatureKind = "nullability of a generated column"
_NOW = "CURRENT_TIMESTAMP|NOW|LOCALTIME|LOCALTIMESTAMP"
_STORAGE = words(
    "ENGINE ROW_FORMAT KEY_BLOCK_SIZE AVG_ROW_LENGTH CHECKSUM COMPRESSION CONNECTION DELAY_KEY_WRITE INSERT_METHOD MAX_ROWS MIN_ROWS"
    " PACK_KEYS PASSWORD STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES STATS_BUCKETS STATS_TOPN STATS_COL_CHOICE STATS_COL_LIST"
    " STATS_SAMPLE_RATE TABLE_CHECKSUM ENCRYPTION SECONDARY_ENGINE TABLESPACE NODEGROUP STORAGE AUTOEXTEND_SIZE ENGINE_ATTRIBUTE"
    " SECONDARY_ENGINE_ATTRIBUTE"
)
FORCED = "FORCE AUTO_INCREMENT|AUTO_RANDOM_BASE"
_ROW_IDS = words("SHARD_ROW_ID_BITS PRE_SPLIT_REGIONS AUTO_ID_CACHE AUTO_RANDOM_BASE")


def condition(reader: TokenReader) -> bool:
    """`IF [NOT] EXISTS` of a part of a table."""
    text = next((words for words in ("IF NOT EXISTS", "IF EXISTS") if reader.skip(words)), "")
    if text:
        reader.feature("condition", " " + text)
    return bool(text)


# ---- charsets and collations ------------------------------------------------------------------------------------------


class Charset:
    """Of a column, a table or a schema; its words may stand apart."""

    def __init__(self) -> None:
        self.charset = ""
        self.collation = ""

    def read(self, reader: TokenReader) -> bool:
        if reader.skip_any(("CHARACTER SET", "CHAR SET", "CHARSET")):
            reader.skip("=")
            self.charset = reader.plain_word()
        elif reader.skip("COLLATE"):
            reader.skip("=")
            self.collation = reader.plain_word()
        else:
            return False
        return True

    def pieces(self) -> Pieces:
        """A charset without a collation has TiDB's for it, which is not the target's."""
        collation = self.collation or DEFAULT_COLLATIONS.get(self.charset, "")
        features = (Feature("charset", self.charset), Feature("collation", collation))
        return tuple(one for one in features if one.text)


# ---- a column ---------------------------------------------------------------------------------------------------------


def column(reader: TokenReader) -> tuple[str, str]:
    """`name type options`; returns the name and the type's text. Charset and collation go behind the type, where targets have them."""
    name = reader.name()
    head = reader.made()
    charset = Charset()
    _data_type(reader, charset)
    kind = reader.made()
    options: list[Piece] = []
    while True:
        if charset.read(reader):
            continue
        if word := next((words for words in ("NOT NULL", "NULL") if reader.skip(words)), ""):
            options.append(FormulaPiece(name, (), (Feature(_NULLABILITY, f" {word}"),)))
        elif reader.sees("GENERATED|AS"):
            _generated(reader)
            options.append(FormulaPiece(name, reader.made(), ()))
        elif reader.take("DEFAULT"):
            written = reader.made()
            default(reader)
            options.append(DefaultPiece(name, reader.made(), written))
        elif _column_option(reader):
            options += reader.made()
        else:
            break
    generated = any(isinstance(one, FormulaPiece) and one.formula for one in options)
    if not any(isinstance(one, DefaultPiece) for one in options):
        options.append(DefaultPiece(name))
    for piece in (*head, TypePiece(name, kind, charset.pieces()), *options):
        plain = isinstance(piece, FormulaPiece) and not generated
        for one in piece.null if plain and isinstance(piece, FormulaPiece) else (piece,):
            reader.write(one.text if plain and isinstance(one, Feature) else one)
    return name, "".join(piece if isinstance(piece, str) else piece.text for piece in kind if isinstance(piece, str | Feature)).strip()


def _data_type(reader: TokenReader, charset: Charset) -> None:
    word = reader.next.value if reader.next.kind == "word" else ""
    if word == "VECTOR":
        reader.skip("VECTOR")
        reader.skip("< FLOAT >")
        return reader.feature("vector", " VECTOR" + (reader.bare_parens() if reader.sees("(") else ""))
    if not _type_by_another_name(reader):
        if word not in _TYPES:
            reader.refuse("a known type")
        reader.take(word)
        reader.take_any(("PRECISION", "VARYING"))
    if reader.sees("("):
        reader.parens()
    while reader.take_any(("UNSIGNED", "SIGNED", "ZEROFILL", "BINARY")) or charset.read(reader):
        pass
    return None


def _type_by_another_name(reader: TokenReader) -> bool:
    """NATIONAL types have TiDB's default charset (parser.y: NChar names none), and utf8mb3 at other servers: they go as TiDB has them."""
    for spelled, name in _OTHER_NAMES.items():
        if reader.skip(spelled):
            reader.write(f" {name}")
            return True
    return False


def _generated(reader: TokenReader) -> None:
    reader.take("GENERATED ALWAYS")
    reader.need("AS")
    reader.formula()
    reader.take_any(("VIRTUAL", "STORED"))


def _column_option(reader: TokenReader) -> bool:
    """False where none comes."""
    if reader.take("AUTO_INCREMENT"):
        return True
    if reader.skip("SERIAL DEFAULT VALUE"):
        reader.write(" NOT NULL AUTO_INCREMENT UNIQUE")
    elif reader.skip("AUTO_RANDOM"):
        reader.feature("auto_random", " AUTO_RANDOM" + (reader.bare_parens() if reader.sees("(") else ""))
    elif reader.take_any(("PRIMARY KEY", "KEY")):
        clustered(reader)
        global_index(reader)
    elif reader.take("UNIQUE"):
        reader.take("KEY")
        global_index(reader)
    elif reader.take("ON UPDATE"):
        _now(reader)
    elif reader.take("COMMENT"):
        reader.string()
    elif reader.sees("CHECK") or reader.sees("CONSTRAINT"):
        check(reader)
    elif reader.skip("REFERENCES"):
        # TiDB makes no foreign key of it (docs/foreign-key: FOREIGN KEY alone does), MariaDB and MySQL 9 do
        _references(reader)
        reader.made()
        reader.feature("inline reference", "")
    elif reader.skip_any(("COLUMN_FORMAT", "STORAGE")):
        reader.feature("storage", reader.option())
    else:
        return reader.unknown_option()
    return True


def default(reader: TokenReader) -> None:
    token = reader.next
    if reader.sees("("):
        reader.parens()
    elif reader.sees(_NOW):
        _now(reader)
    elif token.kind == "string":
        reader.string()
    elif token.kind == "word" and token.value.startswith("_"):
        reader.take(token.value)
        reader.string() if reader.next.kind == "string" else reader.number()
    elif reader.take_any(("NULL", "TRUE", "FALSE")):
        return
    elif token.kind == "word" and token.value not in ("NEXT", "NEXTVAL"):
        reader.skip(token.value)
        reader.feature("default function", " " + token.text + (reader.bare_parens() if reader.sees("(") else ""))
    elif token.kind == "number" and token.text[:2] in ("x'", "X'") and len(token.text) > len("x''"):
        # what TiDB restores 0x1F as; MariaDB has it as a number only in the other spelling
        reader.option()
        reader.write(f" 0x{token.text[2:-1]}")
    else:
        reader.take_any(("+", "-"))
        reader.number()


def _now(reader: TokenReader) -> None:
    reader.need(_NOW)
    if reader.sees("("):
        reader.parens()


def check(reader: TokenReader) -> None:
    """`[CONSTRAINT [name]] CHECK (…) [[NOT] ENFORCED]`. TiDB ignores it by default, so rows may violate it: it is omitted."""
    if reader.skip("CONSTRAINT") and not reader.sees("CHECK"):
        reader.option()
    reader.must_skip("CHECK")
    reader.feature("check", reader.bare_parens())
    reader.skip_any(("NOT ENFORCED", "ENFORCED"))


def _references(reader: TokenReader) -> None:
    reader.table()
    if reader.sees("("):
        index_parts(reader)
    if reader.take("MATCH"):
        reader.need("FULL|PARTIAL|SIMPLE")
    while reader.take_any(("ON DELETE", "ON UPDATE")):
        if not reader.take_any(("RESTRICT", "CASCADE", "SET NULL", "NO ACTION", "SET DEFAULT")):
            reader.refuse("what a foreign key does")


# ---- indexes and constraints ------------------------------------------------------------------------------------------


def clustered(reader: TokenReader) -> None:
    if reader.sees("CLUSTERED|NONCLUSTERED"):
        reader.feature("clustered", " " + reader.option())


def global_index(reader: TokenReader) -> None:
    if reader.skip("GLOBAL"):
        reader.feature("global index", " GLOBAL")
    reader.skip("LOCAL")


def element(reader: TokenReader) -> bool:
    """An index or a constraint of CREATE TABLE or ALTER TABLE … ADD; False where a column comes."""
    if reader.sees("CHECK") or reader.sees("CONSTRAINT CHECK") or _named_check(reader):
        check(reader)
        return True
    if reader.sees("VECTOR|COLUMNAR|HYBRID INDEX|KEY"):
        _columnar_index(reader)
        return True
    if reader.take("CONSTRAINT") and not reader.sees("PRIMARY|UNIQUE|FOREIGN"):
        reader.name()
    if reader.take("PRIMARY KEY"):
        _index_name(reader)
    elif reader.take("UNIQUE"):
        reader.take("INDEX|KEY")
        _index_name(reader)
    elif reader.take("FOREIGN KEY"):
        condition(reader)
        if not reader.sees("("):
            reader.name()
        index_parts(reader)
        reader.need("REFERENCES")
        _references(reader)
        return True
    elif reader.take("FULLTEXT"):
        reader.take("INDEX|KEY")
        _index_name(reader)
    elif reader.take("INDEX|KEY"):
        _index_name(reader)
    else:
        return False
    index_parts(reader)
    index_options(reader)
    return True


def _columnar_index(reader: TokenReader) -> None:
    """Of TiFlash, which a target may not have: no row depends on it."""
    reader.skip("VECTOR|COLUMNAR|HYBRID INDEX|KEY")
    reader.skip("IF NOT EXISTS")
    name = "" if reader.sees("(|USING|TYPE") else reader.option()
    if reader.skip("USING|TYPE"):
        reader.option()
    reader.feature("tiflash", name + reader.bare_parens())
    while reader.skip("ADD_COLUMNAR_REPLICA_ON_DEMAND") or (
        reader.skip_any(("USING", "TYPE", "COMMENT", "PARAMETER", "WITH PARSER")) and reader.option()
    ):
        pass


def _named_check(reader: TokenReader) -> bool:
    return reader.sees("CONSTRAINT") and reader.word_after_name() == "CHECK"


def _index_name(reader: TokenReader) -> None:
    condition(reader)
    if not reader.sees("(") and not reader.sees("USING|TYPE"):
        reader.name()
    _index_type(reader)


def _index_type(reader: TokenReader) -> bool:
    if not reader.skip("USING|TYPE"):
        return False
    if reader.option().upper() not in ("BTREE", "HASH", "RTREE"):
        reader.refuse("an index that a target without TiFlash has")
    return True


def index_parts(reader: TokenReader) -> None:
    """`(name [(length)] [ASC|DESC], …)`; an expression has parentheses of its own."""
    reader.need("(")
    while True:
        if reader.sees("("):
            reader.feature("expression index", reader.bare_parens())
        else:
            reader.name()
            if reader.sees("("):
                reader.parens()
        reader.take("ASC|DESC")
        if not reader.take(","):
            break
    reader.need(")")


def index_options(reader: TokenReader) -> None:
    while True:
        if _index_type(reader):
            continue
        if reader.take("COMMENT"):
            reader.string()
        elif reader.sees("VISIBLE|INVISIBLE"):
            reader.feature("index visibility", " " + reader.option())
        elif reader.sees("CLUSTERED|NONCLUSTERED"):
            clustered(reader)
        elif reader.sees("GLOBAL|LOCAL"):
            global_index(reader)
        elif reader.skip("WITH PARSER"):
            reader.feature("unknown option", f" WITH PARSER {reader.option()}")
        elif reader.skip_any(("KEY_BLOCK_SIZE", "PRE_SPLIT_REGIONS", "SECONDARY_ENGINE_ATTRIBUTE")):
            reader.feature("storage", reader.option())
        elif not (reader.skip_any(("ALGORITHM", "LOCK")) and reader.option()) and not reader.unknown_option():
            return


# ---- options of a table -----------------------------------------------------------------------------------------------


def table_option(reader: TokenReader, charset: Charset) -> bool:
    """One; False where none comes."""
    if reader.sees("DEFAULT CHARACTER|CHAR|CHARSET|COLLATE"):
        reader.skip("DEFAULT")
    if reader.sees(FORCED) and reader.skip("FORCE"):
        reader.feature("row ids", " FORCE")
    word = reader.next.value if reader.next.kind == "word" else ""
    if charset.read(reader):
        return True
    if reader.take_any(("AUTO_INCREMENT", "COMMENT")):
        reader.take("=")
        reader.string() if reader.next.kind == "string" else reader.number()
    elif word in _ROW_IDS and reader.skip(word):
        reader.feature("row ids", f" {word} = {reader.option()}")
    elif (word in _STORAGE and reader.skip(word)) or reader.skip("UNION") or reader.skip_any(("DATA DIRECTORY", "INDEX DIRECTORY")):
        reader.feature("storage", reader.option())
    elif reader.sees("PLACEMENT"):
        placement(reader)
    elif word.startswith("TTL"):
        _ttl(reader)
    elif reader.skip("AFFINITY"):
        reader.feature("unknown option", f" /*T![affinity] AFFINITY = {reader.option()} */")
    else:
        return reader.unknown_option()
    return True


def placement(reader: TokenReader) -> None:
    reader.must_skip("PLACEMENT POLICY")
    if reader.sees("SET DEFAULT"):
        reader.skip("SET")
    reader.feature("placement", reader.option())


def tiflash_replica(reader: TokenReader) -> None:
    """`n [LOCATION LABELS 'a', 'b']`; a comma behind a label leads to another one, or to another change."""
    reader.feature("tiflash", reader.option())
    if reader.skip("LOCATION LABELS"):
        reader.option()
        while reader.sees(",") and reader.kind_after_comma() == "string":
            reader.skip(",")
            reader.option()


def _ttl(reader: TokenReader) -> None:
    """The copy's rows expire at the source alone: a target's own TTL is written, and off, as TiCDC writes it."""
    if reader.skip_any(("TTL_ENABLE", "TTL_JOB_INTERVAL")):
        return reader.feature("ttl settings", reader.option())
    reader.must_skip("TTL")
    named = reader.option()
    reader.must_skip("+")
    reader.must_skip("INTERVAL")
    return reader.feature("ttl", f" TTL = {named} + INTERVAL {reader.option()} {reader.plain_word().upper()} TTL_ENABLE = 'OFF'")
