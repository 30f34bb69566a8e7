"""Which folder a changefeed's storage sink is, as this machine reaches it, and what its files are read as."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.feeds.encoded.files import feed_error
from sidecar.feeds.storage import reading as module
from sidecar.feeds.storage.make import folder_of, reading_of
from sidecar.feeds.storage.unread import ReadFrom
from sidecar.shared.codecs.csv import CsvCodec
from sidecar.shared.config import StorageSection
from sidecar.shared.errors import ConfigError, FeedUnsuitable
from sidecar.shared.log.storage import Exhausted, Full, Refused, Unreachable
from sidecar.shared.process.kept_secrets import kept
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.ticdc.changefeed_info import codec_of

OURS = StorageSection()


def changefeed(uri: str, protocol: str = "csv", **csv: object) -> Changefeed:
    config: dict[str, object] = {"sink": {"csv": {"include-commit-ts": True, **csv}}}
    return Changefeed(ChangefeedName("c", "n", "orders"), "1", uri, protocol=protocol, config=config)


@pytest.mark.parametrize(
    ("uri", "ours", "protocol", "root"),
    [
        ("file:///data/cdc/?protocol=csv", "", "file", "/data/cdc"),
        ("file://host/data/cdc?protocol=csv", "", "file", "/data/cdc"),
        ("file:///data/a%23b?protocol=csv", "", "file", "/data/a#b"),
        ("s3://bucket/pre/fix/?protocol=csv&region=r", "", "s3", "bucket/pre/fix"),
        ("s3://bucket/a%3Fb?protocol=csv", "", "s3", "bucket/a?b"),
        ("s3://bucket?protocol=csv", "", "s3", "bucket"),
        ("gcs://bucket/x?protocol=csv", "s3://bucket/x?endpoint=https://storage.googleapis.com", "s3", "bucket/x"),
        ("s3://bucket/x?protocol=csv", "/mnt/x/", "file", "/mnt/x"),
    ],
)
def test_the_folder_is_the_sinks_or_the_settings(uri: str, ours: str, protocol: str, root: str) -> None:
    folder = folder_of(StorageSection(uri=ours), changefeed(uri))
    assert (folder.protocol, folder.root) == (protocol, root)


def test_a_secret_with_a_plus_is_as_the_uri_has_it_and_keys_of_a_session_are_the_environments() -> None:
    folder = folder_of(OURS, changefeed("s3://b/x?access-key=AK+1&secret-access-key=s+e/c%3D&endpoint=http://h:9"))
    assert folder.options["key"] == "AK+1"
    assert kept("s3", "AK+1") == "s+e/c="
    assert folder.options["client_kwargs"] == {"endpoint_url": "http://h:9"}
    assert "s+e" not in f"{folder}{folder!r}"
    assert "key" not in folder_of(OURS, changefeed("s3://b/x?access-key=AK&secret-access-key=s&session-token=t")).options


@pytest.mark.parametrize(
    ("uri", "ours", "says"),
    [
        ("kafka://h:9092/t", "", "sends to kafka://h:9092/t, and not to files"),
        ("azblob://bucket/x?account-key=abc", "", "writes to azblob://, which is not read by that name"),
        ("gs://bucket/x", "", "writes to gs://, which is not read by that name"),
        ("s3://b/x", "relative/x", "storage.uri needs the whole path of a folder"),
        ("s3://b/x", "file://data/x", "storage.uri needs the whole path of a folder"),
        ("s3://b/x", "gcs://b/x", "storage.uri is of a scheme gcs:"),
        ("s3://b/x", "s3://b/x?acces-key=a", "storage.uri has no parameter acces-key"),
    ],
)
def test_another_sink_or_a_place_that_is_none_is_named(uri: str, ours: str, says: str) -> None:
    with pytest.raises((ConfigError, FeedUnsuitable), match=says) as raised:
        folder_of(StorageSection(uri=ours), changefeed(uri))
    assert "abc" not in str(raised.value)


def test_what_passes_is_waited_for_and_all_else_names_the_place() -> None:
    assert all(feed_error("/d", "", error) is error for error in (Unreachable("x"), Exhausted("x"), ValueError("x")))
    assert all(isinstance(feed_error("/d", "a", error), FeedUnsuitable) for error in (Full("x"), Refused("x")))
    assert isinstance(feed_error("/d", "", Unreachable("x"), waits=False), FeedUnsuitable)


def test_csv_has_a_codec_of_its_own_and_is_read_by_its_dialect(tmp_path: Path) -> None:
    feed = changefeed(f"file://{tmp_path}", delimiter="|")
    assert isinstance(codec_of(feed), CsvCodec)
    (tmp_path / "shop/t/meta").mkdir(parents=True)
    (tmp_path / "shop/t/470000000000000001").mkdir()
    form = '{"Table":"t","Schema":"shop","TableVersion":470000000000000001,"Query":"","TableColumns":[{"ColumnName":"id"}]}'
    (tmp_path / "shop/t/meta/schema_470000000000000001_0000000001.json").write_text(form)
    (tmp_path / "shop/t/470000000000000001/CDC000001.csv").write_bytes(b'"I"|"t"|"shop"|470000000000000005|7\r\n')
    (tmp_path / "metadata").write_text('{"checkpoint-ts":470000000000000009}')
    folder = folder_of(OURS, feed)
    row, mark = reading_of(folder, feed, ReadFrom(0)).look()
    (change,) = CsvCodec().envelopes(row)
    assert (change.commit_ts, change.schema, change.table) == (470000000000000005, "shop", "t")  # type: ignore[union-attr]  # a row
    assert mark.position == 470000000000000009
    with pytest.raises(FeedUnsuitable, match="include-commit-ts"):
        reading_of(folder, replace(feed, config={}), ReadFrom(0))


def test_two_schema_files_of_one_version_with_other_columns_are_refused_and_none_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WITHHELD_S_MAX", -1.0)
    feed, version = changefeed(f"file://{tmp_path}"), 470000000000000001
    (tmp_path / f"shop/t/{version}").mkdir(parents=True)
    (tmp_path / f"shop/t/{version}/CDC000001.csv").write_bytes(b'"I","t","shop",470000000000000005,7\r\n')
    (tmp_path / "metadata").write_text('{"checkpoint-ts":470000000000000009}')
    with pytest.raises(FeedUnsuitable, match="there is no schema file"):
        list(reading_of(folder_of(OURS, feed), feed, ReadFrom(0)).look())
    (tmp_path / "shop/t/meta").mkdir()
    for number, name in enumerate("ab"):
        text = f'{{"Table":"t","Schema":"shop","TableVersion":{version},"Query":"","TableColumns":[{{"ColumnName":"{name}"}}]}}'
        (tmp_path / f"shop/t/meta/schema_{version}_000000000{number}.json").write_text(text)
    with pytest.raises(FeedUnsuitable, match="there is 2 different schema files"):
        list(reading_of(folder_of(OURS, feed), feed, ReadFrom(0)).look())
