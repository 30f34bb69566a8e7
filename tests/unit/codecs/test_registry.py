from __future__ import annotations

import pytest

from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.codecs.refusals import EXTENSION_HINT
from sidecar.shared.codecs.registry import CARRIERS, CHOOSE_HINT, PROTOCOLS, codec_for
from sidecar.shared.errors import FeedUnsuitable


@pytest.mark.parametrize("protocol", ["open-protocol", "default", "open", "Open-Protocol"])
@pytest.mark.parametrize("tidb_extension", [True, False])
def test_open_protocol_needs_no_extension(protocol: str, tidb_extension: bool) -> None:
    assert codec_for(protocol, tidb_extension=tidb_extension, compression="none") == OpenProtocol()


def test_canal_json_with_the_extension() -> None:
    assert codec_for("canal-json", tidb_extension=True, compression="none") == CanalJson()


@pytest.mark.parametrize(
    ("compression", "intended"), [("", "none"), ("none", "none"), ("NONE", "none"), ("snappy", "snappy"), ("LZ4", "lz4"), ("lz4", "lz4")]
)
def test_compression_is_handed_on(compression: str, intended: Compression) -> None:
    assert codec_for("open-protocol", tidb_extension=False, compression=compression) == OpenProtocol(intended)
    assert codec_for("canal-json", tidb_extension=True, compression=compression) == CanalJson(intended)


def refusal(protocol: str, *, compression: str = "none") -> tuple[str, str]:
    with pytest.raises(FeedUnsuitable) as caught:
        codec_for(protocol, tidb_extension=False, compression=compression)
    return caught.value.message, caught.value.hint


def test_refuses_canal_json_without_the_extension() -> None:
    text = "canal-json without TiDB's extension has neither commit_ts nor resolved marks, and cannot carry a dump"
    assert refusal("canal-json") == (text, EXTENSION_HINT)
    assert "enable-tidb-extension=true" in EXTENSION_HINT


@pytest.mark.parametrize(
    ("protocol", "why"),
    [
        ("canal", "its rows have an execution time in milliseconds and no commit_ts, and there are no resolved marks"),
        ("avro", "its deletes have no commit_ts, there are no old images and no resolved marks"),
        ("flat-avro", "its deletes have no commit_ts, there are no old images and no resolved marks"),
        ("maxwell", "its rows have a time in milliseconds and no commit_ts, and there are no resolved marks"),
        ("craft", "TiCDC has given it up: the new architecture does not write it"),
    ],
)
def test_refuses_protocols_that_cannot_carry_a_dump_and_says_why(protocol: str, why: str) -> None:
    assert refusal(protocol) == (f"protocol {protocol} cannot carry a dump: {why}", CHOOSE_HINT)


@pytest.mark.parametrize("protocol", ["csv"])
def test_says_which_protocols_are_not_supported_yet(protocol: str) -> None:
    assert refusal(protocol) == (f"messages of protocol {protocol} are not supported by this version of ticdc-dump", CHOOSE_HINT)


def test_refuses_what_ticdc_does_not_have() -> None:
    assert refusal("protobuf") == ("protocol 'protobuf' is none that TiCDC has", CHOOSE_HINT)
    text, hint = refusal("open-protocol", compression="zstd")
    assert text == "compression 'zstd' is none that TiCDC has"
    assert hint == "give large-message-handle-compression as the changefeed has it: none, snappy or lz4"


def test_the_hint_names_what_each_protocol_that_carries_a_dump_needs() -> None:
    ways = "protocol=open-protocol, or with protocol=canal-json&enable-tidb-extension=true, or with protocol=simple"
    assert CHOOSE_HINT.startswith(f"create the changefeed with {ways}, ")
    assert all(one.sink_parameters in CHOOSE_HINT for one in CARRIERS.values())


def test_no_two_protocols_have_a_name_in_common() -> None:
    names = [name for one in PROTOCOLS for name in (one.name, *one.aliases)]
    assert len(names) == len(set(names))


def test_a_protocol_that_carries_a_dump_lacks_nothing() -> None:
    assert not [one.name for one in PROTOCOLS if one.codec and one.lacks]
