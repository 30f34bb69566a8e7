"""What becomes of rows that are larger than a message (TiCDC's large-message-handle). The storage sink has no messages, and passes over
it."""

from __future__ import annotations

from sidecar.shared.ticdc.changefeed import MESSAGE_SCHEMES, Changefeed

_SECTION = ("sink", "kafka-config", "large-message-handle")
CLAIM_CHECK, KEYS_ALONE = "claim-check", "handle-key-only"


def large_rows_option(changefeed: Changefeed) -> object:
    """As the definition has it: what it may be, suitability.py says."""
    return changefeed.setting(*_SECTION, "large-message-handle-option") if changefeed.sink.scheme in MESSAGE_SCHEMES else None


def may_have_large_rows(changefeed: Changefeed) -> bool:
    """Whether a row can be larger than a message, now or in messages of before: the option may have been another one then."""
    return changefeed.sink.scheme in MESSAGE_SCHEMES


def has_claims(changefeed: Changefeed) -> bool:
    """Whether such rows are in files."""
    return large_rows_option(changefeed) == CLAIM_CHECK


def claims_uri(changefeed: Changefeed) -> object:
    """Of the folder with these files, as the definition has it."""
    return changefeed.setting(*_SECTION, "claim-check-storage-uri")


def has_raw_claims(changefeed: Changefeed) -> bool:
    """Whether each file is a message's value as it is."""
    return changefeed.setting(*_SECTION, "claim-check-raw-value") is True


def compression_of_values(changefeed: Changefeed) -> str:
    """Of all messages, large or not, by TiCDC's name; empty: none."""
    return str(changefeed.setting(*_SECTION, "large-message-handle-compression") or "")
