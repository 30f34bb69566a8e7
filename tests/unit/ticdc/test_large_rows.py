"""What becomes of rows that are larger than a message, by the changefeed's definition."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.ticdc.large_rows import (
    claims_uri,
    compression_of_values,
    has_claims,
    has_raw_claims,
    large_rows_option,
    may_have_large_rows,
)


def changefeed(uri: str = "kafka://b/t", **settings: Any) -> Changefeed:
    section = {name.replace("_", "-"): value for name, value in settings.items()}
    config: dict[str, object] = {"sink": {"kafka-config": {"large-message-handle": section}}}
    return Changefeed(ChangefeedName("c", "n", "orders"), "1", uri, config=config)


@pytest.mark.parametrize(
    ("option", "claims"),
    [(None, False), ("none", False), ("claim-check", True), ("handle-key-only", False)],
)
def test_the_option_says_where_such_rows_are_and_not_that_there_are_none(option: str | None, claims: bool) -> None:
    feed = changefeed(large_message_handle_option=option)
    assert (large_rows_option(feed), may_have_large_rows(feed), has_claims(feed)) == (option, True, claims)


@pytest.mark.parametrize("uri", ["s3://b/x?protocol=csv", "file:///x?protocol=canal-json"])
def test_a_storage_sink_passes_over_it(uri: str) -> None:
    feed = changefeed(uri, large_message_handle_option="claim-check")
    assert (large_rows_option(feed), may_have_large_rows(feed), has_claims(feed)) == (None, False, False)


def test_what_files_and_values_are() -> None:
    feed = changefeed(claim_check_storage_uri="s3://b/c", claim_check_raw_value=True, large_message_handle_compression="lz4")
    assert (claims_uri(feed), has_raw_claims(feed), compression_of_values(feed)) == ("s3://b/c", True, "lz4")
    assert (claims_uri(changefeed()), has_raw_claims(changefeed()), compression_of_values(changefeed())) == (None, False, "")
