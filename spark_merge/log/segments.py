"""A segment's live rows as one task needs them: decoded, by table or as committed, in `commit_ts, rank, ordinal`, in bounded memory.

- Of a segment as many tables are held at once as have ROWS_MAX rows and LIVE_BYTES_MAX bytes together: a pass over the file for each such
  pack of tables. The bytes are those of the rows themselves, not of the packed file, so they are known when they have been read.
- Tables with few rows are decoded in one pass (codecs/decode/tables.py): what a segment costs follows its rows, not its tables. Who needs
  one table of it, as the windows of a dump do, decodes that one alone, but where others share what is decoded.
- A table, or a whole segment in its own order, that has more, or most of the rows, is streamed by row groups. Of a transaction that
  continues over row groups at most HELD_ROWS_MAX rows and LIVE_BYTES_MAX bytes wait for its end; a larger one is read twice, deletes first
  (an update that moves a key is a delete and an insert: deletes come first across the whole commit_ts).

It must not know chunks, windows or sinks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.zone import Ambiguous, ServerZone
from sidecar.shared.errors import LogBroken
from sidecar.shared.log.manifest import DATA_COLUMNS
from sidecar.shared.log.skips import Skips
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import MARK_TABLE, Seq, TableName
from spark_merge.codecs.decode.rows import decode
from spark_merge.log.cache import DecodedRows, DecodedTables
from spark_merge.log.read import NO_ROWS, SmallFiles, iter_rows
from spark_merge.port.contract import CHANGES, RANK_DELETE, RANK_PUT, RAW_CHANGES, Between, Head
from spark_merge.port.pieces import HELD_ROWS_MAX

ROWS_MAX = 200_000
"""Rows of a segment that are held at once: some hundred megabytes."""

LIVE_BYTES_MAX = 64 << 20
"""Of the messages of a segment's rows that are held at once, and of the decoded rows of a transaction that wait for its end: fewer rows
where they are large. Decoded, rows are at most a few times as large as their messages."""

TOGETHER_ROWS = 512
"""Of tables with few rows, which are decoded in one pass: enough that fixed costs are small beside theirs."""

STREAMED_ROWS = 32_768
"""A table that has more, and most of what is read, is streamed though it could be held: what is read is then decoded while the processor
has it in its cache, a sixth less time a row (measured), at the price of one more pass if other tables are there."""


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """`heads`: every segment that the task reads, by seq. `server_tz`: the TiCDC server's zone. `skips`: rows of these
    segments that are skipped. Picklable."""

    log: Folder
    heads: Mapping[Seq, Head]
    server_tz: str = "UTC"
    ambiguous: Ambiguous = "refuse"
    skips: Skips = field(default_factory=dict)


class SegmentPart(NamedTuple):
    """Rows of a segment, by their ordinals; of those what was committed after the first and up to the second of `between`."""

    seq: Seq
    within: range
    between: Between | None = None


class _TooLarge(Exception):
    """The rows are more bytes than may be held at once."""


Group: TypeAlias = "tuple[TableName, ...]"
"""Tables that are decoded in one pass, by name."""


@dataclass(frozen=True, slots=True)
class _Pack:
    """Rows of some tables of a part, as they are in the log."""

    part: SegmentPart
    tables: frozenset[TableName]
    rows: pa.Table

    def of(self, tables: Group) -> pa.Table:
        """Their rows, with those of the watermark table maybe."""
        return self.rows if len(self.tables) == len(tables) else _of_tables(self.rows, tables)


class Segments:
    """For one task. What it holds is bounded; what it has decoded is in `cache`, which others may share. `raw`: with the messages
    (RAW_CHANGES). `in_turn`: segments of which the live rows are wanted, one after another."""

    def __init__(self, source: SegmentSource, *, raw: bool, cache: DecodedRows | None = None, in_turn: Iterable[Seq] = ()) -> None:
        self._source, self._raw = source, raw
        self.zone = ServerZone(source.server_tz, source.ambiguous)
        self._cache, self._shared = DecodedRows() if cache is None else cache, cache is not None
        self._tables: dict[SegmentPart, Counter[TableName]] = {}
        self._groups: dict[SegmentPart, dict[TableName, Group]] = {}
        self._pack: _Pack | None = None
        self._pack_rows_max = ROWS_MAX
        self._large: set[tuple[SegmentPart, TableName | None]] = set()
        heads = [source.heads[seq] for seq in dict.fromkeys(in_turn) if seq in source.heads]
        self._files = SmallFiles(source.log, [head.manifest for head in heads if head.table_rows is None or head.table_rows])

    def head(self, seq: Seq) -> Head:
        head = self._source.heads.get(seq)
        if head is None:
            raise LogBroken(f"segment {seq} is needed by a window and was not given", hint="report this: it is a defect of ticdc-dump")
        return head

    def part(self, seq: Seq, within: range | None = None, between: Between | None = None) -> SegmentPart:
        """Of all rows of the segment if `within` is not given."""
        return SegmentPart(seq, range(self.head(seq).manifest.rows) if within is None else within, between)

    def tables(self, part: SegmentPart) -> Counter[TableName]:
        """Those that there are live rows of, and how many. The segment is opened where its manifest does not say."""
        if part not in self._tables:
            head = self.head(part.seq)
            known = head.table_rows if part == self.part(part.seq) else None
            self._tables[part] = self._counted(part) if known is None else Counter(known)
        return self._tables[part]

    def _counted(self, part: SegmentPart) -> Counter[TableName]:
        """As `tables`, of what is in the file; the rows are kept where they are few."""
        if len(part.within) <= min(STREAMED_ROWS, ROWS_MAX):
            with suppress(_TooLarge):
                rows = _together(self._row_groups(part))
                count = _count(iter([rows]))
                self._pack = _Pack(part, frozenset(count), rows)
                return count
        return _count(self._row_groups(part, columns=("commit_ts", "schema", "table")))

    def changes(self, part: SegmentPart, table: TableName | None) -> Iterator[pa.Table]:
        """Of the table, or of all as they were committed; no empty one."""
        tables = self.tables(part)
        count = tables.total() if table is None else tables[table]
        streamed = count > ROWS_MAX or (count > STREAMED_ROWS and 2 * count > len(part.within))
        result = None if streamed or not count else self._whole(part, table)
        if result is None:
            yield from in_order(lambda: self._streamed(part, table)) if count else ()
        elif result.num_rows:  # else all were skipped
            yield _sorted(result) if table is None else result

    def decoded(self, seq: Seq, table: TableName) -> Iterator[pa.Table]:
        """All changes of the table, in any order."""
        part = self.part(seq)
        count = self.tables(part)[table]
        if not self._shared:
            self._groups.setdefault(part, _each_alone(self.tables(part)))
        result = None if count > ROWS_MAX or not count else self._whole(part, table)
        if result is None:
            yield from self._streamed(part, table) if count else ()
        else:
            yield result

    def _whole(self, part: SegmentPart, table: TableName | None) -> pa.Table | None:
        """Of the table, sorted, or of all; None where they are too large to be held."""
        if (part, table) in self._large:
            return None
        try:
            return self._all(part) if table is None else self._held(part, table).of(table)
        except _TooLarge:
            self._large.add((part, table))
            return None

    def _all(self, part: SegmentPart) -> pa.Table:
        """Raises _TooLarge."""
        parts, there, size = list[pa.Table](), set[TableName](), 0
        for table in sorted(self.tables(part)):
            if table not in there:
                parts.append(self._held(part, table).rows)
                there.update(self._group(part, table))
                size += parts[-1].nbytes
                if size > LIVE_BYTES_MAX:
                    raise _TooLarge
        return pa.concat_tables(parts)

    def _group(self, part: SegmentPart, table: TableName) -> Group:
        """A function of the part alone: so all who share the cache find what another one has decoded."""
        if part not in self._groups:
            self._groups[part] = _grouped(self.tables(part))
        return self._groups[part][table]

    def _held(self, part: SegmentPart, table: TableName) -> DecodedTables:
        """Its group. Raises _TooLarge where the table alone is."""
        source, manifest, group = self._source, self.head(part.seq).manifest, self._group(part, table)
        how = (source.server_tz, source.ambiguous, source.skips.get(part.seq), self._raw)
        place = (str(source.log), manifest.data, part[1:], group, manifest.schemas, how)
        try:
            return self._cache.get(place, lambda: DecodedTables(self._changes(part, self._packed(part, group).of(group))))
        except _TooLarge:
            if len(group) == 1:
                raise
        self._groups[part] = _each_alone(self.tables(part))
        return self._held(part, table)

    def _packed(self, part: SegmentPart, group: Group) -> _Pack:
        """Raises _TooLarge where the group's rows alone are."""
        while self._pack is None or self._pack.part != part or not self._pack.tables.issuperset(group):
            tables = self._beside(part, group)
            row_groups = self._row_groups(part)
            if tables < self.tables(part).keys():
                row_groups = (_of_tables(rows, tables) for rows in row_groups)
            try:
                self._pack = _Pack(part, tables, _together(row_groups))
            except _TooLarge:
                if len(tables) == len(group):
                    raise
                self._pack_rows_max = sum(self.tables(part)[name] for name in tables) // 2
        return self._pack

    def _beside(self, part: SegmentPart, group: Group) -> frozenset[TableName]:
        """The group, and the tables that are requested next and fit beside it: tables are requested by name, upwards."""
        tables, left = set(group), self._pack_rows_max - sum(self.tables(part)[name] for name in group)
        for name in sorted(name for name in self.tables(part) if name > group[0] and name not in group):
            left -= self.tables(part)[name]
            if left < 0:
                break
            tables.add(name)
        return frozenset(tables)

    def _row_groups(self, part: SegmentPart, *, columns: Sequence[str] = DATA_COLUMNS) -> Iterator[pa.Table]:
        """A row group at a time, as they are in the log: in the order of commit_ts."""
        manifest = self.head(part.seq).manifest
        for rows in iter_rows(self._source.log, manifest, columns=columns, within=part.within, files=self._files):
            yield _committed(rows, part.between)

    def _streamed(self, part: SegmentPart, table: TableName | None) -> Iterator[pa.Table]:
        """A row group at a time, in the log's order."""
        for rows in self._row_groups(part):
            yield self._changes(part, rows if table is None else _of_tables(rows, [table]))

    @property
    def _schema(self) -> pa.Schema:
        return RAW_CHANGES if self._raw else CHANGES

    def _changes(self, part: SegmentPart, rows: pa.Table) -> pa.Table:
        head = self.head(part.seq)
        if skipped := self._source.skips.get(part.seq):
            rows = rows.filter(pc.invert(pc.is_in(rows["ordinal"], value_set=pa.array(skipped, pa.int64()))))
        if rows.num_rows == 0:
            return self._schema.empty_table()
        with_seq = rows.append_column("seq", pa.repeat(pa.scalar(part.seq, pa.int64()), rows.num_rows))
        result = decode(with_seq, codec=head.manifest.codec, schemas=head.schemas, server_tz=self.zone)
        return _with_messages(result, rows) if self._raw else result


def _together(groups: Iterator[pa.Table]) -> pa.Table:
    """All rows, as they are in the log. Raises _TooLarge as soon as they are."""
    parts, size = list[pa.Table](), 0
    for rows in groups:
        parts.append(rows)
        size += rows.nbytes
        if size > LIVE_BYTES_MAX:
            raise _TooLarge
    return pa.concat_tables(parts or [NO_ROWS])


def _committed(rows: pa.Table, between: Between | None) -> pa.Table:
    """Of rows in the order of commit_ts."""
    if between is None:
        return rows
    first, last = np.searchsorted(rows["commit_ts"].to_numpy(), between, side="right").tolist()
    return rows.slice(first, last - first)


def _count(parts: Iterator[pa.Table]) -> Counter[TableName]:
    counter: Counter[TableName] = Counter()
    for rows in parts:
        counts = pc.value_counts(_names(rows))
        names, numbers = counts.field("values").to_pylist(), counts.field("counts").to_pylist()
        counter.update({TableName(*name.split("\0")): number for name, number in zip(names, numbers, strict=True)})
    counter.pop(MARK_TABLE, None)
    return counter


def _names(rows: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(rows["schema"], rows["table"], "\0")


def _of_tables(rows: pa.Table, tables: Collection[TableName]) -> pa.Table:
    return rows.filter(pc.is_in(_names(rows), value_set=pa.array(["\0".join(name) for name in tables])))


def _grouped(tables: Mapping[TableName, int]) -> dict[TableName, Group]:
    """Each one's group: those with few rows together, by name, as far as TOGETHER_ROWS reach. `tables`: the rows of each."""
    groups, rows = list[list[TableName]](), TOGETHER_ROWS + 1
    for name in sorted(tables):
        if tables[name] >= TOGETHER_ROWS:
            groups.insert(0, [name])
            continue
        rows += tables[name]
        if rows > TOGETHER_ROWS:
            groups.append([])
            rows = tables[name]
        groups[-1].append(name)
    return {name: tuple(group) for group in groups for name in group}


def _each_alone(tables: Iterable[TableName]) -> dict[TableName, Group]:
    return {name: (name,) for name in tables}


def _with_messages(changes: pa.Table, rows: pa.Table) -> pa.Table:
    """RAW_CHANGES: an update that was split has its message's value once, in the insert."""
    at = pc.index_in(changes["ordinal"], value_set=rows["ordinal"].combine_chunks())
    puts = pc.unique(changes.filter(pc.equal(changes["rank"], RANK_PUT))["ordinal"].combine_chunks())
    split = pc.and_(pc.equal(changes["rank"], RANK_DELETE), pc.is_in(changes["ordinal"], value_set=puts))
    once = pc.if_else(split, pa.scalar(None, at.type), at)
    for name, column, where in (
        ("message_key", "key", at),
        ("message_value", "value", once),
        ("lane", "lane", at),
        ("position", "position", at),
    ):
        changes = changes.append_column(name, rows[column].take(where))
    return changes


def _sorted(changes: pa.Table) -> pa.Table:
    """In `commit_ts, rank, ordinal`, as the log mostly has them."""
    order = np.lexsort([changes[name].to_numpy() for name in ("ordinal", "rank", "commit_ts")])
    return changes if np.array_equal(order, np.arange(len(order))) else changes.take(pa.array(order))


def in_order(groups: Callable[[], Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """`groups` in `commit_ts, rank, ordinal`; they rise in commit_ts. A commit_ts is complete when a greater one has come: deletes of keys
    that a later row group moves come before the puts of an earlier one."""
    held: pa.Table | None = None
    passed = -1
    for group in groups():
        rows = group if held is None else pa.concat_tables([held, group])
        rows = _sorted(rows.filter(pc.greater(rows["commit_ts"], passed)))
        if rows.num_rows == 0:
            held = None
            continue
        commit_ts = rows["commit_ts"].to_numpy()
        start_of_last = int(np.searchsorted(commit_ts, commit_ts[-1], side="left"))
        if start_of_last:
            yield rows.slice(0, start_of_last)
        held = rows.slice(start_of_last)
        if held.num_rows > HELD_ROWS_MAX or held.nbytes > LIVE_BYTES_MAX:
            passed, held = int(commit_ts[-1]), None
            yield from _transaction(groups(), groups(), passed)
    if held is not None and held.num_rows:
        yield held


def _transaction(first: Iterator[pa.Table], second: Iterator[pa.Table], commit_ts: int) -> Iterator[pa.Table]:
    """Everything at `commit_ts`, deletes first, by reading twice."""
    for rank, groups in ((RANK_DELETE, first), (RANK_PUT, second)):
        for rows in groups:
            wanted = rows.filter(pc.and_(pc.equal(rows["commit_ts"], commit_ts), pc.equal(rows["rank"], rank)))
            if wanted.num_rows:
                yield _sorted(wanted)
