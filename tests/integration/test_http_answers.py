"""What the http: sink makes of a receiver's answers: which it waits for, goes on after, tells; what a body is; what is shown of secrets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import msgspec
import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from spark_merge.sinks.http import client
from spark_merge.sinks.http.client import Body, Client, Conflict, Receiver, client_of
from spark_merge.sinks.registry import open_sink
from spark_merge.testing import histories
from spark_merge.testing.places import Place
from spark_merge.testing.story import TABLES, Story
from tests.support.scripted_http import Answer, Scripted, scripted

BODY = Body(b'{"kind":"resolved"}\n', '"log/0.0-1.0"')


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as result:
        yield result


@pytest.fixture
def asking(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    for name, seconds in {"HTTP_RETRY_FIRST_S": 0.001, "HTTP_RETRY_MAX_S": 0.01, "JITTER_S": 0.001}.items():
        monkeypatch.setattr(client, name, seconds)
    result = Client(Receiver(server.url, timeout_s=60))
    yield result
    result.close()


@pytest.mark.parametrize("status", [0, 408, 425, 429, 500, 502, 503, 504])
def test_what_passes_without_help_is_tried_again(server: Scripted, asking: Client, status: int) -> None:
    server.answers.extend([Answer(status)] * 3)
    assert asking.post(BODY, after=None, state="a") is None
    assert len(server.seen) == 4
    assert server.bodies == [BODY.data]


@pytest.mark.parametrize("status", [0, 500, 504])
def test_a_body_whose_answer_was_lost_is_there_once(server: Scripted, asking: Client, status: int) -> None:
    server.answers.append(Answer(status, taken=True))
    assert asking.post(BODY, after=None, state="a") is None
    assert (len(server.seen), server.bodies) == (2, [BODY.data])
    assert server.seen[0][1]["idempotency-key"] == server.seen[1][1]["idempotency-key"] == BODY.key


@pytest.mark.parametrize("message", ["2", "date"])
def test_it_waits_as_long_as_the_receiver_says(server: Scripted, asking: Client, message: str) -> None:
    """A date is a whole second, so it may be up to one nearer."""
    began_s = time.monotonic()
    if message == "date":
        message = format_datetime(datetime.now(UTC) + timedelta(seconds=3), usegmt=True)
    server.answers.append(Answer(429, headers={"Retry-After": message}))
    assert asking.state() is None
    assert time.monotonic() - began_s > 1.5


def test_a_wait_that_is_too_long_is_cut_and_one_that_is_none_is_passed_over() -> None:
    assert client._seconds("86400") == client.RETRY_AFTER_MAX_S
    assert client._seconds("soon") is None


def test_a_storm_of_429_is_reported_with_what_the_receiver_says(server: Scripted, asking: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_S", 0.1)
    server.answers.extend([Answer(429, '{"reason": "too many\\nrequests"}')] * 1000)
    with pytest.raises(SinkError, match="429: too many requests") as error:
        asking.post(BODY, after=None, state="a")
    assert "continues automatically" in error.value.hint


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (413, "body-bytes"),
        (401, "token-file"),
        (403, "token-file"),
        (307, "redirects are not followed"),
        (400, "HTTP-SINK.md"),
        (404, "URL"),
    ],
)
def test_what_does_not_pass_stops_at_once_and_names_the_way_out(server: Scripted, asking: Client, status: int, hint: str) -> None:
    server.answers.append(Answer(status, "no \x1b[31m" + "x" * 5000, {"Location": "http://127.0.0.1:1/"}))
    with pytest.raises(SinkError, match=f"{status}: no") as error:
        asking.post(BODY, after=None, state="a")
    assert hint in error.value.hint
    assert len(str(error.value)) < 1000
    assert "\x1b" not in str(error.value)
    assert len(server.seen) == 1


def test_a_conflict_is_the_callers_to_judge(server: Scripted, asking: Client) -> None:
    server.state = "b"
    assert asking.post(BODY, after="a", state="c") == Conflict("it is elsewhere")


def test_an_answer_without_an_end_is_not_read(server: Scripted, asking: Client) -> None:
    server.answers.append(Answer(200, "x" * (1 << 20)))
    state = asking.state()
    assert state is not None
    assert len(state) == client.ANSWER_BYTES_MAX + 1
    assert asking.state() is None


def test_a_slow_receiver_gets_the_request_again_when_its_time_is_over(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_S", 60.0)
    requested = Scripted.asked

    def slowly(self: Scripted, method: str, headers: dict[str, str], body: bytes) -> Answer:
        answer = requested(self, method, headers, body)
        time.sleep(3 if len(self.seen) == 1 else 0)
        return answer

    monkeypatch.setattr(Scripted, "asked", slowly)
    patient = Client(Receiver(server.url, timeout_s=1))
    assert patient.post(BODY, after=None, state="a") is None
    assert server.bodies == [BODY.data]
    patient.close()


# ---- secrets ---------------------------------------------------------------------------------------------------------


def test_a_token_is_read_again_for_each_request_and_never_shown(server: Scripted, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("correct-horse\n")
    sink = open_sink(f"{server.url}?token-file={token}", log_id="log-1")
    server.answers.append(Answer(403, "not Bearer correct-horse"))
    with pytest.raises(SinkError, match="403: not Bearer …") as error:
        sink.look()
    assert "correct-horse" not in str(error.value)
    token.write_text("battery-staple\n")
    assert sink.look() is None
    assert [headers["authorization"] for _, headers, _ in server.seen] == ["Bearer correct-horse", "Bearer battery-staple"]
    token.write_text("two words\n")
    with pytest.raises(SinkError, match="not one token") as error:
        sink.look()
    assert "two" not in error.value.message.replace(str(token), "")


def test_a_password_goes_to_tasks_by_the_environment_alone(server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "TABLES", TABLES)
    uri = server.url.replace("//", "//user:pass%2Fword@")
    story = Story(tmp_path, Place(uri, lambda log_id: open_sink(uri, log_id=log_id), dict), seed=3)
    batch, work = story.begin(story.place.sink())
    assert "pass" not in repr(batch.writer)
    assert "pass/word" not in repr(work)
    work[0].carry_out()
    assert {headers["authorization"] for _, headers, _ in server.seen} == {"Basic dXNlcjpwYXNzL3dvcmQ="}
    monkeypatch.setattr(client, "kept", lambda *_: None)
    with pytest.raises(SinkError, match="password is not known") as error:
        work[0].carry_out()
    assert "token-file" in error.value.hint


# ---- what a body is --------------------------------------------------------------------------------------------------


@pytest.fixture
def story(tmp_path: Path, server: Scripted, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(histories, "TABLES", TABLES)
    return Story(tmp_path, Place(server.url, lambda log_id: open_sink(f"{server.url}?{PARAMETERS}", log_id=log_id), dict), seed=11)


PARAMETERS = "body-bytes=4000&body-rows=7&compression=gzip"


def test_bodies_are_bounded_and_each_reports_the_schemas_of_its_rows(story: Story, server: Scripted) -> None:
    story.finish(segments_max=100)
    bodies = [[msgspec.json.decode(line) for line in body.splitlines()] for body in server.bodies]
    assert bodies[0] == [], "who opens sends no lines"
    assert len(bodies) > 5
    for body, sent in zip(bodies[1:], server.bodies[1:], strict=True):
        rows = [record for record in body if "kind" not in record]
        schemas = [(record["schema"], record["table"]) for record in body if record.get("kind") == "schema"]
        assert len(rows) <= 7
        assert len(sent) <= 4000
        assert sorted(schemas) == sorted({(row["schema"], row["table"]) for row in rows})
    keys = [headers["idempotency-key"] for method, headers, _ in server.seen if method == "POST"]
    assert len(set(keys)) == len(keys)
    assert [key.partition("-")[2].rpartition("/")[2].split("-")[0] for key in keys[2:]] == [
        key.rstrip('"').rpartition("-")[2] for key in keys[1:-1]
    ]


def test_a_small_batch_is_one_request_and_its_acceptance_another(story: Story, server: Scripted) -> None:
    place = Place(server.url, lambda log_id: open_sink(server.url, log_id=log_id), dict)
    delivery = story.delivery(place.sink(), segments_max=2)
    server.seen.clear()
    batch = delivery.deliver()
    assert batch is not None
    assert len(batch.segments) == 2
    assert [method for method, _, _ in server.seen] == ["POST", "GET"]


def test_a_redo_sends_the_same_lines_under_the_same_keys(story: Story, server: Scripted) -> None:
    """By another owner, of the bodies that had not arrived."""
    _, work = story.begin(story.place.sink())
    server.answers.append(Answer(400))
    with pytest.raises(SinkError):
        work[0].carry_out()
    _, before, data = server.seen[-1]
    story.finish(segments_max=2)
    again = [body for _, headers, body in server.seen[1:] if headers.get("idempotency-key") == before["idempotency-key"]]
    assert again == [data, data]


def test_a_body_that_is_too_large_is_named_and_smaller_ones_go_on_where_it_was(story: Story, server: Scripted) -> None:
    _, work = story.begin(open_sink(f"{server.url}?body-rows=1", log_id="log-1"))
    server.answers.extend([Answer(204, taken=True), Answer(204, taken=True), Answer(413)])
    with pytest.raises(SinkError, match=r"segment \d+ from row \d+ on.* 413") as error:
        work[0].carry_out()
    assert "body-bytes" in error.value.hint
    place = Place(server.url, lambda log_id: open_sink(f"{server.url}?body-rows=3", log_id=log_id), dict)
    delivery = story.delivery(place.sink())
    while delivery.deliver():
        pass
    lines = [msgspec.json.decode(line) for body in server.bodies for line in body.splitlines()]
    rows = [record for record in lines if "op" in record]
    for table in story.tables:
        mine = [row for row in rows if (row["schema"], row["table"]) == table]
        assert [
            (row["seq"], int(row["commit_ts"]), row["op"], tuple(row["key"].values()), row["after"] and tuple(row["after"].values()))
            for row in mine
        ] == story.expected(table)


def test_a_row_that_is_too_large_by_itself_is_reported_with_its_table(story: Story, server: Scripted) -> None:
    sink = open_sink(f"{server.url}?body-rows=1", log_id="log-1")
    _, work = story.begin(sink)
    server.answers.append(Answer(413))
    with pytest.raises(SinkError, match=r"a single row of s\.t\d, key \{\"id\":.*\}, a body of [\d,]+ bytes: 413") as error:
        work[0].carry_out()
    assert "client_max_body_size" in error.value.hint


def test_a_receiver_that_refuses_what_follows_its_own_state_is_reported(story: Story, server: Scripted) -> None:
    _, work = story.begin(story.place.sink())
    server.answers.append(Answer(409, '{"reason": "I do not like it"}'))
    with pytest.raises(SinkError, match="I do not like it"):
        work[0].carry_out()


def test_a_receiver_that_lost_its_state_is_reported(story: Story, server: Scripted) -> None:
    _, work = story.begin(story.place.sink())
    server.state = ""
    with pytest.raises(SinkError, match="has lost its state"):
        work[0].carry_out()


def test_another_owner_fences_and_an_older_one_is_a_backup(story: Story, server: Scripted) -> None:
    _, work = story.begin(story.place.sink())
    before = server.state
    story.place.sink().open(epoch=None)
    with pytest.raises(OwnershipLost, match="later owner"):
        work[0].carry_out()
    _, work = story.begin(story.place.sink())
    server.state = before
    with pytest.raises(SinkError, match="restored from a backup"):
        work[0].carry_out()


def test_tasks_of_one_process_share_connections() -> None:
    receiver = Receiver("http://127.0.0.1:1/")
    assert client_of(receiver) is client_of(Receiver("http://127.0.0.1:1/"))
    assert client_of(receiver) is not client_of(Receiver("http://127.0.0.1:1/x"))
