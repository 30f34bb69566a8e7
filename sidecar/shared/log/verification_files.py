"""Reading and removing the files of verifications; verification.py has their names and contents. Raises the errors of the log's storage.

A read changes nothing: of a file that is none of its kind it raises FileDamaged. Only those that carry verifications out, the sidecar's
term and the merge worker, set such a file aside (`set_aside`), so that the next read finds none. A state repeats what the report has: a
damaged one counts as none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TypeVar

import msgspec

from sidecar.shared.errors import FileDamaged, LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.owned import OwnedLog, latest
from sidecar.shared.log.storage import Folder
from sidecar.shared.log.verification import (
    OVER,
    REQUEST_NAME,
    WAITING_NAME,
    RepairReport,
    RowDifference,
    TableReport,
    VerifyReport,
    VerifyRequest,
    begun_name,
    decoded,
    differences_name,
    kept_stem,
    repair_stem,
    report_name,
    request_name,
    state_name,
    stopped,
    verify_folder,
    waiting_name,
)
from sidecar.shared.log.verification_state import Beginnings, KeptLog, VerifyState, state_of
from sidecar.shared.model.nouns import OperationId

R = TypeVar("R")

UNREADABLE = ".unreadable"
"""The end of the name of a file that was set aside."""


def read_report(log: Folder, operation_id: OperationId) -> VerifyReport | None:
    """None: no worker has begun. Raises FileDamaged for a file that is not a report."""
    return _read(log, report_name(operation_id), VerifyReport)


def read_state(log: Folder, operation_id: OperationId) -> VerifyState | None:
    """As `read_report`, of which it is."""
    with suppress(FileDamaged):
        if (state := _read(log, state_name(operation_id), VerifyState)) is not None:
            return state
    report = read_report(log, operation_id)
    return None if report is None else state_of(report, read_request(log, operation_id))


STALE_S = 60.0
"""A state that stays the same for so long is compared with its report."""


class FollowedStates:
    """What reads states again and again, for one thread. A worker of 0.4 or before writes reports alone: after a rollback to it a state is
    there that no longer follows its report. Such a state is written again."""

    def __init__(self, log: Folder, now_s: Callable[[], float] = monotonic) -> None:
        self._log, self._now_s = log, now_s
        self._same_since: dict[OperationId, tuple[int, float]] = {}

    def read(self, operation_id: OperationId) -> VerifyState | None:
        """As `read_state`."""
        state, now_s = read_state(self._log, operation_id), self._now_s()
        if state is None or state.is_over:
            self._same_since.pop(operation_id, None)
            return state
        written_ms, since_s = self._same_since.get(operation_id, (None, now_s))
        if written_ms != state.written_ms or now_s - since_s >= STALE_S:
            self._same_since[operation_id] = state.written_ms, now_s
        if written_ms != state.written_ms or now_s - since_s < STALE_S:
            return state
        report = read_report(self._log, operation_id)
        if report is None or (report.state not in OVER and report.written_ms <= state.written_ms):
            return state
        request = read_request(self._log, operation_id)
        write_state(self._log, report, request)
        return state_of(report, request)


def write_report(log: Folder, report: VerifyReport, request: VerifyRequest | None) -> None:
    """With its state. Raises as the log's storage."""
    storage.write_atomically(log, report_name(report.id), report.to_json())
    write_state(log, report, request)


def write_state(log: Folder, report: VerifyReport, request: VerifyRequest | None) -> None:
    """Of a report that is as it is in its file, or under way. Raises as the log's storage."""
    storage.write_atomically(log, state_name(report.id), state_of(report, request).to_json())


def read_request(log: Folder, operation_id: OperationId) -> VerifyRequest | None:
    """As `read_report`."""
    return _read(log, request_name(operation_id), VerifyRequest)


def read_waiting(log: Folder, operation_id: OperationId) -> VerifyRequest | None:
    """Of one that begins after a dump; None where it has begun, too. As `read_report`."""
    return _read(log, waiting_name(operation_id), VerifyRequest)


def read_repair(log: Folder, operation_id: OperationId) -> RepairReport | None:
    """Of the latest owner; None: none has begun."""
    name = latest(log, repair_stem(operation_id))
    return None if name is None else _read(log, name, RepairReport)


def read_kept(log: Folder, operation_id: OperationId) -> KeptLog | None:
    """By the latest owner. None: none has counted so long, or the file is damaged."""
    name = latest(log, kept_stem(operation_id))
    with suppress(FileDamaged):
        return None if name is None else _read(log, name, KeptLog)
    return None


def count_beginning(log: Folder, operation_id: OperationId) -> Beginnings:
    """A process begins with it. Durable: what ends this process may end all that counts deaths, as the kernel does in a container without
    memory."""
    report = read_report(log, operation_id)
    done = sum(one.parts_done for one in report.tables) if report is not None else 0
    before = _read(log, begun_name(operation_id), Beginnings)
    return _write_beginnings(log, operation_id, (before or Beginnings(done, 0)).next(done))


def take_back_beginning(log: Folder, operation_id: OperationId) -> None:
    """Its process has ended in good order."""
    if (last := _read(log, begun_name(operation_id), Beginnings)) is not None:
        _write_beginnings(log, operation_id, last.taken_back())


def _write_beginnings(log: Folder, operation_id: OperationId, now: Beginnings) -> Beginnings:
    storage.write_atomically(log, begun_name(operation_id), now.to_json())
    return now


def is_requested(log: Folder, operation_id: OperationId) -> bool:
    return storage.exists(log, request_name(operation_id))


def request_ids(log: Folder) -> list[OperationId]:
    return [OperationId(match[1]) for match in map(REQUEST_NAME.fullmatch, _names(log)) if match]


def waiting_ids(log: Folder) -> list[OperationId]:
    """Of those that have a request to begin after a dump."""
    return [OperationId(match[1]) for match in map(WAITING_NAME.fullmatch, _names(log)) if match]


def _names(log: Folder) -> list[str]:
    return [name for name in storage.list_names(log, deep=True, beginning="verify/") if name.startswith("verify/")]


def read_differences(log: Folder, operation_id: OperationId, table: int) -> Iterator[RowDifference]:
    """Of the report's table of this number; none where there is no file. As `read_report`."""
    name = differences_name(operation_id, table)
    if storage.exists(log, name):
        try:
            with storage.open_to_read(log, name) as file:
                for line in file:
                    yield msgspec.json.decode(line, type=RowDifference)
        except ValueError as error:
            raise _damaged(log, name, error) from error


def differences_of(log: Folder, operation_id: OperationId, report: VerifyReport | None) -> Iterator[tuple[TableReport, RowDifference]]:
    """Of all tables of the report. As `read_report`."""
    for number, table in enumerate(report.tables if report is not None else ()):
        for row in read_differences(log, operation_id, number):
            yield table, row


def remove_files(log: OwnedLog, operation_id: OperationId) -> None:
    """Of one that is over. Raises OwnershipLost, too."""
    folder = f"{verify_folder(operation_id)}/"
    names = log.of_no_later(lambda: storage.list_names(log.folder, deep=True, beginning=folder))
    storage.remove(log.folder, [name for name in names if name.startswith(folder)])


def remove_below(log: Folder, folder: str) -> None:
    """All files of a folder of a verification."""
    names = storage.list_names(log, deep=True, beginning=f"{folder}/")  # which may give others too
    storage.remove(log, [name for name in names if name.startswith(f"{folder}/")])


def remove_waiting(log: Folder, operation_id: OperationId) -> None:
    """Of one that has begun, or will not."""
    storage.remove(log, [waiting_name(operation_id)])


def end_stopped(log: Folder, operation_id: OperationId, now_ms: int, *, why: str = "") -> VerifyReport:
    """Writes the report of one that an operator has ended, or that has failed because of `why`; the report of one that was over before
    stays. As `read_report`."""
    report = read_report(log, operation_id)
    if report is None or report.state not in OVER:
        report = stopped(report, operation_id, now_ms, why=why)
        write_report(log, report, read_request(log, operation_id))
    return report


def remove_work(log: Folder, operation_id: OperationId) -> None:
    """What a comparison that is over has left."""
    remove_below(log, f"{verify_folder(operation_id)}/work")


def remove_others(log: OwnedLog, kept: Callable[[], Collection[OperationId]]) -> None:
    """All files of verifications whose ids are not among `kept`, which is read once they are listed. Raises OwnershipLost, too."""
    names = log.of_no_later(lambda: [name for name in _names(log.folder) if name.count("/") > 1])
    whole = tuple(f"{verify_folder(operation_id)}/" for operation_id in kept())
    storage.remove(log.folder, [name for name in names if not name.startswith(whole)])


def _read(log: Folder, name: str, kind: type[R]) -> R | None:
    data = storage.read_if_there(log, name)
    try:
        return None if data is None else decoded(kind, data)
    except ValueError as error:
        raise _damaged(log, name, error) from error


def _damaged(log: Folder, name: str, error: ValueError) -> FileDamaged:
    return FileDamaged(f"{name} in {log} cannot be read: {error}", hint="verify again, or restore the file", name=name)


@contextmanager
def set_aside(log: Folder, check_held: Callable[[], object] = lambda: None) -> Iterator[None]:
    """For those that carry verifications out: a file that proves to be damaged gets another name, which the error says. `check_held`: as of
    OwnedLog."""
    try:
        yield
    except FileDamaged as damaged:
        check_held()
        aside = f"{damaged.name}{UNREADABLE}"
        storage.copy_files(log, [(damaged.name, aside)])
        storage.remove(log, [damaged.name])
        raise LogBroken(f"{damaged.message}; it is {aside} now", hint="verify again") from damaged
