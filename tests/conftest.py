"""For every test: the process is settled as the entry points settle it, before anything of ours is loaded; no example is timed; what is
slow to make is made once, because the tests that use it go to one worker. At a run's end: which recordings it played, and what it skipped.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import sidecar.cli.environment  # first: before gRPC is loaded
import sidecar.shared.process.plain_arrow  # noqa: F401  # before anything makes an array
from tests.choice.selected import VARIABLE, Case, needs, running, selected, turn_of
from tests.lanes import LANE, examples
from tests.support.recordings import whole_set
from tests.support.services.clickhouse import ClickHouse
from tests.support.services.java import QUICK_JAVA
from tests.support.services.kafka import KafkaBroker
from tests.support.services.mariadb import MariaDb
from tests.support.services.mysql import PROGRAM, MySql
from tests.support.services.opensearch import OpenSearchNode
from tests.support.services.schema_registry import ApicurioRegistry
from tests.turns import Share, in_turn, turn

ROOT = Path(__file__).parents[1]

pytest.register_assert_rewrite("spark_merge.testing")

settings.register_profile(
    "lane",
    max_examples=examples(100),
    derandomize=not LANE.whole,  # a change is refused for what it is
    print_blob=True,
    deadline=None,  # a speed is a figure of `make bench`, never a test
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("lane")

os.environ.pop("COLUMNS", None)  # xdist's: without a terminal a command's lines are as long as it says
os.environ |= {name: " ".join(QUICK_JAVA) for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")}  # every Spark of every process

_parse = ast.parse


def _parsed(*arguments: Any, **options: Any) -> Any:
    """Python 3.11 counts how deep the parser is for all threads at once (python/cpython#106905): where another one formats a traceback in
    the same moment, both get an error of a mismatch, and nothing is wrong."""
    while True:
        try:
            return _parse(*arguments, **options)
        except SystemError as error:
            if "recursion depth mismatch" not in str(error):
                raise


ast.parse = _parsed

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # what a run under nohup ignores, its processes would ignore too


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """The worker's one server, for tests of the group `mariadb`. A module finds no schema of another's."""
    with (MySql if PROGRAM else MariaDb)(tmp_path_factory.mktemp("mariadb")) as server:
        _SHARED.append(server)
        yield server
        _SHARED.remove(server)


@pytest.fixture(scope="session")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearchNode]:
    """The worker's one node, for tests of the group `opensearch`."""
    with OpenSearchNode(tmp_path_factory.mktemp("opensearch")) as node:
        yield node


_SHARED: list[MariaDb] = []


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    """The worker's one engine, for tests of the group `clickhouse`. Each makes databases of its own."""
    with ClickHouse(tmp_path_factory.mktemp("clickhouse")) as server:
        yield server


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """The worker's one broker, for all tests that neither end nor freeze it. Each makes topics of its own."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApicurioRegistry]:
    """The worker's one, for all tests that neither end it nor set the compatibility of all subjects."""
    with ApicurioRegistry(tmp_path_factory.mktemp("schema-registry")) as running:
        yield running


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    return report


COMPARED_CHARACTERS_MAX = 50_000
"""pytest compares lines with each other: of two values of megabytes that are not equal for many minutes."""


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Of large ones the first place where they differ."""
    one, other = repr(left), repr(right)
    if op != "==" or len(one) + len(other) < COMPARED_CHARACTERS_MAX:
        return None
    place = next((at for at, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs), min(len(one), len(other)))
    shown = slice(max(place - 100, 0), place + 400)
    return ["two large values", f"they differ from character {place:,} of their texts on:", f"  {one[shown]}", f"  {other[shown]}"]


@pytest.fixture
def tmp_path(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Emptied where the test has passed: a whole run makes hundreds of etcds and brokers, whose files filled a disk of 80 GB. The folder
    itself stays, so that no later test has one of its name: caches and twins know folders by their names."""
    yield tmp_path
    for child in () if request.node.stash.get(_FAILED, False) else tuple(tmp_path.iterdir()):
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child, ignore_errors=True)  # a process that a test has ended may still write into it
        else:
            child.unlink(missing_ok=True)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left_to_the_next_module() -> Iterator[None]:
    yield
    kafka = sys.modules.get("spark_merge.sinks.kafka.holder")  # a run that needs none does not load it: it takes long
    if kafka is not None:
        kafka.OF_PROCESS.release()
    for server in _SHARED:
        system = "('mysql', 'sys', 'information_schema', 'performance_schema')"
        for (schema,) in server.execute(f"SELECT SCHEMA_NAME FROM information_schema.schemata WHERE SCHEMA_NAME NOT IN {system}"):
            server.execute("SET foreign_key_checks = 0", f"DROP DATABASE `{schema}`")


SLOW_MODULES = 30
"""Modules that a run's end names with their seconds: what to make faster."""


CHOICE = selected()
"""Which tests the change concerns (tests/choice); None: all run."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """A file without a test that can run is not loaded."""
    is_test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return True if CHOICE is not None and is_test and not needs(CHOICE, str(collection_path.relative_to(ROOT))) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """xdist reads the groups after this. A recording's feed is decoded, and its truth read, once by a worker that plays it again and
    again; Spark starts once. Single tests come last, and keep all workers busy to the end."""
    if CHOICE is not None:
        run = running(CHOICE, map(_case, items), turn_of(CHOICE.head))
        items[:] = [item for item in items if item.nodeid in run]
    elif not LANE.whole:
        shares = [Share.of(item.nodeid, *mark.args) for item in items if (mark := item.get_closest_marker("turns"))]
        left = {one.case for one in shares} - in_turn(shares, turn(ROOT))
        items[:] = [item for item in items if item.nodeid not in left]
    for item in items:
        if item.get_closest_marker("xdist_group") is None and (group := _group_of(item)):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_turn)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A half of the tests without one that the change concerns has passed."""
    if CHOICE is not None and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and len(session.config.args) > 1:
        session.exitstatus = pytest.ExitCode.OK


def _case(item: pytest.Item) -> Case:
    place, _, rest = item.nodeid.partition("::")
    mark = item.get_closest_marker("turns")
    return Case(item.nodeid, place, re.split(r"::|\[", rest)[0], *(mark.args if mark else ()))


LONG_GROUPS = ("rig", "cluster", "spark", "kafka-sink", "mariadb", "sql-target")
"""Each keeps one worker busy for minutes: they begin first."""


def _turn(item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    if mark is None:
        return len(LONG_GROUPS) + 1
    return LONG_GROUPS.index(mark.args[0]) if mark.args[0] in LONG_GROUPS else len(LONG_GROUPS)


def _group_of(item: pytest.Item) -> str | None:
    if item.path.parent.name == "spark":
        return "spark"
    played = getattr(item, "callspec", None)
    if item.get_closest_marker("recordings") is None or played is None or not isinstance(name := played.params.get("name"), str):
        return None
    if name.startswith("ddl"):  # what is wrong in its feeds is told by its key-values
        return name
    return f"{name} {played.params.get('feed', 'kv')}"


def skip_reasons(reports: list[Any]) -> Counter[str]:
    """Of skipped tests and of modules skipped as a whole."""
    reasons = (report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr) for report in reports)
    return Counter(reason.removeprefix("Skipped: ") for reason in reasons)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = skip_reasons(terminalreporter.stats.get("skipped", []))
    for line in [] if CHOICE is None else [f"only what {os.environ[VARIABLE]} chooses:", *CHOICE.report]:
        terminalreporter.write_line(line)
    terminalreporter.write_line(f"recordings: {whole_set() or 'the compact copies in tests/recordings'}")
    terminalreporter.write_line(f"skipped: {skipped.total() or 'nothing'}")
    for reason, count in sorted(skipped.items()):
        terminalreporter.write_line(f"{count:6} {reason}")
    spent_s = module_seconds([report for reports in terminalreporter.stats.values() for report in reports])
    terminalreporter.write_line(f"seconds of {sum(spent_s.values()):.0f}, by module:")
    for module in sorted(spent_s, key=spent_s.__getitem__, reverse=True)[:SLOW_MODULES]:
        terminalreporter.write_line(f"{spent_s[module]:6.0f} {module}")


def module_seconds(reports: list[Any]) -> dict[str, float]:
    """Of set-up, test and clean-up, of all workers."""
    spent_s: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        if isinstance(report, pytest.TestReport):
            spent_s[report.nodeid.partition("::")[0]] += report.duration
    return spent_s
