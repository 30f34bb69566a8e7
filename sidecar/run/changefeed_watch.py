"""The changefeed that this sidecar serves, as TiCDC's etcd defines it: read at the start of each term and watched during it.

A changefeed is operated by others while we run: paused, its filter or sink changed, removed, made again. What changes how the
stream must be read ends the term, and the next one begins with the new definition; what cannot be served ends the process.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from threading import Event

import stamina

from sidecar.adapters.etcd.changefeed import read_changefeed_info
from sidecar.adapters.etcd.keys import Keys
from sidecar.adapters.etcd.opening import open_keys
from sidecar.run.logs import note
from sidecar.shared.config import Config
from sidecar.shared.config_files import read_definition
from sidecar.shared.errors import ConfigError, CoordinationLost, FeedChanged
from sidecar.shared.process.background import Background
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed, of_binlog
from sidecar.shared.ticdc.definition_file import definition_in

SETTLE_S = 1.0
"""A file of some kilobytes is written in less."""
LOOK_EVERY_S = 5.0
"""A read of one key of etcd; TiCDC itself takes as long to carry a change out."""


def read_changefeed(client: Keys, config: Config) -> Changefeed:
    """As the feed has it: TiCDC's in etcd, or in a file; of TiDB-Binlog, what the settings make. Raises ConfigError for one that is not
    there."""
    if config.feed == "binlog":
        binlog = config.binlog
        return of_binlog(binlog.name, filter=binlog.filter, case_sensitive=binlog.case_sensitive, start_ts=binlog.initial_commit_ts)
    section = config.changefeed
    name = ChangefeedName(section.cluster, section.namespace, section.id)
    if section.file:
        return changefeed(name, definition_in(read_definition(section.file), name, place=section.file, brokers=config.kafka.brokers))
    return changefeed(name, read_changefeed_info(client, name))


def settled_changefeed(client: Keys, config: Config, before: Changefeed) -> Changefeed:
    """For a term. A file may be written at this moment: what is no definition leaves the one `before`, another one counts if it is still
    there a moment later. Raises as `read_changefeed` where etcd has it."""
    if not config.changefeed.file:
        return read_changefeed(client, config)
    try:
        now = read_changefeed(client, config)
        if _stream(now) == _stream(before):
            return now
        time.sleep(SETTLE_S)
        return now if _stream(read_changefeed(client, config)) == _stream(now) else before
    except ConfigError as error:
        note(f"{error}; until then the definition is the one that it had")
        return before


def log_of(config: Config) -> str:
    """The log's id, as soon as etcd answers: a machine may come up before its etcd does. Raises ConfigError for a changefeed that is not
    there."""
    log = ""
    with closing(open_keys(config.etcd)) as client:
        for attempt in stamina.retry_context(CoordinationLost, attempts=None, timeout=None, wait_initial=1.0, wait_max=30.0):
            with attempt:
                log = read_changefeed(client, config).log_id
    return log


class ChangefeedWatch:
    """Looks in the background whether `changefeed` is still so defined; `check` raises if not.

    A file may be looked at while it is written: what it says counts at the second look, and what is no definition then is reported, and
    changes nothing.
    """

    def __init__(self, client: Keys, config: Config, changefeed: Changefeed) -> None:
        self._client, self._config, self._changefeed = client, config, changefeed
        self._looking = Background(self._look, name="changefeed")
        self.check, self.close = self._looking.check, self._looking.close

    def _look(self, ending: Event) -> None:
        file, before = self._config.changefeed.file, self._changefeed
        failed_looks = 0
        while not ending.wait(LOOK_EVERY_S):
            try:
                now = read_changefeed(self._client, self._config)
            except CoordinationLost:
                continue  # the lease ends when that has lasted too long
            except ConfigError as error:
                if not file:
                    raise
                failed_looks += 1
                if failed_looks == 2:
                    note(f"{error}; until then the definition is the one that it had")
                continue
            failed_looks = 0
            seen_before, before = _stream(before) == _stream(now), now
            if _stream(now) != _stream(self._changefeed) and (seen_before or not file):
                raise FeedChanged(
                    f"the definition of changefeed {now.name} changed in {self._config.changefeed.file or 'etcd'}",
                    hint="nothing: the sidecar attaches again with the new definition",
                )


def _stream(value: Changefeed) -> Changefeed:
    """What decides how the stream is read; a state or an error does not."""
    return replace(value, state="", error=None)
