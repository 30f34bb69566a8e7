"""The http: sink over TLS to the sample receiver: authorities, our certificate, a token; what is refused, and what is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from spark_merge.sinks.http import client
from spark_merge.sinks.registry import open_sink
from spark_merge.testing import histories
from spark_merge.testing.places import accepted
from spark_merge.testing.story import TABLES, Story
from tests.support.services.http_receiver import HttpReceiver
from tests.support.services.tls import Authority, Signed

pytestmark = pytest.mark.xdist_group("http-receiver")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def ours(authority: Authority) -> Signed:
    return authority.sign("worker")


@pytest.fixture(scope="module")
def receiver(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpReceiver]:
    folder = tmp_path_factory.mktemp("receiver")
    (folder / "token").write_text("correct-horse-battery\n")
    signed = authority.sign("receiver")
    tls = ("--cert", str(signed.cert_file), "--key", str(signed.key_file), "--ca", str(authority.ca_file))
    with HttpReceiver(folder, *tls, "--token-file", str(folder / "token"), scheme="https") as http_receiver:
        yield http_receiver


def given(receiver: HttpReceiver, authority: Authority, ours: Signed) -> dict[str, str]:
    files = {"ca": authority.ca_file, "cert": ours.cert_file, "key": ours.key_file, "token_file": receiver.file.parent / "token"}
    return {name: str(path) for name, path in files.items()}


def test_a_log_goes_over_tls_with_certificates_and_a_token(
    receiver: HttpReceiver, authority: Authority, ours: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "TABLES", TABLES)
    story = Story(tmp_path, receiver.place("whole", **given(receiver, authority, ours)), seed=2)
    story.finish()
    story.check_end()


def test_a_receiver_of_another_authority_is_refused_at_once(
    receiver: HttpReceiver, authority: Authority, ours: Signed, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    sink = open_sink(receiver.uri("x", **given(receiver, authority, ours) | {"ca": str(other.ca_file)}), log_id="log-1")
    with pytest.raises(SinkError, match="certificate verify failed") as error:
        sink.look()
    assert "ca=FILE" in error.value.hint
    by_machine = open_sink(receiver.uri("x"), log_id="log-1")
    with pytest.raises(SinkError, match="certificate verify failed"):
        by_machine.look()


def test_who_has_no_certificate_or_another_token_is_refused(
    receiver: HttpReceiver, authority: Authority, ours: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RETRY_S", 0.1)
    trusted = given(receiver, authority, ours)
    nameless = {name: trusted[name] for name in ("ca", "token_file")}
    with pytest.raises(SinkError, match="asking for its state"):
        open_sink(receiver.uri("x", **nameless), log_id="log-1").look()
    (tmp_path / "token").write_text("another-token")
    with pytest.raises(SinkError, match="401: another token is needed") as error:
        open_sink(receiver.uri("x", **trusted | {"token_file": str(tmp_path / "token")}), log_id="log-1").look()
    assert "another-token" not in str(error.value)
    assert accepted(open_sink(receiver.uri("x", **trusted), log_id="log-1")) is None


def test_files_that_cannot_be_used_are_named(receiver: HttpReceiver, authority: Authority, ours: Signed) -> None:
    trusted = given(receiver, authority, ours)
    for name in ("ca", "cert", "key"):
        with pytest.raises(SinkError, match="files of TLS cannot be used") as error:
            open_sink(receiver.uri("x", **trusted | {name: "/nowhere.pem"}), log_id="log-1").look()
        assert name in error.value.hint
    with pytest.raises(SinkError, match=r"token-file /nowhere cannot be read"):
        open_sink(receiver.uri("x", **trusted | {"token_file": "/nowhere"}), log_id="log-1").look()
