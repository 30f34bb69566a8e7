"""A log's manifests, for its readers: the one of a segment, several in a row, the last one.

Whether a manifest that is not there was retained away, is not written yet or is lost, the reader knows: here it is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sidecar.shared.log import storage
from sidecar.shared.log.layout import manifest_name, read_manifest, with_logged_tables
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import listed
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq

MANIFESTS_AT_ONCE_MAX = 64
"""Their bytes are held; each has the progress of all dumps."""


def kept(log: Folder) -> range:
    """The segments that are there. Raises LogBroken."""
    return listed(log, deep=False)[1]


def manifest_files(log: Folder, seqs: Sequence[int]) -> Iterator[tuple[Seq, bytes | None]]:
    """Of these segments, in their order; many at once are read in parts, one after another. None: there is none."""
    for start in range(0, len(seqs), MANIFESTS_AT_ONCE_MAX):
        part = [Seq(seq) for seq in seqs[start : start + MANIFESTS_AT_ONCE_MAX]]
        files = storage.read_files(log, [manifest_name(seq) for seq in part])
        yield from ((seq, files.get(manifest_name(seq))) for seq in part)


def decoded(log: Folder, seq: Seq, data: bytes) -> Manifest:
    """Raises LogBroken."""
    return read_manifest(log, manifest_name(seq), data)


def manifest_of(log: Folder, seq: Seq) -> Manifest | None:
    """Raises LogBroken."""
    [(_, data)] = manifest_files(log, [seq])
    return None if data is None else decoded(log, seq, data)


def last_manifest(log: Folder) -> Manifest | None:
    """With all tables of its dumps; None for a log without a segment. Raises LogBroken, also where retention is faster."""
    if not (segments := kept(log)):
        return None
    seq = Seq(segments[-1])
    manifest = decoded(log, seq, storage.read_file(log, manifest_name(seq)))
    return with_logged_tables(log, manifest, partial(storage.read_if_there, log))
