"""The order of durability in a pump, in one thread:

    take all that waits → value log (one write, one sync) → answer → index → sorter → the mark rises → readers

- A binlog is answered when it is on the disk. One sync serves all that came while the one before it ran.
- The mark (`max_commit_ts`) is published after the index has all up to it, so what is read up to the mark is complete.
- A restart scans the value files from where index or sorter stood. Both may have stood earlier than they did: that is done again, and
  changes nothing.
- What is collected is on record before anything of it goes (collected.py): record → rows → files. Readers begin behind it.
- While there is no room, writes are refused by StorageFull; what was answered and is not indexed yet waits in memory. Fakes are taken, so
  that drainers continue. Any other error of the disk ends the thread, and with it the pump.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Event, Lock
from time import monotonic
from typing import NamedTuple

from sidecar.pump.collected import Collected
from sidecar.pump.index import End, IndexReader, IndexState, PumpIndex
from sidecar.pump.record import PREWRITE, Binlog, streamed
from sidecar.pump.sorter import Sorter, WaitingPrewrite
from sidecar.pump.value_log import FIRST_FILE, Pointer, ValueLog, ValuePlace
from sidecar.shared.errors import ConfigError, LogBroken, RefusedRequest, StorageFull
from sidecar.shared.process.background import Background

PAYLOAD_BYTES_MAX = (1 << 31) - (1 << 20)
"""What one message of gRPC and protobuf holds, 2 GiB, less room for the commit binlog and the envelope around it."""

BATCH_BYTES_MAX, BATCH_COUNT_MAX = 16 << 20, 4096
"""Of one write: those behind it wait for its sync."""

READ_COUNT_MAX, READ_BYTES_MAX = 256, 8 << 20
"""Of one look of a reader; one binlog may be larger."""

IDLE_LOOK_S = 1.0
"""After which a write without room is tried again."""
INDEXED_AT_ONCE = 10_000
PREWRITES_KEPT_MS = 600_000
"""Collected later than what is committed then, as real pumps do: a transaction that long may end behind gc_ts."""

OnStored = Callable[[Exception | None], None]
"""Called once, by the thread that writes: None is durable."""


@dataclass(frozen=True, slots=True)
class PumpRoom:
    """`free_bytes_min`: below it only fakes are written."""

    value_file_bytes_max: int = 256 << 20
    free_bytes_min: int = 10 << 30


class Streamed(NamedTuple):
    start_ts: int
    commit_ts: int
    payload: bytes


class _Write(NamedTuple):
    binlog: Binlog
    on_stored: OnStored


class Storage:
    """`submit`, `write`, `reader` by any thread. `risen`: called after each rise of the mark by the thread that writes; may not wait."""

    def __init__(self, folder: Path, *, cluster_id: int, room: PumpRoom, risen: Callable[[], None] = lambda: None) -> None:
        """Brings index and sorter up to what is on the disk. Raises LogBroken, StorageFull; ConfigError for another cluster's folder."""
        self.folder, self.room, self._risen = folder, room, risen
        self.unmatched = 0
        self._log = ValueLog(folder / "value", file_bytes_max=room.value_file_bytes_max)
        self._gc_record = Collected(folder / "value")
        self._index = PumpIndex(folder / "index.sqlite")
        state = self._index.state()
        if state.cluster_id not in (0, cluster_id):
            raise ConfigError(
                f"{folder} holds binlogs of cluster {state.cluster_id}, and PD is of cluster {cluster_id}",
                hint="set pump.pd to the cluster's own PD, or pump.data_dir to a folder of its own",
            )
        self._index.add((), cluster_id=cluster_id)
        self._sorter = Sorter(state.max_commit_ts)
        self._unindexed: list[tuple[Pointer, Binlog]] = []
        self._recover(state)
        self.max_commit_ts = self._sorter.max_commit_ts
        self.gc_ts = max(self._gc_record.ts or 0, state.gc_ts)
        self.is_gc_assumed = not self.gc_ts and self._log.first.file != FIRST_FILE
        """Nothing says up to where the missing value files were collected: `gc_ts` is at or above it."""
        if self.is_gc_assumed:
            self.gc_ts = self._surely_collected()
        self._gc_record.record(self.gc_ts)
        self.cut_bytes = self._log.cut_bytes
        self._waits: list[_Write] = []
        self._changed = Condition()
        self._work: list[Callable[[], None]] = []
        self._ended = False
        self._writing = Background(self._run, name="pump-storage")
        self.check = self._writing.check

    # ---- writing ----------------------------------------------------------------------------------------------------

    def submit(self, binlog: Binlog, on_stored: OnStored) -> None:
        """Raises RefusedRequest, StorageFull; then `on_stored` is not called."""
        if len(binlog.payload) > PAYLOAD_BYTES_MAX:
            raise RefusedRequest(
                f"a binlog of {len(binlog.payload):,} bytes (start_ts {binlog.start_ts}): expected {PAYLOAD_BYTES_MAX:,} at most, "
                "which is what a message to a drainer holds",
                hint="cut the transaction into smaller ones",
            )
        if not binlog.is_fake and (free := self.free_bytes()) < self.room.free_bytes_min:
            raise StorageFull(
                f"no available space in {self.folder}: {free:,} bytes are free, expected {self.room.free_bytes_min:,} at least "
                "(pump.free_bytes_min)",
                hint="make room on this disk, or lower pump.gc_days; writes are taken again as soon as there is",
            )
        with self._changed:
            if self._ended:
                self.check()
                raise RefusedRequest("the pump's storage has ended", hint="write to another pump; see this one's log")
            self._waits.append(_Write(binlog, on_stored))
            self._changed.notify()

    def write(self, binlog: Binlog) -> None:
        """Returns when it is durable. Raises as `submit`, and what went wrong with the disk."""
        done: Future[None] = Future()
        self.submit(binlog, lambda error: done.set_exception(error) if error else done.set_result(None))
        done.result()

    def free_bytes(self) -> int:
        volume = os.statvfs(self.folder)
        return volume.f_bavail * volume.f_frsize

    def capacity_bytes(self) -> int:
        volume = os.statvfs(self.folder)
        return volume.f_blocks * volume.f_frsize

    # ---- reading ----------------------------------------------------------------------------------------------------

    def reader(self) -> PumpReader:
        return PumpReader(self._log, IndexReader(self._index.path), self)

    def held(self, *, longer_than_s: float) -> Sequence[WaitingPrewrite]:
        """Prewrites that hold the stream, or would next."""
        with self._changed:
            return self._sorter.held(longer_than_s=longer_than_s, now_s=monotonic())

    @property
    def waiting(self) -> int:
        """Prewrites without an end."""
        return self._sorter.waiting + len(self._unindexed)

    # ---- collecting -------------------------------------------------------------------------------------------------

    def collect(self, ts: int) -> bool:
        """Let go of what was committed at `ts` or before; in the background. False: it is not sorted that far, and nothing is done."""
        if ts <= self.gc_ts or ts >= self.max_commit_ts:
            return False
        with self._changed:
            self.gc_ts = ts
            self._work.append(lambda: self._collect(ts))
            self._changed.notify()
        return True

    def close(self) -> None:
        """What was submitted is written."""
        self._writing.close(0)
        with self._changed:
            self._changed.notify()
        self._writing.close()
        self._log.close()
        self._index.close()

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self, ending: Event) -> None:
        batch: list[_Write] = []
        try:
            while not self._is_over(ending):
                batch, work = self._taken(ending)
                self._append(batch)
                batch = []
                self._bring_up()
                for one in work:
                    one()
        except Exception as error:
            with self._changed:
                self._ended = True
                batch, self._waits = batch + self._waits, []
            for waits in batch:
                waits.on_stored(error)
            raise

    def _is_over(self, ending: Event) -> bool:
        with self._changed:
            self._ended = ending.is_set() and not self._waits
            return self._ended

    def _taken(self, ending: Event) -> tuple[list[_Write], list[Callable[[], None]]]:
        with self._changed:
            if not self._waits and not self._work and not ending.is_set():
                self._changed.wait(IDLE_LOOK_S)
            count, size = 0, 0
            for waits in self._waits[:BATCH_COUNT_MAX]:
                count, size = count + 1, size + len(waits.binlog.payload)
                if size > BATCH_BYTES_MAX:
                    break
            batch, self._waits = self._waits[:count], self._waits[count:]
            work, self._work = self._work, []
            return batch, work

    def _append(self, batch: Sequence[_Write]) -> None:
        if not batch:
            return
        try:
            pointers = self._log.append([waits.binlog for waits in batch])
        except StorageFull as error:
            for waits in batch:
                waits.on_stored(error)
            return
        for waits in batch:
            waits.on_stored(None)
        self._unindexed += [(pointer, waits.binlog) for pointer, waits in zip(pointers, batch, strict=True)]

    def _bring_up(self) -> None:
        """What has been written, to the index and through the sorter. Without room for the index it is done later."""
        if not self._unindexed:
            return
        front = self._sorter.front() or _place(self._unindexed[0][0])
        end = _end(self._unindexed[-1][0])
        try:
            known = self._index.add(
                self._unindexed,
                indexed_file=end.file,
                indexed_offset=end.offset,
                sorted_file=front.file,
                sorted_offset=front.offset,
                max_commit_ts=self._sorter.max_commit_ts,
            )
        except StorageFull:
            return
        with self._changed:
            for pointer, binlog in self._unindexed:
                if pointer not in known:
                    self._push(pointer, binlog)
            rose = self._sorter.advance()
            self._unindexed = []
        if rose:
            self.max_commit_ts = self._sorter.max_commit_ts
            self._risen()

    def _push(self, pointer: Pointer, binlog: Binlog) -> None:
        if binlog.kind == PREWRITE:
            self._sorter.prewrite(binlog.start_ts, _place(pointer), now_s=monotonic())
        else:
            self._sorter.end(binlog.start_ts, binlog.commit_ts, _place(pointer))

    def _recover(self, state: IndexState) -> None:
        to_index: list[tuple[Pointer, Binlog]] = []
        for pointer, binlog in self._log.scan(max(min(state.indexed, state.sorted), self._log.first)):
            if _place(pointer) >= state.indexed:
                to_index.append((pointer, binlog._replace(payload=b"")))
                if len(to_index) >= INDEXED_AT_ONCE:
                    self._index.add(to_index)
                    to_index = []
            if _place(pointer) >= state.sorted:
                self._push(pointer, binlog)
        self._index.add(to_index, indexed_file=self._log.end.file, indexed_offset=self._log.end.offset)
        self._sorter.advance()

    def _surely_collected(self) -> int:
        """At or above what was collected. A transaction that is here from its prewrite on committed after all that was removed: it got its
        commit_ts after its prewrite was answered. Others may lack their prewrites, which the margin covers. And whatever was collected
        was below the mark, whose binlog stays."""
        first_ts, newest_ts = self._index.first_whole(self._log.first.file), self._index.newest_ts(self._log.first.file)
        return newest_ts if first_ts is None else min(first_ts + (PREWRITES_KEPT_MS << 18), newest_ts)

    def _collect(self, ts: int) -> None:
        """Files and rows a while older than `ts`: later commits need their prewrites, and those without an end theirs."""
        with self._changed:
            waiting = self._sorter.held(longer_than_s=0, now_s=monotonic())
        with_margin = min([ts - (PREWRITES_KEPT_MS << 18), *(one.start_ts - 1 for one in waiting)])
        try:
            self._gc_record.record(ts)
        except StorageFull:
            return  # the next collection tries again
        with suppress(StorageFull):  # files go first then: they are what makes room
            if self._index.forget(with_margin):
                with self._changed:
                    self._work.append(lambda: self._collect(ts))
                return
        front = self._sorter.front() or self._log.end
        gone = set(self._index.files_upto(with_margin))
        for file in self._log.files():
            if file not in gone or file >= front.file:
                break
            self._log.remove(file)
        with suppress(StorageFull):  # the next collection forgets them too
            self._index.forget_files(self._log.first.file)


class PumpReader:
    """One of the stream, from any place. Safe to share between threads. Close it."""

    def __init__(self, log: ValueLog, index: IndexReader, storage: Storage) -> None:
        self._log, self._index, self._storage = log, index, storage
        self._lock = Lock()

    def read(self, after_ts: int) -> tuple[Sequence[Streamed], int]:
        """What comes next, and the commit_ts up to which that is all. Raises LogBroken."""
        with self._lock:
            return self._read(after_ts)

    def _read(self, after_ts: int) -> tuple[Sequence[Streamed], int]:
        after_ts = max(after_ts, self._storage.gc_ts)
        upto_ts = self._storage.max_commit_ts
        binlogs: list[Streamed] = []
        size = 0
        ends = self._index.ends(after_ts, upto_ts, READ_COUNT_MAX)
        for end in ends:
            try:
                payload = self._payload(end)
            except LogBroken:
                if end.commit_ts > self._storage.gc_ts:
                    raise
                return binlogs, self._storage.gc_ts  # collected meanwhile
            if payload is not None:
                binlogs.append(Streamed(end.start_ts, end.commit_ts, payload))
                size += len(payload)
            if size >= READ_BYTES_MAX:
                return binlogs, end.commit_ts
        return binlogs, ends[-1].commit_ts if len(ends) == READ_COUNT_MAX else max(upto_ts, after_ts)

    def _payload(self, end: End) -> bytes | None:
        payload = self._log.read(end.end).payload
        if end.start_ts == end.commit_ts:
            return payload
        prewrite = self._kept(end.prewrite)
        if prewrite is None:
            self._storage.unmatched += 1
            return None
        return streamed(payload, prewrite.payload)

    def binlog_at(self, ts: int) -> Binlog | None:
        """The prewrite that started then, or what was committed then."""
        with self._lock:
            pointer = self._index.pointer_at(ts)
        return self._kept(pointer)

    def _kept(self, pointer: Pointer | None) -> Binlog | None:
        """None also where its file was collected: the index may still name it. Raises LogBroken."""
        try:
            return None if pointer is None else self._log.read(pointer)
        except LogBroken:
            if pointer is None or pointer.file >= self._log.first.file:
                raise
            return None

    def close(self) -> None:
        with self._lock:
            self._index.close()


def _place(pointer: Pointer) -> ValuePlace:
    return ValuePlace(pointer.file, pointer.offset)


def _end(pointer: Pointer) -> ValuePlace:
    return ValuePlace(pointer.file, pointer.offset + pointer.size)
