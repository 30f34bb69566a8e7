"""What a dump's tasks read with, as the settings have it, and whether a task where it runs reaches all of that.

`try_reads` reads what a chunk's reader would: by the same sessions, with the password from where the executor's host keeps it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import msgspec

from sidecar.shared.config import Config
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.log.storage import list_names, log_folder
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.tikv_reads import try_tikv
from spark_merge.worker.read_task import TRIED_S, ReadingSettings, ReadSource
from spark_merge.worker.source_server import source_server


def reading_settings(config: Config) -> ReadingSettings:
    """As the settings have it; no secret is in it."""
    source = config.source
    read_source = ReadSource(source_server(source), source.tls, source.statement_timeout_s, source.retry_s)
    tikv = config.tikv if config.tikv.pd else None
    return ReadingSettings(read_source, log_folder(config.log.uri), config.certificate.row_sums, tikv)


@dataclass(frozen=True, slots=True)
class Unreached:
    """`setting`: which names it."""

    setting: str
    what: str
    hint: str


@dataclass(frozen=True, slots=True)
class ReadsTried:
    """Of one task. `folder`: where its executor runs, which has Spark's id of it on a cluster."""

    host: str
    folder: str
    files: tuple[str, ...]
    unreached: tuple[Unreached, ...]


def try_reads(settings: ReadingSettings, sql: bool, tikv: bool, _: int) -> ReadsTried:  # Spark gives the place
    """A task: list the log, and read from TiDB or TiKV where chunks are read from there."""
    files: list[str] = []
    unreached: list[Unreached] = []

    def attempt(setting: str, action: Callable[[], None]) -> None:
        try:
            action()
        except TicdcDumpError as error:
            unreached.append(Unreached(setting, error.message, error.hint))

    def list_log() -> None:
        files.extend(list_names(settings.log, deep=False))

    attempt("log.uri", list_log)
    if sql:
        attempt("source", lambda: _select(settings.source))
    if tikv and settings.tikv is not None:
        section = msgspec.structs.replace(settings.tikv, outage_max_s=min(settings.tikv.outage_max_s, TRIED_S))
        attempt("tikv.pd", lambda: try_tikv(section))
    return ReadsTried(socket.gethostname(), os.getcwd(), tuple(files), tuple(unreached))


def _select(source: ReadSource) -> None:
    with closing(MysqlSession(source, Role.READ_SOURCE)) as session:
        carried_out(session, lambda: session.rows("SELECT 1"), doing="a SELECT of a Spark task")
