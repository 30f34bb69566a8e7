"""A Delta sink by its URI: what is meant, what is refused, and that no secret leaves."""

from __future__ import annotations

import pickle
from urllib.parse import parse_qsl, urlsplit

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.delta.table import storage_options
from spark_merge.sinks.delta.uri import DeltaSettings, settings_of
from spark_merge.sinks.registry import misfits, name_of, open_sink

S3 = "delta+s3://bucket/lake?mode=merge&endpoint=http://minio:9000&region=r1&access-key=me&secret-access-key=hidden"


def settings(text: str) -> DeltaSettings:
    parts = urlsplit(text)
    return settings_of(SinkUri(text, parts, dict(parse_qsl(parts.query)), "log-1"))


def test_what_a_uri_says_has_effect() -> None:
    result = settings("delta:///var/lake?mode=append&routes=shop.*=>lake.*&ddl-done=5,%207")
    assert (str(result.folder), result.mode) == ("file:///var/lake", "append")
    assert result.ddl_done == frozenset({5, 7})
    assert (result.commit_s, settings("delta:///var/lake?mode=append&commit-interval=2m").commit_s) == (10, 120)
    assert result.routes.target(TableName("shop", "a")) == TableName("lake", "a")


def test_delta_rs_is_given_what_s3_needs_and_nobody_else_the_secret() -> None:
    result = settings(S3)
    assert storage_options(result.folder) == {
        "aws_conditional_put": "etag",
        "retry_timeout": "30s",
        "aws_endpoint_url": "http://minio:9000",
        "aws_allow_http": "true",
        "aws_region": "r1",
        "aws_access_key_id": "me",
        "aws_secret_access_key": "hidden",
    }
    assert b"hidden" not in pickle.dumps(result)
    assert "hidden" not in name_of(S3)
    assert storage_options(settings("delta:///var/lake?mode=append").folder) == {}


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("delta:///var/lake", "without a mode"),
        ("delta:///var/lake?mode=upsert", "mode='upsert'"),
        ("delta://host/lake?mode=append", "whole path"),
        ("delta+s3:///lake?mode=append", "needs a bucket"),
        ("delta:///var/lake?mode=append&routes=x", "routes"),
        ("delta:///var/lake?mode=append&ddl-done=x", "no list of commit_ts"),
        ("delta:///var/lake?mode=append&region=r1", "no parameter region"),
    ],
)
def test_what_makes_no_sense_is_refused(uri: str, why: str) -> None:
    with pytest.raises(SinkError, match=why):
        open_sink(uri, log_id="log-1")


def test_tables_that_cannot_be_there_are_reported_before_a_row_comes() -> None:
    odd = TableSchema(TableName("s", "odd"), (Column("a b", "int"),), ("a b",))
    floating = TableSchema(TableName("s", "floating"), (Column("id", "double"),), ("id",))
    assert [problem.split(" ")[0] for problem, _ in misfits("delta:///var/lake?mode=append", [odd, floating], log_id="log-1")] == ["column"]
    assert [hint for _, hint in misfits("delta:///var/lake?mode=merge", [floating], log_id="log-1")] == [
        "use mode=append, or leave the table out by the changefeed's filter"
    ]
