"""Removes from an installed pyspark the jars that ticdc-dump never loads: `python unused_jars.py [--keep]` in the environment's Python.

ticdc-dump gives Spark two things to do. What either loads is needed, and what reaches a cluster: standalone, Kubernetes and YARN stay
whole.
- Tasks of Python (spark_merge/worker), for deliveries: Spark's core, its RPC and the session itself. The JVM reads and writes no file.
- Iceberg's procedures, for `ticdc-dump maintain` (spark_merge/sinks/iceberg/maintenance.py): Spark SQL, whose generated code names Arrow's
  classes. Iceberg's runtime, which the operator adds, brings its own Parquet and ORC. A Hive catalog needs Hive's jars, 35 MB: then the
  whole pyspark (deploy/MAINTAIN.md).
Each line of UNUSED says why its jars are not needed. tests/spark/test_unused_jars.py does both without them.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

UNUSED = {
    "Machine learning and graphs, and their mathematics": """
        spark-mllib* spark-graphx* breeze* spire* cats-kernel* algebra_* JTransforms* JLargeArrays* lapack-* blas-* arpack*""",
    "State of streaming queries and of the history server": "rocksdbjni-* leveldbjni-* spark-streaming*",
    "Hive's tables, its metastore and what they bring": """
        spark-hive* hive-* derby* datanucleus-* javax.jdo-* jdo-api-* HikariCP-* libfb303-* libthrift-* super-csv-* opencsv-* javolution-*
        jpam-* commons-dbcp-* commons-pool-* transaction-api-* jta-* stax-api-*""",
    "Files of tables, which Python and Iceberg's runtime read and write": "parquet-* orc-*",
    "Servers and shells of Spark's own": "spark-connect* spark-pipelines* spark-repl* connect-repl scala-compiler-* jline-*",
    "Other operating systems, and HTTP/3": """
        netty-*-osx-* netty-*-windows-* netty-codec-native-quic-* netty-codec-classes-quic-* netty-codec-http3-*""",
}
"""A reason, and patterns of names in the folder `jars`."""


def unused(jars: Path) -> set[Path]:
    """Of `jars`, by the patterns. Raises FileNotFoundError for a pattern without a match: the list is for another Spark."""
    results: set[Path] = set()
    for why, patterns in UNUSED.items():
        for pattern in patterns.split():
            matches = set(jars.glob(pattern))
            if not matches:
                raise FileNotFoundError(f"{jars} has no {pattern} ({why}): compare the list with this version of Spark")
            results |= matches
    return results


def main(*, keep: bool) -> None:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("pyspark is not installed here")
    results = sorted(unused(Path(spec.origin).parent / "jars"))
    files = [file for path in results for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    for file in () if keep else files:
        file.unlink()
    sys.stdout.write(f"{len(files)} jars, {size / 1e6:.0f} MB\n")


if __name__ == "__main__":
    main(keep="--keep" in sys.argv[1:])
