"""The merge worker with a Spark whose jobs take longer: `python -m tests.tools.rig.slow_worker SECONDS merge --config FILE`.

Each job of its Spark waits SECONDS before it is submitted: what a loaded machine, a large cluster or a far driver costs a job, whatever
its rows are. All else is the product's own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from sidecar.cli.main import main
from spark_merge.worker.session import OpenSession

T = TypeVar("T")
R = TypeVar("R")


def slow_down(job_s: float) -> None:
    """From here on each Spark job of this process takes `job_s` longer."""
    quick = OpenSession.work

    def slow(spark: OpenSession, task: Callable[[T], R], over: Sequence[T], *, pool: str, group: str = "") -> list[R]:
        time.sleep(job_s)  # the delay is what is intended
        return quick(spark, task, over, pool=pool, group=group)

    setattr(OpenSession, "work", slow)  # noqa: B010  # a method of the product, replaced in the process that exists for that


if __name__ == "__main__":
    slow_down(float(sys.argv.pop(1)))
    main()
