"""What a term has of its own, connected: feed, source and log. The rest lives as long as the process, and is passed on."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from sidecar.adapters.clock import newest_ts, wall_ms
from sidecar.adapters.tidb.source import MakeReaders, TidbSource, mark_row_id, own_readers
from sidecar.core.sequence import Spill
from sidecar.feeds.contract import Brought
from sidecar.pipeline import Outside
from sidecar.ports import Clock, Deliveries, ProgressStore, Requests, SegmentLog, Sightings
from sidecar.shared.config import Config
from sidecar.shared.log import storage
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.model.schema_step import Beside
from sidecar.shared.reads.tikv_reads import TikvReads
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.scope import LiveScope


class Lasting(NamedTuple):
    """Of the process. `remote_readers`: of chunks, where Spark's tasks read them; None: this process does."""

    config: Config
    changefeed: Changefeed
    requests: Requests
    clock: Clock
    spill: Spill
    deliveries: Deliveries
    scope: LiveScope
    remote_readers: MakeReaders | None


def outside_of(
    brought: Brought, lasting: Lasting, progress: ProgressStore, segments: SegmentLog, holes: Sightings, opened: ExitStack
) -> Outside:
    """What is to be closed with the term is put on `opened` as soon as it is there."""
    config = lasting.config
    feed = brought.feed()
    opened.callback(feed.close)
    write = partial(write_chunk, storage.log_folder(config.log.uri), row_sums=config.certificate.row_sums)
    raw = TikvReads(config.tikv, {}, cluster_id=lasting.changefeed.upstream_id) if config.tikv.pd else None
    readers = lasting.remote_readers or own_readers(config.source, raw, write_chunk=write)
    mark_row = mark_row_id(lasting.changefeed.name)
    source = TidbSource(config.source, schemas={}, write_chunk=write, changefeed_id=mark_row, make_readers=readers)
    opened.callback(source.close)
    return Outside(
        feed=feed,
        codec=brought.codec,
        log=segments,
        source=source,
        schemas=brought.schemas,
        progress=progress,
        requests=lasting.requests,
        clock=lasting.clock,
        spill=lasting.spill,
        deliveries=lasting.deliveries,
        through=lasting.scope.through,
        newest_ts=newest_ts,
        wall_ms=wall_ms,
        beside=beside(config),
        sightings=holes,
    )


def beside(config: Config) -> Beside:
    """Raw key-values are right where TiCDC's rows are not."""
    if not config.encoded:
        return Beside.RIGHT
    return Beside.READ_AGAIN if config.dump.reread_rewritten else Beside.REPORTED
