"""One error tree. Each error says where, what was expected and what the operator can do; unknown means stop (P6).

    TicdcDumpError
    ├── FeedError              what TiCDC sent cannot be used as it is
    │   ├── MessageUnreadable      bytes that do not follow the protocol
    │   ├── FeedUnsuitable         a setting of the changefeed makes a dump impossible
    │   └── UnsupportedDdl         a schema change that this version cannot carry
    ├── MarkError              the watermark row did not appear as it must: doubled, out of order. Fails the dump alone
    │   └── MarkRowTaken           another writer has the row: this process is fenced off (attaching again helps, once it is gone)
    ├── LogError               the segment log
    │   ├── LogBroken              a gap, a file that is gone or unreadable, a newer format
    │   │   └── FileDamaged            a verification's file, which its writer sets aside
    │   └── LogTaken               another owner wrote this segment: this one is fenced off
    ├── SourceError            TiDB answered with something that is not retried any more
    │   ├── SourceLost             not reachable, or overloaded, for longer than it was tried (retry helps)
    │   ├── SourceChanged          a table or column that was to be read is not there: a DDL has changed it
    │   └── SourceGone             what was queried is gone for good: garbage-collected, or no key of the table any more
    ├── SinkError              an output refused, is broken, or belongs to something else
    │   └── OutcomeUnknown         its server met an error of its own: what was requested may be done
    ├── RefusedRequest         an operator's request that is illegal in this state
    │   ├── InvalidField           a request of which a field cannot be what it says, in any state
    │   ├── OutOfReach             a subscriber's: for what is not kept any more, or was never there
    │   ├── DumpsWait              as many dumps run or wait as can: there is room when one of them is over
    │   └── UnfitKeys              a dump's: for keys that no row of the table can have
    ├── CallFailed             what the command line was answered (sidecar.control.answers)
    ├── ConfigError            a setting of the sidecar that cannot be used
    ├── CoordinationError      etcd
    │   ├── CoordinationLost       not reachable, or answering too late (retry helps)
    │   ├── Compacted              the requested revision is not kept any more
    │   ├── NoProgress             what is in the progress key is something else, or damaged
    │   └── OwnershipLost          the lease is another's: this process is fenced off
    ├── FeedLost               Kafka is not reachable (retry helps)
    ├── FeedChanged            the changefeed's definition changed (attaching again helps)
    ├── SparkLost              the merge worker's Spark session is gone (a new worker helps)
    ├── LogUnreachable         the log's storage is not reachable (retry helps)
    └── StorageFull            no room left (retry helps, once there is room)

`retryable` says whether the same action can succeed later without anybody changing anything.
"""

from __future__ import annotations

from collections.abc import Iterable

_WAY_OUT = "\n  what to do: "


def with_hint(message: str, hint: str) -> str:
    """Both as one text: for people, and for wires on which only a text travels."""
    return f"{message}{_WAY_OUT}{hint}"


def parted(text: str) -> tuple[str, str]:
    """Message and hint of such a text; the hint is empty where there is none."""
    message, result, hint = text.rpartition(_WAY_OUT)
    return (message, hint) if result else (text, "")


def nearest(word: str, known: Iterable[str]) -> str:
    """For the end of a message about a `word` that is not among `known`: `, did you mean file?`; empty where none is like it."""
    from difflib import get_close_matches  # most processes make no such message

    names = {name.lower(): name for name in known}
    results = get_close_matches(word.lower(), names, n=1, cutoff=0.7)
    return f", did you mean {names[results[0]]}?" if results else ""


class TicdcDumpError(Exception):
    """`message`: where, and what was expected. `hint`: the way out, in the imperative. The error's text is both."""

    retryable = False

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(with_hint(message, hint))
        self.message = message
        self.hint = hint


class FeedError(TicdcDumpError):
    pass


class MessageUnreadable(FeedError):
    pass


class FeedUnsuitable(FeedError):
    pass


class UnsupportedDdl(FeedError):
    pass


class MarkError(TicdcDumpError):
    pass


class MarkRowTaken(MarkError):
    retryable = True


class LogError(TicdcDumpError):
    pass


class LogBroken(LogError):
    pass


class FileDamaged(LogBroken):
    """`name`: of the file, in the log."""

    def __init__(self, message: str, *, hint: str, name: str) -> None:
        super().__init__(message, hint=hint)
        self.name = name


class LogTaken(LogError):
    pass


class SourceError(TicdcDumpError):
    pass


class SourceLost(SourceError):
    retryable = True


class SourceChanged(SourceError):
    pass


class SourceGone(SourceError):
    pass


class SinkError(TicdcDumpError):
    pass


class OutcomeUnknown(SinkError):
    """A sink's server met an error of its own: what was requested may be done."""


class RefusedRequest(TicdcDumpError):
    pass


class InvalidField(RefusedRequest):
    pass


class OutOfReach(RefusedRequest):
    pass


class DumpsWait(RefusedRequest):
    """Of a dump for which there will be room when others are over."""


class UnfitKeys(RefusedRequest):
    """`keys`: all of them."""

    def __init__(self, message: str, *, hint: str, keys: tuple[tuple[str, ...], ...]) -> None:
        super().__init__(message, hint=hint)
        self.keys = keys


class StorageFull(TicdcDumpError):
    """`place`: what has no room left, as text; empty where nobody asks for it."""

    retryable = True

    def __init__(self, message: str, *, hint: str, place: str = "") -> None:
        super().__init__(message, hint=hint)
        self.place = place


class ConfigError(TicdcDumpError):
    pass


class CoordinationError(TicdcDumpError):
    pass


class CoordinationLost(CoordinationError):
    retryable = True


class Compacted(CoordinationError):
    """The requested revision is not kept any more."""


class NoProgress(CoordinationError):
    """What is in the progress key is something else, or damaged."""


class OwnershipLost(CoordinationError):
    pass


class FeedLost(TicdcDumpError):
    retryable = True


class FeedChanged(TicdcDumpError):
    retryable = True


class SparkLost(TicdcDumpError):
    retryable = True


class LogUnreachable(TicdcDumpError):
    retryable = True
