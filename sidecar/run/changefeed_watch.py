"""The changefeed that this sidecar serves, as TiCDC's etcd defines it: read at the start of each term and watched during it.

A changefeed is operated by others while we run: paused, its filter or sink changed, removed, made again. What changes how the
stream must be read ends the term, and the next one begins with the new definition; what cannot be served ends the process.
"""

from __future__ import annotations

from dataclasses import replace
from threading import Event

from sidecar.adapters.etcd.changefeed import read_changefeed_info
from sidecar.adapters.etcd.client import EtcdClient
from sidecar.config import Config
from sidecar.errors import CoordinationLost, FeedChanged
from sidecar.process.background import Background
from sidecar.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.ticdc.changefeed_info import changefeed

LOOK_EVERY_S = 5.0
"""A read of one key of etcd; TiCDC itself takes as long to carry a change out."""


def read_changefeed(client: EtcdClient, config: Config) -> Changefeed:
    """Raises ConfigError for a changefeed that is not there."""
    section = config.changefeed
    name = ChangefeedName(section.cluster, section.namespace, section.id)
    return changefeed(name, read_changefeed_info(client, name))


class ChangefeedWatch:
    """Looks in the background whether `changefeed` is still so defined; `check` raises if it is not."""

    def __init__(self, client: EtcdClient, config: Config, changefeed: Changefeed) -> None:
        self._client, self._config, self._changefeed = client, config, changefeed
        self._looking = Background(self._look, name="changefeed")
        self.check, self.close = self._looking.check, self._looking.close

    def _look(self, ending: Event) -> None:
        while not ending.wait(LOOK_EVERY_S):
            try:
                now = read_changefeed(self._client, self._config)
            except CoordinationLost:
                continue  # the lease tells when that has lasted too long
            if _stream(now) != _stream(self._changefeed):
                raise FeedChanged(
                    f"the definition of changefeed {now.name} changed in etcd",
                    hint="nothing: the sidecar attaches again with the new definition",
                )


def _stream(found: Changefeed) -> Changefeed:
    """What decides how the stream is read; a state or an error does not."""
    return replace(found, state="", error=None)
