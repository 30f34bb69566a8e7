"""The last DDLs: each once, with how many passed unseen; a takeover begins to count anew."""

from __future__ import annotations

from sidecar.control.status import SidecarStatus
from sidecar.run.ddls import CHARS_MAX, KEPT, SeenDdl, SeenDdls
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.ticdc.changefeed import ChangefeedName

NAME = ChangefeedName("default", "default", "cf")


def status(ddls: int, *, epoch: int = 1, text: str = "") -> SidecarStatus:
    return SidecarStatus(
        NAME, epoch, "here:1", ddls=ddls, last_ddl_ts=CommitTs(100 * epoch + ddls) if ddls else None, last_ddl=text or f"ddl {ddls}"
    )


def seen(*statuses: SidecarStatus) -> list[SeenDdl]:
    ddls = SeenDdls()
    for one in statuses:
        ddls.see(one)
    return ddls.seen()


def test_each_is_kept_once_and_what_passed_between_is_counted() -> None:
    seen_ddls = seen(status(0), status(1), status(1), status(4))
    assert seen_ddls == [SeenDdl(CommitTs(101), "ddl 1", 0), SeenDdl(CommitTs(104), "ddl 4", 2)]


def test_another_owner_counts_again() -> None:
    seen_ddls = seen(status(3), status(0, epoch=2), status(2, epoch=2))
    assert [(one.commit_ts, one.unseen) for one in seen_ddls] == [(103, 2), (202, 1)]


def test_the_newest_are_kept_and_long_texts_are_cut() -> None:
    seen_ddls = seen(*(status(number, text="x" * 3000) for number in range(1, KEPT + 6)))
    assert [one.commit_ts for one in seen_ddls] == list(range(106, 101 + KEPT + 5))
    assert {len(one.text) for one in seen_ddls} == {CHARS_MAX}
