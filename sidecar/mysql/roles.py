"""Whose server a session is with, and what it does there."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    READ_SOURCE = "reads the present of the source: chunks, schemas, rows of a verification"
    MARK = "writes marks at the source"
    READ_TARGET = "reads back the rows of a sink's target"
    WRITE_TARGET = "writes rows and DDLs to a sink's target"

    @property
    def at_source(self) -> bool:
        return self in (Role.READ_SOURCE, Role.MARK)
