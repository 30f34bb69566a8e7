"""What tests execute, beside what the graph says that they reach: `python -m pytest -p tests.choice.audit tests/unit/core`.

Prints each symbol of the product that a test executed and that the graph does not lead to: a rule of graph.py is missing. (Threads and
generators of an earlier test that end during a later one are listed too.) Slow, for each call is recorded, and one process only. What
modules execute while they are imported does not count, nor what other processes do.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.choice.graph import Graph, Symbol, module_of

ROOT = Path(__file__).parents[2]


class Recorder:
    """The code that runs between `start` and `stop`, in all threads."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self._importing = 0

    def start(self) -> None:
        self.codes.clear()
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            self._importing += (event == "call") - (event == "return")
        elif event == "call" and not self._importing:
            self.codes.add(code)


class Audit:
    def __init__(self) -> None:
        self.graph = Graph(ROOT)
        self.missing: dict[Symbol, set[Symbol]] = {}
        self.tests = 0
        self._recorder = Recorder()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._recorder.start()
        try:
            return (yield)
        finally:
            self._recorder.stop()
            self._judge(item)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(
            f"audit of the chooser: {self.tests} tests, {len(self.missing)} symbols that the graph does not lead to"
        )
        for symbol, tests in sorted(self.missing.items()):
            terminalreporter.write_line(f"{symbol.module}::{symbol.name}  by {len(tests)}: {'::'.join(min(tests))}")

    def _judge(self, item: pytest.Item) -> None:
        place, _, rest = item.nodeid.partition("::")
        test = Symbol(module_of(Path(place)), re.split(r"::|\[", rest)[0])
        self.tests += 1
        for code in self._recorder.codes:
            symbol = self._symbol(code)
            if symbol is not None and test not in self._reaching(symbol):
                self.missing.setdefault(symbol, set()).add(test)

    @cache  # noqa: B019  # it lives as long as the process
    def _reaching(self, symbol: Symbol) -> set[Symbol]:
        return self.graph.reaching([symbol])

    @cache  # noqa: B019  # the same
    def _symbol(self, code: CodeType) -> Symbol | None:
        """None: it is none of the product's."""
        path = Path(code.co_filename)
        if not path.is_relative_to(ROOT) or path.suffix != ".py":
            return None
        module, name = module_of(path.relative_to(ROOT)), code.co_qualname.partition(".")[0]
        if not module.startswith(("sidecar", "spark_merge")) or name not in self.graph.sources[module].uses:
            return None
        return Symbol(module, name)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Audit(), "audit of the chooser")
