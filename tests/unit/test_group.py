"""A process group lives as long as any of its processes, whoever their parent is by then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from sidecar.shared.process.group import await_end, lives

LEAVES_ONE = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import sys; open(sys.argv[1]).read()', sys.argv[1]])"


def test_it_outlives_its_leader_and_ends_with_its_last_process(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "until")
    with subprocess.Popen([sys.executable, "-c", LEAVES_ONE, str(tmp_path / "until")], start_new_session=True) as leader:
        leader.wait()
        assert lives(leader.pid)
        await_end(leader.pid, 0)
        assert lives(leader.pid)
        (tmp_path / "until").write_text("now")
        await_end(leader.pid, 60)
        assert not lives(leader.pid)


def test_one_that_is_killed_and_that_nobody_has_reaped_does_not_live() -> None:
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True) as child:
        assert lives(child.pid)
        os.killpg(child.pid, signal.SIGKILL)
        await_end(child.pid, 60)
        assert not lives(child.pid)
        assert child.poll() is not None
