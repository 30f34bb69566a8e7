"""`feed = "storage"`: the changefeed's own sink, read from its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.feeds.contract import Brought, Note
from sidecar.feeds.encoded.files import folder_at
from sidecar.feeds.encoded.make import Begins, of_messages, schemas_of
from sidecar.feeds.storage.csv_rows import CsvRow
from sidecar.feeds.storage.csv_rows import rows as csv_rows
from sidecar.feeds.storage.feed import StorageFeed
from sidecar.feeds.storage.reading import BucketReading, lines
from sidecar.feeds.storage.unread import ReadFrom
from sidecar.shared.config import Config, StorageSection
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.log.storage import Folder
from sidecar.shared.ticdc.changefeed import STORAGE_SCHEMES, Changefeed
from sidecar.shared.ticdc.changefeed_info import files_of_csv, masked
from sidecar.shared.ticdc.csv_dialect import CsvDialect, csv_dialect
from sidecar.shared.ticdc.scope import LiveScope
from sidecar.shared.ticdc.suitability import check_suitable


def make(config: Config, changefeed: Changefeed, scope: LiveScope, note: Note) -> Brought:
    folder = folder_of(config.storage, changefeed)
    source = TidbSchemas(config.source)
    check_suitable(changefeed, source.tables())
    begins = Begins("storage.begin", config.storage.begin, "the folder's oldest files")
    schemas = schemas_of(source, scope, changefeed, note, from_now=begins.now)

    def place() -> dict[str, str]:
        beginning = {"log_begins": begins.in_words(schemas.began)} if schemas.began is not None else {}
        return {"folder": str(folder), **beginning}

    def feed() -> StorageFeed:
        return StorageFeed(folder, partial(reading_of, folder, changefeed), begins=lambda: schemas.since_ts, settings=config.storage)

    return of_messages(config, changefeed, source, schemas, feed, place)


def folder_of(section: StorageSection, changefeed: Changefeed) -> Folder:
    """Raises FeedUnsuitable for a changefeed with another sink, ConfigError for a folder that cannot be read from here."""
    sink = changefeed.sink
    if sink.scheme not in STORAGE_SCHEMES:
        raise FeedUnsuitable(
            f"changefeed {changefeed.name} sends to {masked(changefeed.sink_uri)}, and not to files",
            hint='set feed = "kafka" for a sink in Kafka; or create a changefeed with a sink URI s3://bucket/prefix?protocol=csv',
        )
    return folder_at(sink, ours=section.uri, setting="storage.uri")


def reading_of(folder: Folder, changefeed: Changefeed, start: ReadFrom) -> BucketReading:
    """Raises FeedUnsuitable for csv that cannot be read back, or has no commit_ts."""
    if files_of_csv(changefeed):
        return BucketReading(folder, partial(_rows_of_csv, csv_dialect(changefeed)), start, form="csv")
    return BucketReading(folder, lines, start, form="json")


def _rows_of_csv(dialect: CsvDialect, data: bytes, columns: Callable[[], Sequence[str]], *, place: str) -> Iterator[CsvRow]:
    return csv_rows(data, dialect, columns(), place=place)
