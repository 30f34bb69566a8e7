"""From a changefeed's settings to its codec, or to the reason why its protocol cannot carry a dump.

A dump needs three things of a protocol: the commit_ts of every row, deletes too; old images or full keys; and resolved marks.
Names are TiCDC's own (tiflow `pkg/config/sink_protocol.go`).
"""

from __future__ import annotations

from sidecar.codecs.canal_json import EXTENSION_HINT, CanalJson
from sidecar.codecs.compression import Compression
from sidecar.codecs.contract import Codec
from sidecar.codecs.open_protocol import OpenProtocol
from sidecar.errors import FeedUnsuitable

CHOOSE_HINT = "create the changefeed with protocol=open-protocol, or with protocol=canal-json&enable-tidb-extension=true, in its sink URI"

_NAMES_OF_OPEN_PROTOCOL = frozenset(("open-protocol", "open", "default"))
_NOT_YET = frozenset(("simple", "debezium", "debezium-avro", "csv"))
_NEVER = {
    "canal": "its rows have an execution time in milliseconds and no commit_ts, and there are no resolved marks",
    "avro": "its deletes have no commit_ts, there are no old images and no resolved marks",
    "flat-avro": "its deletes have no commit_ts, there are no old images and no resolved marks",
    "maxwell": "its rows have a time in milliseconds and no commit_ts, and there are no resolved marks",
    "craft": "TiCDC has given it up: the new architecture does not write it",
}
_COMPRESSIONS: dict[str, Compression] = {"": "none", "none": "none", "snappy": "snappy", "lz4": "lz4"}


def codec_for(protocol: str, *, tidb_extension: bool, compression: str) -> Codec:
    """The codec for `protocol` with `enable-tidb-extension` and `large-message-handle-compression` as the changefeed has them.

    Raises FeedUnsuitable.
    """
    name = protocol.lower()
    packed = _compression(compression)
    if name in _NAMES_OF_OPEN_PROTOCOL:
        return OpenProtocol(packed)
    if name == "canal-json":
        if not tidb_extension:
            raise FeedUnsuitable(
                "canal-json without TiDB's extension has neither commit_ts nor resolved marks, and cannot carry a dump", hint=EXTENSION_HINT
            )
        return CanalJson(packed)
    if name in _NEVER:
        raise FeedUnsuitable(f"protocol {name} cannot carry a dump: {_NEVER[name]}", hint=CHOOSE_HINT)
    if name in _NOT_YET:
        raise FeedUnsuitable(f"protocol {name} is not supported by this version of ticdc-dump", hint=CHOOSE_HINT)
    raise FeedUnsuitable(f"protocol {protocol!r} is none that TiCDC has", hint=CHOOSE_HINT)


def _compression(name: str) -> Compression:
    known = _COMPRESSIONS.get(name.lower())
    if known is None:
        raise FeedUnsuitable(
            f"compression {name!r} is none that TiCDC has",
            hint="give large-message-handle-compression as the changefeed has it: none, snappy or lz4",
        )
    return known
