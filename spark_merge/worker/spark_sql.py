"""Statements on Spark, one after another, for `ticdc-dump maintain`. The session has the catalogs and jars of Spark's own configuration.

A Spark that dies fails its statement alone, whatever py4j raises of it: the next one begins another session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sidecar.shared.errors import SinkError
from spark_merge.sinks.lake.steps import Outpaced
from spark_merge.worker.session import OpenSession

CALL_ERRORS = (PySparkException, Py4JError, OSError)
"""Of a call of the JVM; OSError: py4j does not reach one that is gone."""

OVERTAKEN = frozenset(f"org.apache.iceberg.exceptions.{name}" for name in ("CommitFailedException", "ValidationException"))
"""Java's classes of a commit that another one has overtaken; nothing was changed."""

TEXT_CHARS_MAX = 2000


class SparkSql:
    """A `Sql` (spark_merge/port/maintained.py). `begin` makes the session, for the first statement. One thread."""

    def __init__(self, begin: Callable[[], SparkSession]) -> None:
        self._begin = begin
        self._spark: SparkSession | None = None

    def __call__(self, statement: str) -> Sequence[Mapping[str, Any]]:
        """Raises SinkError, Outpaced, and what `begin` raises."""
        try:
            if self._spark is None:
                self._spark = self._begin()
            return [row.asDict() for row in self._spark.sql(statement).collect()]
        except CALL_ERRORS as error:
            text = str(error).partition("\n\nJVM stacktrace")[0].strip()[:TEXT_CHARS_MAX]
            if self._lost():
                with suppress(SinkError):
                    self.close()
                raise SinkError(
                    f"Spark has ended during {statement}: {text}",
                    hint="see Spark's own lines above; a JVM that was killed may need more memory on this machine. Run it again",
                ) from error
            if OVERTAKEN & set(_classes(error)):
                raise Outpaced(text) from error
            raise SinkError(
                f"Spark does not carry out {statement}: {text}",
                hint="its spark-defaults.conf needs the catalog of the sink's URI, under this name, and the format's runtime: "
                "deploy/MAINTAIN.md, Iceberg",
            ) from error

    def close(self) -> None:
        """Raises SinkError for a Spark that does not answer and is no child of this process."""
        spark, self._spark = self._spark, None
        if spark is None:
            return
        try:
            OpenSession(spark).end()
        except CALL_ERRORS as error:
            raise SinkError(f"Spark does not end: {error}", hint="what the run reported is done; see Spark's own log") from error

    def _lost(self) -> bool:
        return self._spark is None or OpenSession(self._spark).gone()


def _classes(error: Exception) -> Iterator[str]:
    """Of Java's exceptions, from the outermost to its first cause."""
    cause: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while cause is not None:
        yield cause.getClass().getName()
        cause = cause.getCause()
