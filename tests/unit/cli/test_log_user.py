"""Who may write beside a log, and by which name."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import pytest

from sidecar.cli.log_user import check_owner, user_here
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.storage import open_folder


def test_the_logs_user_may_and_another_one_learns_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, owner = open_folder(str(tmp_path)), os.stat(tmp_path).st_uid
    check_owner(log, "holes")
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(RefusedRequest, match=f"is user {owner}'s, and this is user {owner + 1}") as refused:
        check_owner(log, "holes")
    assert refused.value.hint.endswith("-- ticdc-dump holes …")
    check_owner(open_folder(str(tmp_path / "empty")), "holes")


def test_a_user_without_a_name_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): no name")

    monkeypatch.setattr(getpass, "getuser", lambda: "alice")
    assert user_here().startswith("alice@")
    monkeypatch.setattr(getpass, "getuser", nobody)
    assert user_here().startswith(f"uid {os.getuid()}@")
