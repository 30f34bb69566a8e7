#!/usr/bin/env python3
"""Check the certificate of a finished dump without a sidecar: deploy/CERTIFICATE.md.

    check.py CERTIFICATE --log DIR [--output DIR] [--kept SHA256]... [--json]
    check.py CERTIFICATE --tidb 'mysql://user@host:4000/' --tso N --output DIR [--json]       password: TIDB_PASSWORD

Exit code 0: accepted. 1: rejected, each time with the file, what was expected and what it is. 2: the call cannot be carried out.
3: nothing was checked of what was asked for. 4: all is as certified, and by the certificate a table has a hole that the dump does not fill.

It needs Python 3.11 and pyarrow, for the second form pymysql too, and nothing of ticdc-dump: so it can be read, copied and run elsewhere.
"""

from __future__ import annotations

import argparse
import decimal
import hashlib
import itertools
import json
import os
import re
import sqlite3
import struct
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Table = tuple[str, str]
LAST = re.compile(rb',\n"sha256": "([0-9a-f]{64})"}\n\Z')
RETAINED = re.compile(r"retained-([0-9]{20})")
NUMBERS = {"int", "uint", "year"}
FORMS = {"binary": "HEX({})", "bit": "CAST({} + 0 AS CHAR)", "float": "CAST({} * 1E0 AS CHAR)", "double": "CAST({} * 1E0 AS CHAR)"}
"""How a column of this kind becomes text; others by a cast."""
SOFT_DELETE_TIME = "_tidb_softdelete_time"
"""NULL in each row that TiDB shows with tidb_translate_softdelete_sql, under which no statement may name it."""
SETTINGS = (
    ("sql_select_limit", "18446744073709551615"), ("max_execution_time", "0"), ("time_zone", "'+00:00'"),
    ("sql_mode", "'STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'"),
    ("collation_connection", "'utf8mb4_bin'"), ("autocommit", "1"), ("group_concat_max_len", "1073741824"),
    ("div_precision_increment", "4"), ("default_week_format", "0"), ("tidb_read_staleness", "0"),
    ("tidb_enable_external_ts_read", "0"), ("tidb_low_resolution_tso", "0"),
    ("tidb_read_consistency", "'strict'"), ("tidb_replica_read", "'leader'"), ("tidb_isolation_read_engines", "'tikv,tidb'"),
    ("tidb_translate_softdelete_sql", "1"),
)  # fmt: skip
"""Of the session, besides `tidb_snapshot`: the server's own values could cut rows, or give old ones. As ticdc-dump's reads set them."""
UNKNOWN_VARIABLE = 1193
NOT_THERE = {1049: "database", 1054: "column", 1146: "table"}
"""Error codes of a server that has no such thing at that moment."""
QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`", re.DOTALL)
NAME = re.compile(r"`((?:[^`]|``)+)`|([\w$]+)")
BRACKETS = re.compile(r"\([^()]*\)")
OF_AN_INDEX = re.compile(r"(CREATE|DROP) (FULLTEXT |VECTOR |COLUMNAR )?INDEX ", re.IGNORECASE)
ALTERED = re.compile(r"ALTER TABLE (?:[\w$]+ ?\. ?)?[\w$]+ (.*)", re.IGNORECASE)
HARMLESS = re.compile(
    r"(ADD (FULLTEXT |VECTOR |COLUMNAR )?(INDEX|KEY)|(DROP|RENAME) (INDEX|KEY)|ALTER INDEX|(ADD (CONSTRAINT X )?|DROP )FOREIGN KEY"
    r"|COMMENT|AUTO_INCREMENT|SET TIFLASH REPLICA)\b",
    re.IGNORECASE,
)
"""Parts of an ALTER TABLE that change neither rows nor columns. A unique index can become the handle key, so it is not among them."""
BATCH_ROWS = 8_192
EXAMPLES_MAX = 5
HOLED = "accepted, but for tables with a hole"
UNHASHED = "files have no hash, because an earlier version wrote them"
PASSWORD = "TIDB_PASSWORD"
ABSENT = "absent "
"""A column of a chunk: whether the row is a key that the dump asked for and TiDB did not have."""
EXACT = decimal.Context(prec=200)


class Unusable(Exception):
    """The call cannot be carried out: exit code 2."""


@dataclass
class Report:
    """`rejected`: file, what, expected, found. `notes`: of what could not be checked, how much. `counts`: of each comparison, how often it
    was right. `checked`: of files, chunks, rows and tables, how many are as they should be. `unchecked`: what was asked for, and nothing of
    it was checked. `hashes`: of the certificate, and of the output's. `holes`: as the certificate has them."""

    rejected: list[dict[str, str]] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    checked: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unchecked: list[str] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    holes: list[dict[str, Any]] = field(default_factory=list)
    files: set[Path] = field(default_factory=set)
    tables: set[Table] = field(default_factory=set)

    @property
    def verdict(self) -> str:
        return "rejected" if self.rejected else "nothing was checked" if self.unchecked else "accepted" if not self.holes else HOLED

    def expect_file(self, name: str, expected: str, path: Path) -> bool:
        """By its sha256, or by the first digits of it."""
        found = sha256_of(path)
        same = self.expect(name, "sha256", expected, found[: len(expected)] if found.startswith(expected) else found)
        self.files |= {path} if same else set()
        return same

    def need(self, what: str, part: str) -> None:
        if not self.checked[what]:
            self.unchecked.append(f"{part}: no {what}")

    def expect(self, file: str, what: str, expected: object, found: object) -> bool:
        if expected == found:
            self.counts[what] += 1
            return True
        self.reject(file, what, expected, found)
        return False

    def reject(self, file: str, what: str, expected: object, found: object) -> None:
        self.rejected.append({"file": file, "what": what, "expected": str(expected), "found": str(found)})

    def note(self, what: str, number: int = 1) -> None:
        if number:
            self.notes[what] += number


# ---- files that hash themselves -------------------------------------------------------------------------------------------


def read_self_hashed(path: Path, name: str, report: Report) -> dict[str, Any] | None:
    """A file whose last field is the sha256 of what is before it; None where it is not as it was written."""
    if not path.is_file():
        report.reject(name, "file", "a file", "no file")
        return None
    data = path.read_bytes()
    found = LAST.search(data)
    if found is None:
        report.reject(name, "own sha256", 'a last line "sha256": 64 hexadecimal digits', f"{data[-80:]!r}")
        return None
    if not report.expect(name, "own sha256", found[1].decode(), hashlib.sha256(data[: found.start()]).hexdigest()):
        return None
    content: dict[str, Any] = json.loads(data)
    if content["version"] != 1:
        raise Unusable(f"{name} has format version {content['version']}, and this program reads 1")
    return content


def sha256_of(path: Path) -> str:
    """`no file` where there is none, or something else of that name."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return "no file"


# ---- the log --------------------------------------------------------------------------------------------------------------


class Log:
    """The manifests of the dump's segments that are as the certificate says. `floor`: of segments below it, retention may have removed
    files; what is there is checked. `whole`: the chunks that are as the certificate says."""

    def __init__(self, certificate: dict[str, Any], folder: Path, report: Report) -> None:
        if not folder.is_dir():
            raise Unusable(f"{folder} is no folder")
        self.folder, self.report = folder, report
        self.chunks: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for chunk in certificate["chunks"]:
            self.chunks[chunk["seq"]].append(chunk)
        self.floor = max((int(found[1]) for name in os.listdir(folder) if (found := RETAINED.fullmatch(name))), default=0)
        self.manifests: dict[int, dict[str, Any]] = {}
        self.whole: set[str] = set()
        for segment in certificate["segments"]:
            self._read(segment)
        self._check(certificate["dump_id"])

    def _read(self, segment: dict[str, Any]) -> None:
        seq, name = segment["seq"], f"{segment['seq']:020d}.json"
        if self._is_removed(seq, name):
            self.report.note(f"segments are no longer available: retention has removed segments below {self.floor}")
        elif self.report.expect_file(name, segment["sha256"], self.folder / name):
            manifest = json.loads((self.folder / name).read_bytes())
            self.report.expect(name, "previous manifest", segment["previous"], manifest.get("previous", ""))
            self.manifests[seq] = manifest
            self.report.checked["segments of the log"] += 1

    def _is_removed(self, seq: int, name: str) -> bool:
        return seq < self.floor and not (self.folder / name).exists()

    def _check(self, dump_id: str) -> None:
        for seq, manifest in self.manifests.items():
            if manifest["data"] and not manifest.get("data_sha256"):
                self.report.note(UNHASHED)
            elif manifest["data"]:
                self.report.expect_file(manifest["data"], manifest["data_sha256"], self.folder / manifest["data"])
            for name in filter(None, (manifest["schemas"], manifest["next_schemas"])):
                self.report.expect_file(name, Path(name).stem, self.folder / name)
            logged = [chunk for window in manifest["windows"] if window["dump_id"] == dump_id for chunk in window["chunks"]]
            of_log = [(chunk["path"], chunk["rows"], chunk.get("sha256", "")) for chunk in logged]
            certified = [(chunk["path"], chunk["rows"], chunk["sha256"]) for chunk in self.chunks[seq]]
            self.report.expect(f"{seq:020d}.json", "chunks of the dump", certified, of_log)
        for chunk in (chunk for chunks in self.chunks.values() for chunk in chunks):
            if self._is_removed(chunk["seq"], chunk["path"]):
                self.report.note(f"chunks are no longer available: retention has removed segments below {self.floor}")
            else:
                self._check_chunk(chunk)
                self._check_window(chunk)

    def check_holes(self, certificate: dict[str, Any]) -> None:
        """A hole of before the last pass over a table is filled by that, unless rows vanished. The certificate has all others."""
        passes = sorted(certificate["chunks"], key=lambda chunk: int(chunk["since_seq"]))
        since = {(one["schema"], one["table"]): one.get("since_seq", 0) for one in (*passes, *certificate["scope"]["tables"])}
        certified = {(one["schema"], one["table"], one["seq"], one["since_ts"], one["vanished"]) for one in certificate.get("holes", ())}
        for seq, hole in ((seq, hole) for seq, manifest in self.manifests.items() for hole in manifest.get("holes", ())):
            for table in since.keys() if hole["tables"] is None else since.keys() & set(map(tuple, hole["tables"])):
                if hole["vanished"] or seq >= since[table]:
                    there = (*table, seq, hole["since_ts"], hole["vanished"]) in certified
                    self.report.expect(f"{seq:020d}.json", f"hole of {'.'.join(table)} in the certificate", True, there)

    def _check_chunk(self, chunk: dict[str, Any]) -> None:
        name, path = chunk["path"], self.folder / chunk["path"]
        hashed = bool(chunk["sha256"] or chunk["rows_sum"])
        if not chunk["sha256"]:
            self.report.note(UNHASHED)
        elif not self.report.expect_file(name, chunk["sha256"], path):
            return
        try:
            with pq.ParquetFile(path) as file:
                same = self.report.expect(name, "rows", chunk["rows"], file.metadata.num_rows)
                if chunk["rows_sum"]:
                    found = rows_sum(file.iter_batches(BATCH_ROWS))
                    same = self.report.expect(name, "sum of row hashes", chunk["rows_sum"], found) and same
        except (OSError, pa.ArrowException) as error:
            self.report.reject(name, "Parquet file", "readable", error)
            return
        if not hashed:
            self.report.note("chunks of which only the number of rows was compared")
        elif same:
            self.whole.add(name)
            self.report.tables.add((chunk["schema"], chunk["table"]))
            self.report.checked["chunks"] += 1
            self.report.checked["rows of chunks"] += chunk["rows"]

    def _check_window(self, chunk: dict[str, Any]) -> None:
        """The window lies within its segments, as far as they are there."""
        name, low, high = chunk["path"], int(chunk["low_ts"]), int(chunk["high_ts"])
        first, last = self.manifests.get(chunk["first_seq"]), self.manifests.get(chunk["seq"])
        read = low if chunk["read_tso"] is None else int(chunk["read_tso"])
        if not low <= read <= high or (low == high and chunk["read_tso"] is None):
            self.report.reject(name, "window", "low_ts below high_ts, with the SELECT's TSO between them", (low, read, high))
        if last is not None and not int(last["after_ts"]) < high <= int(last["upto_ts"]):
            self.report.reject(name, "end of window", f"in segment {chunk['seq']}: {last['after_ts']} < high_ts <= {last['upto_ts']}", high)
        if first is not None and low < int(first["after_ts"]):
            self.report.reject(name, "begin of window", f"not before segment {chunk['first_seq']}: low_ts >= {first['after_ts']}", low)
        self.report.counts["windows of chunks"] += 1


def rows_sum(batches: Iterable[pa.RecordBatch]) -> str:
    """As sidecar/shared/log/row_sums.py specifies it."""
    total = 0
    for batch in batches:
        texts = [pc.cast(pc.cast(column, pa.string()), pa.binary()) for column in batch.columns]
        lengths = [pc.cast(pc.cast(pc.binary_length(text), pa.string()), pa.binary()) for text in texts]
        parts = [part for pair in zip(lengths, texts, strict=True) for part in pair]
        rows = pc.binary_join_element_wise(*parts, b":", null_handling="replace", null_replacement=b"~").to_pylist()
        total += sum(int.from_bytes(hashlib.sha256(row).digest()[:16], "big") for row in rows)
    return f"{total % 2**128:032x}"


# ---- the certificate itself -----------------------------------------------------------------------------------------------


def check_certificate(certificate: dict[str, Any], name: str, report: Report) -> None:
    segments, chunks = certificate["segments"], certificate["chunks"]
    seqs = [segment["seq"] for segment in segments]
    report.expect(name, "segments in a row", list(range(certificate["first_seq"], certificate["last_seq"] + 1)), seqs)
    if report.expect(name, "number of chunks", certificate["chunk_count"], len(chunks)) and not chunks:
        report.reject(name, "number of chunks", "at least one", 0)
    for before, after in itertools.pairwise(segments):
        if after["previous"]:
            report.expect(f"{after['seq']:020d}.json", "chain of manifests", before["sha256"], after["previous"])
        else:
            report.note("segments say nothing of the one before them, because an earlier version wrote them")
    rows: dict[Table, list[int]] = defaultdict(lambda: [0, 0])
    for chunk in chunks:
        rows[chunk["schema"], chunk["table"]][0] += 1
        rows[chunk["schema"], chunk["table"]][1] += chunk["rows"]
    said = {(one["schema"], one["table"]): [one["chunks"], one["rows"]] for one in certificate["rows"]}
    report.expect(name, "chunks and rows by table", said, dict(rows))
    report.note("chunks have no sum of row hashes: certificate.row_sums was false", len(chunks) - certificate["rows_sum_count"])
    report.note("tables whose dropped rows are not known", sum(one["dropped"] is None for one in certificate["rows"]))
    check_ranges(certificate, report)


def check_ranges(certificate: dict[str, Any], report: Report) -> None:
    """Chunks of one pass over a table have disjoint ranges. The order of texts is the server's collation, so only numbers are compared."""
    kinds = {(line["schema"], line["table"]): {column[0]: column[1] for column in line["columns"]} for line in certificate["tables"]}
    keys = {(line["schema"], line["table"]): line["key"] for line in certificate["tables"]}
    passes: dict[tuple[Table, int], list[dict[str, Any]]] = defaultdict(list)
    for chunk in certificate["chunks"]:
        if chunk["last"] is not None:
            passes[(chunk["schema"], chunk["table"]), chunk["since_seq"]].append(chunk)
    for (table, _), chunks in passes.items():
        if not all(kinds.get(table, {}).get(column) in NUMBERS for column in keys.get(table, [""])):
            report.note("passes over a table have keys that are no numbers: whether their ranges overlap was not decided")
            continue
        ranges = [(numbers(chunk["after"]), numbers(chunk["last"]), chunk["path"]) for chunk in chunks]
        ranges.sort(key=lambda one: (one[0], one[1]))
        end, path = numbers(None), ""
        for after, last, name in ranges:
            if after > last or (path and after < end):
                report.reject(name, "range of keys", f"above {end}, the end of {path or 'nothing'}, and not empty", f"({after}, {last}]")
            end, path = max((end, path), (last, name))
        report.counts["ranges of keys"] += len(ranges)


def numbers(key: list[str] | None) -> tuple[int, ...]:
    """The empty one is below all others."""
    return () if key is None else tuple(map(int, key))


# ---- an output ------------------------------------------------------------------------------------------------------------


def check_output(certificate: dict[str, Any], sha256: str, output: Path, log: Log | None, report: Report) -> None:
    name = f"_certificates/{certificate['dump_id']}.json"
    own = read_self_hashed(output / name, name, report)
    if own is None:
        return
    report.hashes["output"] = own["sha256"]
    report.expect(name, "certificate of the log", sha256, own["certificate"])
    report.expect(name, "id of the log", certificate["log"], own["output"].rpartition("#")[2])
    seqs = [seq for seq, _ in own["segments"]]
    if not seqs:
        report.reject(name, "segments", "at least one: an output that began behind the dump has none of it", 0)
        return
    report.expect(name, "segments in a row", list(range(certificate["first_seq"], certificate["last_seq"] + 1)), seqs)
    dumped: dict[int, dict[Table, int]] = defaultdict(lambda: defaultdict(int))
    for chunk in certificate["chunks"]:
        dumped[chunk["seq"]][chunk["schema"], chunk["table"]] += chunk["rows"]
    dropped: dict[Table, int] = defaultdict(int)
    rows = None if log is None else DumpRows(certificate, log, output, seqs[0], report)
    for seq, expected in own["segments"]:
        path = f"_segments/{seq:020d}.json"
        if not report.expect_file(path, expected, output / path):
            continue
        segment = json.loads((output / path).read_bytes())
        report.checked["segments of the output"] += 1
        if check_files(output, segment, report) and rows is not None:
            rows.check(seq, segment)
        manifest = log.manifests.get(seq) if log is not None else None
        alone = manifest is not None and all(window["dump_id"] == certificate["dump_id"] for window in manifest["windows"])
        for table in {(file["schema"], file["table"]) for file in segment["files"]} | dumped[seq].keys():
            files = [file for file in segment["files"] if (file["schema"], file["table"]) == table]
            number, chunk_rows = sum(file["from_dump"] + file["dropped"] for file in files), dumped[seq].get(table, 0)
            if alone or number < chunk_rows:  # else another dump may have rows in the segment
                report.expect(path, f"dump rows and dropped rows of {'.'.join(table)}", chunk_rows, number)
            dropped[table] += sum(file["dropped"] for file in files) if chunk_rows else 0
    for one in certificate["rows"]:
        if one["dropped"] is not None:
            report.expect(name, "dropped rows", one["dropped"], dropped[one["schema"], one["table"]])


def check_files(output: Path, segment: dict[str, Any], report: Report) -> bool:
    """Whether all are as the segment says."""
    before = len(report.rejected)
    if segment["ddl"] and segment.get("ddl_sha256"):
        report.expect_file(segment["ddl"], segment["ddl_sha256"], output / segment["ddl"])
    for file in segment["files"]:
        path, hashed = output / file["path"], bool(file.get("sha256"))
        if not hashed and path.is_file():
            report.note(UNHASHED)
        elif not report.expect_file(file["path"], file.get("sha256") or "a file", path):
            continue
        try:
            if report.expect(file["path"], "rows", file["from_log"] + file["from_dump"], found := count_rows(path)) and hashed:
                report.tables.add((file["schema"], file["table"]))
                report.checked["rows of the output"] += found
        except (OSError, pa.ArrowException) as error:
            report.reject(file["path"], "Parquet file", "readable", error)
    return len(report.rejected) == before


def count_rows(path: Path) -> int:
    if path.suffix == ".parquet":
        return int(pq.read_metadata(path).num_rows)
    with path.open("rb") as file:
        return sum(1 for _ in file)


class OutputRow(NamedTuple):
    """`values`: of the new row, for a delete of the old one or of its key."""

    commit_ts: int
    deleted: bool
    dump_id: str | None
    values: dict[str, Any]


def output_rows(output: Path, segment: dict[str, Any], table: Table, columns: Iterable[str]) -> Iterator[OutputRow]:
    """The rows of a table in a segment, in the order in which they are applied."""
    paths = [output / file["path"] for file in segment["files"] if (file["schema"], file["table"]) == table]
    for path in (path for path in paths if path.suffix == ".jsonl"):
        with path.open(encoding="utf-8") as file:
            for row in map(json.loads, file):
                values = row["after"] or row["before"] or row["key"]
                yield OutputRow(int(row["commit_ts"]), row["op"] == "delete", row["dump_id"], values)
    tables = [one for path in paths if path.suffix == ".parquet" and (one := pq.read_table(path)).num_rows]
    if not tables:
        return
    prefix = json.loads(tables[0].schema.metadata[b"ticdc-dump"])["prefix"]
    rows = pa.concat_tables(tables)
    commit_ts, op, origin, ordinal = (rows[f"{prefix}{name}"] for name in ("commit_ts", "op", "origin", "ordinal"))
    order = pa.table([commit_ts, pc.not_equal(op, "delete"), pc.equal(origin, "dump"), ordinal], ["a", "b", "c", "d"])
    rows = rows.take(pc.sort_indices(order, [(name, "ascending") for name in order.column_names]))
    for row in (row for batch in rows.to_batches(BATCH_ROWS) for row in batch.to_pylist()):
        untyped = json.loads(row[f"{prefix}untyped"] or "{}")
        values = {name: untyped.get(name, row[name]) for name in columns if name in row}
        yield OutputRow(row[f"{prefix}commit_ts"], row[f"{prefix}op"] == "delete", row[f"{prefix}dump_id"], values)


class Line:
    """A table's columns and handle key, as a line of `tables` has them."""

    def __init__(self, line: dict[str, Any]) -> None:
        self.columns: dict[str, str] = {column[0]: column[1] for column in line["columns"]}
        self.key: list[str] = line["key"]

    def key_of(self, values: dict[str, Any]) -> str:
        return json.dumps([plain(self.columns[name], values.get(name)) for name in self.key])

    def digest(self, values: dict[str, Any]) -> bytes:
        texts = json.dumps([plain(kind, values.get(name)) for name, kind in self.columns.items()])
        return hashlib.sha256(texts.encode()).digest()


class DumpRows:
    """Each row of a chunk is in the output with its values, or a live row of the output has its key in the chunk's window; and the output
    has no other row of the dump. Live keys are kept as far back as later windows reach."""

    def __init__(self, certificate: dict[str, Any], log: Log, output: Path, first: int, report: Report) -> None:
        self.dump_id, self.log, self.output, self.first, self.report = certificate["dump_id"], log, output, first, report
        self.lines: dict[Table, list[tuple[int, Line]]] = defaultdict(list)
        for line in certificate["tables"]:
            self.lines[line["schema"], line["table"]].append((line["seq"], Line(line)))
        self.reach: dict[int, int] = {}
        low = certificate["last_seq"] + 1
        for seq in range(certificate["last_seq"], first - 1, -1):
            self.reach[seq] = low
            low = min([low, *(chunk["first_seq"] for chunk in log.chunks.get(seq, ()))])
        self.live: dict[int, dict[Table, dict[str, list[int]]]] = {}

    def check(self, seq: int, segment: dict[str, Any]) -> None:
        chunks: dict[Table, list[dict[str, Any]]] = defaultdict(list)
        for chunk in self.log.chunks.get(seq, ()):
            chunks[chunk["schema"], chunk["table"]].append(chunk)
        keys = self.live[seq] = {}
        for table in {(file["schema"], file["table"]) for file in segment["files"]} & self.lines.keys() | chunks.keys():
            line, touched = self._line(table, seq), keys.setdefault(table, defaultdict(list))
            dumped: Counter[tuple[str, bytes]] = Counter()
            for row in output_rows(self.output, segment, table, line.columns):
                if row.dump_id is None:
                    touched[line.key_of(row.values)].append(row.commit_ts)
                elif row.dump_id == self.dump_id:
                    dumped[line.key_of(row.values), b"" if row.deleted else line.digest(row.values)] += 1
            if all(chunk["path"] in self.log.whole and chunk["first_seq"] >= self.first for chunk in chunks[table]):
                self._compare(seq, table, line, chunks[table], dumped)
            else:
                self.report.note(
                    "chunks whose rows in the output were only counted: the log or the output has not all of them", len(chunks[table])
                )
        for old in [old for old in self.live if old < self.reach[seq]]:
            del self.live[old]

    def _line(self, table: Table, seq: int) -> Line:
        """As of the segment; before the first line, that one."""
        lines = self.lines[table]
        return next((line for since, line in reversed(lines) if since <= seq), lines[0][1])

    def _compare(self, seq: int, table: Table, line: Line, chunks: list[dict[str, Any]], dumped: Counter[tuple[str, bytes]]) -> None:
        missing = []
        for chunk in chunks:
            for row in chunk_rows(self.log.folder / chunk["path"]):
                one = line.key_of(row), b"" if row.get(ABSENT) else line.digest(row)
                if self._is_touched(table, one[0], chunk):
                    self.report.checked["dump rows that a live change replaces"] += 1
                elif dumped[one] > 0:
                    dumped[one] -= 1
                    self.report.checked["dump rows in the output"] += 1
                else:
                    missing.append(one[0])
        for what, keys in (("dump rows that are missing", missing), ("dump rows of no chunk", [key for key, _ in dumped.elements()])):
            if keys:
                name = f"_segments/{seq:020d}.json"
                self.report.reject(name, f"{what}: {'.'.join(table)}", 0, f"{len(keys):,}: {', '.join(keys[:EXAMPLES_MAX])}")

    def _is_touched(self, table: Table, key: str, chunk: dict[str, Any]) -> bool:
        low, high = int(chunk["low_ts"]), int(chunk["high_ts"])
        found = (self.live.get(seq, {}).get(table, {}).get(key, ()) for seq in range(chunk["first_seq"], chunk["seq"] + 1))
        return any(low < commit_ts <= high for commits in found for commit_ts in commits)


def chunk_rows(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH_ROWS):
            yield from batch.to_pylist()


# ---- TiDB at a moment, and the output folded to it ------------------------------------------------------------------------


class NotCompared(Exception):
    """Of one table, with the reason."""


class Comparison:
    """Digests of the output's rows are in a file, by key, so memory does not grow with a table. Raises Unusable."""

    def __init__(self, output: Path, connection: Any, tso: int, report: Report) -> None:
        self.output, self.connection, self.tso, self.report = output, connection, tso, report
        self.segments = [json.loads(path.read_bytes()) for path in sorted((output / "_segments").glob("*.json"))]
        if not self.segments or int(self.segments[-1]["upto_ts"]) < tso:
            raise Unusable(f"{output} has come to {self.segments[-1]['upto_ts'] if self.segments else 'nothing'}, which is below {tso}")
        ddls = [(segment["seq"], json.loads((output / segment["ddl"]).read_bytes())["ddls"]) for segment in self.segments if segment["ddl"]]
        self.ddls = [(seq, ddl) for seq, found in ddls for ddl in found]
        with connection.cursor() as cursor:
            cursor.execute("SET NAMES utf8mb4")
            for name, value in (*SETTINGS, ("tidb_snapshot", f"'{tso}'")):
                self._set(cursor, name, value)

    def _set(self, cursor: Any, name: str, value: str) -> None:
        try:
            cursor.execute(f"SET SESSION {name} = {value}")
        except Exception as error:
            if name == "tidb_snapshot" or error.args[:1] != (UNKNOWN_VARIABLE,):  # what this version lacks is no danger
                raise Unusable(f"the session may not set {name} = {value}: {error}") from error

    def run(self, certificate: dict[str, Any]) -> None:
        lines = {(line["schema"], line["table"]): Line(line) for line in certificate["tables"]}
        chunks: dict[Table, list[dict[str, Any]]] = defaultdict(list)
        for chunk in certificate["chunks"]:
            chunks[chunk["schema"], chunk["table"]].append(chunk)
        for one in certificate["scope"]["tables"]:
            table = one["schema"], one["table"]
            try:
                after = self._comparable_after(one, table, chunks[table])
                self._compare(table, lines[table], after)
            except NotCompared as why:
                self.report.note(f"table was not compared: {'.'.join(table)} ({why})")
        self.report.need("tables compared with TiDB", "--tidb")

    def _comparable_after(self, one: dict[str, Any], table: Table, chunks: list[dict[str, Any]]) -> int:
        """The segment behind which the output's rows of the table are those of its present form; -1: all are. Raises NotCompared."""
        if not one["whole"] or not chunks:
            raise NotCompared("the dump had only a part of it")
        if one["complete_at"] is None or int(one["complete_at"]) > self.tso:
            raise NotCompared(f"the dump had all of it at {one['complete_at']}, which is not at or before {self.tso}")
        last_pass = max(chunk["since_seq"] for chunk in chunks)
        begin = min(int(chunk["low_ts"]) for chunk in chunks if chunk["since_seq"] == last_pass)
        after = -1
        for seq, ddl in self.ddls:
            if int(ddl["commit_ts"]) > self.tso or not concerns(ddl, table) or not changes_rows(ddl["query"]):
                continue
            if int(ddl["commit_ts"]) > begin:
                raise NotCompared(f"a DDL at {ddl['commit_ts']} has changed it since the dump began to read it: {ddl['query'][:200]}")
            after = seq
        return after

    def _compare(self, table: Table, line: Line, after: int) -> None:
        found: dict[str, list[str]] = defaultdict(list)
        counts: dict[str, int] = defaultdict(int)

        def compared(kind: str, key_text: str) -> None:
            counts[kind] += 1
            found[kind] += [key_text] if len(found[kind]) < EXAMPLES_MAX else []

        with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(f"{folder}/rows.db", isolation_level=None)) as rows:
            rows.execute("PRAGMA journal_mode = OFF")
            rows.execute("CREATE TABLE rows (key TEXT PRIMARY KEY, digest BLOB) WITHOUT ROWID")
            rows.execute("BEGIN")
            for segment in (segment for segment in self.segments if segment["seq"] > after):
                for row in output_rows(self.output, segment, table, line.columns):
                    if row.commit_ts <= self.tso and row.deleted:
                        rows.execute("DELETE FROM rows WHERE key = ?", (line.key_of(row.values),))
                    elif row.commit_ts <= self.tso:
                        values = (line.key_of(row.values), line.digest(row.values))
                        rows.execute("INSERT OR REPLACE INTO rows VALUES (?, ?)", values)
            for of_tidb in self._of_tidb(table, line.columns):
                key = line.key_of(of_tidb)
                known = rows.execute("DELETE FROM rows WHERE key = ? RETURNING digest", (key,)).fetchone()
                same = known is not None and known[0] == line.digest(of_tidb)
                compared("missing" if known is None else "equal" if same else "different", key)
            for (text,) in rows.execute("SELECT key FROM rows"):
                compared("extra", text)
        self.report.tables.add(table)
        self.report.checked["tables compared with TiDB"] += 1
        self.report.counts["equal rows"] += counts["equal"]
        self.report.checked["rows equal to TiDB's"] += counts.pop("equal", 0)
        for kind, number in counts.items():
            self.report.reject(".".join(table), f"{kind} rows at {self.tso}", 0, f"{number:,}: {', '.join(found[kind])}")

    def _of_tidb(self, table: Table, columns: dict[str, str]) -> Iterator[dict[str, Any]]:
        names = {name: "`" + name.replace("`", "``") + "`" for name in (*columns, *table)}
        forms = {name: "NULL" if name == SOFT_DELETE_TIME else FORMS.get(kind, "CAST({} AS CHAR)") for name, kind in columns.items()}
        selected = ", ".join(form.format(names[name]) for name, form in forms.items())
        with self.connection.cursor() as cursor:
            try:
                cursor.execute(f"SELECT {selected} FROM {names[table[0]]}.{names[table[1]]}")
            except Exception as error:
                if error.args and error.args[0] in NOT_THERE:
                    raise NotCompared(f"TiDB has no such {NOT_THERE[error.args[0]]} at {self.tso}: {error}") from error
                raise
            while batch := cursor.fetchmany(BATCH_ROWS):
                yield from (dict(zip(columns, row, strict=True)) for row in batch)


def concerns(ddl: dict[str, Any], table: Table) -> bool:
    """Whether the DDL is of the table or its schema, or names both: RENAME TABLE and EXCHANGE PARTITION name a second table."""
    schema, name = table[0].lower(), table[1].lower()
    names = {(one[1] or one[2]).replace("``", "`").lower() for one in NAME.finditer(ddl["query"])} | {ddl["schema"].lower()}
    return (ddl["schema"].lower() == schema and ddl["table"].lower() in ("", name)) or {schema, name} <= names


def changes_rows(query: str) -> bool:
    """Whether a DDL may change rows, columns or the handle key of a table: each one does that is not known not to."""
    text = " ".join(QUOTED.sub("X", query).split())
    while (shorter := BRACKETS.sub("", text)) != text:
        text = shorter
    found = ALTERED.match(text)
    harmless = found is not None and all(HARMLESS.match(part.strip()) for part in found[1].split(","))
    return not (harmless or OF_AN_INDEX.match(text))


def plain(kind: str, value: Any) -> Any:
    """One form for a value, whether it is canonical text or a value of a Parquet file. Texts of floats and JSON are not unique. A text that
    is no value of the kind, or JSON with more levels than Python reads, is its own form."""
    try:
        return None if value is None else form_of(kind, value)
    except (ValueError, ArithmeticError, RecursionError):
        return str(value)


def form_of(kind: str, value: Any) -> Any:
    match kind:
        case "int" | "uint" | "bit" | "year":
            return int(value)
        case "float":
            return struct.pack("<f", float(value)).hex()
        case "double":
            return float(value).hex()
        case "decimal":
            return str(EXACT.normalize(decimal.Decimal(value)))
        case "date" | "datetime" | "timestamp":
            text = value.replace(tzinfo=None).isoformat(" ") if isinstance(value, datetime) else str(value)
            return text.rstrip("0").rstrip(".") if "." in text else text
        case "binary":
            return value.hex().upper() if isinstance(value, bytes) else value
        case "json":
            return json.dumps(json.loads(value, parse_float=whole_or_float), sort_keys=True)
        case _:
            return str(value)


def whole_or_float(text: str) -> int | float:
    return int(float(text)) if float(text).is_integer() else float(text)


def connected(uri: str) -> Any:
    try:
        import pymysql
        import pymysql.cursors
    except ImportError as error:
        raise Unusable("--tidb needs pymysql: pip install pymysql") from error
    parts = urlsplit(uri)
    if parts.scheme != "mysql" or not parts.hostname:
        raise Unusable("--tidb: write mysql://user@host:port/")
    given = dict(parse_qsl(parts.query))
    ssl = {"ssl_ca": given["ca"]} if "ca" in given else {}
    account = {"user": unquote(parts.username or "root"), "password": os.environ.get(PASSWORD, "")}
    try:
        return pymysql.connect(
            host=parts.hostname, port=parts.port or 4000, charset="utf8mb4", cursorclass=pymysql.cursors.SSCursor, **account, **ssl
        )
    except pymysql.err.MySQLError as error:
        raise Unusable(f"{parts.hostname}: {error}") from error


# ---- the call -------------------------------------------------------------------------------------------------------------


def check(
    certificate: Path,
    *,
    log: Path | None = None,
    output: Path | None = None,
    connection: Any = None,
    tso: int = 0,
    kept: Iterable[str] = (),
) -> Report:
    """With a connection, the output is compared with the cluster, and nothing else is checked. Raises Unusable."""
    report = Report()
    if not certificate.is_file():
        raise Unusable(f"{certificate} is no file")
    found = read_self_hashed(certificate, certificate.name, report)
    if found is None:
        return report
    report.hashes["certificate"] = found["sha256"]
    report.holes = found.get("holes", [])
    if connection is not None and output is not None:
        Comparison(output, connection, tso, report).run(found)
    else:
        check_certificate(found, certificate.name, report)
        opened = None if log is None else Log(found, log, report)
        if opened is not None:
            opened.check_holes(found)
            report.need("chunks", "--log")
        if output is not None:
            check_output(found, found["sha256"], output, opened, report)
            report.need("segments of the output", "--output")
    for sha256 in kept:
        if sha256.lower() not in report.hashes.values():
            report.reject("--kept", "sha256 of the certificate or of the output's certificate", sha256, " or ".join(report.hashes.values()))
    if "output" in report.hashes and report.hashes["output"] not in map(str.lower, kept):
        report.note("hash of the output's certificate was not given with --kept: who can write there can have changed its live rows")
    report.checked |= {"files": len(report.files), "tables": len(report.tables)}
    return report


def lines_of(report: Report) -> Iterator[str]:
    yield from (f"rejected: {one['file']}: {one['what']}: expected {one['expected']}, found {one['found']}" for one in report.rejected)
    for one in report.holes:
        what = f"{one['cause']}: {one['text']}" + (": rows may be gone in TiDB" if one["vanished"] else "")
        yield f"hole: {one['schema']}.{one['table']} is not complete since {one['since_ts']}, noticed in segment {one['seq']}: {what}"
    yield from (f"note: {number:,} {note}" for note, number in report.notes.items())
    yield from (f"nothing was checked of {what}" for what in report.unchecked)
    yield from (
        f"sha256 of the {name if name == 'certificate' else 'certificate in the ' + name}: {one}" for name, one in report.hashes.items()
    )
    yield f"compared: {', '.join(f'{number:,} {what}' for what, number in sorted(report.counts.items()))}"
    yield f"checked: {', '.join(f'{number:,} {what}' for what, number in report.checked.items())}"
    yield report.verdict


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check the certificate of a finished dump (deploy/CERTIFICATE.md).")
    parser.add_argument("certificate", type=Path)
    parser.add_argument("--log", type=Path, help="the folder of the segment log, or a copy of it")
    parser.add_argument("--output", type=Path, help="the folder of a file: sink, or a copy of it")
    parser.add_argument("--kept", action="append", default=[], metavar="SHA256", help="a hash that you kept; may be given again")
    parser.add_argument("--tidb", help=f"mysql://user@host:port/?ca=FILE: compare this cluster with the output; password: {PASSWORD}")
    parser.add_argument("--tso", type=int, help="at which moment")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args(arguments)
    if (asked.tidb is None) != (asked.tso is None) or (asked.tidb and (asked.log or not asked.output)) or not (asked.log or asked.output):
        parser.error("give --log, --output or both; --tidb and --tso go together, need --output, and check no --log")
    try:
        connection = None if asked.tidb is None else connected(asked.tidb)
        report = check(asked.certificate, log=asked.log, output=asked.output, connection=connection, tso=asked.tso or 0, kept=asked.kept)
    except Exception as error:  # noqa: BLE001  # whatever it is, nothing was decided
        sys.stderr.write(f"check.py: {type(error).__name__}: {error}\n")
        return 2
    content = {"accepted": report.verdict == "accepted", "verdict": report.verdict, "rejected": report.rejected, "notes": report.notes}
    content |= {"counts": report.counts, "checked": report.checked, "unchecked": report.unchecked, "hashes": report.hashes}
    content |= {"holes": report.holes}
    sys.stdout.write(json.dumps(content, indent=1) if asked.json else "\n".join(lines_of(report)))
    sys.stdout.write("\n")
    return EXIT_CODES[report.verdict]


EXIT_CODES = {"accepted": 0, "rejected": 1, "nothing was checked": 3, HOLED: 4}


if __name__ == "__main__":
    sys.exit(main())
