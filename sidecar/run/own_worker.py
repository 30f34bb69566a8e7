"""The merge worker that the sidecar manages, if it manages one: of one epoch at a time."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from sidecar.adapters.tidb.remote_reads import RemoteReads
from sidecar.adapters.tidb.source import MakeReaders
from sidecar.run.log_events import worker_died
from sidecar.run.logs import say
from sidecar.run.merge_process import Death, MergeProcess, unexplained, worker_state
from sidecar.shared.config import Config
from sidecar.shared.log.deliveries import LogDeliveries
from sidecar.shared.log.storage import log_folder


def remote_reads(config: Config, worker: OwnWorker, closing: ExitStack, *, cluster_id: int) -> MakeReaders | None:
    """What makes readers that are tasks of `worker`'s Spark; None: the sidecar reads. `closing` ends them. `cluster_id`: of the cluster
    that the changefeed reads; 0: not known. Raises ConfigError."""
    if not config.reads_on_spark:
        return None
    on_cluster, port = not config.spark.master.startswith("local"), config.dump.read_port
    log = log_folder(config.log.uri)
    remote = RemoteReads(lambda wanted: worker.tell(wanted.line()), log, on_cluster=on_cluster, port=port, cluster_id=cluster_id)
    closing.callback(remote.close)
    return remote.readers


class OwnWorker:
    """`epoch`: that it serves, None while there is none. `deaths`: of all that there were. Where it is not `managed`, it is never there."""

    def __init__(self, config_path: Path, *, managed: bool) -> None:
        self._command = [sys.executable, "-m", "sidecar", "merge", "--config", str(config_path), "--end-with-stdin"]
        self._managed, self._log_id, self._last_line = managed, "", b""
        self._process: MergeProcess | None = None
        self.deaths = 0
        self.epoch: int | None = None

    def start(self, epoch: int, log_id: str) -> None:
        """Unless there is one."""
        if not self._managed or self._process is not None:
            return
        self._log_id = log_id
        self._process, self.epoch = MergeProcess(self._command_of(epoch), self._note_death), epoch
        if self._last_line:
            self._process.tell(self._last_line)
        self._process.start()

    def tell(self, line: bytes) -> None:
        """As `MergeProcess.tell`, whether there is a worker or not."""
        self._last_line = line
        if self._process is not None:
            self._process.tell(line)

    def serve(self, epoch: int) -> None:
        """Let the worker deliver what this epoch of the same owner writes, too: it opens its sinks again, and keeps its Spark."""
        if self._process is not None and self.epoch != epoch:
            self.epoch = epoch
            self._process.serve(self._command_of(epoch), b"%d\n" % epoch)

    def end(self, *, at_once: bool) -> None:
        if self._process is not None:
            ended, self._process, self.epoch = self._process, None, None
            ended.close(at_once=at_once)

    def state(self, deliveries: LogDeliveries) -> str:
        """As of SidecarStatus."""
        return "external" if self._process is None else worker_state(self._process.pid(), deliveries.report)

    def died(self, deliveries: LogDeliveries) -> str:
        """Why the last worker died, if it has not reported that; empty otherwise."""
        return unexplained(self._process.last if self._process is not None else None, deliveries.report)

    def _command_of(self, epoch: int) -> list[str]:
        return [*self._command, "--log-id", self._log_id, "--epoch", str(epoch)]

    def _note_death(self, death: Death) -> None:
        self.deaths += 1
        say(worker_died(death))

    def check(self) -> None:
        """Raises what keeps a worker from being started at all."""
        if self._process is not None:
            self._process.check()
