"""Whether the folder of TiCDC's storage sink can be read, is this changefeed's alone, and continues the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sidecar.feeds.checks import CHANGEFEED, CLOCK, LOG, LogEnd, age_s
from sidecar.feeds.encoded.checks import HIDDEN, SETTINGS
from sidecar.feeds.encoded.files import feed_error
from sidecar.feeds.storage.listing import Listing
from sidecar.feeds.storage.make import folder_of
from sidecar.feeds.storage.names import RowsFile, file_of
from sidecar.feeds.storage.reading import LANE, checkpoint
from sidecar.feeds.storage.unread import LOST_HINT, SLACK_MS
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, utc
from sidecar.shared.process.checks import Check, Checking, CheckOptions, CheckResult, Key, failed, ok, warning
from sidecar.shared.ticdc.changefeed import Changefeed

METADATA: Key[CommitTs] = Key("files")
LAG: Key[None] = Key("lag")
OWN: Key[None] = Key("own folder")
KEPT: Key[None] = Key("kept files")

LAG_HIGH_S = 150.0
"""TiDB Cloud flushes each 60 s by default, TiCDC each 5 s."""

LIST_S = 300.0
"""For a bucket of millions of files."""

SETTING = "sink-uri (changefeed), storage.uri"


def checks(_: CheckOptions) -> Sequence[Check[Any]]:
    return (
        SETTINGS,
        HIDDEN,
        Check(METADATA, _metadata, SETTING, (CHANGEFEED,)),
        Check(LAG, _lag, "TiCDC: the changefeed", (METADATA,)),
        Check(OWN, lambda it: own_folder(_folder(it), it[CHANGEFEED]), SETTING, (METADATA,), bound_s=LIST_S),
        Check(KEPT, lambda it: kept_files(it[METADATA], it[CHANGEFEED], it[LOG]), "log.uri", (METADATA, LOG)),
    )


def _folder(it: CheckResult) -> Folder:
    return folder_of(it.config.storage, it[CHANGEFEED]).opened_for(lambda place, name, error: feed_error(place, name, error, waits=False))


def _metadata(it: CheckResult) -> Checking[CommitTs]:
    folder = _folder(it)
    there = checkpoint(folder)
    if there is None:
        raise FeedUnsuitable(
            f"{folder} has no file `metadata`, which TiCDC's storage sink writes every two seconds",
            hint="see that the changefeed runs (cdc cli changefeed query), and that storage.uri names the folder of its sink URI",
        )
    yield ok(f"{folder} has all rows up to {there} ({utc(there)})")
    return there


def _lag(it: CheckResult) -> Checking[None]:
    lag_s = age_s(it[METADATA], clock_ahead_s=it.get(CLOCK, 0.0))
    what = f"the files are {lag_s:.1f} s behind the cluster's clock"
    if lag_s > LAG_HIGH_S:
        hint = "windows close only that late, and a dump takes as much longer: see TiCDC's checkpoint lag, and the sink's flush-interval"
        yield warning(what, setting="TiCDC: the changefeed's lag", hint=hint)
    else:
        yield ok(what)


def own_folder(folder: Folder, changefeed: Changefeed) -> Checking[None]:
    """A changefeed that is made again with an older start-ts into a folder that was used writes rows twice; TiCDC's new architecture can
    leave rows out, with a warning in its own log only (ErrOldSchemaVersion)."""
    number = older = 0
    first = ""
    for entry in Listing(folder).changes().now:
        if isinstance(file_of(entry.name), RowsFile):
            number += 1
            if changefeed.created_ms and entry.modified_ms < changefeed.created_ms - SLACK_MS:
                older, first = older + 1, first or entry.name
    if older:
        what = f"{older} of {number} files are older than changefeed {changefeed.name}, the first of them {first}"
        hint = "create the changefeed with a folder that nothing wrote to: in a used one TiCDC can leave rows out without an error"
        yield failed(what, setting="sink-uri (changefeed)", hint=hint)
    elif not changefeed.created_ms:
        hint = "if another changefeed wrote there before, create this one with a new folder: TiCDC can leave rows out without an error"
        yield warning(
            f"{number} files; since when the changefeed is there is not known, so not whether all are its own", setting=SETTING, hint=hint
        )
    else:
        yield ok(f"{number} files, none of them older than the changefeed")


def kept_files(there: CommitTs, changefeed: Changefeed, log: LogEnd | None) -> Checking[None]:
    """TiCDC itself removes files, where its settings say so, and files are in folders by day."""
    at = log.positions.get(LANE) if log is not None else None
    days = changefeed.setting("sink", "cloud-storage-config", "file-expiration-days")
    by_day = changefeed.setting("sink", "date-separator") in (None, "day")
    if by_day and isinstance(days, int) and days > 0 and at is not None and age_s(at, clock_ahead_s=0.0) > days * 86_400:
        what = f"the log ends at {at} ({utc(CommitTs(at))}), and TiCDC removes files after {days} days"
        yield failed(what, setting="file-expiration-days (changefeed)", hint=LOST_HINT)
    elif at is not None and at > there + 1:
        what = f"the log ends at {at} ({utc(CommitTs(at))}), and the folder at {there} ({utc(there)})"
        hint = "see that storage.uri and log.uri are of one changefeed; after a restart TiCDC begins some seconds back, and continues"
        yield warning(what, setting="storage.uri, log.uri", hint=hint)
    else:
        yield ok("the log continues in the folder" if at is not None else "a new log")
