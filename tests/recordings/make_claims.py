"""Make tests/recordings/claims.tar.xz: of the recording `large`, files of rows that are larger than a message (claim-check), as TiCDC wrote
them: those of the first messages with such rows, for each protocol. The messages are in large.tar.xz.

    python -m tests.recordings.make_claims FOLDER-OF-RECORDINGS
"""

from __future__ import annotations

import io
import lzma
import sys
import tarfile
from pathlib import Path

import pyarrow.parquet as pq

from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.codecs.contract import Claim, CodecWithParts
from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.codecs.simple import Simple
from sidecar.shared.model.nouns import Lane, Message

ARCHIVE = Path(__file__).with_name("claims.tar.xz")
FEEDS: dict[str, CodecWithParts] = {"open-claim-check": OpenProtocol(), "canal-claim-check": CanalJson(), "simple-claim-check": Simple()}
FILES_EACH = 25


def messages_of(recording: Path, feed: str) -> list[Message]:
    rows = pq.read_table(recording / "kafka" / f"{feed}.parquet").to_pylist()
    return [Message(Lane(f"kafka/t/{row['partition']}"), row["offset"], row["key"], row["value"]) for row in rows]


def claims_of(message: Message, codec: CodecWithParts) -> list[str]:
    """The names of its files."""
    return [part.file.rpartition("/")[2] for part in codec.parts(message) if isinstance(part, Claim)]


def made(recording: Path) -> bytes:
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for feed, codec in FEEDS.items():
            names = list[str]()
            for message in messages_of(recording, feed):
                if len(names) < FILES_EACH:
                    names += claims_of(message, codec)
            for name in sorted(names):
                data = (recording / "claim" / feed / name).read_bytes()
                entry = tarfile.TarInfo(f"{feed}/{name}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return lzma.compress(tar.getvalue(), preset=9 | lzma.PRESET_EXTREME)


if __name__ == "__main__":
    ARCHIVE.write_bytes(made(Path(sys.argv[1]) / "large"))
