"""What a watcher of holes is: it looks at one place, and says what it saw and how far it has looked.

- `look` gives a sighting for each cause. Those of one look become durable together, so only the last one has `seen`: how far the watcher
  has looked. One that is made from it again sees what comes after it, and may see a cause twice, but never passes over one.
- A cause is of tables that the changefeed has: where the names are known and none of them is inside its rules, there is no sighting.
- A cause that lasts is a hole when it begins and again when it ends: a dump that reads in between reads a part.
- `unwatched`: what this watcher cannot see, with the way out, once it has looked; empty where it sees all. It looks no more then.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import msgspec

from sidecar.shared.model.hole import Sighting
from sidecar.shared.model.nouns import CommitTs

JOBS, IMPORTS, RESTORES, LEASES, RESUMES, DEFINITION, VERSIONS = (
    "ddl jobs", "imports", "restores", "import leases", "resumes", "definition", "versions",
)  # fmt: skip
"""The watchers' names, as in manifests."""


class Watcher(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def unwatched(self) -> str: ...

    def look(self) -> list[Sighting]:
        """Raises what its place raises: the next look is for the same. So it is where nothing is returned for an outage."""


class Looked(NamedTuple):
    """Where a watcher begins: where the log says that it had looked; `begin_ts`, the log's end, if it says nothing."""

    seen: str | None
    begin_ts: CommitTs


def seen_text(**fields: object) -> str:
    return msgspec.json.encode(fields, order="sorted").decode()


def seen_fields(text: str | None, name: str) -> dict[str, Any]:
    """Of `seen_text`; empty for a watcher that has not looked yet, and for a text that is not its own: it begins at the log's end then."""
    try:
        fields = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return fields if isinstance(fields, dict) and name in fields else {}
