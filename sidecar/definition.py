"""The changefeed that this sidecar serves, as TiCDC's etcd defines it: read at the start of each term and watched during it.

A changefeed is operated by others while we run: paused, its filter or sink changed, removed, made again. What changes how the
stream must be read ends the term, and the next one begins with the new definition; what cannot be served ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Event, Thread

from sidecar.adapters.changefeed_info import changefeed
from sidecar.adapters.etcd_changefeed import read_changefeed_info
from sidecar.adapters.etcd_client import EtcdClient, changefeed_root
from sidecar.config import Config
from sidecar.core.changefeed import Changefeed, ChangefeedName
from sidecar.core.model import TableName, TableSchema
from sidecar.core.suitability import problems, problems_of_key_values
from sidecar.errors import CoordinationLost, FeedChanged, FeedUnsuitable, TicdcDumpError

LOOK_EVERY_S = 5.0
"""A read of one key of etcd; TiCDC itself takes as long to carry a change out."""


@dataclass(frozen=True, slots=True)
class Definition:
    """`root`: of this changefeed's keys in etcd."""

    changefeed: Changefeed
    root: str

    @property
    def log_id(self) -> str:
        """Names the changefeed and its incarnation, for ever."""
        return f"{self.changefeed.name}/{self.changefeed.incarnation}"


def read_definition(client: EtcdClient, config: Config) -> Definition:
    """Raises ConfigError for a changefeed that is not there."""
    section = config.changefeed
    name = ChangefeedName(section.cluster, section.namespace, section.id)
    found = changefeed(name, read_changefeed_info(client, name))
    return Definition(found, changefeed_root(name, found.incarnation))


def check_suitable(found: Changefeed, schemas: Mapping[TableName, TableSchema] | None) -> None:
    """Raises FeedUnsuitable naming everything that makes a dump of the changefeed impossible or wrong. `schemas` None: its rows come
    as raw key-values.

    Its state is not judged: a changefeed that is paused or has failed sends nothing now, and will go on where it stopped.
    """
    running = replace(found, state="normal", error=None)
    against = problems_of_key_values(running) if schemas is None else problems(running, schemas)
    if against:
        raise FeedUnsuitable(
            f"changefeed {found.name} cannot be dumped: " + "; ".join(f"{problem.setting}: {problem.what}" for problem in against),
            hint="; ".join(problem.hint for problem in against),
        )


class DefinitionWatch:
    """Looks in the background whether `definition` still holds; `check` raises if it does not."""

    def __init__(self, client: EtcdClient, config: Config, definition: Definition) -> None:
        self._client, self._config, self._definition = client, config, definition
        self._end = Event()
        self._error: TicdcDumpError | None = None
        self._thread = Thread(target=self._run, name="definition", daemon=True)
        self._thread.start()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while self._error is None and not self._end.wait(LOOK_EVERY_S):
            try:
                now = read_definition(self._client, self._config)
                if _stream(now.changefeed) != _stream(self._definition.changefeed):
                    self._error = FeedChanged(
                        f"the definition of changefeed {now.changefeed.name} changed in etcd",
                        hint="nothing: the sidecar attaches again with the new definition",
                    )
            except CoordinationLost:
                continue  # the lease tells when that has lasted too long
            except TicdcDumpError as error:
                self._error = error


def _stream(found: Changefeed) -> Changefeed:
    """What decides how the stream is read; a state or an error does not."""
    return replace(found, state="", error=None)
