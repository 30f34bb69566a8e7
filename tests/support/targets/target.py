"""What the grid of recordings asks of a sink."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import CommitTs, TableName
from tests.support.recorded_target import Case, Read, RecordedLog
from tests.support.replaying import Stage

numbers = itertools.count()
"""A process's outputs on one server have different names."""


def _raised(error: SinkError) -> str:
    raise error


def _nothing_else(*_: object) -> None: ...


def _always(*_: object) -> bool:
    return True


@dataclass
class Target:
    """One output, empty at first. `uri` may change while it is written: an operator adds what an error says.

    - `rows`: a table's rows as canonical text.
    - `check`: what the sink promises of a finished output besides.
    - `mended`: the URI with which the worker is started again after this error; raises the error if there is none.
    - `looks`: after a batch with this last segment the tables are those of the source; None: only the finished output can be judged.
    - `judged`: this table at this moment, too.
    - `drop`: of a table of the target, by somebody else."""

    uri: str
    rows: Read
    check: Callable[[Stage, RecordedLog], object] = _nothing_else
    mended: Callable[[SinkError], str] = _raised
    looks: Callable[[Manifest], bool] | None = None
    judged: Callable[[TableName, CommitTs], bool] = _always
    drop: Callable[[TableName], object] = _nothing_else


@dataclass(frozen=True)
class Place:
    """`server`: the fixture that the sink names; None where it needs none. `folder`: of the test."""

    server: Any
    folder: Path
    log: RecordedLog
    case: Case

    @property
    def amid_schema_changes(self) -> bool:
        return "ddl" in self.case.name


@dataclass(frozen=True)
class RecordedSink:
    """`group`: of xdist, empty where it shares no server. `still`, `amid`: what `make test` plays of recordings without and with schema
    changes; `ddl_names`, `ddl_feeds`, `seeds`: of the latter what `make matrix` plays, the feeds by turns."""

    name: str
    target: Callable[[Place], AbstractContextManager[Target]]
    still: Sequence[Case]
    amid: Sequence[Case] = ()
    server: str = ""
    group: str = ""
    ddl_names: Sequence[str] = ("ddl", "ddl-new")
    ddl_feeds: Sequence[str] = ("kv",)
    seeds: int = 5

    def ddl_cases(self) -> list[Case]:
        return [
            Case(name, "binlog" if name.startswith("binlog") else self.ddl_feeds[seed % len(self.ddl_feeds)], brackets, seed)
            for name, brackets, seed in itertools.product(self.ddl_names, ("watermark", "snapshot"), range(self.seeds))
        ]


def after_ddls(manifest: Manifest) -> bool:
    return bool(manifest.ddls)


def after_each(_: Manifest) -> bool:
    return True


# ---- DDLs that move rows without a change of each ----------------------------------------------------------------------------------------

MOVE_ROWS: Mapping[str, frozenset[str]] = {
    "truncate partition": frozenset({"ledger"}),
    "exchange partition": frozenset({"ledger", "swap_me"}),
}
"""Words of the statements of this kind in the recordings, and the tables that are not as the source's from then on."""


def moves_rows(ddl: DdlRecord) -> frozenset[str]:
    """The tables of which it does."""
    return next((tables for words, tables in MOVE_ROWS.items() if words in ddl.query.lower()), frozenset())


def stamps(log: RecordedLog) -> list[CommitTs]:
    """Of the statements that move rows."""
    return [ddl.commit_ts for manifest in log.manifests for ddl in manifest.ddls if moves_rows(ddl)]
