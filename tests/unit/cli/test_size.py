"""`ticdc-dump size` as a user meets it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from sidecar.cli.main import main
from sidecar.cli.size import shown, views
from sidecar.report.sizing import SizedLoad, sized

SHAPE = ("--rows", "10000000000", "--row-bytes", "200", "--tables", "30", "--writes", "5000")
EXAMPLE_SETTINGS = Path(__file__).parents[3] / "deploy" / "config.example.toml"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ticdc-dump", "size", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_people_see_each_figure_with_its_unit_and_what_it_is_made_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *SHAPE, "--sink", "file:parquet", "--sink", "iceberg://catalog/lake") == 0
    text = capsys.readouterr().out
    for part in ("live, sidecar and worker", "GiB", "PERFORMANCE.md", "estimate", "commits of tables", "A dump is limited by", "25 %"):
        assert part in text


def test_programs_get_numbers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, *SHAPE, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["sinks"] == ["kafka"]
    assert result["changing_tables"] == 30
    assert result["figures"]["kafka_retention"] == {
        "value": 40_320_000_000, "unit": "bytes", "basis": "estimate", "from": result["figures"]["kafka_retention"]["from"],
    }  # fmt: skip
    assert result["limits"]


def test_the_settings_give_sinks_and_bounds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    settings = tmp_path / "sidecar.toml"
    settings.write_text(
        'sinks = ["sqlite:///x.db"]\n[changefeed]\nid = "c"\n[etcd]\nendpoints = ["h:1"]\n[source]\nhost = "h"\nuser = "u"\n'
        '[log]\nuri = "/log"\n[dump]\nreaders = 5\n[spark]\nmemory = "3g"\n'
    )
    assert run(monkeypatch, *SHAPE, "--config", str(settings), "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["sinks"] == ["sqlite"]
    assert result["figures"]["connections"]["value"] == 6
    assert result["figures"]["memory_spark"]["value"] == 3 << 30


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        (("--rows", "0"), 3, "--rows is 0"),
        (("--writes", "-1"), 3, "--writes is -1"),
        (("--sink", "kafak"), 3, "did you mean kafka?"),
        (("--sink", "file"), 3, "file:parquet"),
        (("--rows", "10G"), 2, "no whole number"),
        (("--changing-tables", "31"), 3, "give --changing-tables up to --tables"),
        (("--hours", "0"), 3, "more than 0"),
    ],
)
def test_what_cannot_be_sized_is_an_error_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], code: int, says: str
) -> None:
    assert run(monkeypatch, *SHAPE, *given) == code
    assert says in " ".join(capsys.readouterr().err.split())


def test_help_has_a_sentence_for_each_option(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Print what a deployment will need" in text
    assert "Row changes a second, of the whole changefeed." in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_terminal_has_every_value_whole(width: int) -> None:
    sizes = sized(SizedLoad(10**10, 200, 3_000, 5_000, ("kafka", "iceberg")))
    console = Console(file=io.StringIO(), width=width)
    for part in views(sizes):
        console.print(part, markup=False)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= width
    for one in sizes.figures:
        assert any(shown(one.value, one.unit) in line for line in lines), one.key
