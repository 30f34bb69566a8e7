"""A dump and a real server that stands still for longer than the source tries: marks, SELECTs and what is carried out late are real.

A trigger keeps the watermark row's versions in the order of their commits: that is the feed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pytest

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.adapters.tidb.source import TidbSource, ensure_mark_table
from sidecar.core.dump_start import DumpLimits
from sidecar.core.dumps import Dumps
from sidecar.shared.model.chunk import ClosedWindow, WrittenChunk
from sidecar.shared.model.messages import Brackets, SegmentBuilt, SendMark, SourceFailed, StartDump
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, Mark, MarkKind, Seq, TableName
from sidecar.shared.model.progress import DumpState
from sidecar.shared.mysql import account
from tests.support.services.mariadb import MariaDb

pytestmark = pytest.mark.xdist_group("mariadb")

WAIT_S = 300.0
TABLE = TableName("app", "t")
SEEN = f"{MARK_TABLE.schema}.seen"


@pytest.fixture
def db(mariadb: MariaDb) -> Iterator[MariaDb]:
    ensure_mark_table(mariadb.settings())
    mariadb.execute(
        f"CREATE TABLE {SEEN} (n INT AUTO_INCREMENT PRIMARY KEY, uuid VARCHAR(32), kind TINYINT)",
        f"CREATE TRIGGER {MARK_TABLE.schema}.saw AFTER UPDATE ON {MARK_TABLE} FOR EACH ROW"
        f" INSERT INTO {SEEN} (uuid, kind) VALUES (NEW.unique_identifier, NEW.event_type)",
        f"CREATE DATABASE {TABLE.schema}",
        f"CREATE TABLE {TABLE} (k INT PRIMARY KEY, v INT)",
        f"INSERT INTO {TABLE} SELECT seq, seq * 2 FROM {TABLE.schema}.seq_1_to_600",
    )
    yield mariadb
    mariadb.execute(f"DROP DATABASE {TABLE.schema}", f"DROP DATABASE {MARK_TABLE.schema}")


@dataclass
class Life:
    """A dump with a source, whose marks come back as the server has committed them."""

    db: MariaDb
    source: TidbSource
    dump: Dumps
    closed: list[ClosedWindow] = field(default_factory=list)
    lost: list[SourceFailed] = field(default_factory=list)
    seen: int = 0
    segments: int = 0

    def until(self, done: Callable[[], bool], *, feed: bool = True) -> None:
        give_up_s = time.monotonic() + WAIT_S
        while not done():
            assert time.monotonic() < give_up_s, f"{self.dump.progress} and {self.lost}"
            self._step(feed=feed)
            time.sleep(0.002)  # a source tells what is done only when asked

    def marks_lost(self) -> int:
        return sum(isinstance(event.command, SendMark) for event in self.lost)

    def _step(self, *, feed: bool) -> None:
        events = self.source.results()
        self.lost += [event for event in events if isinstance(event, SourceFailed)]
        commands = [command for event in events for command in self.dump.handle(event)]
        for command in [*commands, *self.dump.next()]:
            self.source.request(command)
        if feed and (results := self.db.execute(f"SELECT n, uuid, kind FROM {SEEN} WHERE n > {self.seen} ORDER BY n")):
            marks = [Mark(CommitTs(10 * n), "cf", uuid, MarkKind(kind)) for n, uuid, kind in results]
            built = SegmentBuilt(Seq(self.segments), CommitTs(10 * self.seen), CommitTs(10 * results[-1][0]))
            self.closed += self.dump.segment(built, marks)
            self.seen, self.segments = results[-1][0], self.segments + 1


def test_a_dump_continues_automatically_over_a_server_that_was_stuck_for_longer_than_its_retries(
    db: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the source gives up after 1.5 s; the server, which counts what it is frozen, never
    monkeypatch.setattr(account, "ANSWER_GRACE_S", -58.5)
    monkeypatch.setattr(account, "CONNECT_TIMEOUT_S", 1.0)
    settings, limits = db.settings(statement_timeout_s=60.0, retry_s=1.0), DumpLimits(readers=2, window_chunks_max=2)
    files: dict[str, pa.Table] = {}

    def write(path: str, rows: pa.Table) -> WrittenChunk:
        files[path] = rows
        return WrittenChunk(int(rows.nbytes))

    source = TidbSource(settings, schemas=TidbSchemas(db.settings()).tables(), write_chunk=write, changefeed_id="cf")
    dump = Dumps(changefeed_id="cf", epoch=3, limits=limits, after_ts=CommitTs(0), next_seq=Seq(0))
    dump.request(StartDump("d" * 16, (TABLE,), Brackets.WATERMARK, 20))
    life = Life(db, source, dump)
    try:
        for outage in (1, 2):
            life.until(partial(lambda least: len(life.closed) >= least, len(life.closed) + 2))
            db.freeze()
            try:
                life.until(partial(lambda least: life.marks_lost() >= least, outage), feed=False)
            finally:
                db.thaw()
        life.until(lambda: dump.progress is not None and dump.progress.state is not DumpState.RUNNING)
    finally:
        source.close()
    assert dump.progress is not None
    assert dump.progress.state is DumpState.FINISHED
    assert all(event.away for event in life.lost)
    rows = [tuple(row.values()) for window in life.closed for chunk in window.chunks for row in files[chunk.path].to_pylist()]
    assert Counter(rows) == Counter((str(number), str(number * 2)) for number in range(1, 601))
