"""python -m tests.tools.bench [--only NAME] [--quick] [--json]: measure and print the table."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from sidecar.cli.main import tune_collector
from tests.tools.bench import (
    binlog,
    cli,
    console_cost,
    decode,
    kv,
    lakes,
    latency,
    merge,
    order,
    pump,
    push,
    push_messages,
    query_sinks,
    reads,
    sinks,
    sizes,
    slow_spark,
    source,
    spark_cluster,
    start,
    tables,
    tikv,
    tikv_reads,
    transaction,
    verify,
    whole,
)
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import TICKS_A_SECOND, Cost, Figure, machine_ticks, timed_tree

MEASUREMENTS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "order": order.measure,
    "transaction": transaction.measure,
    "decode": decode.measure,
    "merge": merge.measure,
    "cluster": spark_cluster.measure,
    "latency": latency.measure,
    "tables": tables.measure,
    "sizes": sizes.measure,
    "source": source.measure,
    "reads": reads.measure,
    "whole": whole.measure,
    "slow-spark": slow_spark.measure_all,
    "round-trips": slow_spark.measure_trips,
    "sinks": sinks.measure,
    "query-sinks": query_sinks.measure,
    "lakes": lakes.measure,
    "verify": verify.measure,
    "kv": kv.measure,
    "binlog": binlog.measure,
    "push": push.measure,
    "push-messages": push_messages.measure,
    "pump": pump.measure,
    "tikv": tikv.measure,
    "tikv-reads": tikv_reads.measure,
    "cli": cli.measure,
    "start": start.measure,
    "console": console_cost.measure,
}

WIDTH = 200
"""Columns of the table where the output is no terminal."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench", description="Measure; nothing passes or fails by time.")
    parser.add_argument(
        "--only", action="append", choices=MEASUREMENTS, metavar="NAME", help=f"one of {', '.join(MEASUREMENTS)}; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes: shows that it works, not how fast")
    parser.add_argument("--json", action="store_true", help="one JSON array instead of the table")
    options = parser.parse_args(arguments)
    tune_collector()
    figures: list[Figure] = []
    others = []
    with closing(Bench(quick=options.quick)) as bench:
        for name in options.only or MEASUREMENTS:
            own, all_ticks = Cost(), machine_ticks()
            with timed_tree(own):
                figures += MEASUREMENTS[name](bench)
            others.append(((machine_ticks() - all_ticks) / TICKS_A_SECOND - own.cpu_s) / own.wall_s)
            sys.stderr.write(f"measured {name} in {own.wall_s:.0f} s; others kept {max(others[-1], 0):.2f} cores busy meanwhile\n")
    if options.json:
        sys.stdout.write(json.dumps([asdict(figure) for figure in figures], ensure_ascii=False, indent=1) + "\n")
        return
    size = ", a tenth of the sizes" if options.quick else ""
    _show(
        figures,
        title=f"{os.cpu_count()} cores{size}; other processes kept {max(*others, 0):.2f} cores busy at most: walls are noise above 0.2",
    )


def _show(figures: list[Figure], *, title: str) -> None:
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    table = Table("measured", title=title, title_justify="left")
    for header in ("figure", "CPU µs a row", "ratio", "by CPU"):
        table.add_column(header, justify="right")
    for header in ("reference", "aim", "limited by"):
        table.add_column(header)
    for figure in figures:
        shown = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:,.2f}"
        numbers = (_number(figure.cpu_us, 1), _number(figure.ratio, 2), _number(figure.cpu_ratio, 2))
        table.add_row(figure.name, f"{shown} {figure.unit}", *numbers, figure.reference, figure.aim, figure.limit)
    console.print(table)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


if __name__ == "__main__":
    main()
