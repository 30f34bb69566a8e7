from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.errors import SinkError
from spark_merge.sinks.console.sink import ConsoleSink
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.registry import open_sink


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


def test_a_relative_path_is_made_whole_because_tasks_run_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sink = open_sink("out?format=parquet", log_id="log-1")
    assert isinstance(sink, FileSink)
    assert (sink.folder.root, sink.file_format) == (f"{tmp_path}/out", "parquet")


@pytest.mark.parametrize("uri", ["console:", "console://"])
def test_console_by_uri(uri: str) -> None:
    assert isinstance(open_sink(uri, log_id="log-1"), ConsoleSink)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("ftp://x/y", "no sink is known for ftp:.*console:, file:, s3:"),
        ("file:///x?format=csv", "no file format 'csv'.*jsonl, parquet"),
        ("file:///x?fromat=jsonl", "no parameter fromat.*known parameters: format"),
        ("file:///x?region=x", "no parameter region"),
        ("console:?format=jsonl", "no parameter format.*none"),
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
