"""Area 4: the files that the sidecar and its worker read and write, as a hand, a crash, a bucket's rule, a bad disk or a full one leaves
them: manifests, Parquet, reports, whole logs, answers of an S3. Who reads is the product's own code; the folders are real.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.log.deliveries import LogDeliveries
from sidecar.shared.log.delivery_report import DELIVERED_NAME, DeliveryReport
from sidecar.shared.log.identity import OWN_ID_NAME, claim_log
from sidecar.shared.log.layout import manifest_name, retained_name
from sidecar.shared.log.manifest import Manifest, to_json
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Rank, Seq
from spark_merge.log.follow import check_follows, check_has
from spark_merge.log.read import new_manifests, read_rows, read_schemas
from spark_merge.port.contract import Accepted
from tests.tools.hostile import disks, flips, s3_answers
from tests.tools.hostile.attempts import Area, Attempt, Fault, Outcome, refuses

SEGMENTS, ROWS = 6, 50
CHANGE = Change(CommitTs(1), Rank.PUT, "shop", "orders", b"k", b"v", Lane("kafka/orders/1"), 1)


class Log:
    """Segments of ROWS rows, in a folder that is copied for each attempt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def written(cls, folder: Path, *, value: bytes = b"v") -> Log:
        log = FolderLog(open_folder(str(folder)))
        log.recover(epoch=1)
        claim_log(log.folder, "cf/1")
        schemas = log.write_schemas({})
        for seq in map(Seq, range(SEGMENTS)):
            changes = [CHANGE._replace(position=position, value=value) for position in range(ROWS)]
            data = log.write_data(seq, epoch=1, codec="canal-json", changes=changes)
            ts, positions = CommitTs(seq), {CHANGE.lane: ROWS}
            log.commit(
                Manifest(
                    seq, 1, ts, CommitTs(seq + 1), data.name, data.rows, data.bytes, positions, schemas, "canal-json", id=f"{seq:032x}"
                )
            )
        return cls(folder)

    def copy(self, to: Path) -> Log:
        return Log(Path(shutil.copytree(self.folder, to / "log")))

    def manifest(self, seq: int) -> Path:
        return self.folder / manifest_name(Seq(seq))

    def rewrite(self, at: int, /, **fields: Any) -> None:
        """A manifest by hand: other fields, and a checksum that is none."""
        result = json.loads(self.manifest(at).read_bytes())
        result.pop("sum", None)
        self.manifest(at).write_text(json.dumps(result | fields))

    def delivered(self) -> object:
        """All of it, as the worker reads it."""
        folder = open_folder(str(self.folder))
        manifests = new_manifests(folder, after=None, limit=100)
        return [(read_schemas(folder, manifest.schemas), read_rows(folder, manifest).num_rows) for manifest in manifests]

    def recovered(self) -> object:
        """As the next owner does."""
        return FolderLog(open_folder(str(self.folder))).recover(epoch=2)


Spoilt = Callable[[Log], object]


@contextmanager
def opened() -> Iterator[Sequence[Attempt]]:
    with tempfile.TemporaryDirectory() as name, s3_answers.Answering() as s3:
        folder = Path(name)
        log = Log.written(folder / "whole")
        yield [
            *_spoilt(folder, log),
            *_reports(folder, log),
            *_restored(folder, log),
            *flips.attempts(folder / "flips"),
            *disks.attempts(folder / "disks"),
            *s3_answers.attempts(s3),
        ]


# ---- a log with something in it that is not as it was written ----------------------------------------------------------------

_CHUNK = {"schema": "s", "table": "t", "path": "", "rows": 1, "bytes": 1, "after": None, "last": None, "read_tso": None}
FIELDS: dict[str, dict[str, Any]] = {
    "version 99": {"version": 99},
    "version true": {"version": True},
    "no version": {"version": None},
    "another seq": {"seq": 4},
    "seq -1": {"seq": -1},
    "seq 2^70": {"seq": 1 << 70},
    "a seq of words": {"seq": "last"},
    "epoch -1": {"epoch": -1},
    "upto_ts -5": {"upto_ts": "-5"},
    "upto_ts of 30 digits": {"upto_ts": "9" * 30},
    "upto_ts of 5,000 digits": {"upto_ts": "9" * 5_000},
    "upto_ts 1e400": {"upto_ts": float("inf")},
    "after_ts of words": {"after_ts": "now"},
    "rows -1": {"rows": -1},
    "rows 1.5": {"rows": 1.5},
    "more rows than there are": {"rows": ROWS + 1},
    "fewer rows": {"rows": ROWS - 1},
    "bytes of words": {"bytes": "many"},
    "positions of a list": {"positions": []},
    "a position of 2^70": {"positions": {"kafka/orders/1": str(1 << 70)}},
    "a position of words": {"positions": {"kafka/orders/1": "x"}},
    "ddls of words": {"ddls": ["DROP TABLE t"]},
    "ddls of null": {"ddls": None},
    "windows of a number": {"windows": 1},
    "a window without chunks": {"windows": [{"dump_id": "d", "low_ts": "0", "high_ts": "1", "first_seq": 0}]},
    "table_rows -1": {"table_rows": [["s", "t", -1]]},
    "table_rows of pairs": {"table_rows": [["s", "t"]]},
    "schemas of null": {"schemas": None},
    "schemas that are not there": {"schemas": "schemas/0123456789abcdef.json"},
    "data that are not there": {"data": f"{3:020d}-0000000009.parquet"},
    "data of another segment": {"data": f"{4:020d}-0000000001.parquet"},
    "data elsewhere": {"data": "../victim.txt"},
    "data at the root": {"data": "/etc/passwd"},
    "data with NUL": {"data": "x\0y"},
    "schemas elsewhere": {"schemas": "schemas/../../victim.json"},
    "next_schemas of a report": {"next_schemas": DELIVERED_NAME},
    **{
        f"a chunk at {path}": {
            "windows": [{"dump_id": "d", "low_ts": "0", "high_ts": "1", "first_seq": 0, "chunks": [_CHUNK | {"path": path}]}]
        }
        for path in ("chunks/../0000000001-00000000.parquet", "changefeed.txt", "../../victim.txt", "", "s3://b/x", "chunks/d/1.parquet")
    },
}
BYTES: dict[str, bytes] = {
    "nothing": b"",
    "no text": bytes(range(256)),
    "null": b"null",
    "a list": b"[]",
    "half": b'{"version":1,"seq":3',
    "100,000 brackets": b"[" * 100_000,
    "100,000 objects": b'{"a":' * 100_000,
    "1e400": b'{"version":1e400}',
    "UTF-16": '{"version":1}'.encode("utf-16"),
    "another's": b"PAR1",
}


def _spoilt(folder: Path, whole: Log) -> Iterator[Attempt]:
    made: dict[str, Spoilt] = {
        **{f"manifest: {name}": partial(_rewritten, fields) for name, fields in FIELDS.items()},
        **{f"manifest: {name}": partial(_manifest_of, data) for name, data in BYTES.items()},
        "manifest: one letter another": lambda log: _manifest_of(log.manifest(3).read_bytes().replace(b"canal-json", b"canal-jsoN"), log),
        **{f"schemas: {name}": partial(_schemas_of, data) for name, data in BYTES.items() if data != b"[]"},
        **{f"rows: {name}": partial(_rows_of, data) for name, data in BYTES.items()},
        **{f"rows: cut to {part}": partial(_rows_cut, part) for part in (0.1, 0.5, 0.99)},
        "rows: without a column": partial(_rows_with, lambda table: table.drop_columns(["key"])),
        "rows: of other types": partial(_rows_with, lambda table: table.set_column(1, "commit_ts", table["commit_ts"].cast(pa.string()))),
        "rows: twice a column": partial(_rows_with, lambda table: table.append_column("key", table["key"])),
        "rows: none": partial(_rows_with, lambda table: table.slice(0, 0)),
        "rows: gone": lambda log: _removed(_data(log, 3)),
        "rows: a folder": _rows_a_folder,
        "rows: a link to itself": _rows_a_link,
        "expired: the first": lambda log: _removed(log.manifest(0)),
        "expired: the first two with their rows": lambda log: _removed(*map(log.manifest, (0, 1)), _data(log, 0), _data(log, 1)),
        "expired: one in the middle": lambda log: _removed(log.manifest(2)),
        "expired: all manifests": lambda log: _removed(*map(log.manifest, range(SEGMENTS))),
        "expired: a note of retention far ahead": lambda log: (log.folder / retained_name(Seq(99))).touch(),
        "expired: all schemas": lambda log: shutil.rmtree(log.folder / "schemas"),
    }
    for number, (name, spoil) in enumerate(made.items()):
        yield refuses(name, partial(_read_spoilt, folder / f"spoilt-{number}", whole, spoil))


def _read_spoilt(folder: Path, whole: Log, spoil: Spoilt) -> object:
    """By the worker that delivers it. The next owner may refuse it too, and must not take away what is not the log's."""
    log = whole.copy(folder)
    victim = folder / "victim.txt"
    victim.write_text("not the log's")
    spoil(log)
    try:
        return log.delivered()
    finally:
        _owned(log)
        if not victim.exists():
            raise Fault(Outcome.ACCEPTED, "a file that is not the log's was removed")


def _owned(log: Log) -> None:
    """The next owner's words are ours, too."""
    with suppress(TicdcDumpError):
        log.recovered()


def _data(log: Log, seq: int) -> Path:
    return log.folder / f"{seq:020d}-{1:010d}.parquet"


def _rewritten(fields: dict[str, Any], log: Log) -> None:
    log.rewrite(3, **fields)


def _manifest_of(data: bytes, log: Log) -> None:
    log.manifest(3).write_bytes(data)


def _schemas_of(data: bytes, log: Log) -> None:
    next((log.folder / "schemas").glob("*/*.json")).write_bytes(data)


def _rows_of(data: bytes, log: Log) -> None:
    _data(log, 3).write_bytes(data)


def _removed(*files: Path) -> None:
    for file in files:
        file.unlink()


def _rows_a_folder(log: Log) -> None:
    _removed(_data(log, 3))
    _data(log, 3).mkdir()


def _rows_a_link(log: Log) -> None:
    _removed(_data(log, 3))
    _data(log, 3).symlink_to(_data(log, 3))


def _rows_cut(part: float, log: Log) -> None:
    data = _data(log, 3).read_bytes()
    _data(log, 3).write_bytes(data[: int(len(data) * part)])


def _rows_with(changed: Callable[[pa.Table], pa.Table], log: Log) -> None:
    pq.write_table(changed(pq.read_table(_data(log, 3))), _data(log, 3))


# ---- what is reported beside a log -----------------------------------------------------------------------------------------

REPORTS: dict[str, dict[str, Any]] = {
    "seq beyond the log": {"seq": 999_999},
    "seq -1": {"seq": -1},
    "seq 2^70": {"seq": 1 << 70},
    "seq of words": {"seq": "x"},
    "another log's": {"log": "f" * 32},
    "upto_ts -5": {"upto_ts": "-5"},
    "upto_ts of 30 digits": {"upto_ts": "9" * 30},
    "upto_ts of 5,000 digits": {"upto_ts": "9" * 5_000},
    "upto_ts of words": {"upto_ts": "now"},
    "written 1e300": {"written_ms": 1e300},
    "pid of words": {"pid": "x"},
    "dropped -1": {"dropped": [["s", "t", -1]]},
    "sinks of lists": {"sinks": [[]]},
    "sinks of words": {"sinks": "all"},
    "rows -1": {"rows": {"worker": -1}},
    "error of a number": {"error": 7},
}


def _reports(folder: Path, whole: Log) -> Iterator[Attempt]:
    right = json.loads(DeliveryReport(Seq(3), CommitTs(4), "running", 1_700_000_000_000).to_json())
    made = {name: json.dumps(right | fields).encode() for name, fields in REPORTS.items()} | BYTES
    for number, (name, data) in enumerate(made.items()):
        yield Attempt(f"report: {name}", partial(_reported, folder / f"report-{number}", whole, data))


def _reported(folder: Path, whole: Log, data: bytes) -> Outcome:
    """It is not believed, and what is the matter is shown."""
    log = whole.copy(folder)
    (log.folder / DELIVERED_NAME).write_bytes(data)
    deliveries = LogDeliveries(open_folder(str(log.folder)))
    deliveries.start()
    deliveries.close()
    deliveries.check()
    if deliveries.report is not None or not deliveries.trouble:
        raise Fault(Outcome.ACCEPTED, str(deliveries.report))
    return Outcome.REFUSED


# ---- a log in the place of another -----------------------------------------------------------------------------------------


def _restored(folder: Path, whole: Log) -> Iterator[Attempt]:
    """The output has all of `whole`; the log is another one."""
    had = new_manifests(open_folder(str(whole.folder)), after=None, limit=100)
    accepted = Accepted.of(had[-1])

    def shorter(log: Log) -> None:
        for seq in (4, 5):
            log.manifest(seq).unlink()
            _data(log, seq).unlink()

    def written_on(log: Log) -> None:
        for seq in (4, 5):
            log.manifest(seq).write_bytes(to_json(_other(had[seq])))

    def empty(log: Log) -> None:
        shutil.rmtree(log.folder)
        log.folder.mkdir()

    for number, (name, spoil) in enumerate({"shorter": shorter, "written on": written_on, "empty": empty}.items()):
        yield refuses(f"restored: a log that is {name}", partial(_goes_on, folder / f"restored-{number}", whole, spoil, accepted))
    yield refuses("restored: while it was read", partial(_follows, Accepted.of(had[1]), had[4]))
    for name, data in {"empty": b"", "another": b"x" * 32, "no text": b"\xff" * 32, "two": b"0" * 64}.items():
        yield refuses(f"restored: an id that is {name}", partial(_claimed, folder / f"id-{name}", whole, OWN_ID_NAME, data))
    yield refuses("restored: another changefeed's", partial(_claimed, folder / "id-cf", whole, "changefeed.txt", b"other/1"))


def _other(manifest: Manifest) -> Manifest:
    """Of the same number, in a log that was restored and written on."""
    return replace(manifest, id=f"{1 << 64 | manifest.seq:032x}", upto_ts=CommitTs(manifest.upto_ts + 100))


def _goes_on(folder: Path, whole: Log, spoil: Spoilt, accepted: Accepted) -> object:
    log = whole.copy(folder)
    spoil(log)
    check_has(open_folder(str(log.folder)), accepted)
    return "it continues"


def _follows(accepted: Accepted, manifest: Manifest) -> object:
    check_follows(open_folder("/nowhere"), accepted, [manifest])
    return "it continues"


def _claimed(folder: Path, whole: Log, name: str, data: bytes) -> object:
    log = whole.copy(folder)
    (log.folder / name).write_bytes(data)
    return claim_log(open_folder(str(log.folder)), "cf/1")


AREA = Area("files", 58 + 2 * flips.FLIPS, opened)
