"""Makes tests/data/holes/steps.json: python -m tests.recordings.make_holes ../shared/recordings

What TiDB 9.0.0-beta.2 and PD showed after each step of the recording `holes` (rows that came, changed or vanished without a change in the
feed): finished DDL jobs as mysql.tidb_ddl_history has them, import jobs, leases in etcd. Columns of tables are not in it: nothing that
looks for holes reads them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PLACE = Path(__file__).parents[1] / "data" / "holes" / "steps.json"
_DROPPED = ("cols", "index_info", "constraint_info", "fk_info", "key_ranges", "column", "changing_column")


def kept(recordings: Path) -> list[dict[str, Any]]:
    steps, known = [], set[int]()
    for path in sorted((recordings / "holes" / "observed").glob("*.json")):
        observed = json.loads(path.read_text())
        jobs = sorted((row[0], json.loads(row[1])) for row in observed["ddl_history"] if row[0] not in known)
        known |= {number for number, _ in jobs}
        steps.append(
            {
                "step": observed["step"],
                "tso": observed["tso"],
                "jobs": [_without_columns(job) for _, job in jobs],
                "import_jobs": observed["import_jobs"],
                "leases": observed["brie_keys"],
                "restores": observed["restore_registry"],
            }
        )
    return steps


def _without_columns(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_columns(one) for name, one in value.items() if name not in _DROPPED and one not in (None, "", 0, False)}
    return [_without_columns(one) for one in value] if isinstance(value, list) else value


def text(steps: list[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(json.dumps(step) for step in steps) + "\n]\n"


if __name__ == "__main__":
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(text(kept(Path(sys.argv[1]))))
