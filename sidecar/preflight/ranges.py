"""How a dump would read each table, by the source's plans: what would make it slower and slower, and what would make it fail.

It must not know what a plan looks like: adapters/tidb/ranges.py does.
"""

from __future__ import annotations

from sidecar.adapters.tidb.ranges import slow_reads
from sidecar.feeds.checks import Tables
from sidecar.preflight.source import REPORTED_MAX, patient
from sidecar.shared.config import SourceSection
from sidecar.shared.process.checks import Checking, listed, ok, warning
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.scope import LiveScope

REQUESTED_MAX_S = 30.0
SETTING = "dumpstart --tables, --chunk-rows"


def read_ranges(section: SourceSection, changefeed: Changefeed, carried: Tables, *, server_tz: str) -> Checking[None]:
    """A key that TiDB cannot range makes a dump the slower the more it has read, without an error."""
    scope = LiveScope(server_tz=server_tz)
    scope.follow(changefeed, carried)
    conditions = {name: where for name, schema in carried.items() for passes, where in [scope.through(name)] if schema.key and passes}
    slow = slow_reads(patient(section), conditions, max_s=REQUESTED_MAX_S)
    hint = "give them a key that TiDB can range, or dump them with larger chunks (--chunk-rows) or not at all: --tables '*.*,!schema.table'"
    for name, why in list(slow.why.items())[:REPORTED_MAX]:
        yield warning(f"{name}: {why}", setting=SETTING, hint=hint)
    if len(slow.why) > REPORTED_MAX:
        yield warning(f"so are {listed(list(slow.why)[REPORTED_MAX:], most=REPORTED_MAX)}", setting=SETTING, hint=hint)
    if slow.unasked:
        what = f"{slow.unasked} of {len(conditions)} tables were not checked: {REQUESTED_MAX_S:.0f} s were not enough"
        yield warning(what, setting="dumpstart --dry-run", hint="see dumpstart --dry-run with --tables for those that are large")
    if not slow.why:
        yield ok(f"nothing is against reading {len(conditions) - slow.unasked} tables in pieces, by the source's plans")
