"""What computes and what writes: percentiles' input, CPU of trees, the peers' settings, the table and the page. No server is started."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.tools.peers import debezium, mydumper
from tests.tools.peers.__main__ import KEYS, PAGE, Measurement, measurements, options_of, page_of, run_all, sizes_of
from tests.tools.peers.arrivals import Arrivals, Writes, dumped_at_ns, latencies_s, missing_ids
from tests.tools.peers.big import ROW_BYTES, statements
from tests.tools.peers.measure import Phases, Sizes, figures
from tests.tools.peers.meter import Meter, Process, Spent, tree
from tests.tools.peers.mydumper import command
from tests.tools.peers.report import BEGIN, COLUMNS, END, Outcome, Report, cells, markdown, renewed, table
from tests.tools.peers.system import kill_tree
from tests.tools.peers.topic_reader import DUMP, ORIGIN, of_debezium, of_open_protocol
from tests.tools.rig.binlog import MySqlAddress

SOURCE = MySqlAddress("127.0.0.1", 3306, "tester", "p@ss:w/ord #1%\\")
DEADLINE_S = 60.0
SECOND_NS = 10**9


def arrivals(*rows: tuple[float, int, int, int]) -> Arrivals:
    """`rows`: second, id, touched, dumped."""
    reshape = np.array([(int(second * SECOND_NS), *rest) for second, *rest in rows], dtype=np.int64).reshape(-1, 4)
    return Arrivals(reshape[:, 0], reshape[:, 1], reshape[:, 2], reshape[:, 3])


def writes(*began_s: float) -> Writes:
    """Numbered from 1."""
    return Writes(np.arange(1, len(began_s) + 1, dtype=np.int64), np.array([int(s * SECOND_NS) for s in began_s], dtype=np.int64))


class TestArrivals:
    def test_a_latency_ends_with_the_first_live_arrival_of_the_write(self) -> None:
        came = arrivals((3.0, 7, 1, 1), (4.0, 7, 1, 0), (9.0, 7, 1, 0), (2.5, 8, 2, 0))
        assert latencies_s(writes(1.0, 2.0), came, from_ns=0, until_ns=5 * SECOND_NS) == pytest.approx([3.0, 0.5])

    def test_only_writes_that_began_in_the_phase_count(self) -> None:
        came = arrivals((9.0, 1, 1, 0), (9.0, 1, 2, 0), (9.0, 1, 3, 0))
        results = latencies_s(writes(1.0, 2.0, 3.0), came, from_ns=2 * SECOND_NS, until_ns=3 * SECOND_NS)
        assert results == pytest.approx([7.0])

    def test_a_write_that_never_arrived_is_an_error_that_names_it(self) -> None:
        with pytest.raises(ValueError, match=r"1 of 2 writes never arrived, among them \[2\]"):
            latencies_s(writes(1.0, 2.0), arrivals((3.0, 7, 1, 0), (4.0, 9, 2, 1)), from_ns=0, until_ns=9 * SECOND_NS)

    def test_a_dump_is_there_with_its_last_row_and_live_rows_may_stand_for_dropped_ones(self) -> None:
        came = arrivals((1.0, 3, 0, 1), (2.0, 1, 0, 1), (4.0, 2, 5, 0), (3.0, 3, 0, 1), (8.0, 1, 6, 0))
        assert dumped_at_ns(came, requested_ns=2 * SECOND_NS, rows=3) == 3 * SECOND_NS
        assert missing_ids(came, rows=5) == 2

    def test_a_dump_with_a_row_missing_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="1 of 2 rows came neither"):
            dumped_at_ns(arrivals((1.0, 1, 0, 1)), requested_ns=0, rows=2)

    def test_a_file_that_is_being_written_is_read_to_its_last_whole_row(self, tmp_path: Path) -> None:
        np.arange(10, dtype=np.int64).tofile(tmp_path / "rows")
        assert Arrivals.read(tmp_path / "rows").ids.tolist() == [1, 5]


class TestFigures:
    def test_each_phase_has_its_own_writes_and_rows(self) -> None:
        began = [second / 2 for second in range(2, 24)]
        live = [(second + 0.5, 1, number, 0) for number, second in enumerate(began, start=1)]
        dumps = [(9.0, 1, 0, 1), (10.0, 2, 0, 1), (21.0, 2, 0, 1), (22.0, 1, 0, 1)]
        meter = Meter()
        meter.watch("system", 1)
        meter.watch("source", 1)
        result = figures(Phases(*(s * SECOND_NS for s in (2, 8, 20))), writes(*began), arrivals(*live, *dumps), meter, rows=2)
        assert (result["writes_per_s"], result["live_p50_s"], result["dump_p99_s"]) == pytest.approx((2.0, 0.5, 0.5))
        assert (result["beside_s"], result["alone_s"], result["beside_rows_per_s"]) == pytest.approx((2.0, 2.0, 1.0))
        assert "publisher_cores" not in result


class TestMeter:
    def test_a_tree_is_the_root_and_all_below(self) -> None:
        processes = {1: Process(0, 0, 0), 5: Process(1, 0, 0), 6: Process(5, 0, 0), 7: Process(6, 0, 0), 8: Process(1, 0, 0)}
        assert (tree(5, processes), tree(9, processes)) == ({5, 6, 7}, set())

    def test_what_a_process_used_is_kept_when_it_is_gone_and_a_pid_may_come_back(self) -> None:
        spent = Spent()
        spent.add(0, {(7, 1): 100})
        spent.add(10, {(7, 1): 200, (8, 1): 100})
        spent.add(20, {(7, 2): 300})
        assert [spent.cpu_s(at) for at in (-5, 0, 5, 10, 20, 99)] == pytest.approx([1.0, 1.0, 2.0, 3.0, 6.0, 6.0])

    def test_a_child_that_works_is_seen(self) -> None:
        with Meter() as meter, subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
            try:
                began_ns, give_up_s = time.time_ns(), time.monotonic() + DEADLINE_S
                meter.watch("child", child.pid)
                while not meter.cpu_s("child", began_ns, time.time_ns()):
                    assert time.monotonic() < give_up_s
                    meter.sample()
            finally:
                child.kill()
        assert meter.knows("child")
        assert not meter.knows("publisher")

    def test_a_killed_tree_is_gone_with_its_grandchildren(self) -> None:
        script = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            grandchild = int(child.stdout.readline())
            kill_tree(child.pid)
        stat = Path(f"/proc/{grandchild}/stat")
        assert not stat.exists() or ") Z " in stat.read_text()


class TestPeers:
    def test_the_rows_are_filled_once_each_and_outside_the_binlog(self) -> None:
        results = statements(120_000)
        fills = [one for one in results if one.startswith("insert")]
        assert [one.rpartition("seq_")[2] for one in fills] == ["1_to_50000", "50001_to_100000", "100001_to_120000"]
        assert results.index("set session sql_log_bin = 0") < results.index(fills[0])
        assert results.index("set session sql_log_bin = 1") > results.index(fills[-1])
        assert ROW_BYTES == 8 + 4 + 120 + 50 + 8

    def test_debezium_as_it_comes_has_none_of_the_tuned_options(self) -> None:
        plain = debezium.connector_settings(SOURCE, brokers="b:1", variant=debezium.AS_IT_COMES)
        tuned = debezium.connector_settings(SOURCE, brokers="b:1", variant=debezium.TUNED)
        assert tuned == {**plain, **debezium.TUNED.options}
        assert not plain.keys() & debezium.TUNED.options.keys()
        assert (plain["database.ssl.mode"], plain["snapshot.mode"]) == ("disable", "no_data")
        assert plain["signal.data.collection"] in plain["table.include.list"].split(",")

    def test_the_versions_are_pinned_and_connect_is_of_one(self) -> None:
        versions = debezium.versions()
        assert versions["debezium-connector-mariadb"].startswith("3.")
        assert versions["connect-runtime"] == versions["connect-json"]

    @pytest.mark.parametrize(("op", "dumped"), [("r", 1), ("u", 0)])
    def test_a_row_is_read_out_of_debeziums_envelope(self, op: str, dumped: int) -> None:
        after = {"id": 7, "n": 1, "filler": "x", "note": "y", "touched": 42}
        event = {"before": None, "after": after, "source": {"db": "shop"}, "transaction": None, "op": op, "ts_ms": 1}
        assert of_debezium(message(None, json.dumps(event).encode())) == [(7, 42, dumped)]

    def test_what_is_no_row_stops_the_consumer(self) -> None:
        with pytest.raises(msgspec.ValidationError):
            of_debezium(message(None, b'{"after":null,"op":"d"}'))

    @pytest.mark.parametrize("dumped", [0, 1])
    def test_rows_are_read_out_of_open_protocols_frames_and_marks_have_none(self, dumped: int) -> None:
        rows = [{"u": {"id": {"t": 8, "v": number}, "touched": {"t": 8, "v": 40 + number}}} for number in (1, 2)]
        keys = version + framed(*[{"ts": 1, "scm": "shop", "tbl": "big", "t": 1}] * 2)
        protocol = of_open_protocol(message(keys, framed(*rows), (ORIGIN, DUMP + b"7 3 d1 0" if dumped else b"log 7 3")))
        assert protocol == [(1, 41, dumped), (2, 42, dumped)]
        assert of_open_protocol(message(version + framed({"ts": 1, "t": 3}), b"")) == []

    @pytest.mark.parametrize(("installed", "table"), [("0.10.0", "big"), ("0.11.5", "shop.big"), ("0.16", "shop.big")])
    def test_mydumper_takes_names_as_its_version_does(self, installed: str, table: str) -> None:
        results = command(SOURCE, Path("/x"), threads=1, rows=10, installed=installed)
        assert results[results.index("-T") + 1] == table
        assert "-k" in results
        assert "-r" not in results

    def test_several_threads_of_mydumper_have_a_part_of_the_table_each(self) -> None:
        results = command(SOURCE, Path("/x"), threads=4, rows=10, installed="0.10.0")
        assert results[results.index("-r") + 1] == "3"


version = (1).to_bytes(8, "big")


def framed(*parts: object) -> bytes:
    texts = [json.dumps(part).encode() for part in parts]
    return b"".join(len(text).to_bytes(8, "big") + text for text in texts)


def message(key: bytes | None, value: bytes, *headers: tuple[str, bytes]) -> Any:
    """As confluent-kafka's, which nobody else can make."""
    return SimpleNamespace(key=lambda: key, value=lambda: value, headers=lambda: list(headers) or None)


def run(**figures: float) -> dict[str, float]:
    return {"live_p50_s": 0.1, "live_p99_s": 0.25, "beside_rows_per_s": 12_345.6, "others_cores": 0.1, **figures}


class TestReport:
    def test_a_figure_is_the_median_of_its_runs(self) -> None:
        outcome = Outcome("ours", (run(live_cores=1.0), run(live_cores=9.0), run(live_cores=2.0)))
        assert outcome.value("live_cores") == 2.0
        assert outcome.value("cpu_us_a_row") is None

    def test_a_cell_without_its_figures_is_empty(self) -> None:
        result = dict(zip([header for header, _ in COLUMNS], cells(Outcome("ours", (run(),))), strict=True))
        assert result["live p50 / p99, s"] == "0.10 / 0.25"
        assert result["rows/s of it, beside the writes"] == "12,346"
        assert result["during the dump, s"] == ""

    def test_what_could_not_be_measured_is_reported(self) -> None:
        report = Report([Outcome("ours", (run(),)), Outcome("mydumper", absent="not installed")], {"rows": "10 rows"})
        assert "- mydumper: not installed." in markdown(report).splitlines()
        assert table(report).row_count == 2
        assert json.loads(json.dumps(report.plain()))["systems"][1]["absent"] == "not installed"

    def test_the_noise_of_others_is_reported(self) -> None:
        assert "noise" not in markdown(Report([Outcome("ours", (run(),))]))
        assert "noise" in markdown(Report([Outcome("ours", (run(), run(others_cores=0.5)))]))

    def test_the_page_is_renewed_between_its_marks_and_nowhere_else(self) -> None:
        report = Report([Outcome("ours", (run(),))], {"date": "2026-01-02"})
        page = f"head\n{BEGIN}\nold\n{END}\ntail\n"
        once = renewed(page, report)
        assert once.startswith(f"head\n{BEGIN}\n")
        assert once.endswith(f"{END}\ntail\n")
        assert "old" not in once
        assert "| date | 2026-01-02 |" in once
        assert renewed(once, report) == once

    @pytest.mark.parametrize("page", ["", f"{END} {BEGIN}", f"{BEGIN} {BEGIN} {END}", f"{BEGIN} {END} {END}"])
    def test_a_page_without_its_marks_is_an_error(self, page: str) -> None:
        with pytest.raises(ValueError, match="once each"):
            renewed(page, Report([]))

    def test_the_projects_page_has_its_marks(self) -> None:
        assert renewed(PAGE.read_text(), Report([])).count(BEGIN) == 1


class TestCommand:
    @pytest.mark.parametrize(
        ("arguments", "page"),
        [
            (["--runs", "3"], PAGE),
            (["--runs", "5", "--rows", "5000000"], PAGE),
            (["--runs", "1"], None),
            (["--runs", "3", "--quick"], None),
            (["--runs", "3", "--only", "ours"], None),
            (["--runs", "3", "--rows", "1000"], None),
            (["--runs", "3", "--live-seconds", "5"], None),
            (["--runs", "3", "--warm-up-seconds", "10"], None),
            (["--quick", "--page", __file__], Path(__file__)),
        ],
    )
    def test_only_a_run_in_full_renews_the_projects_page(self, arguments: list[str], page: Path | None) -> None:
        options = options_of(arguments)
        assert page_of(options, sizes_of(options)) == page

    def test_a_page_that_is_not_there_is_wrong_usage_before_anything_is_measured(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            options_of(["--page", "nowhere.md"])
        assert f"copy {PAGE.name} there" in capsys.readouterr().err

    def test_quick_is_a_tenth_of_the_rows_that_were_requested(self) -> None:
        assert sizes_of(options_of(["--quick", "--rows", "50000"])).rows == 5_000

    def test_every_system_is_in_the_table_whether_or_not_it_can_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mydumper, "version", lambda: None)
        results = measurements(options_of([]), Sizes())
        assert tuple(one.key for one in results) == KEYS
        assert [one.absent for one in results if one.key.startswith("mydumper")] == ["not installed (apt-get install mydumper)"] * 2

    def test_a_run_that_fails_ends_it_and_what_was_measured_before_is_kept(self, tmp_path: Path) -> None:
        def lost(_: Path) -> dict[str, float]:
            raise ValueError("1 of 2 writes never arrived")

        def measured(folder: Path) -> dict[str, float]:
            order.append(folder.name)
            return run()

        order: list[str] = []
        chosen = [
            Measurement("ours", "ours", measured),
            Measurement("absent", "absent", lost, absent="not installed"),
            Measurement("peer", "peer", lost),
        ]
        outcomes, failed = run_all(chosen, 2, tmp_path)
        assert order == ["0-ours"]
        assert failed == "run 1 of peer failed: 1 of 2 writes never arrived"
        assert [(len(one.runs), one.absent) for one in outcomes] == [(1, ""), (0, "not installed"), (0, "not measured")]

    @pytest.mark.parametrize("wrong", [["--runs", "0"], ["--rows", "0"], ["--only", "nothing"]])
    def test_wrong_usage_ends_with_2(self, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            options_of(wrong)
        assert ended.value.code == 2
        assert "usage" in capsys.readouterr().err
