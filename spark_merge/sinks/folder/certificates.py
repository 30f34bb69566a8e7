"""Certificates in an output: of each dump that has one in the log, and whose last segment the output has accepted.

    {"version": 1, "dump_id": …, "certificate": …, "output": …, "segments": [
    [seq, sha256 of `_segments/{seq}.json`],
    …],
    "sha256": "…"}                of all bytes before the comma before it

`certificate` is the last field of the log's certificate, so that one hash holds both. `output` is the output's `log_id`. Segments that the
output does not have, because it began behind them, are not in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.certificate import CertificateHead, read_head
from sidecar.shared.log.dump_files import CERTIFICATES as LOGGED
from sidecar.shared.log.hashed import HashedFile, sha256_of
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import OperationId, Seq
from spark_merge.sinks.folder.layout import CERTIFICATES, certificate_path, segment_path

FORMAT_VERSION = 1
SEGMENTS_AT_ONCE_MAX = 256


class OutputCertificates:
    """`name`: of the sink, as dumps name it. `log_id`: as of FolderIdentity."""

    def __init__(self, output: Folder, log: Folder, *, name: str, log_id: str) -> None:
        self._output, self._log, self._name, self._log_id = output, log, name, log_id
        self._known: set[str] | None = None

    def write(self, accepted: Seq) -> list[str]:
        """The ids of dumps that it has certified now. Raises SinkError, StorageFull, and as the log's storage."""
        if self._known is None:
            names = storage.list_names(self._output, under=CERTIFICATES, deep=False)
            self._known = {name.removesuffix(".json") for name in names}
        written: list[str] = []
        for dump_id in LOGGED.ids(self._log):
            head = None if dump_id in self._known else self._head(dump_id)
            if head is not None and self._is_due(head, accepted):
                self._write(head)
                written.append(dump_id)
        return written

    def _head(self, dump_id: OperationId) -> CertificateHead | None:
        """None for one that cannot be read: the checker reports it, and a delivery does not wait for it."""
        try:
            return read_head(self._log, dump_id)
        except LogBroken:
            return None

    def _is_due(self, head: CertificateHead, accepted: Seq) -> bool:
        """One of a dump for other sinks never is."""
        assert self._known is not None
        if head.sinks and self._name not in head.sinks:
            self._known.add(head.dump_id)
            return False
        return accepted >= head.last_seq

    def _write(self, head: CertificateHead) -> None:
        assert self._known is not None
        first = {"version": FORMAT_VERSION, "dump_id": head.dump_id, "certificate": head.sha256, "output": self._log_id}
        with storage.new_file(self._output, certificate_path(head.dump_id)) as opened:
            file = HashedFile(opened)
            file.write(json.dumps(first, ensure_ascii=False).encode()[:-1] + b', "segments": [')
            between = b"\n"
            for seq, sha256 in self._segments(head):
                file.write(between + json.dumps([seq, sha256]).encode())
                between = b",\n"
            file.write(b"]")
            opened.write(b',\n"sha256": "%b"}\n' % file.sha256().encode())
        self._known.add(head.dump_id)

    def _segments(self, head: CertificateHead) -> Iterator[tuple[int, str]]:
        for start in range(head.first_seq, head.last_seq + 1, SEGMENTS_AT_ONCE_MAX):
            seqs = range(start, min(start + SEGMENTS_AT_ONCE_MAX, head.last_seq + 1))
            files = storage.read_files(self._output, map(segment_path, seqs))
            for seq in seqs:
                if (data := files.get(segment_path(seq))) is not None:
                    yield seq, sha256_of(data)
