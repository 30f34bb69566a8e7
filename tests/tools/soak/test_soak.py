"""What a soak measures with. The soak itself is `make soak`; what it does to the product is tests/integration/test_live.py's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.tools.soak.sampling import Sample, Series, descendant, folder_mib, held, take
from tests.tools.soak.slopes import growth, table


def test_growth_is_reported_an_hour_and_outliers_do_not_move_it() -> None:
    random = Random(1)
    samples = [Sample(3.0 * n, 7, 100 + 3.0 * n / 3600 * 12 + random.uniform(-0.5, 0.5)) for n in range(1200)]
    samples[900] = samples[900]._replace(value=5000)
    result = growth("rss", samples)
    assert result.an_hour == pytest.approx(12, abs=0.5)
    assert (result.samples, result.lives) == (600, 1)


def test_what_a_death_gives_back_hides_no_growth() -> None:
    lives = [Sample(float(n), n // 100, 50.0 + n % 100) for n in range(800)]
    result = growth("rss", lives)
    assert result.an_hour == pytest.approx(3600)
    assert result.lives == 4


def test_before_the_second_half_nothing_counts() -> None:
    assert growth("rss", [Sample(float(n), 1, min(n, 50)) for n in range(101)]).an_hour == 0


def test_one_sample_a_life_has_no_slope() -> None:
    result = growth("rss", [Sample(0.0, 1, 5.0), Sample(1.0, 2, 6.0)])
    assert result.an_hour is result.share is None
    assert "| rss | 1 | 1 | 6.0 | 6.0 | 6.0 | - | - |" in table({"rss": [Sample(0.0, 1, 5.0), Sample(1.0, 2, 6.0)]})


def test_a_process_is_seen_with_what_it_holds_and_what_it_started(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(bytes(1 << 20))
    series: Series = {}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("it runs\n")
        assert child.stdout.readline() == "it runs\n"
        take(series, 1.0, {"this": os.getpid(), "gone": None}, {"folder": tmp_path})
        number = descendant(os.getpid(), "cat")
        assert number == child.pid
        assert held(child.pid)["threads"] == 1
    assert held(child.pid) == {}
    assert set(series) == {"this rss MiB", "this descriptors", "this threads", "folder MiB"}
    assert series["folder MiB"][0].value == folder_mib(tmp_path) >= 1
    assert series["this rss MiB"][0].value > 10
    assert descendant(None, "cat") is None
