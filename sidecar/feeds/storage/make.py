"""`feed = "storage"`: the changefeed's own sink, read from its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import urlencode

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.feeds.contract import Brought, Note
from sidecar.feeds.encoded.make import Begins, of_messages, schemas_of
from sidecar.feeds.storage.csv_dialect import CsvDialect, csv_dialect
from sidecar.feeds.storage.csv_rows import CsvRow
from sidecar.feeds.storage.csv_rows import rows as csv_rows
from sidecar.feeds.storage.feed import StorageFeed
from sidecar.feeds.storage.reading import BucketReading, lines
from sidecar.feeds.storage.unread import ReadFrom
from sidecar.shared.config import Config, StorageSection
from sidecar.shared.errors import ConfigError, FeedUnsuitable
from sidecar.shared.log.storage import Exhausted, Folder, StorageError, Unreachable, open_folder
from sidecar.shared.log.storage.folder import S3_PARAMETERS, checked_folder
from sidecar.shared.ticdc.changefeed import STORAGE_SCHEMES, Changefeed
from sidecar.shared.ticdc.changefeed_info import files_of_csv, masked
from sidecar.shared.ticdc.scope import LiveScope
from sidecar.shared.ticdc.suitability import check_suitable

_GCS = "s3://bucket/prefix?endpoint=https://storage.googleapis.com, with an HMAC key of Google's as S3's keys"
_ELSEWHERE = {"gcs": _GCS, "gs": _GCS}


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
    if section.uri:
        folder = checked_folder(section.uri, "storage.uri")
    elif sink.scheme == "file":
        folder = Folder("file", f"/{sink.path}")
    elif sink.scheme == "s3" and sink.hosts:
        folder = replace(
            open_folder(f"s3://{sink.hosts[0]}?{urlencode(_s3_parameters(sink.parameters))}"), root="/".join((sink.hosts[0], sink.path))
        )
    else:
        elsewhere = _ELSEWHERE.get(sink.scheme, "this machine has it, mounted")
        raise ConfigError(
            f"changefeed {changefeed.name} writes to {sink.scheme}://, which is not read by that name",
            hint=f"set storage.uri to the same folder as {elsewhere}",
        )
    return replace(folder, root=folder.root.rstrip("/")).opened_for(feed_error)


def _s3_parameters(parameters: dict[str, str]) -> dict[str, str]:
    """Those that we have too. Keys of a session are not enough without its token, which the environment has."""
    ours = {name: value for name, value in parameters.items() if name in S3_PARAMETERS and value}
    if parameters.get("session-token"):
        return {name: value for name, value in ours.items() if name not in ("access-key", "secret-access-key")}
    return {name: value.replace(" ", "+") for name, value in ours.items()}  # TiCDC takes a + as it is, and none of them has a blank


def feed_error(place: object, name: str, error: Exception, *, waits: bool = True) -> Exception:
    """Of a storage: where the caller waits, one that passes as it is; else FeedUnsuitable."""
    if not isinstance(error, StorageError) or (waits and isinstance(error, Unreachable | Exhausted)):
        return error
    return FeedUnsuitable(
        f"{place}{f'/{name}' if name else ''} cannot be read: {error}",
        hint="let this process list and read the folder of the changefeed's sink (storage.uri, credentials), then start again",
    )


def reading_of(folder: Folder, changefeed: Changefeed, start: ReadFrom) -> BucketReading:
    """Raises FeedUnsuitable for csv that cannot be read back, or has no commit_ts."""
    if files_of_csv(changefeed):
        return BucketReading(folder, partial(_rows_of_csv, csv_dialect(changefeed)), start, form="csv")
    return BucketReading(folder, lines, start, form="json")


def _rows_of_csv(dialect: CsvDialect, data: bytes, columns: Callable[[], Sequence[str]], *, place: str) -> Iterator[CsvRow]:
    return csv_rows(data, dialect, columns(), place=place)
