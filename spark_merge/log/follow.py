"""Whether a log continues what an output has. Numbers alone do not show it: a log that was restored from a backup, or a new one, comes
to the same numbers again, with other segments.

    before a sink is opened   the log has the very segment that the output ends with
    at each batch             its first segment begins where the output ends, and each other one where the one before it does
"""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.errors import storage_errors
from sidecar.log.layout import manifest_name, read_manifest
from sidecar.log.manifest import Manifest
from sidecar.log.storage import Folder
from spark_merge.log.read import kept
from spark_merge.port.contract import Accepted

_WAY_OUT = (
    "set log.uri back to the log that the output is of; if it is no more, deliver to a new folder and dump again (dumprestart): "
    "what this output would lack cannot be known"
)


def check_has(log: Folder, accepted: Accepted) -> None:
    """Raises SinkError for a log that ends below `accepted`, or has another segment in its place. Not for one that retention has removed:
    the next read after it reports that."""
    name = manifest_name(accepted.seq)
    with storage_errors(log):
        data = storage.read_if_there(log, name)
    if data is None:
        run = kept(log)
        if accepted.seq >= run.stop:
            ends = f"ends at {run.stop - 1}" if run else "is empty"
            raise SinkError(f"the output has accepted segment {accepted.seq}, and the log {log} {ends}", hint=_WAY_OUT)
        return
    result = Accepted.of(read_manifest(log, name, data))
    if accepted.upto_ts not in (None, result.upto_ts) or (accepted.manifest and accepted.manifest != result.manifest):
        raise SinkError(
            f"the output has accepted segment {accepted.seq} up to {accepted.upto_ts}, and the log {log} has another one of that number,"
            f" up to {result.upto_ts}: the log is a new one, or was restored from a backup and written on",
            hint=_WAY_OUT,
        )


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
