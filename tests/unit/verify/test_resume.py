"""A comparison that a worker did not end: the next one reads only the ranges of the source that are left, and names the same faults. It
begins again only where what was done is of no use any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from sidecar.shared.log import storage
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.verification import CheckState, TableReport
from sidecar.shared.model.nouns import Seq, TableSchema
from sidecar.shared.mysql.key_ranges import KeySpan
from spark_merge.port.readable import Reading, RowForm, RowsRead
from spark_merge.sinks.sqlite.sink import SqliteSink
from spark_merge.verify import table_check
from spark_merge.verify.resume import load
from spark_merge.verify.runner import Ending
from spark_merge.verify.table_check import TableCheck
from tests.support.verified import InOrder, WorldPart, WorldSource
from tests.unit.verify.test_table_check import Sqlite, Steps, Still, check_of, world_of


class OneCore(InOrder):
    cores = 1


Death = Callable[[float], None]


def dies(at: int, live: Callable[[float], object] = lambda _: None) -> Death:
    """A gate that ends the worker after so many pieces of work."""
    done = 0

    def gate(worked_s: float) -> None:
        nonlocal done
        done += worked_s > 0
        live(worked_s)
        if done >= at:
            raise Ending

    return gate


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been done is saved at once: no test depends on how fast the machine is."""
    monkeypatch.setattr(table_check, "SAVE_EVERY_S", 0.0)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[KeySpan]:
    """The ranges of the source that were read."""
    spans, call = list[KeySpan](), WorldPart.__call__

    def noted(part: WorldPart) -> Iterator[RowsRead]:
        if isinstance(part.wanted, partial):  # else rows of keys
            spans.append(part.wanted.args[0])
        return call(part)

    monkeypatch.setattr(WorldPart, "__call__", noted)
    return spans


@pytest.fixture
def still(tmp_path: Path) -> Still:
    return Still(tmp_path)


def checked(
    still: Still,
    *,
    gate: Death = lambda _: None,
    wait: Death | None = None,
    needs: Callable[[Seq], None] = lambda _: None,
) -> TableCheck:
    check = check_of(still.world, still.uri, gate=gate, wait=wait or still.world.wait, runner=OneCore(), needs=needs)
    check.run()
    return check


def dead(still: Still, at: int, live: Callable[[float], object] = lambda _: None) -> None:
    """After the sink's rows (1), after a range of the source (2, 3, 4), or later."""
    with pytest.raises(Ending):
        checked(still, gate=dies(at, live))


@pytest.mark.parametrize(("at", "left"), [(1, 3), (2, 3), (3, 2), (4, 1), (5, 0)])
def test_the_next_worker_reads_the_ranges_that_are_left(still: Still, read: list[KeySpan], at: int, left: int) -> None:
    checked(still)
    spans, rows = list(read), len(still.world.rows)
    storage.remove(still.world.context().folder, storage.list_names(still.world.context().folder, deep=True))
    assert len(spans) == 3
    before = still.world.seq - 1
    dead(still, at)
    read.clear()
    still.world.append()
    still.world.deliver()
    report = checked(still).report
    assert (report.state, report.rows) == (CheckState.EQUAL, rows)
    assert report.after_seq == (before if at > 1 else before + 1), "where the worker began whose reading of the sink counts"
    assert read == spans[3 - left :]
    assert report.parts_done == report.parts


def test_second_looks_show_in_the_report_and_in_what_is_saved(still: Still) -> None:
    """Which look, at how many keys, since when. The next worker looks again from the first one on, and counts nothing twice."""
    still.output.delete(still.key)
    shown, saved = list[tuple[int, int, int]](), list[tuple[int, int, int]]()

    def progress(report: TableReport) -> None:
        shown.append((report.look, report.pending, report.look_ms))
        if report.look and (kept := load(still.world.context().folder, "one")) is not None:
            saved.append((kept[0].look, kept[0].pending, kept[0].look_ms))
            raise Ending

    def check() -> TableCheck:
        return check_of(still.world, still.uri, wait=still.world.wait, runner=OneCore(), progress=progress, now_ms=lambda: 77)

    for _ in range(2):
        with pytest.raises(Ending):
            check().run()
    assert saved == [(2, 1, 77)] * 2
    assert set(shown) == {(0, 0, 0), (2, 1, 77)}
    report = checked(still).report
    assert (report.missing, report.differences, report.look, report.pending) == (1, 1, 0, 0)


@pytest.mark.parametrize("snapshots", [True, False])
def test_over_deaths_each_fault_is_named_and_nothing_else(tmp_path: Path, snapshots: bool) -> None:
    named = 0
    for seed in range(8):
        rng, uri = Random(seed), f"sqlite:///{tmp_path}/{seed}/out.db"
        world = world_of(tmp_path / str(seed), seed, uri, snapshots=snapshots)
        spoilt, since_ts = Sqlite(tmp_path / str(seed) / "out.db").spoil(world, rng), world.ts
        for _ in range(3):
            with suppress(Ending):
                check_of(world, uri, gate=dies(rng.randrange(1, 5), world.live), runner=OneCore()).run()
        check = check_of(world, uri, runner=OneCore())
        report = check.run()
        healed = {key for ts, key in world.changed if ts > since_ts}
        result = {one.key: one.kind for one in check.tally.differences}
        assert result.items() <= spoilt.items(), seed
        assert spoilt.keys() - healed <= result.keys(), seed
        assert report.moving == 0
        named += len(result)
    assert named > 10


def test_the_next_worker_has_the_sources_rows_as_the_sink_promises_them(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, ranges, forms = SqliteSink.reading, WorldSource.ranges, list[RowForm | None]()

    def promised(sink: SqliteSink, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:
        return replace(reading(sink, schema, parts=parts, keys=keys), form=as_it_is)

    def noted(
        source: WorldSource, schema: TableSchema, wanted: Sequence[KeySpan], *, form: RowForm | None, where: str = ""
    ) -> list[WorldPart]:
        forms.append(form)
        return ranges(source, schema, wanted, form=form, where=where)

    monkeypatch.setattr(SqliteSink, "reading", promised)
    monkeypatch.setattr(WorldSource, "ranges", noted)
    dead(still, 3)
    assert checked(still).report.state is CheckState.EQUAL
    assert forms == [as_it_is, as_it_is]


def as_it_is(rows: pa.Table) -> pa.Table:
    return rows


def test_keys_that_were_moving_are_moving(still: Still) -> None:
    """As if there had been no death: what differs in them at first says nothing."""

    def deliver_without() -> None:
        still.world.deliver()
        still.output.delete(still.key)

    dead(still, 4, Steps(lambda: still.change("y")))
    wait = Steps(deliver_without, lambda: still.output.put(still.key, "y"))
    report = checked(still, wait=wait).report
    assert (report.state, report.differences, report.moving) == (CheckState.EQUAL, 0, 0)
    assert not wait.left


def test_the_log_keeps_what_the_next_worker_has_to_follow(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not more than the last one has passed, and not less than it has written."""
    monkeypatch.setattr(table_check, "SAVE_EVERY_S", 600.0)
    needed, seq = list[Seq](), still.world.seq - 1
    checked(still, gate=lambda _: still.change("y"), needs=needed.append)
    assert needed[:3] == [seq, seq + 1, seq + 1], "the sink's position; then the log's end when its rows are there"
    assert len(needed) == 4, "the last one is written when all ranges are read"
    assert needed[3] > seq + 1


# ---- from the beginning -------------------------------------------------------------------------------------------------------


def lose_digests(still: Still) -> None:
    folder = still.world.context().folder
    storage.remove(folder, [name for name in storage.list_names(folder, deep=True) if "source-0" in name])


def lose_segments(still: Still) -> None:
    still.world.append()
    still.change("y")
    still.world.append()
    still.world.deliver()
    owner = FolderLog(still.world.job.log)
    owner.recover(epoch=1)
    assert owner.retain(delivered=Seq(still.world.seq - 1), open_from=None)


def alter(still: Still) -> None:
    still.world.alter()
    still.world.deliver()
    schema, still.world.schemas = still.world.shape.schema, still.world.log.write_schemas({})
    still.world.schemas = still.world.log.write_schemas({schema.name: schema})
    still.world.append()
    still.world.deliver()


def upgrade(still: Still) -> None:
    """Of the library that makes the digests."""
    change(still, lambda text: text.replace(b"polars", b"older"))


def tear(still: Still) -> None:
    change(still, lambda text: text[: len(text) // 2])


def change(still: Still, how: Callable[[bytes], bytes]) -> None:
    folder = still.world.context().folder
    [name] = [name for name in storage.list_names(folder, deep=True) if name.endswith("progress.json")]
    before = storage.read_file(folder, name)
    assert how(before) != before
    storage.write_atomically(folder, name, how(before))


@pytest.mark.parametrize("lose", [lose_digests, lose_segments, alter, upgrade, tear])
def test_it_begins_again_where_what_was_done_is_of_no_use(still: Still, read: list[KeySpan], lose: Callable[[Still], None]) -> None:
    dead(still, 4)
    lose(still)
    read.clear()
    report = checked(still).report
    assert (report.state, len(read)) == (CheckState.EQUAL, 3)


def test_what_was_done_is_forgotten_before_its_files_are_replaced(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a death amid that leaves digests of two lives under one progress."""
    dead(still, 4)
    folder = still.world.context().folder
    assert load(folder, "one") is not None
    monkeypatch.setattr(TableCheck, "_resumed", lambda _: None)
    dead(still, 1)
    assert load(folder, "one") is None


def test_a_table_that_is_read_at_once_saves_nothing(tmp_path: Path) -> None:
    class Cores(InOrder):
        cores = 3

    still = Still(tmp_path)
    with pytest.raises(Ending):
        check_of(still.world, still.uri, gate=dies(2), wait=still.world.wait, runner=Cores()).run()
    folder = still.world.context().folder
    assert storage.list_names(folder, deep=True)
    assert load(folder, "one") is None
