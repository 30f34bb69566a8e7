"""Tasks that read chunks, in threads of this process in the place of Spark's: the same server, the same calls and the same readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sidecar.adapters.tidb.remote_reads import RemoteReads
from sidecar.shared.config import SourceSection, TikvSection
from sidecar.shared.log.storage import Folder
from spark_merge.worker.read_task import ReadingSettings, ReadSource
from spark_merge.worker.reading import ReadingJobs
from spark_merge.worker.source_server import source_server


class TasksHere:
    """`reading.ReadTasks`."""

    def each(self, work: Sequence[Callable[[], int]], *, group: str) -> list[int]:
        return [one() for one in work]

    def cancel(self, group: str) -> None: ...

    def driver_host(self) -> str:
        return "localhost"


def reading_settings(source: SourceSection, log: Folder, *, row_sums: bool = False, tikv: TikvSection | None = None) -> ReadingSettings:
    read_source = ReadSource(source_server(source), source.tls, source.statement_timeout_s, source.retry_s)
    return ReadingSettings(read_source, log, row_sums, tikv)


@contextmanager
def tasks_here(settings: ReadingSettings, *, on_cluster: bool = False, notices: list[str] | None = None) -> Iterator[RemoteReads]:
    """A server whose readers are here. `on_cluster`: with TLS."""
    said: list[str] = [] if notices is None else notices
    jobs = ReadingJobs(settings, TasksHere(), said.append)
    remote = RemoteReads(jobs.want, settings.log, on_cluster=on_cluster)
    try:
        yield remote
    finally:
        remote.close()
        jobs.close()
