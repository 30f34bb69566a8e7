"""`ticdc-dump replay` where it ends after Spark has started; what it refuses before is in tests/unit/cli."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.support.recordings import recording
from tests.unit.cli.test_cli import run

pytestmark = pytest.mark.spark


def test_canal_json_without_the_extension_is_refused_by_the_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    assert run(monkeypatch, "replay", str(recording("shop")), "--feed", "canal-json-noext") == 3
    assert "enable-tidb-extension=true" in capsys.readouterr().err
