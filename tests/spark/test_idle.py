"""A Spark of one machine ends when it is idle, and the same process starts it again: a JVM each time, and nothing left of the last one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.eventually import PATIENCE_S

pytestmark = pytest.mark.spark

PROGRAM = """
import os, sys
from functools import partial
from pathlib import Path
from random import Random
from sidecar.shared.log.storage import open_folder
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.merge.cut import BatchLimits
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import check, random_history, write_log
from spark_merge.worker.spark_tasks import SparkTasks
from tests.support.eventually import eventually

def children():
    each = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [pid for one in each for pid in one.read_text().split()]

def begin():
    from spark_merge.worker.session import OpenSession, session
    return OpenSession(session(master="local[2]", memory="512m"))

log, out = map(open_folder, sys.argv[1:3])
history = random_history(Random(1))
manifests = write_log(log, history)
clock = [0.0]
tasks = SparkTasks(begin, when_needed=True, idle_s=60.0, now_s=lambda: clock[0])
delivery = Delivery(open_sink(f"{out}?format=jsonl", log_id="x"), JobSettings(log, limits=BatchLimits(segments_max=8)), tasks)
assert not children() and "pyspark" not in sys.modules
jvms, descriptors = set(), set()
while delivery.deliver() is not None:
    (jvm,) = children()
    clock[0] += 59.0
    tasks.end_if_idle()
    assert tasks.ready
    clock[0] += 1.0
    tasks.end_if_idle()
    assert not tasks.ready
    jvms.add(jvm)
    if len(jvms) % 2:
        eventually(lambda: not children(), "the JVM is still there")  # else the next batch comes while it ends
    tasks.check()
eventually(lambda: not children(), "the last JVM is still there")
check(history, manifests, out)
print(len(jvms))
"""


def test_batches_are_delivered_by_one_jvm_after_another(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "log"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 2
    assert "Traceback" not in done.stderr


BROKEN = """
import os
from pathlib import Path
from sidecar.shared.errors import ConfigError
from spark_merge.worker.session import OpenSession, session

def children():
    each = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [pid for one in each for pid in one.read_text().split()]

def begin():
    return OpenSession(session(master="local[2]", memory="512m"))

for name, value in (("JAVA_HOME", "/nowhere"), ("SPARK_LOCAL_IP", "203.0.113.1")):  # no JVM, and one that can bind no port
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        begin()
    except ConfigError as error:
        print(error.message.splitlines()[0])
    else:
        raise AssertionError("it has started")
    assert not children(), "a JVM is left"
    os.environ.pop(name) if before is None else os.environ.update({name: before})
spark = begin()
assert spark.cores() == 2
spark.end()
assert not children()
"""


def test_a_start_that_failed_leaves_no_jvm_and_the_next_one_has_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2, done.stdout
