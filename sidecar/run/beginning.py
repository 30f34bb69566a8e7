"""What is checked before a term begins to deliver: a new log, and dumps for sinks that are not there any more.

Whether a new log may begin now, as it does by default: not where a sink has rows that another consumer of the changefeed wrote.

Deletes that lie in the feed's past would be passed over, and a dump brings rows and no deletes: such a sink would keep those rows for
ever. Where a sink has no rows, or those of a log of ours, there is nothing to keep. Only a sink can tell, and not each of them can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from sidecar.core.dump_start import listed, no_receiver
from sidecar.shared.config import Config
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.progress import OVER, DumpState, Progress
from sidecar.shared.model.sink_delivery import SinkDelivery

HoldsRows = Callable[[str, str], bool]
"""Of a sink's URI and the log's id: whether it holds rows that no log of ours brought."""

_CHOICES: dict[str, Callable[[Config], tuple[str, str, str]]] = {
    "kafka": lambda config: ("kafka.begin", config.kafka.begin, '"topic" if all changes since them are in the topics'),
    "storage": lambda config: ("storage.begin", config.storage.begin, '"files" if all changes since them are in the folder'),
    "push-messages": lambda config: ("push.begin", config.push.begin, '"sent" if the changefeed sends all changes since them'),
}
"""By `Config.way`: the setting that says where to begin, what it says, and when which other value may be given."""


def check_beginning(config: Config, log_id: str, holds_rows: HoldsRows) -> None:
    """For a log that is new. Raises ConfigError, and what looking at a sink raises."""
    if config.way not in _CHOICES:
        return
    setting, begin, all_of_it = _CHOICES[config.way](config)
    if begin:
        return
    held = [number for number, uri in enumerate(config.sinks, 1) if holds_rows(uri, log_id)]
    if held:
        which = ", ".join(f"sink {number}" for number in held)
        raise ConfigError(
            f"the log is new and would begin now, and {which} holds rows that no log of ticdc-dump brought: older deletes would be missed",
            hint=f'give it an empty target; or set {setting} = "now" if those rows may stay, or {all_of_it}, without a DDL among them',
        )


def undelivered_dumps(dumps: Iterable[Progress], sinks: Collection[str], reported: Iterable[SinkDelivery]) -> Iterator[str]:
    """What an operator should know of dumps for some sinks. `sinks`: the names of the present ones; `reported`: by the last merge worker,
    under their names then."""
    accepted = {one.sink: one.accepted for one in reported}
    for dump in dumps:
        missing = [name for name in dump.sinks if name not in sinks]
        if dump.state is DumpState.FINISHED:
            late = [name for name in missing if name in accepted and (accepted[name] or -1) < dump.seq]
            if late:
                yield (
                    f"dump {dump.dump_id} is in the log up to segment {dump.seq}, {listed(late)} had not received all of it, and no sink"
                    " has that name now: give the sink its name back (name= in its URI) before it continues, or dump the tables again"
                )
        elif dump.state is DumpState.FAILED and (why := no_receiver(dump, sinks)):
            yield f"{why}: it does not continue"
        elif missing and dump.state not in OVER:
            yield f"dump {dump.dump_id} is for {listed(missing)}, and no sink has that name: the sinks are {listed(sinks)}"
