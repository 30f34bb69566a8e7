"""What Spark's tasks need where they run: the log, and what they read a dump from.

Spark is started only on request (--spark): it takes ten seconds and the memory of a worker. One job then tries it from as many tasks as
the application has cores.
"""

from __future__ import annotations

from functools import partial

from sidecar.shared.config import Config
from sidecar.shared.log import storage
from sidecar.shared.model.messages import ReadWith
from sidecar.shared.process.checks import Checking, CheckSkipped, failed, ok

TASKS_MAX = 64
"""A cluster that has more cores is tried on so many."""


def spark_session(config: Config, *, requested_for: bool) -> Checking[None]:
    """Tasks, where they will run, see the log, and reach what they are to read."""
    if not requested_for:
        raise CheckSkipped("not requested", hint="`ticdc-dump check --spark` starts a session, whose tasks try the log and the source")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from spark_merge.worker.read_reach import reading_settings, try_reads
    from spark_merge.worker.session import session

    section, settings = config.spark, reading_settings(config)
    folder, with_ = settings.log, config.dump.read_with
    hint = f"the tasks of {section.master} must reach {folder} under the same name, and have ticdc-dump installed"
    sql, tikv = (config.reads_on_spark and with_ is way for way in (ReadWith.SQL, ReadWith.TIKV))
    try:
        spark = session(master=section.master, memory=section.memory)
        try:
            count = min(spark.sparkContext.defaultParallelism, TASKS_MAX)
            tried = spark.sparkContext.parallelize(range(count), count).map(partial(try_reads, settings, sql, tikv)).collect()
        finally:
            spark.stop()
    except (PySparkException, Py4JError) as error:
        what = f"Spark at {section.master} did not carry out a task: {str(error).partition(chr(10))[0]}"
        yield failed(what, setting="spark.master, spark.memory", hint=hint)
        return
    executors = {(one.host, one.folder): one for one in tried}
    here = set(storage.list_names(folder, deep=False))
    is_ok = True
    for one in executors.values():
        where = f"on {one.host} (executor in {one.folder})"
        findings = [(each.setting, f"a task {where} failed: {each.what}", _remedy(each.setting, each.hint)) for each in one.unreached]
        if here and not set(one.files) & here and not any(each.setting == "log.uri" for each in one.unreached):
            findings.append(("log.uri", f"a task {where} finds none of the log's {len(here)} files", hint))
        for setting, what, remedy in findings:
            is_ok = False
            yield failed(what, setting=setting, hint=remedy)
    if is_ok:
        reads = f", and reads from {'TiKV' if tikv else settings.source}" if sql or tikv else ""
        yield ok(f"a task at {section.master} sees the log's {len(tried[0].files)} files{reads}")


def _remedy(setting: str, hint: str) -> str:
    """What the sidecar reaches, and a task does not, has one more way out."""
    return hint if setting == "log.uri" else f'{hint}; or set dump.read_on = "sidecar"'
