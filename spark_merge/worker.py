"""The merge worker: the long-running Spark application that delivers one log to its sinks (`ticdc-dump merge`).

    new segments -> Job.run_once -> every sink has accepted -> delivered.json -> again

- Its only position is the sinks' last accepted segment: it can be killed at any moment and started anywhere else.
- Started by a sidecar it belongs to that owner's epoch. Segments of a later owner end it: the later owner has a worker of its
  own, and two must not deliver to one sink.
- It ends when its standard input does, if told so: a sidecar that is killed leaves no worker behind.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from threading import Event, Thread

from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.errors import TicdcDumpError
from sidecar.log import storage
from sidecar.log.delivered import DELIVERED_NAME, DeliveryReport
from spark_merge.contract import Delivered
from spark_merge.job import Job, JobSettings, session
from spark_merge.read import new_manifests
from spark_merge.sinks.registry import open_sink

IDLE_WAIT_S = 0.1
"""Between two looks into an idle log: little beside a batch, and one listing of the log ten times a second at most."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`log_id` names the log for ever, in every sink."""

    job: JobSettings
    sinks: tuple[str, ...]
    log_id: str
    master: str
    memory: str


class Worker:
    """Runs until told to end or until an error ends it."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.ending = Event()
        self._dropped: dict[TableName, int] = {}
        self._counted: Seq | None = None
        self._seq: Seq | None = None
        self._upto_ts = CommitTs(0)

    def run(self) -> None:
        """Raises what stops it: SinkError, LogBroken, StorageFull or what Spark died of. All of it is safe to start again."""
        sinks = [open_sink(uri, log_id=self.settings.log_id) for uri in self.settings.sinks]
        try:
            self._report("starting", _hindmost([sink.look() for sink in sinks]))
            self._deliver(Job(session(master=self.settings.master, memory=self.settings.memory), sinks, self.settings.job))
        except TicdcDumpError as error:
            self._report("stopped", self._seq, error=str(error))
            raise
        finally:
            for sink in sinks:
                sink.close()

    def _deliver(self, job: Job) -> None:
        job.warm_up()
        self._report("running", job.accepted())
        while not self.ending.is_set():
            batch = job.run_once()
            if batch:
                self._count(batch)
                self._report("running", job.accepted())
            else:
                self.ending.wait(IDLE_WAIT_S)

    def _count(self, batch: list[Delivered]) -> None:
        for segment in batch:
            if self._counted is None or segment.seq > self._counted:  # each sink has its own, of the same rows
                self._counted = segment.seq
                for table, rows in segment.tables.items():
                    if rows.dropped:
                        self._dropped[table] = self._dropped.get(table, 0) + rows.dropped

    def _report(self, state: str, seq: Seq | None, *, error: str = "") -> None:
        """`seq`: the last segment that all sinks have accepted; its ts is told where the log still has it."""
        self._seq = seq
        if seq is not None and not error:
            last = new_manifests(self.settings.job.log, after=Seq(seq - 1), limit=1)
            self._upto_ts = last[0].upto_ts if last and last[0].seq == seq else self._upto_ts
        report = DeliveryReport(
            seq=self._seq,
            upto_ts=self._upto_ts,
            state=state,
            written_ms=int(time.time() * 1000),
            pid=os.getpid(),
            error=error,
            dropped=dict(self._dropped),
        )
        storage.write_atomically(self.settings.job.log, DELIVERED_NAME, report.to_json())


def _hindmost(accepted: list[Seq | None]) -> Seq | None:
    known = [seq for seq in accepted if seq is not None]
    return min(known) if known and len(known) == len(accepted) else None


def end_with_stdin(worker: Worker) -> None:
    """Let `worker` end when its standard input does: whoever started it is gone."""

    def wait() -> None:
        while sys.stdin.buffer.read(1):
            pass
        worker.ending.set()

    Thread(target=wait, name="stdin", daemon=True).start()  # a read of stdin cannot be told to end, and nobody waits for it
