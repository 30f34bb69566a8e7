"""Partitions, as TiDB's grammar has them."""

from __future__ import annotations

from sidecar.shared.model.nouns import lowered
from spark_merge.ddl.column_syntax import placement
from spark_merge.ddl.reader import TokenReader
from spark_merge.ddl.statement import BoundPiece

NOT_LOGGED = "NO_WRITE_TO_BINLOG|LOCAL"


def partition_by(reader: TokenReader) -> None:
    reader.need("PARTITION BY")
    if reader.skip("LINEAR"):
        reader.feature("linear", " LINEAR")
    if reader.take("RANGE|LIST"):
        _columns(reader) if reader.take("COLUMNS") else reader.parens()
    elif reader.take("HASH"):
        reader.parens()
    else:
        reader.need("KEY")
        if reader.take("ALGORITHM"):
            reader.need("=")
            reader.number()
        _columns(reader)
    if reader.sees("INTERVAL"):
        _interval(reader)
    if reader.take("PARTITIONS"):
        reader.number()
    if reader.sees("("):
        definitions(reader)
    if reader.skip("UPDATE INDEXES"):
        reader.feature("global index", f" UPDATE INDEXES {reader.bare_parens().strip()}")


def bounds_of(partitioning: str) -> dict[str, str]:
    """The bounds of a PARTITION BY clause with their parentheses, by the partition's folded name. Raises UnsupportedDdl."""
    reader = TokenReader(partitioning, "")
    partition_by(reader)
    return {lowered(piece.partition): piece.text for piece in reader.made() if isinstance(piece, BoundPiece)}


def _columns(reader: TokenReader) -> None:
    reader.need("(")
    if not reader.sees(")"):
        reader.names()
    reader.need(")")


def _interval(reader: TokenReader) -> None:
    """`INTERVAL (…) FIRST PARTITION LESS THAN (…) LAST PARTITION LESS THAN (…) [NULL PARTITION] [MAXVALUE PARTITION]`."""
    reader.must_skip("INTERVAL")
    text = f" INTERVAL {reader.bare_parens().strip()}"
    for end in ("FIRST", "LAST"):
        reader.must_skip(f"{end} PARTITION LESS THAN")
        text += f" {end} PARTITION LESS THAN {reader.bare_parens().strip()}"
    for more in ("NULL PARTITION", "MAXVALUE PARTITION"):
        text += f" {more}" if reader.skip(more) else ""
    reader.feature("interval partitions", text)


def definitions(reader: TokenReader) -> bool:
    """`(PARTITION name [VALUES …] [options], …)`; returns whether they have values. Those of HASH and KEY have none."""
    reader.need("(")
    valued = False
    while True:
        reader.need("PARTITION")
        valued |= _values(reader, reader.name())
        _options(reader)
        if not reader.take(","):
            break
    reader.need(")")
    return valued


def _values(reader: TokenReader, partition: str) -> bool:
    if reader.skip("DEFAULT"):
        reader.feature("default partition", " DEFAULT")
    elif reader.take("VALUES LESS THAN"):
        if not reader.take("MAXVALUE"):
            reader.write(BoundPiece(partition, reader.bare_parens()))
    elif reader.take("VALUES IN"):
        text = reader.bare_parens()
        # DEFAULT as a value among others is TiDB's own
        if "DEFAULT" in text.upper():
            reader.feature("default partition", text)
        else:
            reader.write(BoundPiece(partition, text))
    else:
        return False
    return True


def _options(reader: TokenReader) -> None:
    while True:
        if reader.take("COMMENT"):
            reader.take("=")
            reader.string()
        elif reader.sees("PLACEMENT"):
            placement(reader)
        elif reader.skip_any(
            ("STORAGE ENGINE", "ENGINE", "DATA DIRECTORY", "INDEX DIRECTORY", "MAX_ROWS", "MIN_ROWS", "TABLESPACE", "NODEGROUP")
        ):
            reader.feature("storage", reader.option())
        elif not reader.unknown_option():
            return
