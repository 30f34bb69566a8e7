"""The whole product with each sink that people query, while its server, Spark's tasks and the workers die and freeze in the middle of dumps
under writes: every table ends as the source's, `dumpquery` names a sink whose server is away, and no row is ever seen to go back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from sidecar.shared.process.background import Background
from tests.lanes import LANE
from tests.support.eventually import eventually
from tests.support.live_sinks import AWAY, SINKS, LiveSink
from tests.tools.rig.disasters import (
    AWAY_S,
    DEADLINE_S,
    Disasters,
    Nowhere,
    await_finished,
    await_progress,
    pass_through,
    peak_bytes,
    rows,
    start_dump,
)
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import MergeWorkerProcess, SidecarProcess
from tests.tools.rig.ticks import ROWS, TICK_STATEMENTS, TICKS, Floors, Ticker
from tests.tools.rig.workload import Workload

pytestmark = pytest.mark.xdist_group("query-sinks-live")

INITIAL_ROWS, ROWS_PER_S, WRITES_PER_S = 120, 60, 15
"""A dump takes half a minute; a sink that is behind is caught up with in no time."""
MARK_EVERY_S = 2.0
"""Two seconds' changes are a segment: a lake has a file of each and of each table, which S3 in this process has to take."""
LOOK_EVERY_S, LOOKS_MIN = 1.0, 10
WORKER_BYTES_MAX = 3 << 29

OF_THE_WORKER = ["tasks_die", "worker_freezes", "worker_dies"]
OF_THE_SERVER = ["target_is_away", "tasks_die", "target_dies", "worker_freezes", "target_freezes", "worker_dies"]


@dataclass
class Product:
    """All of it, with writes."""

    rig: Rig
    worker: MergeWorkerProcess
    sidecar: SidecarProcess
    workload: Workload
    ticker: Ticker

    def disasters(self, place: LiveSink) -> Disasters:
        return Disasters(self.sidecar, self.worker, place.target, says=place.says)

    def check_end(self, *places: LiveSink) -> None:
        self.workload.stop()
        self.ticker.stop()
        await_finished(self.sidecar)
        truth = self.rig.truth()
        status = await_progress(self.sidecar, lambda value: int(value["delivered_tso"]) >= truth.ts)
        assert [sink["error"] for sink in status["sinks"]] == [""] * len(places)
        for place in places:
            assert not place.wrong(truth), place.uri
            if place.changes is not None:
                floors = Floors()
                floors.follow(place.changes(TICKS))
        assert self.ticker.last > 2 * ROWS
        assert peak_bytes(self.worker.pid) < WORKER_BYTES_MAX, "what is not delivered waits in the log"


@contextmanager
def product(folder: Path, *places: LiveSink) -> Iterator[Product]:
    with ExitStack() as running:
        rig = running.enter_context(Rig(folder, initial_rows=INITIAL_ROWS, statements=TICK_STATEMENTS, mark_every_s=MARK_EVERY_S))
        sinks = [place.uri for place in places]
        config = rig.sidecar_config(sinks=sinks, log=f"file://{folder}/log", spark={"managed": False})
        worker = running.enter_context(MergeWorkerProcess(config, folder / "worker.log"))
        sidecar = running.enter_context(SidecarProcess(config, folder / "sidecar.log"))
        try:
            with rig.workload(writes_per_s=WRITES_PER_S) as workload, Ticker(rig.source) as ticker:
                yield Product(rig, worker, sidecar, workload, ticker)
        except Exception as error:
            error.add_note((folder / "sidecar.log").read_text()[-4000:])
            error.add_note((folder / "worker.log").read_text()[-4000:])
            raise


@contextmanager
def looked_at(place: LiveSink) -> Iterator[None]:
    """Again and again, while the body runs, where the tables are all that there is."""
    if place.changes is not None:
        yield
        return
    floors = Floors()

    def look(ending: Event) -> None:
        while not ending.wait(LOOK_EVERY_S):
            try:
                rows = place.read()(TICKS)
            except AWAY:
                continue
            floors.look(rows)

    looking = Background(look, name="looks")
    try:
        yield
    finally:
        looking.close()
    looking.check()
    assert floors.looks > LOOKS_MIN


if LANE.whole:  # two to four minutes each

    @pytest.mark.parametrize("name", SINKS)
    def test_whatever_dies_every_table_ends_as_the_source(tmp_path: Path, name: str) -> None:
        with SINKS[name](tmp_path / "target") as place, product(tmp_path, place) as result, looked_at(place):
            names = OF_THE_WORKER if isinstance(place.target, Nowhere) else OF_THE_SERVER
            start_dump(result.sidecar, rows_per_s=ROWS_PER_S)
            pass_through(result.disasters(place), names, rows_per_s=ROWS_PER_S)
            result.check_end(place)

    def test_of_three_sinks_one_that_is_away_holds_no_other(tmp_path: Path) -> None:
        """Its server dies amid a dump, and stays away for longer than the sink asks by itself."""
        with ExitStack() as running:
            merged, posted, searched = (
                running.enter_context(SINKS[name](tmp_path / name.split()[0])) for name in ("delta merge in a folder", "http", "opensearch")
            )
            enter_context = running.enter_context(product(tmp_path, merged, posted, searched))
            for place in (merged, searched):
                running.enter_context(looked_at(place))
            sidecar = enter_context.sidecar
            start_dump(sidecar, rows_per_s=ROWS_PER_S)
            await_progress(sidecar, lambda status: rows(status) > 0)
            posted.target.kill()
            time.sleep(AWAY_S)
            away = sidecar.await_status(lambda status: posted.says in status["last_error"], timeout_s=DEADLINE_S)
            assert [posted.says in sink["sink"] for sink in away["sinks"] if sink["error"]] == [True]
            for place in (merged, searched):
                before = newest(place)
                eventually(lambda place=place, before=before: newest(place) > before, place.says, within_s=DEADLINE_S)  # type: ignore[misc]
            posted.target.start()
            pass_through(enter_context.disasters(searched), ["worker_dies", "target_dies"], rows_per_s=ROWS_PER_S)
            enter_context.check_end(merged, posted, searched)


def newest(place: LiveSink) -> int:
    return max(int(str(n)) for _, n in place.read()(TICKS))
