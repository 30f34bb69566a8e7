"""Every file that a term's services read, damaged in every way: the services go on, and what was asked of them has an end that says why.

What a file is damaged to, and when: before a life of the service takes it over, and while it is followed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest
from msgspec import structs

from sidecar.adapters.memory.progress import MemoryHistory
from sidecar.run import term_verifications
from sidecar.run.certifying import ACCEPT_WAIT_S, SAVE_S
from sidecar.run.repairing import KeyDump
from sidecar.run.term_verifications import HOLD_S
from sidecar.shared.errors import SourceError, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.log.verification import (
    CYCLE_STEM,
    CheckState,
    RepairState,
    TableReport,
    differences_name,
    repair_stem,
    report_name,
    request_name,
    state_name,
    waiting_name,
)
from sidecar.shared.log.verification_files import UNREADABLE
from sidecar.shared.model.nouns import FIRST_SEQ
from sidecar.shared.model.progress import OVER, DumpState
from tests.unit.run.followed_dumps import OTHER, World
from tests.unit.run.test_term_verifications import ALICE, REQUEST, Term

TO_REPAIR = structs.replace(REQUEST, repair=True)
AFTER = structs.replace(TO_REPAIR, id="d" * 16, after_dump="e" * 16, asked_ms=1000)
SOUND = structs.replace(REQUEST, id="f" * 16)
"""Beside those whose files are damaged, and to be carried out whatever they are."""
OWNER = OwnedLog(open_folder("memory://"), 1)
"""Of the first term."""
FILES = {
    "request": request_name(TO_REPAIR.id),
    "report": report_name(TO_REPAIR.id),
    "state": state_name(TO_REPAIR.id),
    "repair": OWNER.name(repair_stem(TO_REPAIR.id)),
    "differences": differences_name(TO_REPAIR.id, 0),
    "waiting": waiting_name(AFTER.id),
    "cycle": OWNER.name(CYCLE_STEM),
}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def zeros(path: Path) -> None:
    path.write_bytes(bytes(len(path.read_bytes())))


def other(path: Path) -> None:
    path.write_bytes(b'{"state": ["of", 7], "id": {}, "kind": 5, "tables": 1}')


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\xc0")


def a_byte(path: Path) -> None:
    """Amid a text, where JSON's own signs stay."""
    data = bytearray(path.read_bytes())
    data[data.index(b'"') + 1] = 0xFF
    path.write_bytes(data)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").touch()


def gone(path: Path) -> None:
    path.unlink()


DAMAGES: tuple[Callable[[Path], None], ...] = (cut, zeros, other, no_text, a_byte, folder, gone)


def prepared(term: Term) -> None:
    """A verification whose repair has begun, one that waits for its dump, one that runs; and each file is there."""
    term.made.start(TO_REPAIR, ALICE)
    term.made.start(AFTER, ALICE)
    storage.write_atomically(term.log, differences_name(TO_REPAIR.id, 0), b'{"kind":"missing","key":["7"]}\n')
    storage.write_atomically(term.log, OWNER.name(CYCLE_STEM), b'{"tables":[]}')
    term.report(TO_REPAIR.id, CheckState.DIFFERENT, TableReport("copy", "shop", "item", CheckState.DIFFERENT, missing=1))
    term.made.start(SOUND, ALICE)
    assert repair_file(term).exists()


def repair_file(term: Term) -> Path:
    return Path(term.log.path(FILES["repair"]))


def go_on(term: Term) -> None:
    """Raises what the service raises, after which a next life would begin."""
    for dump in list(term.dumps):
        term.ended(dump, DumpState.FINISHED)
    for _ in range(3):
        term.made.follow()
    term.now_ms += 120_000
    term.made.follow()
    term.report(SOUND.id, CheckState.EQUAL)


def check_ended(term: Term, damaged: str) -> None:
    sound = term.history.find(SOUND.id)
    assert sound is not None
    assert sound.result == "equal", "it does not depend on the others"
    for operation_id in (TO_REPAIR.id, AFTER.id):
        entry = term.history.find(operation_id)
        assert entry is not None
        assert entry.state in OVER, f"{operation_id} with its {damaged} damaged waits for ever"


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("when", ["followed", "taken over"])
def test_a_damaged_file_ends_what_it_is_of_and_nothing_else(tmp_path: Path, when: str, name: str, damage: Callable[[Path], None]) -> None:
    term = Term(tmp_path, MemoryHistory())
    prepared(term)
    damage(Path(term.log.path(FILES[name])))
    if when == "taken over":
        following = Term(tmp_path, term.history)
        following.dumps, following.now_ms = term.dumps, term.now_ms
        following.made.begin()
        term = following
    go_on(term)
    check_ended(term, name)
    last = Term(tmp_path, term.history)
    last.made.begin()
    last.made.follow()
    last.made.start(structs.replace(REQUEST, id="9" * 16), ALICE)
    assert last.made.last_id() == "9" * 16, "the next one can be asked for"


@pytest.mark.parametrize("name", ["request", "report", "repair", "waiting"])
def test_what_cannot_be_read_is_kept_under_another_name(tmp_path: Path, name: str) -> None:
    term = Term(tmp_path, MemoryHistory())
    prepared(term)
    path = Path(term.log.path(FILES[name]))
    cut(path)
    before = path.read_bytes()
    following = Term(tmp_path, term.history)
    following.made.begin()
    assert Path(f"{path}{UNREADABLE}").read_bytes() == before
    assert any(UNREADABLE in str(line.values.get("text", "")) for line in following.lines), [line.values for line in following.lines]


def test_a_repair_that_may_not_read_the_source_any_more_fails_with_the_reason(tmp_path: Path) -> None:
    term = Term(tmp_path, MemoryHistory())
    denied = SourceError("SELECT command denied to user 'dump' for table 'item' (1142)", hint="grant SELECT")

    def start(dump: KeyDump) -> KeyDump:
        raise denied

    term.start = start  # type: ignore[method-assign]  # of this test
    prepared(term)
    for one in (term, Term(tmp_path, term.history)):
        one.made.begin()
        result = one.made.find(TO_REPAIR.id)
        assert result is not None
        assert result[2] is not None
        assert result[2].state is RepairState.FAILED
        assert "SELECT command denied" in result[2].error


def test_retention_waits_until_it_is_known_what_is_to_be_read_and_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    term = Term(tmp_path, MemoryHistory())
    assert term.made.needs_from() == FIRST_SEQ
    monkeypatch.setattr(term_verifications, "monotonic", lambda: monotonic() + HOLD_S)
    assert term.made.needs_from() is None, "the stream comes first"
    monkeypatch.undo()
    term.made.begin()
    assert term.made.needs_from() is None


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("what", ["certificates/*.parts/*", "certificates/*.json", "reports/*"])
@pytest.mark.parametrize("when", ["followed", "taken over"])
def test_a_damaged_file_of_a_dumps_certificate_costs_that_certificate_alone(
    tmp_path: Path, when: str, what: str, damage: Callable[[Path], None]
) -> None:
    world = World(tmp_path / "log")
    world.records(DumpState.RUNNING)
    world.segment(world.window())
    world.step(SAVE_S)
    world.segment()
    world.step(SAVE_S)
    world.records(DumpState.FINISHED)
    if "parts" not in what:
        world.step()
        world.step(ACCEPT_WAIT_S)
    files = [path for path in (tmp_path / "log").glob(what) if path.is_file()]
    assert files, "there is something to damage"
    for path in files:
        damage(path)
    follow_certificates(world, when)
    world.records(DumpState.RUNNING, OTHER)
    world.segment(world.window(dump=OTHER), known=OTHER)
    world.step()
    world.records(DumpState.FINISHED, OTHER)
    follow_certificates(world, when)
    world.step(ACCEPT_WAIT_S)
    assert world.certificate(OTHER)["chunk_count"] == 1, "the next dump has its own"
    kept_up_to = world.made.collected()
    assert kept_up_to is None or kept_up_to >= world.next - 1, "retention waits for nothing"


def follow_certificates(world: World, when: str) -> None:
    """As the service does: a life that ends is followed by another."""
    if when == "taken over":
        world.follower()
    for _ in range(3):
        try:
            world.step()
            world.step(ACCEPT_WAIT_S)
        except TicdcDumpError:
            world.follower()
