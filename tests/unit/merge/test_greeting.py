"""What a JVM says of itself at its start is not shown; what it says of what goes wrong is, for as long as it lives."""

from __future__ import annotations

import os
import subprocess
import sys

from spark_merge.worker.greeting import GREETINGS, pass_on

SAYS = """
import os, subprocess, sys
from spark_merge.worker.greeting import without_greeting

java = '''
import sys, time
print("WARNING: Using incubator modules: jdk.incubator.vector", file=sys.stderr, flush=True)
sys.stdin.readline()
print("java.lang.OutOfMemoryError", file=sys.stderr, flush=True)
print("answer", flush=True)
sys.stdin.read()
'''
with without_greeting():
    child = subprocess.Popen([sys.executable, "-c", java], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print("ours", file=sys.stderr, flush=True)
child.stdin.write(b"go\\n")
child.stdin.flush()
assert child.stdout.readline() == b"answer\\n"
child.communicate()
import threading
[thread.join(300) for thread in threading.enumerate() if thread.name == "stderr of Java"]
"""


def test_the_greeting_is_left_out_and_everything_else_passes() -> None:
    done = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stderr.splitlines()) == ["java.lang.OutOfMemoryError", "ours"]


def test_a_line_counts_as_a_greeting_by_its_beginning() -> None:
    reading, writing = os.pipe()
    back, shown = os.pipe()
    os.write(writing, b"".join(greeting + b"more\n" for greeting in GREETINGS) + b"not: " + GREETINGS[0] + b"\nlast, unended")
    os.close(writing)
    pass_on(reading, shown)
    with os.fdopen(back, "rb") as pipe:
        assert pipe.read() == b"not: " + GREETINGS[0] + b"\nlast, unended"
