"""The whole product verifies its sinks beside writes, and while processes die: it names each fault that somebody made in a sink and
nothing else, and `--repair` corrects it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.eventually import eventually
from tests.support.services.mariadb import MariaDb
from tests.support.sql_place import add_accounts
from tests.tools.rig.disasters import await_finished, await_progress, start_dump
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import SidecarProcess
from tests.tools.rig.tables import SCHEMA

pytestmark = [pytest.mark.xdist_group("rig"), pytest.mark.turns(2, "whole product")]

COPY, SPOILT = "shop_copy", "account"
WRITES_PER_S = 30
TIMEOUT_S = 600.0
EXTRA = (10**9 + 1, 10**9 + 2)
HEALED_MAX = 10
"""Rows that somebody spoilt and that a write to them has corrected since."""

Faults = dict[str, dict[str, str]]
"""By sink: what each row is, by its id."""


@dataclass(frozen=True)
class Outputs:
    """Each by the name of its sink."""

    target: MariaDb
    folder: Path

    def uris(self) -> list[str]:
        target = self.target
        routes = quote(f"{SCHEMA}.*=>{COPY}.*")
        sql = f"mysql://{target.user}:{quote(target.password, safe='')}@{target.host}:{target.port}/"
        return [
            f"{sql}?create-tables=true&routes={routes}&name=copy",
            f"sqlite://{self.folder}/out.db?name=small",
            "console:?name=shown",
        ]

    def spoil(self) -> Faults:
        table = f"{COPY}.{SPOILT}"
        ids = [str(key) for (key,) in self.target.execute(f"SELECT id FROM {table} ORDER BY id LIMIT 40")]
        missing, different, others = ids[:10], ids[10:20], ids[20:30]
        self.target.execute(f"DELETE FROM {table} WHERE id IN ({', '.join(missing)})")
        self.target.execute(f"UPDATE {table} SET note = 'spoilt' WHERE id IN ({', '.join(different)})")
        add_accounts(self.target, table, EXTRA)
        with closing(sqlite3.connect(self.folder / "out.db", timeout=60)) as db, db:
            db.execute(f'UPDATE "{SCHEMA}.{SPOILT}" SET balance = ? WHERE id IN ({", ".join(others)})', ("0.01",))
        copy = dict.fromkeys(missing, "missing") | dict.fromkeys(different, "different") | dict.fromkeys(map(str, EXTRA), "extra")
        return {"copy": copy, "small": dict.fromkeys(others, "different")}


def verified(sidecar: SidecarProcess, *arguments: str) -> tuple[int, dict[str, Any]]:
    done: subprocess.CompletedProcess[str] = sidecar.cdc("dumpverify", "--json", *arguments, timeout_s=TIMEOUT_S)
    assert done.returncode in (0, 1), f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def test_faults_are_named_and_repaired_beside_writes_and_deaths(tmp_path: Path) -> None:
    with Rig(tmp_path, initial_rows=2_000) as rig, MariaDb(tmp_path / "target") as target:
        outputs = Outputs(target, tmp_path)
        config = rig.sidecar_config(sinks=outputs.uris(), log=f"file://{tmp_path}/log")
        with SidecarProcess(config, tmp_path / "sidecar.log") as sidecar:
            try:
                with rig.workload(writes_per_s=WRITES_PER_S) as workload:
                    start_dump(sidecar, rows_per_s=10_000)
                    await_finished(sidecar)
                    dumped_ts = max(int(table["complete_at_tso"]) for table in sidecar.ask("dumpquery")["tables"])
                    await_progress(sidecar, lambda value: int(value["delivered_tso"]) >= dumped_ts)
                    code, result = verified(sidecar)
                    assert (code, result["state"]) == (0, "equal"), "a dump and live changes alone make no difference"
                    assert {table["sink"] for table in result["tables"]} == {"copy", "small"}
                    assert [one["sink"] for one in result["left_out"]] == ["shown"]
                    assert sum(int(table["rows"]) for table in result["tables"]) > 4_000
                    workload.stop()
                spoilt = outputs.spoil()
                with rig.workload(writes_per_s=WRITES_PER_S):
                    named(sidecar, spoilt)
                    assert_goes_on_after_deaths(sidecar, spoilt)
                    code, result = verified(sidecar, "--repair")
                    assert (code, result["state"]) == (0, "equal")
                    assert {(table["sink"], table["table"]) for table in result["tables"]} == {
                        ("copy", SPOILT), ("small", SPOILT),
                    }  # fmt: skip
                history = eventually(partial(listed, sidecar), "the history does not have the last result")
                assert history[0]["result"] == "equal"
                assert "2 extra" in history[1]["result"]
            except Exception as error:
                error.add_note((tmp_path / "sidecar.log").read_text()[-6000:])
                raise


def listed(sidecar: SidecarProcess) -> list[dict[str, Any]] | None:
    """The history, newest first, once its newest entry has ended: it is written after the report."""
    results: list[dict[str, Any]] = sidecar.ask("dumpverify", "--list")["operations"]
    return results if results[0]["state"] != "running" else None


def named(sidecar: SidecarProcess, spoilt: Faults) -> None:
    code, result = verified(sidecar)
    assert (code, result["state"]) == (1, "different")
    reported: Faults = {}
    for table in result["tables"]:
        for one in table["examples"]:
            assert table["table"] == SPOILT
            reported.setdefault(table["sink"], {})[one["key"][0]] = one["kind"]
    check_named(reported, spoilt)
    columns = {table["sink"]: [one["column"] for one in table["columns"]] for table in result["tables"] if table["columns"]}
    assert columns == {"copy": ["note"], "small": ["balance"]}
    done = sidecar.cdc("dumpverify", "--differences", "--id", result["id"])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(one["sink"], one["row"]["key"][0]) for one in lines} == {(sink, key) for sink, keys in reported.items() for key in keys}


def check_named(reported: Faults, spoilt: Faults) -> None:
    """Nothing but what was spoilt, and all of it that no write has corrected."""
    for sink, faults in spoilt.items():
        assert reported[sink].items() <= faults.items()
        assert len(faults) - len(reported[sink]) <= HEALED_MAX
    assert {key for key, kind in reported["copy"].items() if kind == "extra"} == set(map(str, EXTRA))


def assert_goes_on_after_deaths(sidecar: SidecarProcess, spoilt: Faults) -> None:
    started = sidecar.ask("dumpverify", "--detach")
    sidecar.kill()
    sidecar.start()
    code, result = verified(sidecar, "--id", started["id"], "--timeout", "60")
    assert (code, result["state"], result["id"]) == (1, "different", started["id"])
    examples = [(table["sink"], one) for table in result["tables"] for one in table["examples"]]
    check_named({sink: {one["key"][0]: one["kind"] for of, one in examples if of == sink} for sink in spoilt}, spoilt)
