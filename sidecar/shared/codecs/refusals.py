"""How a codec says no: the same words for the same trouble in every protocol.

Each text names the message (lane and position), the place in it, what was expected and what came. Where the
trouble is a setting of the changefeed, the hint names the setting.
"""

from __future__ import annotations

import msgspec

from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Message

JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not the expected JSON (a key that is not UTF-8, nesting without end)."""

UNREADABLE_HINT = (
    "let nothing but this changefeed write the topic or folder, and set protocol and compression here as in the changefeed; "
    "if both are so, the message is damaged or of a TiCDC this version does not know: report it, and restart the changefeed "
    "into an empty topic or folder"
)
LARGE_MESSAGE_HINT = (
    'set large-message-handle-option = "claim-check" in [sink.kafka-config.large-message-handle] of the changefeed, or "handle-key-only"'
    ' where a feed of Kafka may read such rows from TiDB; or "none", and raise '
    "max-message-bytes in its sink URI (and message.max.bytes of the brokers) above the largest row. For this message, which was sent"
    " before: kafka.claim_check_uri, the folder of its file"
)
CORRUPTED_HINT = (
    "find out with ADMIN CHECK TABLE, and in TiCDC's log, whether the row is wrong in TiKV or on its way; let the changefeed stop at such "
    'rows (corruption-handle-level = "error" in its [integrity]), and once the row is right restart it into an empty topic or folder'
)
EXTENSION_HINT = "add enable-tidb-extension=true to the sink URI of the changefeed, and restart it into an empty topic or folder"
MARK_HINT = (
    f"let nothing but ticdc-dump write {MARK_TABLE}, and let the changefeed send all its columns (no sink.column-selectors "
    "for it); if the table was made by hand, drop it and let ticdc-dump create it"
)


def unreadable(message: Message, place: str, *, form: str, got: object) -> MessageUnreadable:
    """`place` is a part of the message and a byte offset: `key byte 16`."""
    return MessageUnreadable(f"{message.at()}: {place}: expected {form}; got {got}", hint=UNREADABLE_HINT)


def large_message(message: Message, *, schema: str, table: str, commit_ts: CommitTs | None, claim_check: str) -> FeedUnsuitable:
    """A row that TiCDC did not send whole. `claim_check` is the file it put the row into; empty: handle-key-only."""
    sent = f"a reference to {claim_check} (claim-check)" if claim_check else "its handle key (handle-key-only)"
    row = f"the row of {schema}.{table} at commit_ts {commit_ts}"
    return FeedUnsuitable(f"{message.at()}: {row} is larger than a message, and TiCDC sent only {sent}", hint=LARGE_MESSAGE_HINT)


def not_a_mark(change: Change, value: object) -> MessageUnreadable:
    at = Message(change.lane, change.position, None, None).at()
    form = f"a row of {MARK_TABLE} with texts changefeed_id and unique_identifier and event_type 1 or 2"
    return MessageUnreadable(f"{at}: expected {form}; got {value}", hint=MARK_HINT)
