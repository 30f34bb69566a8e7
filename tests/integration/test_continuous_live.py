"""The whole product compares a sink continuously. It reports a row that somebody spoilt, over a kill in the middle of the slice, and that
the table is equal once the row is corrected."""

from __future__ import annotations

import json
import sqlite3
import tomllib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.eventually import eventually
from tests.tools.rig.disasters import await_finished, await_progress, start_dump
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import SidecarProcess
from tests.tools.rig.tables import SCHEMA

pytestmark = [pytest.mark.xdist_group("rig"), pytest.mark.turns(2, "whole product")]

SPOILT = "account"
"""The first table by its name, so its slice is the first."""


@dataclass(frozen=True)
class Files:
    """`folder`: of the log."""

    folder: Path
    output: Path

    @property
    def cycle(self) -> Path:
        """Of the latest owner."""
        return max((self.folder / "verify").glob("cycle-*.json"), default=self.folder / "verify" / "no cycle")

    def requests(self) -> list[Path]:
        return list(self.folder.glob("verify/*/request.json"))

    def make_due(self) -> None:
        """The spoilt table is the next one, at once. While no sidecar runs."""
        result = json.loads(self.cycle.read_text())
        result["ended_ms"] = 0
        for turn in result["tables"]:
            turn["tried_ms"] = 0 if turn["table"] == SPOILT else 1
        self.cycle.write_text(json.dumps(result))

    def row(self) -> tuple[int, str]:
        with closing(sqlite3.connect(self.output, timeout=60)) as db:
            row: tuple[int, str] = db.execute(f'SELECT id, balance FROM "{SCHEMA}.{SPOILT}" ORDER BY id LIMIT 1').fetchone()
            return row

    def put(self, id: int, balance: str) -> None:
        with closing(sqlite3.connect(self.output, timeout=60)) as db, db:
            db.execute(f'UPDATE "{SCHEMA}.{SPOILT}" SET balance = ? WHERE id = ?', (balance, id))


def metric(config: Path, name: str) -> float | None:
    """Of the spoilt table."""
    address = tomllib.loads(config.read_text())["metrics"]["listen"]
    try:
        with urlopen(f"http://{address}/metrics", timeout=10) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    except (URLError, OSError):
        return None
    result = (sample for family in families for sample in family.samples if sample.name == f"ticdc_dump_{name}")
    return next((sample.value for sample in result if sample.labels == {"sink": "small", "schema": SCHEMA, "table": SPOILT}), None)


def history(sidecar: SidecarProcess) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = sidecar.ask("dumpverify", "--list")["operations"]
    return [one for one in results if one["kind"] == "verification"]


def test_a_spoilt_row_is_reported_over_a_death_and_its_correction_too(tmp_path: Path) -> None:
    files = Files(tmp_path / "log", tmp_path / "out.db")
    sinks = [f"sqlite://{files.output}?name=small", "console:?name=shown"]
    with Rig(tmp_path, initial_rows=2_000) as rig:
        config = rig.sidecar_config(sinks=sinks, log=f"file://{files.folder}")
        log = tmp_path / "sidecar.log"
        try:
            with SidecarProcess(config, log) as sidecar:
                start_dump(sidecar, rows_per_s=10_000)
                await_finished(sidecar)
                dumped_ts = max(int(table["complete_at_tso"]) for table in sidecar.ask("dumpquery")["tables"])
                await_progress(sidecar, lambda value: int(value["delivered_tso"]) >= dumped_ts)
            assert not files.cycle.exists(), "it is off by default"
            id, balance = files.row()
            files.put(id, "0.01")
            config = rig.sidecar_config(sinks=sinks, log=f"file://{files.folder}", verify={"share_per_day": 1.0})
            with SidecarProcess(config, log) as sidecar:
                eventually(files.requests)
                sidecar.kill()
                sidecar.start()
                eventually(lambda: metric(config, "differences") == 1, "the row that was spoilt is not reported")
                [entry] = history(sidecar)
                assert (entry["result"], entry["scope"]["tables"]) == ("1 different", [f"{SCHEMA}.{SPOILT}"])
                assert entry["asked_by"]["reason"] == "continuous verification"
                [line] = sidecar.cdc("dumpverify", "--differences", "--id", entry["id"]).stdout.splitlines()
                assert json.loads(line)["row"]["key"] == [str(id)]
                sidecar.kill()
                files.put(id, balance)
                files.make_due()
                sidecar.start()
                eventually(lambda: metric(config, "differences") == 0, "the row that was corrected is still reported")
                age_s = metric(config, "verified_age_seconds")
                assert age_s is not None
                assert [one["id"] for one in history(sidecar)] == [entry["id"]], "a slice that is equal is not in the history"
                assert len(files.requests()) == 1, "nor are its files kept"
        except Exception as error:
            error.add_note(log.read_text()[-6000:])
            raise
