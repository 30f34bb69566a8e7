"""What a process that stays does not load: pandas, because pyarrow would where it is installed, as it is for these tests (chdb needs it);
s3fs, before a folder is on S3 (but for the parent of Spark's workers, which forks them with it)."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from sidecar.shared.process import plain_arrow
from spark_merge.port.kinds import ENTRY_POINTS

LOADED = "print(*(name for name in ('pandas', 's3fs') if name in sys.modules))"
ARRAY = "import sys, pyarrow as pa; pa.table({'a': [1]})"
COMMAND = "from sidecar.cli.main import app; app(['{}', '--config', '/nowhere'], standalone_mode=False)"


def loaded(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    return done.stdout.split()


def test_arrays_alone_load_no_pandas_and_what_needs_it_does() -> None:
    assert find_spec("pandas") is not None
    assert loaded(f"{ARRAY}; {LOADED}") == ["pandas"], "then plain_arrow.py has no use any more"
    assert loaded(f"import sidecar.shared.process.plain_arrow; {ARRAY}; {LOADED}") == []
    assert loaded(f"import sidecar.shared.process.plain_arrow; {ARRAY}; pa.table({{'a': [1]}}).to_pandas(); {LOADED}") == ["pandas"]


def test_where_a_sink_of_somebodys_own_is_installed_nan_of_pandas_is_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sidecar.shared.process.plain_arrow, pandas, pyarrow as pa; print(pa.array(pandas.Series([float('nan')])).null_count)"
    assert plain_arrow.SINKS == ENTRY_POINTS
    package = tmp_path / "pulsar-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: pulsar\nVersion: 1\n")
    (package / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\npulsar = pulsar:PULSAR\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert loaded(program) == ["1"]
    (package / "entry_points.txt").unlink()
    assert loaded(program) == ["0"]


def test_a_process_of_verifications_is_settled() -> None:
    assert loaded(f"import spark_merge.verify.child; {ARRAY}; {LOADED}") == []


def test_the_parent_of_sparks_workers_has_what_their_tasks_need_and_no_more() -> None:
    assert loaded(f"import spark_merge.worker.daemon; {ARRAY}; {LOADED}") == ["s3fs"]


@pytest.mark.parametrize("command", ["run", "merge"])
def test_each_command_that_stays_is_settled(command: str) -> None:
    program = f"try:\n  {COMMAND.format(command)}\nexcept Exception as error: print(type(error).__name__)\n{ARRAY}; {LOADED}"
    assert loaded(program) == ["ConfigError"]


def test_a_folder_on_s3_loads_what_it_needs(tmp_path: Path) -> None:
    folder = "from sidecar.shared.log import storage; storage.exists(storage.open_folder('{}'), 'x')"
    assert loaded(f"{folder.format(tmp_path)}; {ARRAY.partition(';')[0]}; {LOADED}") == []
    program = f"import sys\ntry:\n  {folder.format('s3://bucket/x?endpoint=http://127.0.0.1:1&access-key=a&secret-access-key=b')}"
    assert loaded(f"{program}\nexcept Exception as error: print(type(error).__name__)\n{LOADED}") == ["LogUnreachable", "s3fs"]
