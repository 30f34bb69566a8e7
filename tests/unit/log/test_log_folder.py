"""Where the log is: a place that can be meant, and that outlives the process."""

from __future__ import annotations

import pytest

from sidecar.shared.errors import ConfigError
from sidecar.shared.log.storage import log_folder, open_folder


@pytest.mark.parametrize("uri", ["/var/log/x", "file:///var/log/x", "s3://b/p?endpoint=http://h:9&region=r"])
def test_a_durable_place_is_the_folder_of_its_uri(uri: str) -> None:
    assert log_folder(uri) == open_folder(uri)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("file://tmp/x/y", "three slashes"),
        ("file://", "whole path"),
        ("file:x", "whole path"),
        ("x/y", "whole path"),
        ("/var/log#a", "has a '#'"),
        ("file:///var/log#a", "has a '#'"),
        ("s3://bucket/log#a", "has a '#'"),
        ("s3:///log", "needs a bucket"),
        ("s3://b/p?acces-key=hush", "no parameter acces-key, did you mean access-key\\?.*known parameters: access-key, endpoint"),
        ("file:///x?format=jsonl", "no parameter format"),
        ("memory://log", "scheme memory:"),
        ("gs://bucket/log", "scheme gs:"),
    ],
)
def test_what_would_be_written_elsewhere_or_forgotten_is_refused(uri: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s)log\.uri.*{message}") as refused:
        log_folder(uri)
    assert "hush" not in str(refused.value)
