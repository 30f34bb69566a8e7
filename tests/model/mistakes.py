"""Planted mistakes: each replaces one rule, and an exploration within small bounds must show what it breaks. `stands_for`: the finding, or
what the rule is there for. None of them is in the product; what is there is in gaps.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.model.rules import Rules
from tests.model.state import Bounds, Left


@dataclass(frozen=True, slots=True)
class Mistake:
    """`rule`: a method of Rules, or several with a space between them, and `instead` what replaces it. `breaks`: the invariant that is
    violated. `large`: it takes seconds to find."""

    name: str
    stands_for: str
    rule: str
    instead: Callable[..., Any]
    bounds: Bounds
    breaks: str
    large: bool = False

    def rules(self) -> Rules:
        made: type[Rules] = type("Mistaken", (Rules,), dict.fromkeys(self.rule.split(), self.instead))
        return made()


OWNERS = Bounds(2, 2, 1, ("hidden",), Left(freezes=1, lapses=1), frozen=("owner",))
LONGER = replace(OWNERS, changes=3)
DEATHS = replace(OWNERS, faults=Left(deaths=1))
FROZEN_TWICE = replace(OWNERS, faults=Left(freezes=2, lapses=1))
WINDOWS = replace(LONGER, faults=Left(windows=1))
OLD_WINDOWS = replace(LONGER, faults=Left(freezes=1, lapses=1, windows=1))
HIDDEN = Bounds(2, 1, 2, ("hidden",), Left(freezes=1, deaths=1), frozen=("loop",))
COMMITTING = replace(HIDDEN, kinds=("committing",))
BOTH = Bounds(2, 1, 1, ("committing", "hidden"), Left(freezes=1), frozen=("loop",))
BOTH_AND_A_DEATH = replace(BOTH, faults=Left(freezes=1, deaths=1))
RESTORED = Bounds(3, 1, 1, ("committing",), Left(deaths=1, log_restores=1), frozen=("loop",), forgets=False)
UNDER_A_WORKER = replace(RESTORED, under_workers=True)

MISTAKES = [
    Mistake("schemas have no epoch in their name", "D2", "schemas_epoch", lambda *_: 0, LONGER, "retention"),
    Mistake("what is missing below the floor is a loss", "D3", "is_lost", lambda *_: True, LONGER, "stopped"),
    Mistake("the log is broken at the first look", "D4", "looks_again", lambda *_: False, FROZEN_TWICE, "stopped"),
    Mistake(
        "a begun batch is compared by its number",
        "H1",
        "is_begun is_still_begun",
        lambda _, mine, there: mine.seq == there.seq,
        RESTORED,
        "begun",
    ),
    Mistake("data has no epoch in its name", "layout.data_name", "data_epoch", lambda *_: 0, OWNERS, "retention"),
    Mistake("an epoch is granted twice", "EtcdOwner._try", "next_epoch", lambda _, last: max(last, 1), OWNERS, "stopped"),
    Mistake("a manifest is written over another one", "FolderLog.commit", "may_create", lambda *_: True, OWNERS, "one manifest"),
    Mistake("a segment that was removed is created again", "FolderLog._follows", "follows", lambda *_: True, OWNERS, "one manifest"),
    Mistake("a manifest below the floor counts", "Contents.run", "sees", lambda *_: True, OWNERS, "stopped"),
    Mistake("orphans go before the first commit", "FolderLog.recover", "sweeps_at_once", lambda _: True, OWNERS, "stopped"),
    Mistake("files that an old owner may name go", "FolderLog._forget", "may_forget", lambda *_: True, OWNERS, "retention"),
    Mistake("the feed is acknowledged before the manifest", "Pipeline._write", "acknowledges_first", lambda _: True, DEATHS, "stopped"),
    Mistake("the feed is read from where it is acknowledged", "attach", "resumes_behind", lambda _, __, known: known, DEATHS, "stopped"),
    Mistake("windows that closed keep nothing", "FolderLog._reaches", "reaches", lambda *_: [], WINDOWS, "retention"),
    Mistake("windows that are open keep nothing", "Term._retain", "open_windows", lambda *_: [], WINDOWS, "stopped"),
    Mistake(
        "windows of the owner before keep nothing",
        "FolderLog._previous_open",
        "previous_windows",
        lambda *_: [],
        OLD_WINDOWS,
        "stopped",
        True,
    ),
    Mistake("the last segment goes", "layout.keep_from", "keep_from", lambda _, owner, __: owner.delivered + 1, OWNERS, "retention"),
    Mistake("the note of a removal comes last", "FolderLog._remove_segments", "notes_first", lambda _: False, DEATHS, "stopped"),
    Mistake(
        "manifests of several epochs go in any order",
        "FolderLog._remove_segments",
        "removed_next",
        lambda _, gone: gone,
        FROZEN_TWICE,
        "one manifest",
        True,
    ),
    Mistake("the fastest sink is reported", "SparkJob.position", "report", lambda _, accepted: max(accepted), BOTH, "retention"),
    Mistake("a sink is reported while it is opened", "SinkLoop._deliver", "not_to_report", lambda _: (), BOTH_AND_A_DEATH, "record"),
    Mistake("a batch is reported before its record", "SinkRecord.passed", "reports_first", lambda _: True, HIDDEN, "record"),
    Mistake(
        "a worker that was replaced writes the record",
        "SinkRecord._check_owner",
        "may_write_record",
        lambda *_: True,
        replace(HIDDEN, changes=3),
        "record",
    ),
    Mistake("an accepted segment is compared by its number", "check_has", "is_same", lambda *_: True, replace(RESTORED, changes=2), "lost"),
    Mistake(
        "a log that is replaced under a worker of any owner is continued",
        "check_follows",
        "serves continues",
        lambda *_: True,
        UNDER_A_WORKER,
        "order",
    ),
    Mistake("a begun batch is cut again", "Delivery._next", "redone", lambda _, __, ___, limit: limit, COMMITTING, "stopped"),
    Mistake("no batch is on record", "Sink.plan", "records_batch", lambda *_: False, COMMITTING, "accepted"),
    Mistake("a task that is done is done again", "Target.slot", "is_done", lambda *_: False, COMMITTING, "order"),
    Mistake("a task does not look whose the sink is", "check_owner", "may_write", lambda *_: True, COMMITTING, "order"),
    Mistake("an accept compares nothing", "PositionStore.compare_and_swap", "swaps", lambda *_: True, HIDDEN, "order"),
    Mistake(
        "rows aside have no owner's name", "WriteAside", "attempt", lambda *_: (0, 0), replace(HIDDEN, faults=Left(freezes=2)), "accepted"
    ),
]
