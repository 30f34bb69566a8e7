"""Numbers on pages are those of the message."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from sidecar.console.numbers import KINDS, Numbers
from sidecar.control.wire import preview_json, status_json, verification_json
from sidecar.report.figures import clock_time
from ticdc_dump.v1 import control_pb2 as pb

DATA = re.compile(r'<data data-of="([^"]*)" value="([^"]*)">([^<]*)</data>')
STATUS = pb.DumpStatus(
    rows_per_second=12345.6,
    resolved_tso=470_000_000_000_000_123,
    delivery_lag_s=1 / 3,
    changes=1 << 60,
    tables=[pb.TableStatus(rows=1), pb.TableStatus(rows=1234567, complete_at_tso=470_000_000_000_000_001)],
    settings=pb.DumpSettings(chunk_rows=500, rows_per_second=0, delivery_bound_seconds=0.25),
)


def value_at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value[int(name)] if name.isdecimal() else value[name]
    return value


@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        ("rows_per_second", "rate", "12,346/s"),
        ("resolved_tso", "tso", f"{clock_time(470_000_000_000_000_000 >> 18)} UTC"),
        ("delivered_tso", "tso", "-"),
        ("delivery_lag_s", "lag", "0.3 s"),
        ("changes", "count", "1,152,921,504,606,846,976"),
        ("tables.1.rows", "count", "1,234,567"),
        ("tables.1.complete_at_tso", "tso", f"{clock_time(470_000_000_000_000_000 >> 18)} UTC"),
        ("settings.rows_per_second", "none_for_0", "no bound"),
        ("settings.delivery_bound_seconds", "seconds", "0.25 s"),
        ("eta_s", "duration", "?"),
        ("bytes_per_second", "bytes_rate", "0 B/s"),
    ],
)
def test_a_number_has_its_place_its_value_as_json_has_it_and_a_text(path: str, kind: str, text: str) -> None:
    match = DATA.fullmatch(Numbers(STATUS)(path, kind))
    assert match
    of_json = value_at(json.loads(json.dumps(status_json(STATUS))), path)
    value = unescape(match[2])
    assert (value if isinstance(of_json, str) else json.loads(value)) == of_json
    assert (match[1], match[3]) == (path, text)


def test_shares_and_times_of_a_verification() -> None:
    verification = pb.Verification(sample=0.25, asked_ms=1_700_000_000_000)
    numbers = Numbers(verification)
    assert numbers("sample", "share").endswith(">25%</data>")
    assert numbers("asked_ms", "ms").endswith(">2023-11-14 22:13:20 UTC</data>")
    assert numbers("ended_ms", "ms").endswith(">-</data>")
    assert verification_json(verification)["sample"] == 0.25


def test_bytes_of_a_preview() -> None:
    preview = pb.DumpPreview(tables=[pb.TablePreview(bytes=3 << 20)])
    assert DATA.fullmatch(Numbers(preview)("tables.0.bytes", "bytes")), preview_json(preview)
    assert Numbers(preview)("tables.0.bytes", "bytes").endswith('value="3145728">3.0 MiB</data>')


def test_a_place_that_is_none_is_an_error() -> None:
    with pytest.raises(AttributeError):
        Numbers(STATUS)("rows")


def test_every_kind_takes_zero() -> None:
    assert all(isinstance(shown(0), str) for shown in KINDS.values())
