"""What a check of the preflight is, and how checks are carried out: one after another, each within its bound.

- A check yields findings. Its status is the worst of them: ok < warning < failed; what it raises of `sidecar.errors` is one
  more finding that failed, with the error's own way out.
- A check that needs another one is skipped, naming it, where that one failed or was skipped. All others run.
- Every finding that is not ok names the setting to change, and how: a key of the sidecar's file, a setting of the changefeed,
  a GRANT, a setting of Kafka.
- A check that outlives its bound has failed. Its thread, a daemon, is left behind: what it was waiting for closes with `Known`.
- An error that is none of ours is a defect: told as such, and the process says so by its exit code; the rest runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Event, Thread
from time import monotonic

from sidecar.adapters.etcd_client import EtcdClient
from sidecar.config import Config
from sidecar.core.manifest import Manifest
from sidecar.core.model import TableName, TableSchema
from sidecar.definition import Definition
from sidecar.errors import TicdcDumpError
from sidecar.feeds.kafka_client import Cluster, PartitionKey
from sidecar.preflight.tail import Tail

BOUND_S = 30.0
"""Of a check that waits for one answer: longer than any client of ours tries to connect."""


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


_WORST_FIRST = (Status.FAILED, Status.WARNING, Status.OK)


@dataclass(frozen=True, slots=True)
class Finding:
    """`setting`: what to change, `hint`: how; both empty where all is well."""

    status: Status
    what: str
    setting: str = ""
    hint: str = ""


def ok(what: str) -> Finding:
    return Finding(Status.OK, what)


def warning(what: str, *, setting: str, hint: str) -> Finding:
    return Finding(Status.WARNING, what, setting, hint)


def failed(what: str, *, setting: str, hint: str) -> Finding:
    return Finding(Status.FAILED, what, setting, hint)


class Skip(Exception):
    """Raised by a check that finds out by itself that it cannot say anything. `setting`, `hint`: what would let it."""

    def __init__(self, why: str, *, setting: str = "", hint: str = "") -> None:
        super().__init__(why)
        self.why, self.setting, self.hint = why, setting, hint


@dataclass(frozen=True, slots=True)
class Options:
    """`write`: probe by writing (a key, a file, a row). `spark`: start a session. `wait_s`: for what must come by the feed."""

    write: bool = True
    spark: bool = False
    wait_s: float = 15.0


@dataclass(slots=True, kw_only=True)
class Known:
    """What checks found out, for those that need them. Without a default: there once the check that finds it has not failed.

    `carried`: tables that the changefeed has, `existing`: all that the account sees, None if it could not be asked.
    `clock_ahead_s`: the cluster's clock before ours. `last`: the log's last manifest. `mark`: the probe's uuid and when it was
    written, by our clock (Unix time).
    """

    config: Config
    options: Options
    client: EtcdClient = field(init=False)
    definition: Definition = field(init=False)
    cluster: Cluster = field(init=False)
    kafka_client: dict[str, str] = field(init=False)
    partitions: tuple[PartitionKey, ...] = field(init=False)
    tail: Tail = field(init=False)
    carried: Mapping[TableName, TableSchema] = field(default_factory=dict)
    existing: Mapping[TableName, TableSchema] | None = None
    sees_every_table: bool = False
    clock_ahead_s: float = 0.0
    last: Manifest | None = None
    mark: tuple[str, float] = field(init=False)
    closers: list[Callable[[], object]] = field(default_factory=list)

    def close(self) -> None:
        while self.closers:
            self.closers.pop()()


@dataclass(frozen=True, slots=True)
class Check:
    """`setting`: what to change where the check ends with an error of ours or does not end."""

    name: str
    body: Callable[[Known], Iterable[Finding]]
    setting: str
    needs: tuple[str, ...] = ()
    bound_s: float = BOUND_S


@dataclass(frozen=True, slots=True)
class Result:
    """`defect`: a check broke by an error that is none of ours."""

    name: str
    status: Status
    findings: tuple[Finding, ...]
    took_s: float = 0.0
    defect: bool = False


def carried_out(checks: Sequence[Check], known: Known, shown: Callable[[Result], object] = lambda _: None) -> list[Result]:
    """One result for each check, in order; `shown` hears each as soon as it is there."""
    found: dict[str, Result] = {}
    for check in checks:
        missing = [need for need in check.needs if found[need].status in (Status.FAILED, Status.SKIPPED)]
        if missing:
            skipped = Finding(Status.SKIPPED, f"needs {' and '.join(repr(need) for need in missing)}")
            result = Result(check.name, Status.SKIPPED, (skipped,))
        else:
            result = _within_bound(check, known)
        found[check.name] = result
        shown(result)
    return list(found.values())


def _within_bound(check: Check, known: Known) -> Result:
    findings: list[Finding] = []
    defects: list[Exception] = []
    done = Event()

    def work() -> None:
        try:
            _gather(check, known, findings)
        except Exception as error:  # noqa: BLE001  (a defect of one check is told, and must not hide what the others find)
            defects.append(error)
        finally:
            done.set()

    began_s = monotonic()
    Thread(target=work, name=f"preflight {check.name}", daemon=True).start()
    in_time = done.wait(check.bound_s)
    told = list(findings)
    if not in_time:
        hint = "see what is slow or does not answer there, then check again"
        told.append(failed(f"no answer within {check.bound_s:.0f} s", setting=check.setting, hint=hint))
    if defects:
        what = f"the check itself broke: {type(defects[0]).__name__}: {defects[0]}"
        told.append(failed(what, setting="none", hint="report this: it is a defect of ticdc-dump"))
    return Result(check.name, _worst(told), tuple(told), monotonic() - began_s, bool(defects))


def _gather(check: Check, known: Known, findings: list[Finding]) -> None:
    """One by one: what was found before an error counts."""
    try:
        for finding in check.body(known):
            findings.append(finding)
    except Skip as skip:
        findings.append(Finding(Status.SKIPPED, skip.why, skip.setting, skip.hint))
    except TicdcDumpError as error:
        findings.append(of_error(error, setting=check.setting))


def of_error(error: TicdcDumpError, *, setting: str) -> Finding:
    return failed(str(error).partition("\n  what to do: ")[0], setting=setting, hint=error.hint)


def _worst(findings: Sequence[Finding]) -> Status:
    """Skipped only where nothing else was found."""
    there = {finding.status for finding in findings}
    return next((status for status in _WORST_FIRST if status in there), Status.SKIPPED if there else Status.OK)


def listed(names: Iterable[object], *, most: int = 10) -> str:
    """The first of them, and how many more there are."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
