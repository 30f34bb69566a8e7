"""What a check of the preflight is, and how checks are carried out: one after another, each within its bound.

- A check yields findings and returns its results, for later checks: they ask `CheckResult` by its key. Its status is the worst of its
  findings: ok < warning < failed; what it raises of `sidecar.shared.errors` is one more finding that failed, with the error's own way out.
- A check that needs another one is skipped, naming it, where that one failed or was skipped. All others run.
- Every finding that is not ok names the setting to change, and how: a key of the sidecar's file, a setting of the changefeed,
  a GRANT, a setting of Kafka.
- A check that outlives its bound has failed. It is left behind: what it was waiting for closes with `CheckResult`.
- An error that is none of ours is a defect: reported as such, and the process says so by its exit code; the rest runs on.

It must not know what is checked: `preflight/` has what every sidecar needs, `feeds/` what each way of the changes does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Any, Generic, TypeVar, cast

from sidecar.shared.config import Config
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.process.background import Background

T = TypeVar("T")
D = TypeVar("D")

BOUND_S = 30.0
"""Of a check that waits for one answer: longer than any client of ours tries to connect."""


class CheckStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


_WORST_FIRST = (CheckStatus.FAILED, CheckStatus.WARNING, CheckStatus.OK)


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """`setting`: what to change, `hint`: how; both empty where all is well. `detail`: what it is made of, for those who ask for it."""

    status: CheckStatus
    what: str
    setting: str = ""
    hint: str = ""
    detail: str = ""


def ok(what: str, *, detail: str = "") -> CheckFinding:
    return CheckFinding(CheckStatus.OK, what, detail=detail)


def warning(what: str, *, setting: str, hint: str) -> CheckFinding:
    return CheckFinding(CheckStatus.WARNING, what, setting, hint)


def failed(what: str, *, setting: str, hint: str) -> CheckFinding:
    return CheckFinding(CheckStatus.FAILED, what, setting, hint)


class CheckSkipped(Exception):
    """Raised by a check that sees that it cannot say anything. `setting`, `hint`: what would let it."""

    def __init__(self, why: str, *, setting: str = "", hint: str = "") -> None:
        super().__init__(why)
        self.why, self.setting, self.hint = why, setting, hint


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """`write`: probe by writing (a key, a file, a row). `spark`: start a session. `wait_s`: for what must come by the feed. `standby`: what
    a standby needs to take over, and nothing else."""

    write: bool = True
    spark: bool = False
    wait_s: float = 15.0
    standby: bool = False


Checking = Generator[CheckFinding, None, T]
"""What a check is carried out as: it yields findings, and returns what others may need of it."""


@dataclass(frozen=True, slots=True)
class Key(Generic[T]):
    """A check's name, by which others get its result."""

    name: str


class CheckResult:
    """What the checks returned so far. What they open is put on `opened`, and closes with it."""

    def __init__(self, config: Config, options: CheckOptions) -> None:
        self.config, self.options = config, options
        self.opened = ExitStack()
        self._values: dict[str, object] = {}

    def __getitem__(self, key: Key[T]) -> T:
        """Only for a check that needs it."""
        return cast("T", self._values[key.name])

    def get(self, key: Key[T], otherwise: D) -> T | D:
        """`otherwise`, where that check came to no end."""
        return cast("T | D", self._values.get(key.name, otherwise))

    def note(self, key: Key[T], value: T) -> None:
        self._values[key.name] = value

    def close(self) -> None:
        self.opened.close()


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """`setting`: what to change where the check ends with an error of ours or does not end. `before`: of a feed's own checks, the
    common one that it precedes; None: it comes after them all. `standby`: without it a standby could not take over; it reads only."""

    key: Key[T]
    body: Callable[[CheckResult], Checking[T]]
    setting: str
    needs: tuple[Key[Any], ...] = ()
    bound_s: float = BOUND_S
    before: Key[Any] | None = None
    standby: bool = False

    @property
    def name(self) -> str:
        return self.key.name


def in_order(common: Sequence[Check[Any]], own: Sequence[Check[Any]]) -> list[Check[Any]]:
    """The common checks with those of a feed in their places."""
    placed: list[Check[Any]] = []
    for check in common:
        placed += [mine for mine in own if mine.before == check.key]
        placed.append(check)
    return placed + [mine for mine in own if mine.before is None]


@dataclass(frozen=True, slots=True)
class Result:
    """`defect`: a check broke by an error that is none of ours."""

    name: str
    status: CheckStatus
    findings: tuple[CheckFinding, ...]
    took_s: float = 0.0
    defect: bool = False


def carried_out(
    checks: Sequence[Check[Any]],
    check_result: CheckResult,
    shown: Callable[[Result], object] = lambda _: None,
    begins: Callable[[str], object] = lambda _: None,
) -> list[Result]:
    """One result for each check, in order; `shown` receives each as soon as it is there, `begins` the name of one that begins."""
    results: dict[str, Result] = {}
    for check in checks:
        missing = [need.name for need in check.needs if results[need.name].status in (CheckStatus.FAILED, CheckStatus.SKIPPED)]
        if missing:
            skipped = CheckFinding(CheckStatus.SKIPPED, f"needs {' and '.join(map(repr, missing))}")
            result = Result(check.name, CheckStatus.SKIPPED, (skipped,))
        else:
            begins(check.name)
            result = _within_bound(check, check_result)
        results[check.name] = result
        shown(result)
    return list(results.values())


def _within_bound(check: Check[Any], check_result: CheckResult) -> Result:
    findings: list[CheckFinding] = []
    began_s = monotonic()
    work = Background(lambda _: _collect(check, check_result, findings), name=f"preflight {check.name}")
    work.close(check.bound_s)
    in_time, ended_with = not work.alive, list(findings)
    if not in_time:
        hint = "see what is slow or does not answer there, then check again"
        ended_with.append(failed(f"no answer within {check.bound_s:.0f} s", setting=check.setting, hint=hint))
    try:
        work.check()
    except Exception as error:  # noqa: BLE001  (a defect of one check is reported, and must not hide what the others find)
        what = f"the check itself broke: {type(error).__name__}: {error}"
        ended_with.append(failed(what, setting="none", hint="report this: it is a defect of ticdc-dump"))
        return Result(check.name, CheckStatus.FAILED, tuple(ended_with), monotonic() - began_s, defect=True)
    return Result(check.name, _worst(ended_with), tuple(ended_with), monotonic() - began_s)


def _collect(check: Check[T], check_result: CheckResult, findings: list[CheckFinding]) -> None:
    """One by one: findings before an error count."""
    steps = check.body(check_result)
    try:
        while True:
            findings.append(next(steps))
    except StopIteration as end:
        check_result.note(check.key, end.value)
    except CheckSkipped as skip:
        findings.append(CheckFinding(CheckStatus.SKIPPED, skip.why, skip.setting, skip.hint))
    except TicdcDumpError as error:
        findings.append(of_error(error, setting=check.setting))


def of_error(error: TicdcDumpError, *, setting: str) -> CheckFinding:
    return failed(error.message, setting=setting, hint=error.hint)


def _worst(findings: Sequence[CheckFinding]) -> CheckStatus:
    """Skipped only where there is nothing else."""
    there = {finding.status for finding in findings}
    return next((status for status in _WORST_FIRST if status in there), CheckStatus.SKIPPED if there else CheckStatus.OK)


def listed(names: Iterable[object], *, most: int = 10) -> str:
    """The first of them, and how many more there are."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
