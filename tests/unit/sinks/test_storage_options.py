"""What a URI says of a storage output, and what is refused by name."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sidecar.shared.errors import TicdcDumpError
from spark_merge.port.contract import Gathers
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.folders import FILE
from spark_merge.sinks.formats.csv_lines import CsvForm
from spark_merge.sinks.registry import holds_rows, leaves, name_of, open_sink
from spark_merge.sinks.storage.options import options_of
from spark_merge.sinks.storage.sink import StorageSink
from spark_merge.sinks.storage.uri import open_storage


def test_the_defaults_are_ticdcs() -> None:
    options = options_of({"protocol": "csv"})
    assert options.csv == CsvForm(",", '"', "\\N", commit_ts=False, base64=True, old_values=False, header=False, terminator="\r\n")
    assert (options.ending, options.date, options.digits, options.partitions, options.file_bytes) == ("csv", "%Y-%m-%d", 20, True, 64 << 20)
    assert options_of({"protocol": "canal-json"}).json is not None


@pytest.mark.parametrize(("text", "seconds"), [("0s", 0), ("2s", 2), ("1m30s", 90), ("10m", 600)])
def test_a_sink_gathers_for_the_flush_interval(text: str, seconds: float) -> None:
    sink = open_sink(f"file:///var/out?protocol=csv&flush-interval={text}", log_id="l")
    assert isinstance(sink, Gathers)
    assert (sink.gather_s, options_of({"protocol": "csv"}).flush_s) == (seconds, 5)


def test_options_go_to_tasks() -> None:
    options = options_of({"protocol": "canal-json", "time-zone": "Asia/Shanghai", "content-compatible": "true"})
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("protocol=csv&format=jsonl", "both format and protocol"),
        ("protocol=avro", "protocol='avro' is none of csv, canal-json"),
        ("csv.quote=x", "csv.quote and no protocol"),
        ("date-separator=day&format=parquet", "date-separator and no protocol"),
        ("protocol=csv&date-separator=hour", "date-separator='hour' is none of none, year, month, day"),
        ("protocol=csv&file-size=5", "file-size='5' is no number from 1048576"),
        ("protocol=csv&file-index-digit=21", "file-index-digit"),
        ("protocol=csv&flush-interval=1s", "flush-interval='1s' is neither 0s nor a time from 2s to 10m"),
        ("protocol=csv&flush-interval=", "flush-interval"),
        ("protocol=csv&csv.output-handle-key=true", "csv.output-handle-key=true"),
        ("protocol=csv&content-compatible=true", "content-compatible is not of protocol=csv"),
        ("protocol=canal-json&csv.quote=x", "csv.quote is not of protocol=canal-json"),
        ("protocol=canal-json&enable-tidb-extension=false", "extension alone"),
        ("protocol=csv&csv.quote=ab", "csv.quote is 'ab'"),
        ("protocol=csv&csv.delimiter=", "csv.delimiter is ''"),
        ("protocol=csv&csv.delimiter=%22", "csv.delimiter"),
        ("protocol=csv&csv.quote=&csv.delimiter=n", "an escape would look like it"),
        ("protocol=csv&time-zone=Moon", "time-zone=Moon"),
        ("protocol=csv&output-column-id=true", "no parameter output-column-id"),
        ("protocol=csv&config=x", "no parameter config"),
    ],
)
def test_what_cannot_be_is_refused_by_name(query: str, message: str) -> None:
    with pytest.raises(TicdcDumpError, match=f"(?s){message}"):
        open_sink(f"file:///var/out?{query}", log_id="log-1")


def test_a_folder_is_of_the_sink_that_its_uri_names(tmp_path: Path) -> None:
    assert isinstance(open_sink(f"file://{tmp_path}?format=parquet", log_id="l"), FileSink)
    assert isinstance(open_sink(f"{tmp_path}?protocol=csv&flush-interval=5s&worker-count=9", log_id="l"), StorageSink)
    assert isinstance(open_sink("s3://b/p?protocol=canal-json&region=x", log_id="l"), StorageSink)
    assert FILE.open is not open_storage
    assert name_of("s3://b/p?protocol=csv&access-key=a&secret-access-key=b") == "s3://b/p"


def test_what_is_there_before_and_what_is_left(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/out?protocol=csv"
    assert not holds_rows(uri, log_id="l")
    open_sink(uri, log_id="l").open(epoch=None)
    assert not holds_rows(uri, log_id="l")
    assert f"{tmp_path}/out/_ticdc_dump" in leaves(uri)
    (tmp_path / "out2" / "shop").mkdir(parents=True)
    (tmp_path / "out2" / "shop" / "CDC000001.csv").touch()
    assert holds_rows(f"file://{tmp_path}/out2?protocol=csv", log_id="l")
