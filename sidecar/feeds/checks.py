"""What the preflight's common checks find, by key: a feed's own checks may need them, and stand among them.

A way of the changes has its list in its `checks.py`; the preflight puts both together.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from sidecar.adapters.etcd.keys import Keys
from sidecar.shared.model.nouns import Lane, ReadEnd, Seq, TableName, TableSchema, physical_ms
from sidecar.shared.process.checks import CheckFinding, Key, failed
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.suitability import Problem

Tables = Mapping[TableName, TableSchema]


class LogEnd(Protocol):
    """Of the log's last manifest: who wrote it, where the next owner reads on, and its dumps."""

    @property
    def epoch(self) -> int: ...
    @property
    def seq(self) -> Seq: ...
    @property
    def positions(self) -> Mapping[Lane, int]: ...
    @property
    def incarnations(self) -> Mapping[Lane, str]: ...
    @property
    def read_ends(self) -> Mapping[Lane, ReadEnd]: ...
    @property
    def dumps(self) -> tuple[dict[str, Any], ...]: ...


ETCD: Key[Keys] = Key("etcd")
CHANGEFEED: Key[Changefeed] = Key("changefeed")
STATE: Key[None] = Key("changefeed state")
TIDB: Key[None] = Key("tidb")
CLOCK: Key[float] = Key("clock")
"""Seconds that the cluster's clock is before ours."""
SCHEMAS: Key[Tables] = Key("schemas")
"""All that the account sees."""
TABLES: Key[Tables] = Key("tables")
"""Those that the changefeed has, without the watermark table."""
RIGHTS: Key[bool] = Key("select rights")
"""Whether the account is sure to see every table."""
LOG: Key[LogEnd | None] = Key("log")
"""None: it is new."""
MARK: Key[tuple[str, float]] = Key("watermark write")
"""The probe's uuid, and when it was written, by our clock (Unix time)."""


def of_problem(problem: Problem) -> CheckFinding:
    return failed(problem.what, setting=f"{problem.setting} (changefeed)", hint=problem.hint)


def age_s(ts: int, *, clock_ahead_s: float) -> float:
    """Of a TSO, by the clock that made it as far as that is known."""
    return time.time() + clock_ahead_s - physical_ms(ts) / 1000
