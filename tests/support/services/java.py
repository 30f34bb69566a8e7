"""Options of the tests' JVMs: they live for seconds, and several of them share a machine. Measured by CPU time, a Spark session of one
machine costs 13 s without them and half of that with them."""

from __future__ import annotations

QUICK_JAVA = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",  # of the jars of a release
    "-Xshare:auto",
)
