"""What is said of a sink that lacks rows of some tables, and the dump that brings them. For log lines and `ticdc-dump check`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from sidecar.shared.model.nouns import TableName
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.shared.ticdc.table_rules import exact_rule

NAMED_MAX = 10
"""Tables that one line names."""


def named(tables: Sequence[object]) -> str:
    return ", ".join(map(str, tables[:NAMED_MAX])) + (f" and {len(tables) - NAMED_MAX:,} more" if len(tables) > NAMED_MAX else "")


def completing_dump(changefeed: ChangefeedName, sinks: Sequence[str], tables: Sequence[TableName]) -> str:
    """The one command that makes these tables complete at the sinks; more than NAMED_MAX of them, with all others."""
    words = ["ticdc-dump", "dumpstart", "-c", changefeed.id]
    words += ["-n", changefeed.namespace] if changefeed.namespace != "default" else []
    words += [word for sink in sinks for word in ("--sink", sink)]
    words += ["--tables", ",".join(map(exact_rule, tables))] if len(tables) <= NAMED_MAX else []
    return shlex.join(words)
