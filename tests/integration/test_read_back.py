"""Rows of outputs that keep rows of all times, read back: every type with values that formats find hard, from changes and from dumps; and
what such a reader refuses, for rows that it does not have would be missing without a word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import open_folder
from spark_merge.port.readable import Readable
from spark_merge.sinks.files.reading import FilesPart
from spark_merge.sinks.http.reading import ReceiverPart
from spark_merge.sinks.kafka.reading import KafkaPart
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.registry import open_sink, why_not_readable
from spark_merge.sinks.storage.reading import StoragePart
from tests.support.deliveries import ORDERS, Segments, change, chunk, deliver, write_chunk
from tests.support.kafka_feeds import new_topic
from tests.support.read_back import EVERY_TYPE_PADDED as TABLE
from tests.support.read_back import images, reading_of, rows_of, table_of, texts_of
from tests.support.scripted_http import scripted
from tests.support.services.http_receiver import HttpReceiver
from tests.support.services.kafka import KafkaBroker
from tests.support.services.schema_registry import ApicurioRegistry
from tests.unit.encode.open_tables import Image, table

pytestmark = pytest.mark.xdist_group("read-back")

LOG = "log-1"
Uri = Callable[[pytest.FixtureRequest, Path], str]


def _file(query: str) -> Uri:
    return lambda _, folder: f"file://{folder}/out?{query}"


def _kafka(query: str) -> Uri:
    def uri(request: pytest.FixtureRequest, _: Path) -> str:
        broker: KafkaBroker = request.getfixturevalue("broker")
        return f"kafka://{broker.bootstrap}/{new_topic()}?partition-num=2&{query}"

    return uri


def _avro(query: str, protocol: str = "avro") -> Uri:
    def uri(request: pytest.FixtureRequest, folder: Path) -> str:
        registry: ApicurioRegistry = request.getfixturevalue("schema_registry")
        return f"{_kafka(query)(request, folder)}&protocol={protocol}&schema-registry={quote(registry.url, safe='')}"

    return uri


def _http(request: pytest.FixtureRequest, folder: Path) -> str:
    receiver = HttpReceiver(folder / "receiver")
    receiver.start()
    request.addfinalizer(receiver.kill)
    return receiver.uri("out", body_rows="7")


SMALL = replace(table([("id", "int(11)"), ("name", "varchar(20)")]), name=ORDERS)
CSV = "protocol=csv&csv.include-commit-ts=true"
PARTS = (FilesPart, StoragePart, KafkaPart, ReceiverPart)
OUTPUTS: dict[str, Uri] = {
    "jsonl": _file("format=jsonl"),
    "parquet": _file("format=parquet"),
    "csv": _file(CSV),
    "csv of another form": _file(
        f"{CSV}&csv.output-old-value=true&csv.output-field-header=true&csv.binary-encoding-method=hex&csv.null=&csv.delimiter=%7C"
        f"&csv.quote=%27&terminator=%0A&time-zone={quote('America/New_York')}&date-separator=none"
    ),
    "canal-json in files": _file("protocol=canal-json"),
    "canal-json in files, of another form": _file(
        "protocol=canal-json&only-output-updated-columns=true&content-compatible=true&delete-only-output-handle-key-columns=true"
        f"&time-zone={quote('America/New_York')}"
    ),
    "http": _http,
    "open-protocol": _kafka("protocol=open-protocol"),
    "open-protocol of the new architecture": _kafka(f"protocol=open-protocol&architecture=new&time-zone={quote('Europe/Paris')}"),
    "avro": _avro("avro-bigint-unsigned-handling-mode=string"),
    "debezium-avro": _avro("invalid-dates=null-or-epoch", "debezium-avro"),
    "debezium-avro of another form": _avro(
        "invalid-dates=null-or-epoch&decimal-handling-mode=string&bigint-unsigned-handling-mode=string&transactions=false", "debezium-avro"
    ),
    "avro of another form": _avro(
        "avro-bigint-unsigned-handling-mode=string&avro-decimal-handling-mode=string&enable-tidb-extension=true&architecture=new"
        f"&avro-include-before-value=true&time-zone={quote('America/New_York')}"
    ),
    "debezium": _kafka("protocol=debezium&invalid-dates=null-or-epoch"),
    "debezium without schemas": _kafka(
        "protocol=debezium&invalid-dates=null-or-epoch&debezium-disable-schema=true&decimal-handling-mode=string"
        "&bigint-unsigned-handling-mode=string&tombstones-on-delete=false&transactions=false"
    ),
    "canal-json": _kafka("protocol=canal-json&delete-only-output-handle-key-columns=true&transactions=false"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_value_is_read_back_as_the_source_has_it(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    """Inserts, updates, deletes, changes of the key, and rows of a dump."""
    uri, log, schemas = OUTPUTS[name](request, tmp_path), open_folder(str(tmp_path)), {TABLE.name: TABLE}
    drawn = images(Random(len(name)))
    rows: dict[str | None, Image] = {str(at): [str(at), *next(drawn)[1:]] for at in range(40)}
    history: list[tuple[Image | None, Image | None]] = [(None, row) for row in rows.values()]
    for at in range(20):
        old, new = rows.pop(str(at)), [str(at if at < 10 else 1000 + at), *next(drawn)[1:]]
        if at >= 15:
            history.append((old, None))
            continue
        history += [(old, new)] if at < 10 else [(old, None), (None, new)]
        rows[new[0]] = new
    live = [change(1, 1 + at, before=before, after=after, table=TABLE.name, ordinal=at) for at, (before, after) in enumerate(history)]
    dumped = [[str((1 << 64) - 1 - at), *next(drawn)[1:]] for at in range(20)]
    write_chunk(log, "chunk-1", dumped, TABLE)
    sink = open_sink(uri, log_id=LOG)
    sink.open(epoch=None)
    deliver(sink, Segments([1], live, rows_max=50), log=log, schemas=schemas)
    deliver(sink, Segments([2], [chunk(2, 200, "chunk-1", table=TABLE.name)]), log=log, schemas=schemas)
    sink.close()
    truth = table_of(TABLE, [*rows.values(), *dumped])
    for parts in (1, 4):
        reading = reading_of(uri, TABLE, log_id=LOG, parts=parts)
        assert reading.exact
        assert reading.parts
        assert all(isinstance(part, PARTS) for part in reading.parts)
        promised = truth if reading.form is None else reading.form(truth)
        assert sorted(texts_of(reading, TABLE), key=repr) == sorted(rows_of(promised), key=repr)


# ---- what is not there ------------------------------------------------------------------------------------------------------------------


def filled(uri: str, folder: Path, *, seqs: range = range(1, 4)) -> None:
    """A segment with one row each."""
    sink = open_sink(uri, log_id=LOG)
    sink.open(epoch=None)
    for seq in seqs:
        row = change(seq, 100 * seq - 50, after=[str(seq), "x"])
        deliver(sink, Segments([seq], [row]), log=open_folder(str(folder)), schemas={ORDERS: SMALL})
    sink.close()


def read(uri: str) -> list[tuple[str | None, ...]]:
    return sorted(texts_of(reading_of(uri, SMALL, log_id=LOG, parts=2), SMALL), key=repr)


@pytest.mark.parametrize("query", ["format=jsonl", "format=parquet"])
def test_files_that_somebody_removed_are_an_error_and_never_fewer_rows(tmp_path: Path, query: str) -> None:
    uri = f"file://{tmp_path}/out?{query}"
    filled(uri, tmp_path)
    folder = sink_folder(f"{tmp_path}/out")
    assert read(uri) == [("1", "x"), ("2", "x"), ("3", "x")]
    (first, middle, last) = (name for name in storage.list_names(folder, deep=True) if name.startswith("shop.orders/"))
    kept = storage.read_files(folder, [first, middle, last])
    for gone in kept:
        storage.remove(folder, [gone])
        with pytest.raises(SinkError, match="is gone, and its segment is accepted"):
            read(uri)
        storage.write_all(folder, kept)
    storage.remove(folder, ["_segments/00000000000000000002.json"])
    with pytest.raises(SinkError, match="segment 2 is missing"):
        read(uri)
    storage.remove(folder, ["_segments/00000000000000000001.json"])
    with pytest.raises(SinkError, match="segments 1 to 2 were removed"):
        read(uri)


@pytest.mark.parametrize("query", [CSV, "protocol=canal-json&date-separator=none"])
def test_stored_files_that_somebody_removed_are_an_error_and_never_fewer_rows(tmp_path: Path, query: str) -> None:
    uri = f"file://{tmp_path}/out?{query}"
    filled(uri, tmp_path)
    folder = sink_folder(f"{tmp_path}/out")
    kept = {name: storage.read_file(folder, name) for name in storage.list_names(folder, deep=True) if "/CDC0" in name}
    assert len(kept) == 3
    for gone in kept:
        storage.remove(folder, [gone])
        with pytest.raises(SinkError, match="somebody has removed it"):
            read(uri)
        storage.write_all(folder, kept)
    assert read(uri) == [("1", "x"), ("2", "x"), ("3", "x")]
    storage.write_atomically(folder, next(iter(kept)), b"cut")
    with pytest.raises(SinkError, match="has no end"):
        read(uri)


def test_an_output_that_began_later_is_read(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/out?format=jsonl"
    filled(uri, tmp_path, seqs=range(5, 7))
    assert read(uri) == [("5", "x"), ("6", "x")]


def test_a_line_that_is_cut_is_an_error(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/out?format=jsonl"
    filled(uri, tmp_path)
    folder = sink_folder(f"{tmp_path}/out")
    name = next(name for name in storage.list_names(folder, deep=True) if name.startswith("shop.orders/"))
    data = storage.read_file(folder, name)
    for cut, match in ((data[:-1], "no end"), (data[: len(data) // 2] + b"\n", "no rows")):
        storage.write_atomically(folder, name, cut)
        with pytest.raises(SinkError, match=match):
            read(uri)


def test_a_parquet_file_of_somebody_else_is_an_error(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/out?format=parquet"
    filled(uri, tmp_path)
    folder = sink_folder(f"{tmp_path}/out")
    name = next(name for name in storage.list_names(folder, deep=True) if name.startswith("shop.orders/"))
    storage.write_atomically(folder, name, b"PAR1 and no more")
    with pytest.raises(SinkError, match="no Parquet file of ours"):
        read(uri)


def test_kafkas_retention_is_an_error_and_never_fewer_rows(broker: KafkaBroker, tmp_path: Path) -> None:
    topic = new_topic()
    uri = f"kafka://{broker.bootstrap}/{topic}?partition-num=1&protocol=canal-json"
    filled(uri, tmp_path)
    assert len(read(uri)) == 3
    broker.delete_records(topic, 0, 1)
    with pytest.raises(SinkError, match="has lost its records before offset 1"):
        read(uri)


# ---- what does not say enough -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ("", "csv.include-commit-ts=false"),
        ("&csv.include-commit-ts=true&csv.quote=&csv.null=%5CN", "csv.quote="),
        ("&csv.include-commit-ts=true&csv.delimiter=%7C%7C", r"csv.delimiter=\|\|"),
        ("&csv.include-commit-ts=true&terminator=%3B", "terminator=';'"),
    ],
)
def test_a_form_of_csv_that_cannot_be_read_back_is_named(tmp_path: Path, parameters: str, named: str) -> None:
    uri = f"file://{tmp_path}/out?protocol=csv{parameters}"
    sink = open_sink(uri, log_id=LOG)
    sink.open(epoch=None)
    deliver(sink, Segments([1], [change(1, 50, after=["1", "x"])]), log=open_folder(str(tmp_path)), schemas={ORDERS: SMALL})
    with pytest.raises(SinkError, match=f"csv of {named} cannot be read back"):
        sink.reading(SMALL, parts=1)  # type: ignore[attr-defined]  # it is Readable
    sink.close()


def test_a_receiver_that_gives_no_lines_back_says_so(tmp_path: Path) -> None:
    with scripted() as server:
        filled(server.url, tmp_path)
        with pytest.raises(SinkError, match="does not answer GET with Ticdc-Dump-Read"):
            read(server.url)


def test_a_sink_without_rows_of_its_own_says_why(tmp_path: Path) -> None:
    for uri, why in (("console:", "keeps none"), (f"grpc://{tmp_path}/spool", "its subscribers")):
        assert not isinstance(open_sink(uri, log_id=LOG), Readable)
        assert why in why_not_readable(uri, log_id=LOG)
    assert not why_not_readable(f"file://{tmp_path}/out", log_id=LOG)
