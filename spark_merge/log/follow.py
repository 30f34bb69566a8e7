"""Whether a log continues what an output has. Numbers alone do not show it: a log that was restored from a backup, or a new one, comes
to the same numbers again, with other segments.

    before a sink is opened   the log has the very segment that the output ends with
    at each batch             its first segment begins where the output ends, and each other one where the one before it does
    when it is opened         the log has the very segment that a begun batch ends with. Its id is drawn when it is written, and it has the
                              sum of the segment before it: so the whole batch is the one of then. Consumers may have seen rows of it, and
                              tasks of it that are done would be skipped in another one
    when that batch is read   it ends with that segment still
"""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.layout import manifest_name, read_manifest
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.manifests import kept
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq
from spark_merge.port.contract import Accepted

_WAY_OUT = (
    "set log.uri back to the log that the output is of; if it is no more, deliver to a new folder and dump again (dumprestart): "
    "what this output would lack cannot be known"
)


def check_has(log: Folder, accepted: Accepted, *, how: str = "accepted") -> None:
    """Raises SinkError for a log that ends below `accepted`, or has another segment in its place. Not for one that retention has removed:
    the next read after it reports that. `how`: what the output has done with it."""
    name = manifest_name(accepted.seq)
    data = storage.read_if_there(log, name)
    if data is None:
        run = kept(log)
        if accepted.seq >= run.stop:
            ends = f"ends at {run.stop - 1}" if run else "is empty"
            raise SinkError(f"the output has {how} segment {accepted.seq}, and the log {log} {ends}", hint=_WAY_OUT)
        return
    result = Accepted.of(read_manifest(log, name, data))
    if not _is(accepted, result):
        raise SinkError(
            f"the output has {how} segment {accepted.seq} up to {accepted.upto_ts}, and the log {log} has another one of that number,"
            f" up to {result.upto_ts}: the log is a new one, or was restored from a backup and written on",
            hint=_WAY_OUT,
        )


def check_next_begun(log: Folder, after: Seq, begun: Accepted) -> None:
    """Raises SinkError for a begun batch that is not behind segment `after`, where the sink continues: it would wait for ever."""
    if begun.seq <= after:
        raise SinkError(
            f"the output has begun a batch that ends with segment {begun.seq}, and continues behind segment {after} of the log {log}: what"
            " was begun is gone from the log, or was accepted",
            hint=_WAY_OUT,
        )


def check_ends_as_begun(log: Folder, manifests: Sequence[Manifest], begun: Accepted) -> None:
    """Raises SinkError where a batch that is read again does not end with the segment that it was begun to: the log was put back under the
    worker that opened the sink."""
    if not manifests or not _is(begun, Accepted.of(manifests[-1])):
        upto = f"ends at {manifests[-1].seq}, up to {manifests[-1].upto_ts}" if manifests else "has none of its segments"
        raise SinkError(
            f"the output has begun a batch that ends with segment {begun.seq} up to {begun.upto_ts}, and the log {log} {upto} now",
            hint=_WAY_OUT,
        )


def _is(on_record: Accepted, there: Accepted) -> bool:
    """Whether they are one segment, as far as it is on record."""
    same_ts, same_manifest = on_record.upto_ts in (None, there.upto_ts), on_record.manifest in ("", there.manifest)
    return on_record.seq == there.seq and same_ts and same_manifest


def check_follows(log: Folder, accepted: Accepted | None, manifests: Sequence[Manifest]) -> None:
    """Raises SinkError for a segment that does not begin where the one before it ends."""
    before = accepted
    for manifest in manifests:
        if before is not None and before.upto_ts not in (None, manifest.after_ts):
            raise SinkError(
                f"segment {manifest.seq} of the log {log} begins at {manifest.after_ts}, and what comes before it ends at {before.upto_ts}:"
                " the log was replaced while it was read",
                hint=_WAY_OUT,
            )
        before = Accepted.of(manifest)
