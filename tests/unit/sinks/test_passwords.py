"""One rule for every server that tasks log in to: the file, then what the URI said, then the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.process.kept_secrets import keep
from spark_merge.sinks.kit.passwords import keep_password, password_of


def test_the_file_comes_first_then_what_is_kept_then_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "password"
    secret.write_text("of the file\n")
    monkeypatch.setenv("OF_THE_TEST", "of the environment")
    assert password_of("u@one", kind="test-passwords", file="", variable="OF_THE_TEST") == "of the environment"
    keep("test-passwords", "u@one", "of the URI")
    assert password_of("u@one", kind="test-passwords", file="", variable="OF_THE_TEST") == "of the URI"
    assert password_of("u@one", kind="test-passwords", file=str(secret), variable="OF_THE_TEST") == "of the file"


def test_a_uri_without_a_password_leaves_what_another_one_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TEST", "of the environment")
    steps = [(None, "of the environment"), ("of%20the%20URI", "of the URI"), (None, "of the URI"), ("another", "another"), ("", "")]
    for brought, known in steps:
        keep_password("u@four", brought, kind="test-passwords", file="", variable="OF_THE_TEST")
        assert password_of("u@four", kind="test-passwords", file="", variable="OF_THE_TEST") == known


def test_a_process_that_has_it_no_way_says_how_it_gets_it(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"u@two: its password is not known(.|\n)*password-file=, or set NOT_SET"):
        password_of("u@two", kind="test-passwords", file="", variable="NOT_SET")
    with pytest.raises(SinkError, match="cannot be read"):
        password_of("u@two", kind="test-passwords", file=str(tmp_path / "absent"), variable="NOT_SET")
