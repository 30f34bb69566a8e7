"""A process that talks gRPC starts others, as PySpark starts its JVM: none of them is lost, and nothing waits for ever."""

from __future__ import annotations

import subprocess
import sys

FORKS = 60
"""With gRPC's handlers one child in twenty dies before its exec, and some run hangs."""

PROGRAM = f"""
import os, subprocess
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import sidecar.cli.environment
import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

server = grpc.server(ThreadPoolExecutor(2))
health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
port = server.add_insecure_port("127.0.0.1:0")
server.start()
enough = Event()

def ask():
    while not enough.is_set():
        with grpc.insecure_channel(f"127.0.0.1:{{port}}") as channel:
            for _ in range(20):
                health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=300)

asking = [Thread(target=ask) for _ in range(2)]
for thread in asking:
    thread.start()
codes = [subprocess.Popen(["true"], preexec_fn=lambda: None).wait() for _ in range({FORKS})]
enough.set()
for thread in asking:
    thread.join()
server.stop(None)
print(codes.count(0))
"""


def test_who_is_started_beside_a_busy_channel_gets_to_its_exec() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, str(FORKS)), done.stderr[-2000:]
