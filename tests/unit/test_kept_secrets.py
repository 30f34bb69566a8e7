"""What is told of a URI, and where its secret is kept."""

from __future__ import annotations

import pytest

from sidecar.shared.process.kept_secrets import keep, kept, variable, without_secrets

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (f"s3://me:{SECRET}@bucket/a/b?endpoint=http://h:1&secret-access-key={SECRET}&format=parquet", "s3://bucket/a/b?format=parquet"),
        (f"kafka://me:{SECRET}@h1:1,h2:2/topic?sasl-password={SECRET}#{SECRET}", "kafka://h1:1,h2:2/topic"),
        ("file:///var/out", "file:///var/out"),
        ("/var/out?format=jsonl", "/var/out?format=jsonl"),
        ("console:", "console:"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        (f"mysql://me:{SECRET}@[::1]:3306/?worker-count=2", "mysql://[::1]:3306/"),
        ("tidb://me@db/", "tidb://db/"),
        (f"mysql://me:a/{SECRET}@db:3306/", "mysql://…"),
        (f"mysql://me:a?{SECRET}@db:3306/", "mysql://…"),
        (f"mysql://me:1#{SECRET}@db:3306/", "mysql://…"),
        (f"mysql://me:1/{SECRET}@db:3306/", "mysql://…"),
    ],
)
def test_a_uri_is_reported_without_its_secrets(uri: str, shown: str) -> None:
    """The last ones have a password that is not encoded, which ends where a URI has something else."""
    assert without_secrets(uri) == shown


def test_a_secret_is_kept_for_whoever_it_is_of_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    account = "whoever-is-named-here-alone"
    monkeypatch.setenv(variable("kafka", account), "")
    keep("kafka", account, SECRET)
    assert kept("kafka", account) == SECRET
    assert kept("s3", account) is None
    assert account not in variable("kafka", account)
