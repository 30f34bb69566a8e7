"""Whether PD answers, which has everything about TiKV."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from sidecar.feeds.kv.checks import checks as of_key_values
from sidecar.shared.config import TikvSection
from sidecar.shared.process.checks import Check, Checking, CheckOptions, ok
from sidecar.shared.tikv.pd import PdClient


def checks(_: CheckOptions) -> Sequence[Check[Any]]:
    return of_key_values(lambda it: pd(it.config.tikv, it.opened))


def pd(section: TikvSection, opened: ExitStack) -> Checking[None]:
    client = PdClient(section)
    opened.callback(client.close)
    yield ok(f"PD of cluster {client.cluster_id()} answers: TSO {client.tso()}")
