from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.shared.errors import ConfigError, SinkError
from spark_merge.sinks.console.sink import ConsoleSink
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.registry import KINDS, holds_rows, name_of, open_sink, open_sinks, output_of


def test_the_registry_names_the_sinks_and_imports_none() -> None:
    """A process loads what its URIs name, and a change of one sink concerns the tests that name it (tests/choice)."""
    code = "import sys, spark_merge.sinks.registry; print(*(name for name in sys.modules if name.startswith('spark_merge.sinks.')))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    rooms = {f"spark_merge.sinks.{named.kind.partition(':')[0].partition('.')[0]}" for named in KINDS.values()}
    assert "spark_merge.sinks.registry" in loaded
    assert not [module for module in loaded if any(f"{module}.".startswith(f"{room}.") for room in rooms)]


@pytest.mark.parametrize(
    ("uri", "place", "file_format"),
    [
        ("file:///var/out", "file:///var/out", "jsonl"),
        ("file:///var/out?format=parquet", "file:///var/out", "parquet"),
        ("/var/out/?format=jsonl", "file:///var/out", "jsonl"),
        ("s3://b/x/y?format=parquet&endpoint=http://127.0.0.1:9&region=r", "s3://b/x/y", "parquet"),
    ],
)
def test_files_by_uri(uri: str, place: str, file_format: str) -> None:
    sink = open_sink(uri, log_id="log-1")
    assert isinstance(sink, FileSink)
    assert (str(sink.folder), sink.file_format) == (place, file_format)


@pytest.mark.parametrize("uri", ["not a uri", "out?format=parquet", "./out", "kafka//broker:9092/topic", "console"])
def test_what_is_neither_a_uri_nor_a_whole_path_is_no_sink(uri: str) -> None:
    with pytest.raises(SinkError, match=r"(?s)neither a URI nor the whole path.*kafka:.*write /var/out"):
        open_sink(uri, log_id="log-1")


@pytest.mark.parametrize("uri", ["console:", "console://"])
def test_console_by_uri(uri: str) -> None:
    assert isinstance(open_sink(uri, log_id="log-1"), ConsoleSink)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        (
            "ftp://x/y",
            r"no sink is known for ftp:.*clickhouse:, .*console:, .*delta:, .*file:, grpc:, http:, .*iceberg:, .*kafka:, .*mysql:, "
            r".*opensearch:, .*s3:, sqlite:, tidb",
        ),
        ("file:///x?format=csv", "format='csv' is none of jsonl, parquet"),
        ("kafak://b/t", "no sink is known for kafak:, did you mean kafka:\\?"),
        ("file:///x?fromat=jsonl", "no parameter fromat, did you mean format\\?.*known parameters: .*format"),
        ("file:///x?region=x", "no parameter region"),
        ("console:?format=jsonl", "no parameter format.*name"),
        ("file://var/out", "whole path"),
        ("file:out", "whole path"),
        ("file://", "whole path"),
        ("", "whole path"),
        ("s3:///x", "needs a bucket"),
        ("/var/a#b", "has a '#'"),
    ],
)
def test_what_is_unknown_is_refused_with_what_is_known(uri: str, message: str) -> None:
    with pytest.raises(SinkError, match=f"(?s){message}"):
        open_sink(uri, log_id="log-1")


def test_a_refusal_shows_no_secret() -> None:
    with pytest.raises(SinkError) as refused:
        open_sink("s3://b/x?secret-access-key=hush&oops=hush", log_id="log-1")
    assert "oops" in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "uri",
    [
        "mysql://u:a?hush@h/",
        "mysql://u:a#hush@h/",
        "mysql://u:a/hush@h/",
        "mysql://u:a[hush@h/",
        "kafka://h:1/t?sasl-password=a&hush@b=1",
    ],
)
def test_a_password_that_is_not_encoded_is_not_reported_in_parts(uri: str) -> None:
    with pytest.raises(SinkError) as refused:
        open_sinks([uri], log_id="log-1")
    assert "hush" not in str(refused.value)


def test_a_folder_with_files_of_somebody_else_holds_rows_and_one_that_is_new_or_ours_does_not(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/out?format=jsonl"
    assert not holds_rows(uri, log_id="log-1")
    (tmp_path / "out" / "shop").mkdir(parents=True)
    assert not holds_rows(uri, log_id="log-1"), "a folder is no row"
    (tmp_path / "out" / "shop" / "CDC000001.csv").write_text("I,orders,shop,1\n")
    assert holds_rows(uri, log_id="log-1")
    ours = f"file://{tmp_path}/ours"
    sink = open_sink(ours, log_id="log-1")
    sink.open(epoch=1)
    assert not holds_rows(ours, log_id="log-1")


def test_a_sink_that_cannot_report_holds_nothing_and_a_wrong_uri_is_refused() -> None:
    assert not holds_rows("console:", log_id="log-1")
    with pytest.raises(SinkError, match="no sink is known"):
        holds_rows("ftp://x/y", log_id="log-1")


def test_two_outputs_at_one_server_have_names_of_their_own() -> None:
    """And no name shows who logs in, or where tables go."""
    first, second = (f"mysql://u:secret@db:3306/?routes=a.*%3D>{name}.*&position-schema={name}" for name in ("one", "two"))
    assert list(open_sinks([first, second], log_id="log-1")) == [
        "mysql://db:3306/?position-schema=one",
        "mysql://db:3306/?position-schema=two",
    ]
    with pytest.raises(ConfigError, match="one output twice"):
        open_sinks([first, first.replace("a.*", "b.*")], log_id="log-1")
    topics = [f"kafka://b:9092/t?sasl-password=secret&position-topic={name}" for name in ("one", "two")]
    assert list(map(name_of, topics)) == ["kafka://b:9092/t?position-topic=one", "kafka://b:9092/t?position-topic=two"]


def test_a_sink_is_called_by_its_name_or_else_by_its_uri_without_secrets() -> None:
    assert name_of("s3://me:hush@b/out?format=jsonl&secret-access-key=hush") == "s3://b/out?format=jsonl"
    assert name_of("s3://b/out?format=jsonl&name=lake") == "lake"
    assert output_of("s3://b/out?format=jsonl&name=lake") == "s3://b/out?format=jsonl"
    assert list(open_sinks(["file:///a?format=jsonl&name=a.b-c_1", "console:"], log_id="x")) == ["a.b-c_1", "console:"]


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "x" * 65])
def test_a_name_that_is_none_is_refused_with_what_one_may_be(name: str) -> None:
    with pytest.raises(SinkError, match="no name of a sink") as raised:
        open_sink(f"console:?name={name}", log_id="x")
    assert "name=lake: up to 64 letters" in raised.value.hint


def test_two_sinks_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two sinks have one name: lake, lake"):
        open_sinks(["file:///a?format=jsonl&name=lake", "file:///b?format=jsonl&name=lake"], log_id="x")
    with pytest.raises(ConfigError, match="names one output twice"):
        open_sinks(["file:///a?format=jsonl&name=lake", "file:///a?format=jsonl&name=sea"], log_id="x")
