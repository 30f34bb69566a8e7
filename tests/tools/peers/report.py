"""What comes out: the table for a terminal, the JSON, and the part of deploy/PERFORMANCE.md between its two marks.

A figure of several runs is their median, each figure for itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.table import Table

BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"
NOISE_CORES = 0.2
"""Others that keep more busy than this make walls noise."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one system: its runs, or why there are none."""

    system: str
    runs: tuple[Mapping[str, float], ...] = ()
    absent: str = ""

    def value(self, name: str) -> float | None:
        results = [run[name] for run in self.runs if name in run]
        return median(results) if results else None


@dataclass(frozen=True, slots=True)
class Report:
    """`facts`: machine, date, versions, sizes; each a name and a text, in the order in which they are shown."""

    outcomes: Sequence[Outcome]
    facts: Mapping[str, str] = field(default_factory=dict)

    def plain(self) -> dict[str, object]:
        systems = [
            {
                "system": one.system,
                "absent": one.absent,
                "medians": {n: one.value(n) for run in one.runs[:1] for n in run},
                "runs": list(one.runs),
            }
            for one in self.outcomes
        ]
        return {"facts": dict(self.facts), "systems": systems}

    def writes_per_s(self) -> list[float]:
        """What the sessions reached, in every run, without and beside a dump."""
        names = ("writes_per_s", "dump_writes_per_s")
        return [run[name] for one in self.outcomes for run in one.runs for name in names if name in run]

    def publisher_cores(self) -> list[float]:
        return [run["publisher_cores"] for one in self.outcomes for run in one.runs if "publisher_cores" in run]

    def others_cores(self) -> float:
        """The most that others kept busy during any run."""
        return max((run["others_cores"] for one in self.outcomes for run in one.runs), default=0.0)


COLUMNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("CPU beside the writes, cores", ("live_cores",)),
    ("live p50 / p99, s", ("live_p50_s", "live_p99_s")),
    ("during the dump, s", ("dump_p50_s", "dump_p99_s")),
    ("rows/s of it, beside the writes", ("beside_rows_per_s",)),
    ("rows/s, dump alone", ("alone_rows_per_s",)),
    ("CPU µs a row", ("cpu_us_a_row",)),
    ("CPU µs a row of the source", ("source_cpu_us_a_row",)),
    ("SELECTs / statements of a dump", ("selects", "statements")),
)
"""Header, and the figures in the cell."""


def cells(outcome: Outcome) -> list[str]:
    """One for each of COLUMNS; empty where the system has no such figure."""
    return [
        " / ".join(shown) if all(shown) else "" for shown in ([_shown(name, outcome.value(name)) for name in names] for _, names in COLUMNS)
    ]


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name.endswith("per_s") or name in ("selects", "statements"):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if name.endswith("a_row") else f"{value:,.2f}"


def table(report: Report) -> Table:
    result = Table("system", title=title(report), title_justify="left")
    for header, _ in COLUMNS:
        result.add_column(header, justify="right")
    for outcome in report.outcomes:
        if outcome.absent:
            result.add_row(outcome.system, outcome.absent)
        else:
            result.add_row(outcome.system, *cells(outcome))
    return result


def title(report: Report) -> str:
    busy = report.others_cores()
    noise = ": walls are noise" if busy > NOISE_CORES else ""
    return f"{report.facts.get('rows', '')}; other processes kept {busy:.2f} cores busy at most{noise}"


def markdown(report: Report) -> str:
    """What stands between the marks of the page."""
    lines = [f"| {name} | {text} |" for name, text in report.facts.items()]
    busy = report.others_cores()
    noise = ", so walls and latencies are noise" if busy > NOISE_CORES else ""
    if reached := report.writes_per_s():
        lines.append(f"| writes/s reached | {min(reached):,.0f} to {max(reached):,.0f} |")
    if published := report.publisher_cores():
        lines.append(f"| the publisher, beside the writes | {median(published):.2f} cores, not in ticdc-dump's |")
    lines.append(f"| others on the machine | {busy:.2f} cores at most in any run{noise} |")
    headers = ["system", *(header for header, _ in COLUMNS)]
    rows = [[one.system, *cells(one)] for one in report.outcomes if not one.absent]
    absent = [f"- {one.system}: {one.absent}." for one in report.outcomes if one.absent]
    figures = [_row(headers), _row(["---", *("---:" for _ in COLUMNS)]), *map(_row, rows)]
    return "\n".join(["| measured on | |", "|---|---|", *lines, "", *figures, *(["", *absent] if absent else [])])


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def renewed(page: str, report: Report) -> str:
    """The page with the report between its marks. Raises ValueError if they are not there, once each and in order."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end) or BEGIN in rest or END in tail:
        raise ValueError(f"the page must have {BEGIN} and {END}, once each and in this order")
    return f"{head}{BEGIN}\n\n{markdown(report)}\n\n{END}{tail}"


def machine() -> str:
    """Cores, memory and the processor's name."""
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory_kb = re.search(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert memory_kb is not None, "proc_meminfo(5) has it"
    name = model[1].strip() if model else os.uname().machine
    return f"{os.cpu_count()} cores, {int(memory_kb[1]) / 2**20:.0f} GiB, {name}, Linux {os.uname().release}"
