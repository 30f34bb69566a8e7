"""Whether a server compares texts as their collations say.

TiDB with `new_collations_enabled_on_first_bootstrap = false`, the default of clusters that began before 6.0, compares the bytes of all
texts (pingcap/tidb pkg/util/collate/collate.go::GetCollator): letters of either case are never equal there, nor a text and the same with
spaces at its end. A comparison shows it to any account.
"""

from __future__ import annotations

from typing import Any, Protocol

from sidecar.shared.mysql.flavour import Flavour

PADS = "('a' COLLATE utf8mb4_bin = 'a ')"
"""True where collations count. In SQL."""


class _Queried(Protocol):
    def rows(self, sql: str, values: Any = None) -> tuple[tuple[Any, ...], ...]: ...


def by_bytes(session: _Queried, flavour: Flavour) -> bool:
    """Raises pymysql's errors."""
    return flavour is Flavour.TIDB and not int(session.rows(f"SELECT {PADS}")[0][0])
