"""For every test: the process is settled as the entry points settle it, before anything of ours is loaded; no example is timed; what is
slow to make is made once, because the tests that use it go to one worker. At a run's end: which recordings it played, and what it skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

import sidecar.cli.environment  # noqa: F401  # first: before gRPC is loaded
from tests.lanes import examples
from tests.support.recordings import whole_set
from tests.support.services.mariadb import MariaDb

settings.register_profile("lane", deadline=None, max_examples=examples(100))  # a speed is a figure of `make bench`, never a test
settings.load_profile("lane")


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """The worker's one server, for tests of the group `mariadb`. Whoever makes a schema drops it."""
    with MariaDb(tmp_path_factory.mktemp("mariadb")) as server:
        yield server


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """xdist reads the groups after this. A recording's feed is decoded, and its truth read, once by a worker that plays it again and
    again; Spark starts once."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and (group := _group_of(item)):
            item.add_marker(pytest.mark.xdist_group(group))


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
    terminalreporter.write_line(f"recordings: {whole_set() or 'the compact copies in tests/recordings'}")
    terminalreporter.write_line(f"skipped: {skipped.total() or 'nothing'}")
    for reason, count in sorted(skipped.items()):
        terminalreporter.write_line(f"{count:6} {reason}")
