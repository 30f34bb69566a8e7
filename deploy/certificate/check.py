#!/usr/bin/env python3
"""Check the certificate of a finished dump without a sidecar: deploy/CERTIFICATE.md.

    check.py CERTIFICATE --log DIR [--output DIR] [--json]
    check.py CERTIFICATE --tidb 'mysql://user@host:4000/' --tso N --output DIR [--json]       password: TIDB_PASSWORD

Exit code 0: accepted. 1: rejected, each time with the file, what was expected and what it is. 2: the call cannot be carried out.

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
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
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
BATCH_ROWS = 8_192
EXAMPLES_MAX = 5
UNHASHED = "files have no hash, because an earlier version wrote them"
PASSWORD = "TIDB_PASSWORD"
EXACT = decimal.Context(prec=200)


class Unusable(Exception):
    """The call cannot be carried out: exit code 2."""


@dataclass
class Report:
    """`rejected`: file, what, expected, found. `notes`: of what could not be checked, how much. `counts`: of what was."""

    rejected: list[dict[str, str]] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

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
    """The manifests of the dump's segments that are as the certificate says. `floor`: segments below it were removed by retention."""

    def __init__(self, certificate: dict[str, Any], folder: Path, report: Report) -> None:
        if not folder.is_dir():
            raise Unusable(f"{folder} is no folder")
        self.folder, self.report = folder, report
        self.chunks: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for chunk in certificate["chunks"]:
            self.chunks[chunk["seq"]].append(chunk)
        self.floor = max((int(found[1]) for name in os.listdir(folder) if (found := RETAINED.fullmatch(name))), default=0)
        self.manifests: dict[int, dict[str, Any]] = {}
        for segment in certificate["segments"]:
            self._read(segment)
        self._check(certificate["dump_id"])

    def _read(self, segment: dict[str, Any]) -> None:
        seq, name = segment["seq"], f"{segment['seq']:020d}.json"
        if seq < self.floor:
            return
        if self.report.expect(name, "sha256", segment["sha256"], sha256_of(self.folder / name)):
            manifest = json.loads((self.folder / name).read_bytes())
            self.report.expect(name, "previous manifest", segment["previous"], manifest.get("previous", ""))
            self.manifests[seq] = manifest

    def _check(self, dump_id: str) -> None:
        for seq, manifest in self.manifests.items():
            if manifest["data"] and not manifest.get("data_sha256"):
                self.report.note(UNHASHED)
            elif manifest["data"]:
                self.report.expect(manifest["data"], "sha256", manifest["data_sha256"], sha256_of(self.folder / manifest["data"]))
            for name in filter(None, (manifest["schemas"], manifest["next_schemas"])):
                self.report.expect(name, "sha256", Path(name).stem, sha256_of(self.folder / name)[:16])
            logged = [chunk for window in manifest["windows"] if window["dump_id"] == dump_id for chunk in window["chunks"]]
            of_log = [(chunk["path"], chunk["rows"], chunk.get("sha256", "")) for chunk in logged]
            certified = [(chunk["path"], chunk["rows"], chunk["sha256"]) for chunk in self.chunks[seq]]
            self.report.expect(f"{seq:020d}.json", "chunks of the dump", certified, of_log)
        for seq, chunks in self.chunks.items():
            if seq < self.floor:
                self.report.note(f"chunks are no longer available: retention has removed segments below {self.floor}", len(chunks))
            for chunk in chunks if seq >= self.floor else ():
                self._check_chunk(chunk)
                self._check_window(chunk)

    def _check_chunk(self, chunk: dict[str, Any]) -> None:
        name, path = chunk["path"], self.folder / chunk["path"]
        if not chunk["sha256"]:
            self.report.note(UNHASHED)
        elif not self.report.expect(name, "sha256", chunk["sha256"], sha256_of(path)):
            return
        try:
            with pq.ParquetFile(path) as file:
                self.report.expect(name, "rows", chunk["rows"], file.metadata.num_rows)
                if chunk["rows_sum"]:
                    self.report.expect(name, "sum of row hashes", chunk["rows_sum"], rows_sum(file.iter_batches(BATCH_ROWS)))
        except (OSError, pa.ArrowException) as error:
            self.report.reject(name, "Parquet file", "readable", error)

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
    """As sidecar/log/row_sums.py specifies it."""
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
    report.expect(name, "number of chunks", certificate["chunk_count"], len(chunks))
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
    report.expect(name, "certificate of the log", sha256, own["certificate"])
    report.expect(name, "id of the log", certificate["log"], own["output"].rpartition("#")[2])
    seqs = [seq for seq, _ in own["segments"]]
    there = list(range(seqs[0], certificate["last_seq"] + 1)) if seqs else []
    report.expect(name, "segments in a row", there, seqs)
    behind = len(certificate["segments"]) - len(seqs)
    report.note("segments of the dump are not in the output, which began behind them", behind)
    dumped: dict[int, dict[Table, int]] = defaultdict(lambda: defaultdict(int))
    for chunk in certificate["chunks"]:
        dumped[chunk["seq"]][chunk["schema"], chunk["table"]] += chunk["rows"]
    dropped: dict[Table, int] = defaultdict(int)
    for seq, expected in own["segments"]:
        path = f"_segments/{seq:020d}.json"
        if not report.expect(path, "sha256", expected, sha256_of(output / path)):
            continue
        segment = json.loads((output / path).read_bytes())
        check_files(output, segment, report)
        manifest = log.manifests.get(seq) if log is not None else None
        alone = manifest is not None and all(window["dump_id"] == certificate["dump_id"] for window in manifest["windows"])
        for table in {(file["schema"], file["table"]) for file in segment["files"]} | dumped[seq].keys():
            files = [file for file in segment["files"] if (file["schema"], file["table"]) == table]
            rows, chunk_rows = sum(file["from_dump"] + file["dropped"] for file in files), dumped[seq].get(table, 0)
            if alone or rows < chunk_rows:  # else another dump may have rows in the segment
                report.expect(path, f"dump rows and dropped rows of {'.'.join(table)}", chunk_rows, rows)
            dropped[table] += sum(file["dropped"] for file in files) if chunk_rows else 0
    for one in certificate["rows"]:
        if one["dropped"] is not None and seqs and seqs[0] <= certificate["first_seq"]:
            report.expect(name, "dropped rows", one["dropped"], dropped[one["schema"], one["table"]])


def check_files(output: Path, segment: dict[str, Any], report: Report) -> None:
    if segment["ddl"] and segment.get("ddl_sha256"):
        report.expect(segment["ddl"], "sha256", segment["ddl_sha256"], sha256_of(output / segment["ddl"]))
    for file in segment["files"]:
        expected, found = file.get("sha256", ""), sha256_of(output / file["path"])
        if not expected and found != "no file":
            report.note(UNHASHED)
        elif not report.expect(file["path"], "sha256", expected or "a file", found):
            continue
        try:
            report.expect(file["path"], "rows", file["from_log"] + file["from_dump"], count_rows(output / file["path"]))
        except (OSError, pa.ArrowException) as error:
            report.reject(file["path"], "Parquet file", "readable", error)


def count_rows(path: Path) -> int:
    if path.suffix == ".parquet":
        return int(pq.read_metadata(path).num_rows)
    with path.open("rb") as file:
        return sum(1 for _ in file)


# ---- TiDB at a moment, and the output folded to it ------------------------------------------------------------------------


class Comparison:
    """Digests of the output's rows are in a file, by key, so memory does not grow with a table. Raises Unusable."""

    def __init__(self, output: Path, connection: Any, tso: int, report: Report) -> None:
        self.output, self.connection, self.tso, self.report = output, connection, tso, report
        self.segments = [json.loads(path.read_bytes()) for path in sorted((output / "_segments").glob("*.json"))]
        if not self.segments or int(self.segments[-1]["upto_ts"]) < tso:
            raise Unusable(f"{output} has come to {self.segments[-1]['upto_ts'] if self.segments else 'nothing'}, which is below {tso}")
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
        paths = [self.output / segment["ddl"] for segment in self.segments if segment["ddl"]]
        changed = {(ddl["schema"], ddl["table"]) for path in paths for ddl in json.loads(path.read_bytes())["ddls"]}
        lines = {(line["schema"], line["table"]): line for line in certificate["tables"]}
        for one in certificate["scope"]["tables"]:
            table = one["schema"], one["table"]
            if one["whole"] and int(one["complete_at"] or self.tso + 1) <= self.tso and table in lines and table not in changed:
                self._compare(table, {column[0]: column[1] for column in lines[table]["columns"]}, lines[table]["key"])
            else:
                why = f"the dump had not all of it, it was not complete at {self.tso}, or a DDL has changed it"
                self.report.note(f"table was not compared: {'.'.join(table)} ({why})")

    def _compare(self, table: Table, columns: dict[str, str], key: list[str]) -> None:
        found: dict[str, list[str]] = defaultdict(list)
        counts: dict[str, int] = defaultdict(int)

        def key_of(values: dict[str, Any]) -> str:
            return json.dumps([plain(columns[name], values[name]) for name in key])

        def compared(kind: str, key_text: str) -> None:
            counts[kind] += 1
            found[kind] += [key_text] if len(found[kind]) < EXAMPLES_MAX else []

        with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(f"{folder}/rows.db", isolation_level=None)) as rows:
            rows.execute("PRAGMA journal_mode = OFF")
            rows.execute("CREATE TABLE rows (key TEXT PRIMARY KEY, digest BLOB) WITHOUT ROWID")
            rows.execute("BEGIN")
            for deleted, values in self._folded(table, columns):
                if deleted:
                    rows.execute("DELETE FROM rows WHERE key = ?", (key_of(values),))
                else:
                    rows.execute("INSERT OR REPLACE INTO rows VALUES (?, ?)", (key_of(values), digest(columns, values)))
            for values in self._of_tidb(table, columns):
                known = rows.execute("DELETE FROM rows WHERE key = ? RETURNING digest", (key_of(values),)).fetchone()
                same = known is not None and known[0] == digest(columns, values)
                compared("missing" if known is None else "equal" if same else "different", key_of(values))
            for (text,) in rows.execute("SELECT key FROM rows"):
                compared("extra", text)
        self.report.counts["equal rows"] += counts.pop("equal", 0)
        for kind, number in counts.items():
            self.report.reject(".".join(table), f"{kind} rows at {self.tso}", 0, f"{number:,}: {', '.join(found[kind])}")

    def _folded(self, table: Table, columns: dict[str, str]) -> Iterator[tuple[bool, dict[str, Any]]]:
        """The output's rows of the table up to the moment, in the order in which they are applied; whether each is a delete."""
        for segment in self.segments:
            paths = [self.output / file["path"] for file in segment["files"] if (file["schema"], file["table"]) == table]
            for path in (path for path in paths if path.suffix == ".jsonl"):
                with path.open(encoding="utf-8") as file:
                    for row in map(json.loads, file):
                        if int(row["commit_ts"]) <= self.tso:
                            yield row["op"] == "delete", row["after"] or row["before"] or row["key"]
            tables = [pq.read_table(path) for path in paths if path.suffix == ".parquet"]
            yield from self._of_parquet([one for one in tables if one.num_rows], columns)

    def _of_parquet(self, tables: list[pa.Table], columns: dict[str, str]) -> Iterator[tuple[bool, dict[str, Any]]]:
        if not tables:
            return
        prefix = json.loads(tables[0].schema.metadata[b"ticdc-dump"])["prefix"]
        rows = pa.concat_tables(tables)
        rows = rows.filter(pc.less_equal(rows[f"{prefix}commit_ts"], self.tso))
        commit_ts, op, origin, ordinal = (rows[f"{prefix}{name}"] for name in ("commit_ts", "op", "origin", "ordinal"))
        order = pa.table([commit_ts, pc.not_equal(op, "delete"), pc.equal(origin, "dump"), ordinal], ["a", "b", "c", "d"])
        rows = rows.take(pc.sort_indices(order, [(name, "ascending") for name in order.column_names]))
        for row in (row for batch in rows.to_batches(BATCH_ROWS) for row in batch.to_pylist()):
            untyped = json.loads(row[f"{prefix}untyped"] or "{}")
            yield row[f"{prefix}op"] == "delete", {name: untyped.get(name, row[name]) for name in columns}

    def _of_tidb(self, table: Table, columns: dict[str, str]) -> Iterator[dict[str, Any]]:
        names = {name: "`" + name.replace("`", "``") + "`" for name in (*columns, *table)}
        selected = ", ".join(FORMS.get(kind, "CAST({} AS CHAR)").format(names[name]) for name, kind in columns.items())
        with self.connection.cursor() as cursor:
            cursor.execute(f"SELECT {selected} FROM {names[table[0]]}.{names[table[1]]}")
            while batch := cursor.fetchmany(BATCH_ROWS):
                yield from (dict(zip(columns, row, strict=True)) for row in batch)


def digest(columns: dict[str, str], values: dict[str, Any]) -> bytes:
    return hashlib.sha256(json.dumps([plain(kind, values[name]) for name, kind in columns.items()]).encode()).digest()


def plain(kind: str, value: Any) -> Any:
    """One form for a value, whether it is canonical text or a value of a Parquet file. Texts of floats and JSON are not unique."""
    if value is None:
        return None
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


def check(certificate: Path, *, log: Path | None = None, output: Path | None = None, connection: Any = None, tso: int = 0) -> Report:
    """With a connection, the output is compared with the cluster, and nothing else is checked. Raises Unusable."""
    report = Report()
    if not certificate.is_file():
        raise Unusable(f"{certificate} is no file")
    found = read_self_hashed(certificate, certificate.name, report)
    if found is not None and connection is not None and output is not None:
        Comparison(output, connection, tso, report).run(found)
    elif found is not None:
        check_certificate(found, certificate.name, report)
        opened = None if log is None else Log(found, log, report)
        if output is not None:
            check_output(found, found["sha256"], output, opened, report)
    return report


def lines_of(report: Report) -> Iterator[str]:
    yield from (f"rejected: {one['file']}: {one['what']}: expected {one['expected']}, found {one['found']}" for one in report.rejected)
    yield from (f"note: {number:,} {note}" for note, number in report.notes.items())
    yield f"checked: {', '.join(f'{number:,} {what}' for what, number in sorted(report.counts.items()))}"
    yield "rejected" if report.rejected else "accepted"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check the certificate of a finished dump (deploy/CERTIFICATE.md).")
    parser.add_argument("certificate", type=Path)
    parser.add_argument("--log", type=Path, help="the folder of the segment log, or a copy of it")
    parser.add_argument("--output", type=Path, help="the folder of a file: sink, or a copy of it")
    parser.add_argument("--tidb", help=f"mysql://user@host:port/?ca=FILE: compare this cluster with the output; password: {PASSWORD}")
    parser.add_argument("--tso", type=int, help="at which moment")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args(arguments)
    if (asked.tidb is None) != (asked.tso is None) or (asked.tidb and not asked.output) or not (asked.log or asked.output):
        parser.error("give --log, --output or both; --tidb and --tso go together, and need --output")
    try:
        connection = None if asked.tidb is None else connected(asked.tidb)
        report = check(asked.certificate, log=asked.log, output=asked.output, connection=connection, tso=asked.tso or 0)
    except Exception as error:  # noqa: BLE001  # whatever it is, nothing was decided
        sys.stderr.write(f"check.py: {type(error).__name__}: {error}\n")
        return 2
    content = {"accepted": not report.rejected, "rejected": report.rejected, "notes": report.notes, "counts": report.counts}
    sys.stdout.write(json.dumps(content, indent=1) if asked.json else "\n".join(lines_of(report)))
    sys.stdout.write("\n")
    return 1 if report.rejected else 0


if __name__ == "__main__":
    sys.exit(main())
