"""A log and the sinks, each in a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.shared.errors import ConfigError
from sidecar.shared.log.disjoint import check_disjoint


@pytest.mark.parametrize(
    ("log", "sinks"),
    [
        ("/var/log", ["/var/log/out"]),
        ("file:///var/log/", ["file:///var/log/out?format=parquet"]),
        ("/var/log/a", ["/var/log?format=jsonl"]),
        ("/var/log", ["/var/log"]),
        ("/var/log", ["console:", "/out", "/out/more"]),
        ("/var/log", ["file:///var/x/../log/out"]),
        ("s3://bucket/x?region=r", ["s3://bucket/x/out?format=jsonl&region=other"]),
        ("s3://bucket/x", ["s3://bucket"]),
        ("out/log", ["out"]),
        ("/var/log", ["grpc:///var/log/spool?retain-hours=1"]),
        ("s3://bucket/x", ["grpc://bucket/x/spool"]),
        ("/var/log", ["kafka://b/t?large-message-handle-option=claim-check&claim-check-storage-uri=file:///var/log/claims"]),
        ("/var/log", ["/out?format=jsonl", "kafka://b/t?claim-check-storage-uri=/out"]),
    ],
)
def test_a_folder_inside_another_is_refused(log: str, sinks: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"is in the folder of|side by side"):
        check_disjoint(log, sinks)


def test_a_link_is_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    os.symlink(tmp_path / "log", tmp_path / "link")
    with pytest.raises(ConfigError, match=r"sinks \(number 1\) is in the folder of log.uri"):
        check_disjoint(str(tmp_path / "log"), [f"{tmp_path}/link/out"])


@pytest.mark.parametrize(
    ("log", "sinks"),
    [
        ("/var/log", ["/var/log2", "/var/out", "console:", "pulsar://var/log"]),
        ("s3://bucket/x", ["s3://bucket/xy", "s3://other/x", "/bucket/x"]),
        ("/x", ["grpc:///x.subscribers", "grpc://x/spool"]),
        ("/x", []),
    ],
)
def test_folders_side_by_side_are_right(log: str, sinks: list[str]) -> None:
    check_disjoint(log, sinks)
