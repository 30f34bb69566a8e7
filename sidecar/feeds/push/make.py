"""`feed = "push"`: what custom sinks hand over in TiCDC's place, raw key-values; or what TiCDC's own sink has, encoded messages."""

from __future__ import annotations

from dataclasses import replace

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.feeds.contract import Brought, Note
from sidecar.feeds.encoded.make import Begins, of_messages, schemas_of
from sidecar.feeds.kv.make import of_key_values
from sidecar.feeds.push.messages import MessageFeed
from sidecar.feeds.push.puller import PushPuller
from sidecar.shared.config import Config
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.log.storage import log_folder
from sidecar.shared.ticdc.changefeed import PUSH_SCHEME, Changefeed
from sidecar.shared.ticdc.changefeed_info import masked
from sidecar.shared.ticdc.scope import LiveScope
from sidecar.shared.ticdc.suitability import check_suitable


def make(config: Config, changefeed: Changefeed, scope: LiveScope, _: Note) -> Brought:
    brought = of_key_values(config, changefeed, scope, lambda: PushPuller(config.push, changefeed=changefeed.name))
    return replace(brought, place=lambda: {"listen": config.push.listen})


def of_sinks(config: Config, changefeed: Changefeed, scope: LiveScope, note: Note) -> Brought:
    """`push.form = "messages"`."""
    check_sends_here(changefeed)
    source = TidbSchemas(config.source)
    check_suitable(changefeed, source.tables())
    begins = Begins("push.begin", config.push.begin, "the oldest message that was sent")
    schemas = schemas_of(source, scope, changefeed, note, from_now=begins.now)

    def place() -> dict[str, str]:
        beginning = {"log_begins": begins.in_words(schemas.began)} if schemas.began is not None else {}
        return {"listen": config.push.listen, "form": config.push.form, **beginning}

    def feed() -> MessageFeed:
        return MessageFeed(config.push, log_folder(config.log.uri), changefeed=changefeed.name)

    return of_messages(config, changefeed, source, schemas, feed, place)


def check_sends_here(changefeed: Changefeed) -> None:
    """Raises FeedUnsuitable for a changefeed whose sink is another one. That the address is ours, the sender shows."""
    if changefeed.sink.scheme != PUSH_SCHEME:
        raise FeedUnsuitable(
            f"changefeed {changefeed.name} sends to {masked(changefeed.sink_uri)}, and not to a sidecar",
            hint=f'give it a sink URI {PUSH_SCHEME}://host:8312/topic with a TiCDC that has our sink (deploy/push); or set feed = "kafka"',
        )
