"""Which rows of a segment cannot be decoded, and an operator's decision to leave some of them out (sidecar/shared/log/skips.py).

- Nothing here decides it automatically, and it is never made for a row that can be decoded: a wrong number loses nothing.
- A segment that a sink has accepted is not touched: its outputs would differ (a version or a setting that decodes it has delivered it).
- All requested rows are checked before the first of them is on record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from sidecar.shared.columns.zone import Ambiguous, ServerZone
from sidecar.shared.errors import FeedError, RefusedRequest
from sidecar.shared.log import storage
from sidecar.shared.log.delivery_report import DELIVERED_NAME, report_from_json
from sidecar.shared.log.identity import known_id
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.manifests import manifest_of
from sidecar.shared.log.skips import Skip, read_skips, skip_row
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Lane, Seq, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode
from spark_merge.log.read import iter_rows, read_schemas


@dataclass(frozen=True, slots=True)
class Decoding:
    """How rows are decoded, as in the settings of the sidecar whose log it is."""

    server_tz: str = "UTC"
    ambiguous: Ambiguous = "refuse"


def undecodable(log: Folder, seq: Seq, how: Decoding) -> list[Skip]:
    """The rows of the segment that cannot be decoded, each with why, as nobody has skipped them. Raises RefusedRequest for a segment that
    is not in the log."""
    return list(_undecodable(log, _manifest(log, seq), how, within=None))


def leave_out(log: Folder, seq: Seq, ordinals: Collection[int] | None, how: Decoding, *, by: str, now_ms: int) -> list[tuple[Skip, bool]]:
    """Put on record that these rows are skipped, None: all of the segment that cannot be decoded. Each with whether that is new.

    Raises RefusedRequest, and then nothing is on record, for what can be decoded or is not there, and for a segment that a sink has.
    """
    before = {skip.ordinal: skip for skip in read_skips(log) if skip.seq == seq}
    if ordinals and before.keys() >= set(ordinals):
        return [(before[ordinal], False) for ordinal in sorted(set(ordinals))]
    manifest = _manifest(log, seq)
    _check_nobody_has_it(log, seq)
    results = list(_undecodable(log, manifest, how, within=ordinals))
    for ordinal in sorted(set(ordinals or ()) - {skip.ordinal for skip in results}):
        why = "can be decoded here" if ordinal < manifest.rows else f"is not there: the segment has {manifest.rows} rows"
        raise RefusedRequest(
            f"ordinal {ordinal} of segment {seq} {why}, and so it is not skipped",
            hint=f"see `ticdc-dump skip --config FILE --seq {seq}` for those that cannot, by the settings of the sidecar that wrote it",
        )
    skips = [replace(skip, by=by, skipped_ms=now_ms) for skip in results]
    return [(skip, skip_row(log, skip)) for skip in skips]


def _manifest(log: Folder, seq: Seq) -> Manifest:
    if (manifest := manifest_of(log, seq)) is None:
        raise RefusedRequest(f"segment {seq} is not in the log {log}", hint="take the number from the error that names the row")
    return manifest


def _check_nobody_has_it(log: Folder, seq: Seq) -> None:
    data = storage.read_files(log, [DELIVERED_NAME]).get(DELIVERED_NAME)
    try:
        report = report_from_json(data) if data is not None else None
        if report is not None and report.log not in ("", known_id(log)):
            raise ValueError(f"{DELIVERED_NAME} is of log {report.log}")
    except ValueError as error:
        raise RefusedRequest(f"what the sinks have is not known: {error}", hint="let a merge worker of this version run first") from error
    accepted = {sink.sink: sink.accepted for sink in report.sinks} if report is not None else {}
    having = sorted(sink for sink, last in accepted.items() if last is not None and last >= seq)
    if having or (report is not None and report.seq is not None and report.seq >= seq):
        raise RefusedRequest(
            f"segment {seq} is delivered to {', '.join(having) or 'every sink'}: what is skipped now would be in one output only",
            hint="deliver it to the others with the version and the settings that delivered it there",
        )


def _undecodable(log: Folder, manifest: Manifest, how: Decoding, *, within: Collection[int] | None) -> Iterator[Skip]:
    schemas, zone = read_schemas(log, manifest.schemas), ServerZone(how.server_tz, how.ambiguous)
    for rows in _parts(log, manifest, within):
        with_seq = rows.append_column("seq", pa.repeat(pa.scalar(manifest.seq, pa.int64()), rows.num_rows))
        yield from _unreadable(with_seq, manifest, schemas, zone)


def _parts(log: Folder, manifest: Manifest, within: Collection[int] | None) -> Iterator[pa.Table]:
    if within is None:
        yield from iter_rows(log, manifest)
        return
    for ordinal in sorted(set(within)):
        if ordinal < manifest.rows:
            yield from iter_rows(log, manifest, within=range(ordinal, ordinal + 1))


def _unreadable(rows: pa.Table, manifest: Manifest, schemas: Mapping[TableName, TableSchema], zone: ServerZone) -> Iterator[Skip]:
    """By halves: most rows are read with many others."""
    try:
        decode(rows, codec=manifest.codec, schemas=schemas, server_tz=zone)
    except FeedError as error:
        if rows.num_rows == 1:
            yield _skip(rows, error.message)
            return
        half = rows.num_rows // 2
        yield from _unreadable(rows.slice(0, half), manifest, schemas, zone)
        yield from _unreadable(rows.slice(half), manifest, schemas, zone)


def _skip(row: pa.Table, reason: str) -> Skip:
    (result,) = row.to_pylist()
    return Skip(
        seq=Seq(result["seq"]),
        ordinal=result["ordinal"],
        commit_ts=CommitTs(result["commit_ts"]),
        op=result["op"],
        table=TableName(result["schema"], result["table"]),
        codec=result["codec"],
        lane=Lane(result["lane"]),
        position=result["position"],
        key=result["key"],
        value=result["value"],
        reason=reason,
    )
