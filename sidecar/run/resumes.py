"""Each resume of the changefeed is examined once, also one that happened while no sidecar ran.

etcd keeps an hour of its history. The revision of the definition that was examined last is kept below our own root, so that the next
owner continues there. A change that is older than the history is reported, for its details cannot be known.
"""

from __future__ import annotations

from collections.abc import Callable

from sidecar.adapters.etcd.changefeed import read_life
from sidecar.adapters.etcd.keys import Keys, Put
from sidecar.shared.config import Config
from sidecar.shared.errors import Compacted
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.ticdc.resumes import check_resume


class Resumes:
    """`begin` comes once, before `look` is of any effect; then one thread looks."""

    def __init__(self, client: Keys, name: ChangefeedName, root: str, note: Callable[[str], object]) -> None:
        self._client, self._name, self._note = client, name, note
        self._key = f"{root}/definition"
        self._looked: int | None = None

    def begin(self, *, new_log: bool) -> None:
        """A new log has lost nothing before it began. Raises as `look`."""
        entry = None if new_log else self._client.get(self._key)
        if entry is None:
            self._keep()
        else:
            self._looked = int(entry.value)
            self.look()

    def look(self) -> None:
        """Raises FeedUnsuitable for a resume that omitted something. The next call raises it again."""
        at = read_life(self._client, self._name)
        if at is None or self._looked is None or at.revision == self._looked:
            return
        newest = at.revision
        try:
            while at.revision > self._looked:
                at = read_life(self._client, self._name, revision=at.revision) or at
                before = read_life(self._client, self._name, revision=at.revision - 1)
                if before is None:
                    break
                check_resume(self._name, before, at)
                at = before
        except Compacted:
            self._note(
                f"changefeed {self._name} was changed while no sidecar looked, longer ago than etcd's history: whether it was resumed with "
                "--overwrite-checkpoint-ts since is not known; if it was, what it skipped is missing: start a new log and dump again"
            )
        self._keep(newest)

    def _keep(self, revision: int | None = None) -> None:
        if revision is None:
            now = read_life(self._client, self._name)
            revision = now.revision if now is not None else 0
        self._client.transact([], [Put(self._key, str(revision).encode())])
        self._looked = revision


def reports_no_gap(config: Config, changefeed: Changefeed) -> bool:
    """Whether a resume from another checkpoint leaves the changefeed's incarnation as it is, and its messages without a word, and etcd has
    its life."""
    return config.encoded and changefeed.new_architecture and not config.changefeed.file
