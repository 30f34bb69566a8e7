"""The client of a schema registry: what it asks, and what each answer means. The real one: tests/integration/test_kafka_sink_avro.py."""

from __future__ import annotations

import pickle
import ssl
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.process.patience import patience
from spark_merge.sinks.kafka import schema_registry
from spark_merge.sinks.kafka.schema_registry import RegistryOptions, SchemaRegistry
from spark_merge.sinks.kit.options import read
from tests.support.scripted_http import Answer, Scripted, scripted
from tests.support.services.tls import Authority

SCHEMA = '{"type":"record","name":"t","namespace":"default.shop","fields":[]}'
AT_ONCE_S = 0.2


@pytest.fixture
def server() -> Iterator[Scripted]:
    schema_registry._id_of.cache_clear()
    schema_registry._schema.cache_clear()
    with scripted() as one:
        yield one


def registry(server: Scripted, **parameters: str) -> SchemaRegistry:
    given = {"schema-registry": f"http://127.0.0.1:{server.port}/root/"} | {name.replace("_", "-"): one for name, one in parameters.items()}
    return SchemaRegistry.of(read(RegistryOptions, given))


def test_a_schema_is_registered_once_in_a_process(server: Scripted) -> None:
    server.answers.extend([Answer(200, '{"id": 7}'), Answer(200, '{"id": 8}')])
    one = registry(server)
    assert [one.id_of("a/b-value", SCHEMA), one.id_of("a/b-value", SCHEMA), one.id_of("a/b-key", SCHEMA)] == [7, 7, 8]
    [(method, headers, body), _] = server.seen
    assert (method, headers["content-type"]) == ("POST", "application/vnd.schemaregistry.v1+json")
    assert msgspec.json.decode(body) == {"schema": SCHEMA}
    assert "authorization" not in headers


def test_a_schema_is_read_by_its_id(server: Scripted) -> None:
    server.answers.append(Answer(200, msgspec.json.encode({"schema": SCHEMA, "references": []}).decode()))
    assert registry(server).schema(7) == SCHEMA
    server.answers.append(Answer(404, '{"error_code": 40403, "message": "no such schema"}'))
    with pytest.raises(SinkError, match="it has no schema 8"):
        registry(server).schema(8)


@pytest.mark.parametrize(
    ("answer", "says", "hint"),
    [
        (Answer(409, '{"message": "reader type: STRING"}'), "t-value does not take .*: reader type: STRING", "PUT /config/t-value"),
        (Answer(422, '{"error_code": 42201, "message": "bad"}'), r"422: bad \(42201\)", "report this"),
        (Answer(401, "who\nare you"), "401: who are you", "basic-auth-user-info"),
        (Answer(404, "<html>"), "404: <html>", "apis/ccompat"),
        (Answer(200, '{"id": "x"}'), "its answer is not as expected", "apis/ccompat"),
        (Answer(302, "", {"Location": "http://127.0.0.1:1/"}), "302", "apis/ccompat"),
    ],
)  # fmt: skip
def test_what_a_person_must_repair_is_reported_at_once(server: Scripted, answer: Answer, says: str, hint: str) -> None:
    server.answers.append(answer)
    with pytest.raises(SinkError, match=says) as error:
        registry(server).id_of("t-value", SCHEMA)
    assert hint in error.value.hint
    assert len(server.seen) == 1


def test_what_passes_is_tried_again_and_an_error_is_not_kept(server: Scripted) -> None:
    one = registry(server)
    server.answers.extend([Answer(503), Answer(429), Answer(0), Answer(200, '{"id": 3}')])
    assert one.id_of("t-value", SCHEMA) == 3
    server.answers.extend([Answer(500, '{"message": "no leader"}')] * 1000)
    with patience(AT_ONCE_S), pytest.raises(SinkError, match="subject u-value: 500: no leader") as error:
        one.id_of("u-value", SCHEMA)
    assert "continues automatically" in error.value.hint
    server.answers.clear()
    server.answers.append(Answer(200, '{"id": 4}'))
    assert one.id_of("u-value", SCHEMA) == 4


def test_the_next_address_is_tried_where_one_does_not_answer(server: Scripted) -> None:
    server.answers.append(Answer(200, '{"id": 5}'))
    one = registry(server, schema_registry=f"http://127.0.0.1:1,http://127.0.0.1:{server.port}")
    assert one.id_of("t-value", SCHEMA) == 5


def test_without_registration_a_schema_is_looked_up(server: Scripted) -> None:
    one = registry(server, auto_register_schemas="false")
    server.answers.extend([Answer(200, '{"id": 6}'), Answer(404, '{"error_code": 40403, "message": "no such schema"}')])
    assert one.id_of("t-value", SCHEMA) == 6
    with pytest.raises(SinkError, match="subject u-value does not have the table's schema, and auto-register-schemas is false") as error:
        one.id_of("u-value", SCHEMA)
    assert SCHEMA in error.value.hint


def test_a_large_schema_is_not_all_in_an_error(server: Scripted) -> None:
    server.answers.append(Answer(404))
    large = SCHEMA + " " * 100_000
    with pytest.raises(SinkError) as error:
        registry(server, auto_register_schemas="false").id_of("v-value", large)
    assert SCHEMA in error.value.hint
    assert f"{len(large)} characters" in error.value.hint
    assert "auto-register-schemas=true once" in error.value.hint
    assert len(error.value.hint) < 2_500


@pytest.mark.parametrize("place", ["url", "info", "file", "environment"])
def test_the_password_is_sent_and_shown_nowhere(server: Scripted, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("pw:中@\n", encoding="utf-8")
    if place == "environment":
        monkeypatch.setenv("TICDC_DUMP_SCHEMA_REGISTRY_PASSWORD", "pw:中@")
    parameters = {
        "url": {"schema_registry": f"http://me:pw%3A%E4%B8%AD%40@127.0.0.1:{server.port}"},
        "info": {"basic_auth_user_info": "me:pw:中@"},
        "file": {"basic_auth_user_info": "me:other", "schema_registry_password_file": str(tmp_path / "password")},
        "environment": {"basic_auth_user_info": "me"},
    }[place]
    one = registry(server, **parameters)
    assert "pw:" not in str(one) + repr(one)
    assert b"pw:" not in pickle.dumps(one)
    server.answers.append(Answer(401))
    with pytest.raises(SinkError) as error:
        pickle.loads(pickle.dumps(one)).id_of("t-value", SCHEMA)
    assert "pw:" not in str(error.value)
    assert server.seen[0][1]["authorization"] == "Basic " + b64encode("me:pw:中@".encode()).decode()


def test_each_account_of_a_registry_has_its_own_password(server: Scripted) -> None:
    """An account that comes without one keeps what it had."""
    accounts = [registry(server, basic_auth_user_info=one) for one in ("alice:pw-a", "bob:pw-b", "alice", "carol")]
    sent = [one.headers()["Authorization"] for one in accounts]
    known = ["alice:pw-a", "bob:pw-b", "alice:pw-a", "carol:"]
    assert sent == ["Basic " + b64encode(one.encode()).decode() for one in known]


@pytest.mark.parametrize(
    "url", ["", "localhost:8081", "ftp://h", "http://", "http://me:secret@", "http://me:secret[x@h:1", "http://me:secret／x@h:1"]
)
def test_what_is_no_address_is_refused_without_its_text(url: str) -> None:
    with pytest.raises(ConfigError, match="is no URL of a schema registry") as error:
        SchemaRegistry.of(RegistryOptions(url=url))
    assert "secret" not in str(error.value)
    assert (error.value.__cause__, error.value.__context__) == (None, None), "a traceback would have the text"


def test_files_of_tls_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    one = SchemaRegistry(("https://127.0.0.1:1",), ca=str(tmp_path / "gone.pem"))
    with pytest.raises(SinkError, match="the files of TLS cannot be used") as error:
        one.id_of("t-value", SCHEMA)
    assert "schema-registry-ssl-ca-location" in error.value.hint


def test_over_tls_both_sides_have_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    theirs, ours = authority.sign("registry"), authority.sign("sink")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.ca_file))
    tls.load_cert_chain(theirs.cert_file, theirs.key_file)
    tls.verify_mode = ssl.CERT_REQUIRED
    with scripted(tls) as server:
        server.answers.append(Answer(200, '{"id": 9}'))
        urls, ca = (f"https://127.0.0.1:{server.port}",), str(authority.ca_file)
        one = SchemaRegistry(urls, ca=ca, cert=str(ours.cert_file), key=str(ours.key_file))
        assert one.id_of("t-value", SCHEMA) == 9
        with pytest.raises(SinkError, match="certificate verify failed") as error:
            SchemaRegistry(urls).id_of("t-value", SCHEMA)
        assert "schema-registry-ssl-ca-location" in error.value.hint
        with patience(AT_ONCE_S), pytest.raises(SinkError, match=r"(?i)certificate required|no answer|eof|reset"):
            SchemaRegistry(urls, ca=ca).id_of("t-value", SCHEMA)
