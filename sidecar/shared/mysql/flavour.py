"""What a server that speaks MySQL's protocol is, by its own VERSION()."""

from __future__ import annotations

from enum import Enum


class Flavour(Enum):
    TIDB = "TiDB"
    MARIADB = "MariaDB"
    MYSQL = "MySQL"


def flavour_of(version: str) -> Flavour:
    """`version`: what `SELECT VERSION()` returns. A server that names no other product is MySQL."""
    return next((one for one in (Flavour.TIDB, Flavour.MARIADB) if one.value.lower() in version.lower()), Flavour.MYSQL)
