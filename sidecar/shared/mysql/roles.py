"""Whose server a session is with, and what it does there."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    READ_SOURCE = "reads the present of the source: chunks, schemas, rows of a verification"
    MARK = "writes marks at the source"
    READ_TARGET = "reads back the rows of a sink's target"
    WRITE_TARGET = "writes rows to a sink's target"
    ALTER_TARGET = "carries out DDLs at a sink's target"

    @property
    def at_source(self) -> bool:
        return self in (Role.READ_SOURCE, Role.MARK)

    @property
    def writes_target(self) -> bool:
        return self in (Role.WRITE_TARGET, Role.ALTER_TARGET)
