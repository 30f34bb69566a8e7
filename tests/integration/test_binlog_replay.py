"""Streams of real pumps, any schedule, crashes, joins and connections that break: the merged output equals the truth at every snapshot, and
no row goes back. What a binlog tells and TiDB never did is counted, by name. And the order is that of the real drainer.

`make matrix` plays twenty schedules of every recording and kind of brackets, the default run two of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pytest

from sidecar.core.sequence import Sequence
from sidecar.replay.feed import Play
from sidecar.replay.recording import Recording
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import CommitTs
from tests.lanes import LANE
from tests.support.binlog_recordings import COMPACT, WHOLE, frames
from tests.support.drainer_files import Written, written
from tests.support.recordings import recording
from tests.support.replaying import Run, play, stage
from ticdc_dump.binlog.binlog_pb2 import Binlog, PrewriteValue

pytestmark = pytest.mark.recordings

NAMES = WHOLE if LANE.whole else COMPACT[:2]
SEEDS = range(20) if LANE.whole else (3, 7)
CHUNK_ROWS = (1000, 10, 100_000)

DRAINED = WHOLE if LANE.whole else COMPACT
PLAYS = range(5) if LANE.whole else (5,)
DIED = {"binlog-ddl": CommitTs(470625096832385027)}
"""The last that the drainer wrote: "row data is corrupted" at a row amid a DDL that drops a column with other changes."""
UNTOLD = {
    "binlog-ddl": {
        470625089753972737,  # DROP COLUMN sends two: this one is delete-only, and changes no table
        470625110699278339,  # a job that was rolled back
    },
    "binlog-ddl2": {470625218833940486, 470625241602719751},  # the first ones of a DROP COLUMN
}
"""Binlogs of DDLs that no drainer passes on."""


@pytest.mark.parametrize("brackets", ["watermark", "snapshot"])
@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_ends_equal_to_the_truth(name: str, brackets: str) -> None:
    made, deaths, compared = stage(name, "binlog"), 0, 0
    for seed in SEEDS:
        run = Run(brackets, seed, chunk_rows=CHUNK_ROWS[seed % 3], crashes=seed % 4, resends=seed % 3)
        verdict, died = play(made, run)
        assert verdict.ok, f"{name} {run}: {[table for table in verdict.tables if not table.equal]} {verdict.unexpected_rows}"
        deaths += len(died)
        compared += sum(table.snapshots_compared for table in verdict.tables)
    assert deaths >= len(SEEDS) / 2, "too few crashes to prove anything"
    assert compared >= len(SEEDS) * len(made.tables), "too few snapshots were compared"


@pytest.mark.parametrize("name", [name for name in NAMES if "ddl" in name])
def test_a_dump_that_begins_amid_schema_changes_ends_equal_to_the_truth(name: str) -> None:
    made, compared = stage(name, "binlog"), 0
    for seed in SEEDS:
        brackets, part = "watermark" if seed % 3 else "snapshot", seed % 10 / 11
        run = Run(brackets, seed, chunk_rows=CHUNK_ROWS[seed % 3], crashes=seed % 4, resends=seed % 3, after_part=part)
        verdict, _ = play(made, run)
        assert verdict.ok, f"{name} {run}: {[table for table in verdict.tables if not table.equal]} {verdict.unexpected_rows}"
        compared += sum(table.snapshots_compared for table in verdict.tables)
    assert compared >= len(SEEDS) * len(verdict.tables), "too few snapshots were compared"


if "binlog-totidb" in NAMES:  # the recording is in the whole set alone

    def test_deletions_of_update_ignore_are_counted_by_name_and_nothing_else_is_missing() -> None:
        made = stage("binlog-totidb", "binlog")
        verdict, _ = play(made, Run("snapshot", seed=1, chunk_rows=10))
        explained = {table.table: {sample.key for sample in table.explained.samples} for table in verdict.tables if table.explained.count}
        assert verdict.ok
        reported = {name: {key for key, _ in keys} for name, keys in made.feed.false_deletes.items()}
        assert explained
        assert all(keys <= reported[name] for name, keys in explained.items())


@pytest.mark.parametrize("name", DRAINED)
def test_commits_and_their_row_events_come_as_from_the_real_drainer(name: str) -> None:
    """To its end, or where it died: from there on, as the pumps have them."""
    result = Recording(recording(name))
    drained = written(result.folder / "drainer")
    reported = [
        one for one in streamed(name) if result.start_ts < one.commit_ts <= result.end_ts and one.commit_ts not in UNTOLD.get(name, ())
    ]
    assert drained[-1].commit_ts == DIED.get(name, reported[-1].commit_ts)
    assert drained == reported[: len(drained)]
    for seed in PLAYS:
        assert list(released(name, seed)) == reported


def streamed(name: str) -> list[Written]:
    """What the pumps have, merged: no fakes, and once what two of them have."""
    writtens: dict[CommitTs, Written] = {}
    for path in (recording(name) / "pumps").glob("*.bin.gz"):
        for binlog in map(Binlog.FromString, frames(path)):
            if binlog.start_ts != binlog.commit_ts:
                mutations = PrewriteValue.FromString(binlog.prewrite_value).mutations
                events = sum(len(mutation.sequence) for mutation in mutations)
                one = Written(binlog.commit_ts, is_ddl=binlog.ddl_job_id > 0, events=events)
                assert writtens.setdefault(CommitTs(binlog.commit_ts), one) == one
    return [one for _, one in sorted(writtens.items())]


def released(name: str, seed: int) -> Iterator[Written]:
    """What the feed's messages come to, in the order of the log."""
    result, made = Recording(recording(name)), stage(name, "binlog")
    attached = made.feed.attach(made.feed.open(Play(seed=seed, resends=2, batch_messages_max=50)))
    attached.schemas.begin()
    attached.feed.seek({})
    sequence = Sequence(attached.codec.identity, MemorySpill(), result.start_ts, held_bytes_max=1 << 20)
    while sequence.after_ts < result.end_ts:
        for message in attached.feed.poll(timeout_s=0):
            sequence.accept(message.lane, message.position, attached.codec.envelopes(message))
        if (upto_ts := sequence.upto(attached.feed.lanes())) is not None:
            for segment in sequence.release(upto_ts, even_if_empty=True):
                for commit_ts, changes in groupby(segment.changes, key=lambda change: change.commit_ts):
                    yield Written(commit_ts, is_ddl=False, events=len(list(changes)))
                yield from (Written(ddl.commit_ts, is_ddl=True, events=0) for ddl in segment.ddls if ddl.query)
