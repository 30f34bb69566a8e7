"""That no folder of a sidecar is inside another: who sweeps the one would take files of the other for what a crash left."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import permutations
from urllib.parse import parse_qsl, urlsplit

from sidecar.shared.errors import ConfigError
from sidecar.shared.log.storage import Folder, open_folder


def check_disjoint(log: str, sinks: Sequence[str]) -> None:
    """`log`: its URL; `sinks`: URIs, of which those that are folders are looked at. Raises ConfigError."""
    places = [("log.uri", _parts(open_folder(log))), *_of_sinks(sinks)]
    for (outer, outside), (inner, inside) in permutations(places, 2):
        if inside[: len(outside)] == outside:
            raise ConfigError(
                f"{inner} is in the folder of {outer}, or the same: {'/'.join(inside)}",
                hint="give the log and each sink a folder of its own, side by side",
            )


def _of_sinks(uris: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for number, uri in enumerate(uris, 1):
        parts = urlsplit(uri)
        if parts.scheme in ("", "file", "s3", "grpc"):
            yield f"sinks (number {number})", _parts(open_folder(uri))
        elif claims := dict(parse_qsl(parts.query)).get("claim-check-storage-uri"):  # of a kafka: sink
            yield f"claim-check-storage-uri of sinks (number {number})", _parts(open_folder(claims))


def _parts(folder: Folder) -> tuple[str, ...]:
    root = os.path.realpath(folder.root) if folder.protocol == "file" else folder.root
    return folder.protocol, *filter(None, root.split("/"))
