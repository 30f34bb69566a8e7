"""What the preflight says of the push feed's address beside real servers of it. What it says of tokens: test_kv_make.py."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import grpc
import msgspec
import pytest

from sidecar.feeds.push import checks
from sidecar.feeds.push.checks import listens
from sidecar.feeds.push.messages import MessageFeed
from sidecar.feeds.push.puller import PushPuller
from sidecar.shared.config import ChangefeedSection, PushSection
from sidecar.shared.log.storage import open_folder
from sidecar.shared.process.checks import CheckFinding, CheckStatus
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.unit.feeds.pushing import Polling

OURS = ChangefeedSection(id="cf", namespace="prod", cluster="c1")
OUR_NAME = ChangefeedName("c1", "prod", "cf")
FORMS = ("key-values", "messages")
Feed = PushPuller | MessageFeed
Listening = Callable[..., tuple[PushSection, Feed]]


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    (tmp_path / "token").write_text("4a5b6c7d8e9f0a1b")
    return str(tmp_path / "token")


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Listening]:
    """A push feed that listens, and the settings with its port."""
    with ExitStack() as stack:

        def listen(form: str, changefeed: ChangefeedName, token_file: str = "") -> tuple[PushSection, Feed]:
            section = msgspec.convert({"listen": "127.0.0.1:0", "form": form, "token_file": token_file}, PushSection)
            feed: Feed
            if form == "messages":
                feed = MessageFeed(section, open_folder(str(tmp_path / "log")), changefeed=changefeed)
            else:
                feed = PushPuller(section, changefeed=changefeed)
            stack.enter_context(closing(feed))
            return msgspec.structs.replace(section, listen=f"127.0.0.1:{feed.port}"), feed

        yield listen


def asked(section: PushSection, feed: Feed | None = None) -> CheckFinding:
    """The finding about the address. `feed` is polled meanwhile, as its pipeline does."""
    with ThreadPoolExecutor(1) as asking:
        submit = asking.submit(lambda: [*listens(section, OURS)][-1])
        if isinstance(feed, PushPuller):
            Polling(feed).until(submit.done)
        return submit.result()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("with_token", [True, False])
def test_a_sidecar_of_this_changefeed_is_fine_and_is_given_no_sender(
    listening: Listening, token_file: str, form: str, *, with_token: bool
) -> None:
    section, feed = listening(form, OUR_NAME, token_file if with_token else "")
    finding = asked(section, feed)
    assert (finding.status, finding.what) == (CheckStatus.OK, f"a sidecar of this changefeed listens on {section.listen} already")
    assert feed.senders() == []


@pytest.mark.parametrize("form", FORMS)
def test_a_sidecar_of_another_changefeed_has_the_address(listening: Listening, form: str) -> None:
    section, feed = listening(form, ChangefeedName("c1", "prod", "other"))
    finding = asked(section, feed)
    assert (finding.status, finding.setting) == (CheckStatus.FAILED, "push.listen")
    assert "Address already in use, by another changefeed's sidecar" in finding.what


def test_a_sidecar_of_another_form_has_the_address(listening: Listening) -> None:
    """Senders of this changefeed would be refused there."""
    section, feed = listening("messages", OUR_NAME)
    assert asked(msgspec.structs.replace(section, form="key-values"), feed).status is CheckStatus.FAILED


def test_who_has_another_token_is_none_of_ours(listening: Listening, token_file: str) -> None:
    section, feed = listening("messages", OUR_NAME, token_file)
    finding = asked(msgspec.structs.replace(section, token_file=""), feed)
    assert finding.status is CheckStatus.FAILED
    assert "by no sidecar of this changefeed" in finding.what


def test_another_program_has_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "HELLO_ANSWER_S", 0.2)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent, ThreadPoolExecutor(1) as threads:
        another = grpc.server(threads)
        port = another.add_insecure_port("127.0.0.1:0")
        another.start()
        try:
            for taken in (silent.getsockname()[1], port):
                finding = asked(PushSection(listen=f"127.0.0.1:{taken}"))
                assert finding.status is CheckStatus.FAILED
                assert "by no sidecar of this changefeed" in finding.what
        finally:
            another.stop(None).wait()
