"""A real dump with a folder output, its certificate, and the offline checker: what is as it was written is accepted, and what is not is
rejected by name."""

from __future__ import annotations

import ast
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidecar.ports import NoSightings, SeenUpTo
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.hole import Hole, HoleCause
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from spark_merge.delivery import loop as loops
from tests.contract.test_sources import declared
from tests.support.certified import SINK, CertifiedDump, checker
from tests.support.replaying import Run
from tests.support.services.mariadb import MariaDb

pytestmark = [pytest.mark.xdist_group("mariadb"), pytest.mark.turns(3)]

CHECKER = Path(__file__).parents[2] / "deploy" / "certificate" / "check.py"
FLIPS = 500
"""Of each format."""


@pytest.fixture(scope="module")
def check() -> Any:
    return checker()


@pytest.fixture(scope="module", params=["jsonl", "parquet"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CertifiedDump]:
    """With deaths of the sidecar and of the follower. Nobody writes there after it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "CERTIFY_EVERY_S", 0.01)
        made = CertifiedDump(
            tmp_path_factory.mktemp("certified"), Run("watermark", 3, chunk_rows=50), file_format=request.param, follower_dies=3
        )
        with made:
            made.play()
        yield made


class Copy:
    """A log and an output that a test may spoil."""

    def __init__(self, run: CertifiedDump, folder: Path, check: Any) -> None:
        self.check = check
        self.log, self.out = folder / "log", folder / "out"
        shutil.copytree(run.log, self.log)
        shutil.copytree(run.out, self.out)
        self.certificate = self.log / "certificates" / run.certificate.name
        self.content: dict[str, Any] = json.loads(self.certificate.read_bytes())

    def report(self, *kept: str) -> Any:
        return self.check.check(self.certificate, log=self.log, output=self.out, kept=kept)

    def rejected(self) -> dict[str, str]:
        """By file: what is the first."""
        return {one["file"]: one["what"] for one in reversed(self.report().rejected)}

    def files(self) -> list[tuple[str, Path]]:
        """What belongs to the dump's segments, as the checker calls it."""
        dump, seqs = self.certificate.stem, [line["seq"] for line in self.content["segments"]]
        results = [(self.certificate.name, self.certificate), (f"_certificates/{dump}.json", self.out / "_certificates" / f"{dump}.json")]
        for seq in seqs:
            manifest = json.loads((self.log / f"{seq:020d}.json").read_bytes())
            names = [f"{seq:020d}.json", manifest["schemas"], *filter(None, (manifest["data"], manifest["next_schemas"]))]
            segment = json.loads((self.out / "_segments" / f"{seq:020d}.json").read_bytes())
            of_output = [f"_segments/{seq:020d}.json", *(file["path"] for file in segment["files"]), *filter(None, (segment["ddl"],))]
            results += [(name, self.log / name) for name in names] + [(name, self.out / name) for name in of_output]
        results += [(line["path"], self.log / line["path"]) for line in self.content["chunks"]]
        return [(name, path) for name, path in dict(results).items() if path.stat().st_size]


@pytest.fixture
def copy(run: CertifiedDump, tmp_path: Path, check: Any) -> Copy:
    return Copy(run, tmp_path, check)


def test_a_dump_is_accepted_as_it_was_written(copy: Copy) -> None:
    report = copy.report(*copy.report().hashes.values())
    assert report.rejected == []
    assert [note for note in report.notes if not note.startswith(("passes over", "tables whose dropped"))] == []
    content = copy.content
    assert report.counts["sum of row hashes"] == content["chunk_count"] == content["rows_sum_count"] == len(content["chunks"]) > 20
    assert report.counts["chunks of the dump"] == len(content["segments"]) > 5
    assert report.counts["chain of manifests"] == len(content["segments"]) - 1
    assert report.counts["windows of chunks"] == len(content["chunks"])
    assert report.counts["ranges of keys"] > 10
    assert {one["sink"] for one in content["accepted"]} == {SINK}


def test_it_says_how_much_it_has_checked(copy: Copy) -> None:
    report, content = copy.report(), copy.content
    rows, segments = sum(chunk["rows"] for chunk in content["chunks"]), len(content["segments"])
    dropped = report.checked["dump rows that a live change replaces"]
    assert dropped >= sum(one["dropped"] or 0 for one in content["rows"])
    assert dropped > 0
    assert report.verdict == "accepted"
    assert report.checked == {
        "files": len({path for _, path in copy.files()}) - 2,
        "chunks": content["chunk_count"],
        "rows of chunks": rows,
        "segments of the log": segments,
        "segments of the output": segments,
        "rows of the output": report.checked["rows of the output"],
        "dump rows in the output": rows - dropped,
        "dump rows that a live change replaces": dropped,
        "tables": len(content["rows"]),
    }
    text = "\n".join(copy.check.lines_of(report))
    assert f"{content['chunk_count']:,} chunks, " in text
    assert report.hashes["certificate"] in text
    assert report.hashes["output"] in text


def test_the_follower_of_certificates_died_and_the_certificate_has_every_chunk_of_the_log(run: CertifiedDump, copy: Copy) -> None:
    assert run.follower_dies < 3
    logged = [
        chunk["path"]
        for path in sorted(copy.log.glob("*.json"))
        for window in json.loads(path.read_bytes())["windows"]
        if window["dump_id"] == run.dump_id
        for chunk in window["chunks"]
    ]
    assert [line["path"] for line in copy.content["chunks"]] == logged
    assert not list(copy.log.glob("certificates/*.parts/*"))


def test_after_retention_what_is_no_longer_available_is_said_and_nothing_is_rejected(copy: Copy) -> None:
    last = copy.content["chunks"][-1]["seq"]
    log = FolderLog(open_folder(str(copy.log)))
    log.recover(epoch=99)
    while log.retain(delivered=Seq(last), open_from=None):
        pass
    floor = log.segments.start
    assert floor > copy.content["first_seq"]
    report = copy.report()
    gone = sum(line["seq"] < floor for line in copy.content["chunks"])
    assert report.rejected == []
    assert report.notes[f"chunks are no longer available: retention has removed segments below {floor}"] == gone > 0
    assert 0 < report.counts["sum of row hashes"] == len(copy.content["chunks"]) - gone
    assert report.verdict == "accepted"


@pytest.mark.parametrize("kind", ["chunk", "manifest", "data"])
def test_a_note_of_retention_turns_off_no_check_of_a_file_that_is_there(copy: Copy, kind: str) -> None:
    (copy.log / "retained-99999999999999999999").write_bytes(b"")
    assert copy.report().verdict == "accepted"
    manifest = next(name for name, path in copy.files() if path.parent == copy.log and name.endswith(".json"))
    data = next(name for name, path in copy.files() if path.parent == copy.log and name.endswith(".parquet"))
    name = {"chunk": str(copy.content["chunks"][0]["path"]), "manifest": manifest, "data": data}[kind]
    result = bytearray((copy.log / name).read_bytes())
    result[len(result) // 2] ^= 1
    (copy.log / name).write_bytes(result)
    assert copy.rejected()[name] == "sha256"


def test_where_nothing_can_be_checked_nothing_is_accepted(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    (copy.log / "retained-99999999999999999999").write_bytes(b"")
    for path in [
        path for path in copy.log.rglob("*") if path.is_file() and path != copy.certificate and path.suffix in (".json", ".parquet")
    ]:
        path.unlink()
    assert copy.check.main([str(copy.certificate), "--log", str(copy.log)]) == 3
    out = capsys.readouterr().out
    assert "nothing was checked of --log: no chunks\n" in out
    assert out.endswith("\nnothing was checked\n")
    assert copy.check.main([str(copy.certificate), "--log", str(copy.log), "--output", str(copy.out), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["accepted"] is False, "the output cannot speak for the log"
    assert copy.check.main([str(copy.certificate), "--output", str(copy.out)]) == 0


def test_each_flipped_bit_is_rejected_by_name(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, files, cached = Random(7), copy.files(), dict[Path, str]()
    assert copy.rejected() == {}
    flipped = Path()
    kept_sum, kept_chunk, kept_rows = copy.check.sha256_of, copy.check.Log._check_chunk, copy.check.count_rows
    rows = dict[Path, int]()

    def sum_of(path: Path) -> str:
        if path != flipped and path not in cached:
            cached[path] = kept_sum(path)
        return str(kept_sum(path)) if path == flipped else cached[path]

    def rows_of(path: Path) -> int:
        if path != flipped and path not in rows:
            rows[path] = kept_rows(path)
        return int(kept_rows(path)) if path == flipped else rows[path]

    def check_chunk(self: Any, chunk: dict[str, Any]) -> None:
        if copy.log / chunk["path"] == flipped:
            kept_chunk(self, chunk)

    monkeypatch.setattr(copy.check, "sha256_of", sum_of)  # what is not spoilt is read once, so a thousand checks take seconds
    monkeypatch.setattr(copy.check, "count_rows", rows_of)
    monkeypatch.setattr(copy.check.Log, "_check_chunk", check_chunk)
    monkeypatch.setattr(copy.check.DumpRows, "check", lambda *_: None)
    kinds = set()
    for _ in range(FLIPS):
        name, flipped = rng.choice(files)
        data = bytearray(flipped.read_bytes())
        at, bit = rng.randrange(len(data)), rng.randrange(8)
        data[at] ^= 1 << bit
        flipped.write_bytes(data)
        assert name in copy.rejected(), f"{name}: bit {bit} of byte {at} is flipped"
        data[at] ^= 1 << bit
        flipped.write_bytes(data)
        kinds.add(name.partition("/")[0] if "/" in name else flipped.suffix)
    assert copy.rejected() == {}
    assert len(kinds) > 5


def spoil_segment(copy: Copy) -> str:
    seq = copy.content["segments"][3]["seq"]
    (copy.log / f"{seq:020d}.json").unlink()
    return f"{seq:020d}.json"


def spoil_data(copy: Copy) -> str:
    name = next(name for name, path in copy.files() if path.parent == copy.log and name.endswith(".parquet"))
    (copy.log / name).unlink()
    return name


def spoil_chunk(copy: Copy) -> str:
    name = str(copy.content["chunks"][2]["path"])
    (copy.log / name).unlink()
    return name


def spoil_output_file(copy: Copy) -> str:
    name = output_file(copy)
    (copy.out / name).unlink()
    return name


def spoil_output_segment(copy: Copy) -> str:
    name = f"_segments/{copy.content['segments'][2]['seq']:020d}.json"
    (copy.out / name).unlink()
    return name


def spoil_output_certificate(copy: Copy) -> str:
    name = f"_certificates/{copy.certificate.name}"
    (copy.out / name).unlink()
    return name


def output_file(copy: Copy) -> str:
    """One of several rows."""
    segments = [json.loads((copy.out / "_segments" / f"{line['seq']:020d}.json").read_bytes()) for line in copy.content["segments"]]
    return next(str(file["path"]) for segment in segments for file in segment["files"] if file["from_log"] + file["from_dump"] > 2)


def changed_rows(copy: Copy, change: Callable[[list[Any]], list[Any]]) -> str:
    name = output_file(copy)
    path = copy.out / name
    if name.endswith(".jsonl"):
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    else:
        rows = pq.read_table(path)
        pq.write_table(rows.take(pa.array(change(list(range(rows.num_rows))))), path)
    return name


def spoil_by_a_row_twice(copy: Copy) -> str:
    return changed_rows(copy, lambda rows: [*rows, rows[1]])


def spoil_by_a_row_less(copy: Copy) -> str:
    return changed_rows(copy, lambda rows: [rows[0], *rows[2:]])


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_segment,
        spoil_data,
        spoil_chunk,
        spoil_output_file,
        spoil_output_segment,
        spoil_output_certificate,
        spoil_by_a_row_twice,
        spoil_by_a_row_less,
    ],
)
def test_what_is_missing_or_too_much_is_rejected_by_name(copy: Copy, spoil: Callable[[Copy], str]) -> None:
    assert spoil(copy) in copy.rejected()


def test_a_row_too_many_is_rejected_where_its_file_has_no_hash(copy: Copy) -> None:
    """As of a version that wrote none: counts say it."""
    name = changed_rows(copy, lambda rows: [*rows, rows[1]])
    spoilt = next(path for path in (copy.out / "_segments").iterdir() if name in path.read_text())
    report = copy.check.Report()
    segment = json.loads(spoilt.read_bytes())
    for file in segment["files"]:
        file["sha256"] = ""
    copy.check.check_files(copy.out, segment, report)
    assert [(one["file"], one["what"]) for one in report.rejected] == [(name, "rows")]
    assert report.notes[copy.check.UNHASHED] == len(segment["files"])
    assert report.checked["rows of the output"] == 0, "nothing says what they were"


def rewritten(copy: Copy, change: Callable[[dict[str, Any]], object]) -> dict[str, str]:
    """What is rejected of a certificate that somebody has written again, with a hash that fits."""
    content = json.loads(copy.certificate.read_bytes())
    change(content)
    del content["sha256"]
    write_hashed(copy, copy.certificate, content)
    return copy.rejected()


def overlap(content: dict[str, Any]) -> None:
    chunks = [chunk for chunk in content["chunks"] if chunk["table"] == "orders" and chunk["last"] and chunk["after"]]
    chunks[0]["after"] = ["-9223372036854775808"]


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a chunk less": (lambda content: content["chunks"].pop(), "chunks and rows by table"),
    "a segment less": (lambda content: content["segments"].pop(2), "segments in a row"),
    "another sum of rows": (lambda content: content["chunks"][0].update(rows_sum="0" * 32), "sum of row hashes"),
    "another number of rows": (lambda content: content["chunks"][0].update(rows=content["chunks"][0]["rows"] + 1), "rows"),
    "a window without end": (lambda content: content["chunks"][0].update(high_ts=content["chunks"][0]["low_ts"]), "window"),
    "a window beyond its segment": (lambda content: content["chunks"][0].update(high_ts=str(2**63)), "end of window"),
    "a window before its segment": (lambda content: content["chunks"][0].update(low_ts="1"), "begin of window"),
    "a chain of another log": (lambda content: content["segments"][1].update(previous="0" * 64), "previous manifest"),
    "ranges that overlap": (overlap, "range of keys"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_certificate_that_was_written_again_does_not_fit_the_log(copy: Copy, change: str) -> None:
    made, what = CHANGES[change]
    assert what in {one["what"] for one in _report(copy, made).rejected}


def _report(copy: Copy, made: Callable[[dict[str, Any]], object]) -> Any:
    rewritten(copy, made)
    return copy.report()


def test_another_dumps_certificate_is_not_the_outputs(copy: Copy) -> None:
    result = rewritten(copy, lambda content: content.update(changefeed="another"))
    assert result == {f"_certificates/{copy.certificate.name}": "certificate of the log"}


def test_a_certificate_without_chunks_is_rejected(copy: Copy) -> None:
    report = _report(copy, lambda content: content.update(chunks=[], chunk_count=0, rows=[], rows_sum_count=0))
    assert "number of chunks" in {one["what"] for one in report.rejected}


# ---- an output that somebody has written again, with hashes that fit -------------------------------------------------------


def hashed_again(copy: Copy, path: str) -> None:
    """The hashes of a file of the output, of its segment and of the output's certificate."""
    segment = next(item for item in sorted((copy.out / "_segments").iterdir()) if path in item.read_text())
    content = json.loads(segment.read_bytes())
    for file in content["files"]:
        file["sha256"] = copy.check.sha256_of(copy.out / file["path"])
    segment.write_text(json.dumps(content))
    certificate = copy.out / "_certificates" / copy.certificate.name
    own = json.loads(certificate.read_bytes())
    del own["sha256"]
    own["segments"] = [[seq, copy.check.sha256_of(copy.out / "_segments" / f"{seq:020d}.json")] for seq, _ in own["segments"]]
    write_hashed(copy, certificate, own)


def write_hashed(copy: Copy, path: Path, content: dict[str, Any]) -> None:
    body = json.dumps(content).encode()[:-1]
    path.write_bytes(body + b',\n"sha256": "%b"}\n' % copy.check.hashlib.sha256(body).hexdigest().encode())


def with_rows(copy: Copy, table: str, change: Callable[[dict[str, Any]], object], *, dump: bool) -> None:
    """The first of the dump's rows, or of the live rows, of a table is changed, and all hashes of the output fit."""
    for segment in (json.loads(path.read_bytes()) for path in sorted((copy.out / "_segments").iterdir())):
        for file in (one for one in segment["files"] if one["table"] == table and one["from_dump" if dump else "from_log"]):
            path = copy.out / file["path"]
            if path.suffix == ".jsonl":
                rows = [json.loads(line) for line in path.read_bytes().splitlines()]
                change(next(row["after"] for row in rows if (row["origin"] == "dump") == dump and row["after"]))
                path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
            else:
                read = pq.read_table(path)
                rows = read.to_pylist()
                change(next(row for row in rows if (row["_origin"] == "dump") == dump and row["_op"] != "delete"))
                pq.write_table(pa.Table.from_pylist(rows, read.schema), path)
            hashed_again(copy, file["path"])
            return


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda row: row.update(name="another"), {"dump rows that are missing: shop.customer", "dump rows of no chunk: shop.customer"}),
        (
            lambda row: row.update(id=type(row["id"])(999999)),
            {"dump rows that are missing: shop.customer", "dump rows of no chunk: shop.customer"},
        ),
        (lambda row: None, set()),
    ],
    ids=["another value", "another key", "as it was"],
)
def test_each_row_of_a_chunk_is_looked_for_in_the_output_with_its_values(
    copy: Copy, change: Callable[[Any], object], what: set[str]
) -> None:
    with_rows(copy, "customer", change, dump=True)
    report = copy.report()
    assert {one["what"] for one in report.rejected} == what
    assert copy.check.check(copy.certificate, output=copy.out).rejected == [], "without the log only counts are compared"


def test_a_row_that_a_live_change_replaces_is_not_in_the_output(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy.check.DumpRows, "_is_touched", lambda *_: True)
    assert {one["what"].partition(":")[0] for one in copy.report().rejected} == {"dump rows of no chunk"}
    monkeypatch.setattr(copy.check.DumpRows, "_is_touched", lambda *_: False)
    assert {one["what"].partition(":")[0] for one in copy.report().rejected} == {"dump rows that are missing"}


def test_a_key_that_the_source_did_not_have_is_a_delete_in_the_output(check: Any, tmp_path: Path) -> None:
    """As of a dump of keys."""
    (tmp_path / "log").mkdir()
    rows = {"id": ["1", "2", "3"], "name": [None, None, "x"], check.ABSENT: [True, True, False]}
    pq.write_table(pa.table({name: pa.array(texts) for name, texts in rows.items()}), tmp_path / "log" / "chunk")
    lines = [
        {"op": "delete", "key": {"id": "1"}, "before": None, "after": None, "dump_id": "d", "commit_ts": "9"},
        {"op": "update", "key": {"id": "2"}, "before": None, "after": {"id": "2", "name": "y"}, "dump_id": None, "commit_ts": "8"},
        {"op": "insert", "key": {"id": "3"}, "before": None, "after": {"id": "3", "name": "x"}, "dump_id": "d", "commit_ts": "9"},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    of_table = {"schema": "s", "table": "t"}
    chunk = of_table | {"seq": 4, "first_seq": 4, "path": "chunk", "rows": 3, "rows_sum": ""}
    chunk["sha256"] = check.sha256_of(tmp_path / "log" / "chunk")
    chunk |= {"low_ts": "5", "high_ts": "9", "read_tso": None}
    columns = [["id", "int"], ["name", "text"]]
    certificate = {"dump_id": "d", "last_seq": 4, "segments": [], "chunks": [chunk]}
    certificate["tables"] = [of_table | {"seq": 4, "columns": columns, "key": ["id"]}]
    segment = {"files": [of_table | {"path": "rows.jsonl"}]}
    report = check.Report()
    check.DumpRows(certificate, check.Log(certificate, tmp_path / "log", report), tmp_path, 4, report).check(4, segment)
    assert report.rejected == []
    assert report.checked["dump rows in the output"] == 2
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[1:]))
    check.DumpRows(certificate, check.Log(certificate, tmp_path / "log", report), tmp_path, 4, report).check(4, segment)
    assert [one["what"] for one in report.rejected] == ["dump rows that are missing: s.t"]


@pytest.mark.parametrize(("kind", "text"), [("int", "a"), ("decimal", "a"), ("float", ""), ("json", "[" * 90_000), ("json", '"\\ud800"')])
def test_an_odd_value_is_compared_as_its_text(check: Any, kind: str, text: str) -> None:
    line = check.Line({"columns": [["a", kind]], "key": ["a"]})
    assert line.digest({"a": text}) == line.digest({"a": text}) != line.digest({"a": text + " x"})


def test_the_hash_that_was_kept_covers_the_live_rows_of_an_output(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    hashes = copy.report().hashes
    call = [str(copy.certificate), "--log", str(copy.log), "--output", str(copy.out)]
    assert copy.check.main([*call, "--kept", hashes["output"].upper(), "--kept", hashes["certificate"]]) == 0
    assert "--kept" not in capsys.readouterr().out
    with_rows(copy, "customer", lambda row: row.update(name="another"), dump=False)
    assert copy.check.main([*call, "--kept", hashes["certificate"]]) == 0
    assert "was not given with --kept" in capsys.readouterr().out
    assert copy.check.main([*call, "--kept", hashes["output"]]) == 1
    assert (
        f"rejected: --kept: sha256 of the certificate or of the output's certificate: expected {hashes['output']}"
        in capsys.readouterr().out
    )


def test_an_outputs_certificate_without_segments_is_rejected(copy: Copy) -> None:
    path = copy.out / "_certificates" / copy.certificate.name
    own = json.loads(path.read_bytes())
    del own["sha256"]
    write_hashed(copy, path, own | {"segments": []})
    assert copy.rejected() == {f"_certificates/{copy.certificate.name}": "segments"}


def outputs_segments(copy: Copy, change: Callable[[list[Any]], list[Any]]) -> dict[str, str]:
    """What is rejected of an output whose certificate somebody has written again with these segments."""
    path = copy.out / "_certificates" / copy.certificate.name
    own = json.loads(path.read_bytes())
    del own["sha256"]
    write_hashed(copy, path, own | {"segments": change(own["segments"])})
    return copy.rejected()


@pytest.mark.parametrize("first", [1, 2, -1], ids=["without the first", "without two", "the last alone"])
def test_an_output_without_all_segments_of_the_dump_is_rejected(copy: Copy, first: int) -> None:
    name = f"_certificates/{copy.certificate.name}"
    assert outputs_segments(copy, lambda segments: segments[first:])[name] == "segments in a row"


@pytest.mark.parametrize(("sha256", "rows_sum"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_chunk_counts_as_checked_by_a_hash_or_a_sum_alone(copy: Copy, sha256: bool, rows_sum: bool) -> None:
    """As of a version that wrote none: its number of rows says nothing of its values."""
    report, chunk = copy.check.Report(), dict(copy.content["chunks"][0])
    chunk |= {} if sha256 else {"sha256": ""}
    chunk |= {} if rows_sum else {"rows_sum": ""}
    log = copy.check.Log(copy.content | {"chunks": [], "segments": []}, copy.log, report)
    log._check_chunk(chunk)
    proved = sha256 or rows_sum
    assert (report.checked["chunks"], report.checked["rows of chunks"]) == ((1, chunk["rows"]) if proved else (0, 0))
    assert (chunk["path"] in log.whole, report.rejected) == (proved, [])
    assert report.notes["chunks of which only the number of rows was compared"] == (not proved)
    report.need("chunks", "--log")
    assert report.verdict == ("accepted" if proved else "nothing was checked")


# ---- TiDB at a moment -----------------------------------------------------------------------------------------------------


class Source:
    """The account's connection, to a server that knows no snapshots. `asked`: what it was to read at."""

    def __init__(self, connection: Any) -> None:
        self._connection, self.asked = connection, list[str]()

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        with self._connection.cursor() as cursor:
            yield _Cursor(cursor, self.asked)


class _Cursor:
    def __init__(self, cursor: Any, asked: list[str]) -> None:
        self._cursor, self._requested = cursor, asked

    def execute(self, statement: str) -> None:
        if "tidb_snapshot" in statement:
            self._requested.append(statement)
        else:
            self._cursor.execute(statement)

    def fetchmany(self, rows: int) -> Sequence[Any]:
        fetchmany: Sequence[Any] = self._cursor.fetchmany(rows)
        return fetchmany


PLACES = {"bit": "CAST(%s AS UNSIGNED)", "binary": "UNHEX(%s)"}


def made_of(column: Column) -> str:
    return {"binary": "longblob", "text": "longtext"}.get(column.kind) or declared(column)


@pytest.fixture(scope="module")
def db(run: CertifiedDump, mariadb: MariaDb) -> Iterator[MariaDb]:
    fill(run, mariadb)
    yield mariadb
    mariadb.execute("DROP DATABASE shop")


def fill(run: CertifiedDump, mariadb: MariaDb) -> None:
    """The source's tables at the end of the recording."""
    mariadb.execute("CREATE DATABASE shop")
    with mariadb.connect(sql_mode="") as connection, connection.cursor() as cursor:
        for name in run.made.tables:
            schema = run.made.recording.schemas[name]
            columns = ", ".join(f"`{column.name}` {made_of(column)}" for column in schema.columns)
            cursor.execute(f"CREATE TABLE shop.`{name.table}` ({columns})")
            places = ", ".join(PLACES.get(column.kind, "%s") for column in schema.columns)
            rows = list(run.made.history.rows(name, run.made.recording.end_ts).values())
            cursor.executemany(f"INSERT INTO shop.`{name.table}` VALUES ({places})", rows)
        connection.commit()


def test_the_output_is_compared_with_the_cluster_at_a_moment(run: CertifiedDump, copy: Copy, db: MariaDb) -> None:
    tso = run.made.recording.end_ts
    with db.connect() as connection:
        source = Source(connection)
        report = copy.check.check(copy.certificate, output=copy.out, connection=source, tso=tso)
        assert source.asked == [f"SET SESSION tidb_snapshot = '{tso}'"]
        assert report.rejected == []
        assert report.counts["equal rows"] == sum(len(run.made.history.rows(name, tso)) for name in run.made.tables) > 100
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM shop.orders LIMIT 2")
            cursor.execute("UPDATE shop.customer SET name = 'another' LIMIT 3")
            cursor.execute("UPDATE shop.uid SET id = id + 1000000 LIMIT 1")
        report = copy.check.check(copy.certificate, output=copy.out, connection=source, tso=tso)
        result = {(one["file"], one["what"]): one["found"].partition(":")[0] for one in report.rejected}
        assert result == {
            ("shop.orders", f"extra rows at {tso}"): "2",
            ("shop.customer", f"different rows at {tso}"): "3",
            ("shop.uid", f"missing rows at {tso}"): "1",
            ("shop.uid", f"extra rows at {tso}"): "1",
        }
    db.execute("DROP DATABASE shop")
    fill(run, db)


class Ddl(NamedTuple):
    """`place`: of its segment: before the dump, behind it, or behind the moment of the comparison."""

    place: str
    schema: str
    table: str
    query: str

    def put(self, copy: Copy, tso: int) -> None:
        first = copy.content["first_seq"] if self.place == "before" else copy.content["last_seq"] + 1
        paths = sorted((copy.out / "_segments").iterdir())
        path = next(
            path for path in (reversed(paths) if self.place == "before" else paths) if (int(path.stem) < first) == (self.place == "before")
        )
        segment = json.loads(path.read_bytes())
        commit_ts = tso + 1 if self.place == "later" else int(segment["upto_ts"])
        record = {"commit_ts": str(commit_ts), "schema": self.schema, "table": self.table, "query": self.query}
        ddls = json.loads((copy.out / segment["ddl"]).read_bytes())["ddls"] if segment["ddl"] else []
        name = f"_ddl/{path.stem}.json"
        (copy.out / "_ddl").mkdir(exist_ok=True)
        (copy.out / name).write_text(json.dumps({"version": 1, "seq": segment["seq"], "ddls": [*ddls, record]}))
        path.write_text(json.dumps(segment | {"ddl": name}))


@pytest.mark.parametrize(
    ("ddl", "compared"),
    [
        (Ddl("before", "shop", "customer", "ALTER TABLE customer ADD COLUMN more int"), True),
        (Ddl("later", "shop", "customer", "ALTER TABLE customer ADD COLUMN more int"), True),
        (Ddl("behind", "shop", "customer", "ALTER TABLE customer ADD INDEX of_name (name), COMMENT = 'a, b'"), True),
        (Ddl("behind", "shop", "another", "ALTER TABLE another ADD COLUMN more int"), True),
        (Ddl("behind", "shop", "customer", "ALTER TABLE customer ADD COLUMN more int"), False),
        (Ddl("behind", "shop", "clients", "RENAME TABLE `shop`.`customer` TO `shop`.`clients`"), False),
        (Ddl("behind", "shop", "parts", "ALTER TABLE parts EXCHANGE PARTITION p0 WITH TABLE Customer"), False),
        (Ddl("behind", "other", "parts", "ALTER TABLE other.parts EXCHANGE PARTITION p0 WITH TABLE shop.customer"), False),
    ],
    ids=lambda one: f"{one.place} {one.query}" if isinstance(one, Ddl) else "",
)
def test_a_table_is_left_out_where_a_ddl_has_changed_it_since_the_dump_and_no_other_is(
    run: CertifiedDump, copy: Copy, db: MariaDb, ddl: Ddl, compared: bool
) -> None:
    tso = run.made.recording.end_ts
    ddl.put(copy, tso)
    with db.connect() as connection:
        report = copy.check.check(copy.certificate, output=copy.out, connection=Source(connection), tso=tso)
    assert report.rejected == []
    assert report.checked["tables compared with TiDB"] == len(run.made.tables) - (not compared)
    noted = [note for note in report.notes if note.startswith("table was not compared: shop.customer (")]
    assert len(noted) == (not compared)
    assert all(ddl.query in note for note in noted)


def test_a_table_that_the_cluster_does_not_have_is_named_and_the_others_are_compared(run: CertifiedDump, copy: Copy, db: MariaDb) -> None:
    tso = run.made.recording.end_ts
    db.execute("RENAME TABLE shop.customer TO shop.clients")
    try:
        with db.connect() as connection:
            report = copy.check.check(copy.certificate, output=copy.out, connection=Source(connection), tso=tso)
    finally:
        db.execute("RENAME TABLE shop.clients TO shop.customer")
    assert report.rejected == []
    assert report.checked["tables compared with TiDB"] == len(run.made.tables) - 1
    assert [note for note in report.notes if "shop.customer (TiDB has no such table" in note]


@pytest.mark.parametrize(
    ("query", "changes"),
    [
        ("CREATE INDEX i ON t (a, (b + 1))", False),
        ("drop index i on t", False),
        ("ALTER TABLE `s`.`t,` ADD INDEX `i` (`a`, (lower(`b`))), DROP KEY j, RENAME INDEX a TO b", False),
        ("ALTER TABLE t ADD CONSTRAINT `c` FOREIGN KEY (a) REFERENCES u (b)", False),
        ("ALTER TABLE t ADD INDEX i (a), ADD COLUMN b int", True),
        ("ALTER TABLE t ADD INDEX i (a), DROP COLUMN b", True),
        ("ALTER TABLE t ADD UNIQUE INDEX i (a)", True),
        ("CREATE UNIQUE INDEX i ON t (a)", True),
        ("ALTER TABLE t ADD PRIMARY KEY (a)", True),
        ("ALTER TABLE t ADD (a int, b int)", True),
        ("ALTER TABLE t RENAME COLUMN a TO b", True),
        ("ALTER TABLE t TRUNCATE PARTITION p", True),
        ("TRUNCATE TABLE t", True),
        ("/* a comment */ ALTER TABLE t ADD INDEX i (a)", True),
    ],
)
def test_ddls_change_rows_but_for_those_that_are_known_not_to(check: Any, query: str, changes: bool) -> None:
    assert check.changes_rows(query) == changes


def test_a_moment_that_the_output_has_not_reached_is_no_answer(run: CertifiedDump, copy: Copy) -> None:
    with pytest.raises(copy.check.Unusable, match="which is below"):
        copy.check.check(copy.certificate, output=copy.out, connection=object(), tso=2**62)


class Silent:
    """No table is asked for."""

    def execute(self, statement: str) -> None:
        assert statement.startswith("SET "), statement


def test_tables_that_are_not_whole_at_the_moment_are_not_compared(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Source(None)
    monkeypatch.setattr(Source, "cursor", contextmanager(lambda _: iter([Silent()])))
    report = copy.check.check(copy.certificate, output=copy.out, connection=nothing, tso=1)
    assert len(report.notes) == len(copy.content["scope"]["tables"])
    assert report.verdict == "nothing was checked"
    assert report.unchecked == ["--tidb: no tables compared with TiDB"]


# ---- the program ----------------------------------------------------------------------------------------------------------


def test_the_exit_code_says_what_it_decided(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    call = [str(copy.certificate), "--log", str(copy.log), "--output", str(copy.out)]
    assert copy.check.main(call) == 0
    assert capsys.readouterr().out.endswith("\naccepted\n")
    name = spoil_chunk(copy)
    assert copy.check.main([*call, "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert not result["accepted"]
    assert result["rejected"][0] == {"file": name, "what": "sha256", "expected": result["rejected"][0]["expected"], "found": "no file"}
    assert copy.check.main(call) == 1
    assert f"rejected: {name}: sha256: expected {result['rejected'][0]['expected']}, found no file\n" in capsys.readouterr().out
    assert copy.check.main([f"{copy.certificate}.not", *call[1:]]) == 2
    assert "is no file" in capsys.readouterr().err
    for wrongly in (["--tidb", "mysql://u@h/"], ["--tidb", "mysql://u@h/", "--tso", "1", *call[1:]]):
        with pytest.raises(SystemExit) as wrong:
            copy.check.main([str(copy.certificate), *wrongly])
        assert wrong.value.code == 2


@pytest.mark.parametrize(("uri", "what"), [("http://h/", "write mysql://user@host:port/"), ("mysql://127.0.0.1:1/", "127.0.0.1")])
def test_a_cluster_that_cannot_be_queried_is_no_answer(check: Any, uri: str, what: str) -> None:
    with pytest.raises(check.Unusable, match=what):
        check.connected(uri)


def test_without_pymysql_it_says_what_is_missing(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(check.Unusable, match="pip install pymysql"):
        check.connected("mysql://h/")


class AtTimes(NoSightings):
    """Every fifth segment has a hole of all tables, every seventh one of a table of no changefeed."""

    def __init__(self) -> None:
        super().__init__()
        self._segments = count()

    def take(self, _: CommitTs, __: Mapping[TableName, TableSchema]) -> SeenUpTo:
        number = next(self._segments)
        every = Hole(HoleCause.IMPORT, CommitTs(5), None, bool(number % 2), "IMPORT INTO")
        of_none = replace(every, tables=(TableName("no", "table"),))
        holes = (*([every] if number % 5 == 0 else []), *([of_none] if number % 7 == 0 else []))
        return self._seen._replace(holes=holes)


def test_a_table_with_a_hole_is_not_accepted_as_complete_and_a_hole_that_the_certificate_lacks_is_rejected(
    check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loops, "CERTIFY_EVERY_S", 0.01)
    with CertifiedDump(tmp_path / "made", Run("watermark", 3, chunk_rows=50), follower_dies=2, sightings=AtTimes) as run:
        run.play()
    copy = Copy(run, tmp_path, check)
    since = {(one["schema"], one["table"]): one["since_seq"] for one in copy.content["scope"]["tables"]}
    of_log = set()
    for path in sorted(copy.log.glob("0*.json")):
        manifest = json.loads(path.read_bytes())
        if manifest["seq"] <= copy.content["last_seq"]:
            holes = [hole for hole in manifest.get("holes", ()) if hole["tables"] is None]
            of_log |= {
                (*name, manifest["seq"]) for name, seq in since.items() for hole in holes if hole["vanished"] or manifest["seq"] >= seq
            }
    certified = {(one["schema"], one["table"], one["seq"]) for one in copy.content["holes"]}
    assert of_log <= certified, "besides, what is open in the sink since before the log's first segment of the dump"
    assert any(seq < copy.content["first_seq"] for *_, seq in certified) or of_log == certified
    assert len(of_log) > len(since)
    assert check.main([str(copy.certificate), "--log", str(copy.log), "--output", str(copy.out)]) == 4
    out = capsys.readouterr().out
    assert out.endswith("\naccepted, but for tables with a hole\n")
    assert out.count("\nhole: ") + out.startswith("hole: ") == len(copy.content["holes"])
    assert check.main([str(copy.certificate), "--output", str(copy.out), "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["holes"] == copy.content["holes"]
    gone = next(one for one in copy.content["holes"] if one["seq"] >= copy.content["first_seq"])
    rejected = rewritten(copy, lambda content: content["holes"].remove(gone))
    assert rejected[f"{gone['seq']:020d}.json"] == f"hole of {gone['schema']}.{gone['table']} in the certificate"


def test_it_is_short_and_imports_nothing_of_ours() -> None:
    text = CHECKER.read_text()
    assert len(text.splitlines()) < 780
    names = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert names - set(sys.stdlib_module_names) == {"pyarrow", "pymysql"}
    top = [ast.unparse(node) for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [line for line in top if "pymysql" in line], "it is imported where it is needed"
