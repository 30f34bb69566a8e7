"""What pages say that the code decides: limits, error texts, scripts, sizes, versions. (Names, defaults and links: test_deploy.py.)"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import sidecar
from sidecar.adapters.etcd.progress import _parts
from sidecar.cli.query_command import EXIT_CODES, EXIT_STOPPED, EXIT_TIMED_OUT
from sidecar.control.answers import EXIT_UNREACHABLE, EXIT_USAGE
from sidecar.control.service import WATCHERS_MAX
from sidecar.control.subscribe import SUBSCRIBERS_AT_ONCE_MAX
from sidecar.core.dumps import RUNNING_MAX, WAITING_MAX
from sidecar.history.entry import COMMANDS_KEPT_MAX, HISTORY_MAX, HistoryEntry, OperationCommand, OperationKind, OperationScope
from sidecar.shared.model.messages import READERS_MAX, Asker
from sidecar.shared.model.nouns import CommitTs, OperationId, TableName
from sidecar.shared.model.progress import Span, TableProgress
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed
from sidecar.shared.ticdc.suitability import problems, problems_of_key_values

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

FACE = ("README.md", "ARCHITECTURE.md")
FACE_WORDS_MAX = 4_500
"""Of both together: what is read before anything is tried."""
ARCHITECTURE_WORDS_MAX = 3_000


def text(name: str) -> str:
    return (ROOT / name).read_text()


def test_readme_and_architecture_are_short() -> None:
    words = {page: len(text(page).split()) for page in FACE}
    assert sum(words.values()) <= FACE_WORDS_MAX
    assert words["ARCHITECTURE.md"] <= ARCHITECTURE_WORDS_MAX


# ---- limits and sizes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "values"),
    [
        ("readers of a dump", [READERS_MAX]),
        ("dumps of a changefeed that read at a time; that run or wait", [RUNNING_MAX, WAITING_MAX]),
        ("`dumpquery --watch` at a time", [WATCHERS_MAX]),
        ("subscribers of `grpc:` that read at a time", [SUBSCRIBERS_AT_ONCE_MAX]),
    ],
)
def test_a_limit_is_the_codes(limit: str, values: list[int]) -> None:
    (said,) = re.findall(rf"^\| {re.escape(limit)} \| (.+) \|$", text("deploy/SIZING.md"), re.MULTILINE)
    assert [int(number) for number in said.split("; ")] == values


def progress_of(tables: int, *, ranges: int) -> list[TableProgress]:
    """As a dump amid its tables has it; no ranges: it is done with them."""
    return [
        TableProgress(
            TableName("shop", f"customer_orders_{number:05d}"),
            tuple(Span((str(10**9 + number * 7_919 + at),), (str(10**9 + number * 7_919 + at + 1_000),)) for at in range(ranges)),
            chunks=120 + number % 50,
            rows=1_200_000 + number * 37,
            bytes=240_000_000 + number * 7_919,
            complete_at=None if ranges else CommitTs(461_373_440_000_000_000 + number * 262_144),
        )
        for number in range(tables)
    ]


def etcd_rows() -> Iterator[tuple[int, int, int, int]]:
    """Tables, keys, and bytes from and to, of STATE.md's table."""
    unit = {"kB": 1e3, "MB": 1e6}
    for tables, keys, low, high, name in re.findall(
        r"^\| ([\d,]+) \| ([\d,]+) \| ([\d.]+) to ([\d.]+) (kB|MB) \|$", text("deploy/STATE.md"), re.M
    ):
        yield int(tables.replace(",", "")), int(keys.replace(",", "")), int(float(low) * unit[name]), int(float(high) * unit[name])


@pytest.mark.parametrize(("tables", "keys", "low", "high"), list(etcd_rows()))
def test_the_room_of_a_dumps_progress_in_etcd_is_what_is_written(tables: int, keys: int, low: int, high: int) -> None:
    done, amid = (_parts(tuple(progress_of(tables, ranges=ranges))) for ranges in (0, 8))
    assert len(done) + 1 == keys
    assert sum(map(len, done.values())) == pytest.approx(low, rel=0.15)
    assert sum(map(len, amid.values())) == pytest.approx(high, rel=0.15)


def test_the_room_of_the_history_in_etcd_is_what_is_written() -> None:
    long = Asker("n" * 999, "a" * 999, "r" * 999)
    scope = OperationScope(tuple("t" * 999 for _ in range(99)), 99, sinks=tuple("s" * 999 for _ in range(99)))
    commands = tuple(OperationCommand("c" * 999, long, 1_790_000_000_000) for _ in range(COMMANDS_KEPT_MAX))
    largest = HistoryEntry(OperationId("d" * 16), OperationKind.DUMP, scope, long, 1_790_000_000_000, result="e" * 9_999, commands=commands)
    usual = replace(largest, scope=OperationScope(("shop.orders",), 1), asked_by=Asker("operator"), result="", commands=())
    sizes = [len(json.dumps(entry.to_json()).encode()) for entry in (usual, largest)]
    (said,) = re.findall(
        r"`history/ID/entry` \| one for each dump and verification, ([\d,]+) at most \| about ([\d.]+) kB; (\d+) kB",
        text("deploy/STATE.md"),
    )
    assert int(said[0].replace(",", "")) == HISTORY_MAX
    assert sizes == [pytest.approx(float(said[1]) * 1_000, rel=0.3), pytest.approx(float(said[2]) * 1_000, rel=0.15)]


# ---- texts of errors ------------------------------------------------------------------------------------------------


@cache
def texts_of_the_code() -> str:
    """Every literal text of the product, those of one expression joined; a value that is put in is `…`."""
    result = []
    for path in (path for top in ("sidecar", "spark_merge") for path in sorted((ROOT / top).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                result.append("".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                result.append(node.value)
    return "\n".join(result)


def quoted_errors() -> list[str]:
    table = text("deploy/RETENTION.md").partition("## What to do")[0]
    return [part.strip(" :;,") for quote in re.findall(r'"([^"]+)"', table) for part in quote.split("…") if len(part.strip(" :;,")) > 4]


@pytest.mark.parametrize("part", quoted_errors())
def test_an_error_that_a_page_quotes_is_one_of_the_code(part: str) -> None:
    assert part in texts_of_the_code()


# ---- scripts --------------------------------------------------------------------------------------------------------


def test_the_page_for_scripts_has_each_exit_code_of_a_wait() -> None:
    reported = {int(code) for code in re.findall(r"^\| (\d+) \| ", text("deploy/DUMP.md"), re.MULTILINE)}
    assert reported == {0, 1, EXIT_USAGE, 3, EXIT_UNREACHABLE, EXIT_STOPPED, EXIT_TIMED_OUT}
    assert reported <= {int(code) for code in re.findall(r"(\d+) [a-z]", EXIT_CODES)} | {0}


# ---- changefeeds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["blackhole://", "mysql://root@tidb:3306/", "s3://bucket/prefix?protocol=csv"])
def test_with_key_values_the_sink_of_a_changefeed_does_not_matter(uri: str) -> None:
    """As deploy/ATTACH.md says; and with Kafka's feed it is the sink that does."""
    info = {"sink-uri": uri, "create-time": "2025-11-21T05:00:00+08:00", "start-ts": 1, "state": "normal"}
    result = changefeed(
        ChangefeedName("default", "default", "orders-dump"),
        json.dumps(info | {"config": {"filter": {"rules": ["shop.*", "changefeed_dump.*"]}}}),
    )
    assert problems_of_key_values(result) == []
    assert problems(result)


# ---- what would be wrong advice -------------------------------------------------------------------------------------

PAGES = [ROOT / "README.md", *sorted(DEPLOY.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_who_says_that_a_dump_deletes_nothing_names_what_does(page: Path) -> None:
    paragraphs = re.split(r"\n\s*\n", page.read_text())
    assert not [one for one in paragraphs if re.search(r"\bdump\b.* (?:deletes nothing|removes none)", one) and "--exact" not in one]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_who_says_how_to_update_a_changefeed_leads_to_its_risks(page: Path) -> None:
    updates = re.search(r"changefeed update|`update --config", page.read_text())
    assert not updates or "FIRST-DAY.md" in page.read_text() or page.name == "FIRST-DAY.md"


def test_versions_are_those_of_the_changelog_and_no_page_of_upgrades_leads_back() -> None:
    numbered = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text("CHANGELOG.md"), re.MULTILINE)
    assert numbered == sorted(numbered, reverse=True)
    assert numbered[0] == sidecar.__version__
    named = set(re.findall(r"^### From (.+) or before$", text("deploy/UPGRADE.md"), re.MULTILINE))
    assert named
    assert named <= set(numbered)
    assert "back to 0." not in text("deploy/UPGRADE.md")
    assert "ROLLBACK.md" in text("deploy/UPGRADE.md")


PHRASE_WORDS = 8


def phrases(page: str) -> set[str]:
    words = re.findall(r"[\w.]+", text(page).lower())
    return {" ".join(words[at : at + PHRASE_WORDS]) for at in range(len(words) - PHRASE_WORDS + 1)}


def test_the_changelog_and_the_page_of_upgrades_do_not_say_the_same_twice() -> None:
    assert phrases("CHANGELOG.md") & phrases("deploy/UPGRADE.md") == set()


def test_each_module_that_the_changelog_says_is_there_is() -> None:
    moved = re.findall(r"^\| `(.+)` \| `([\w.]+)`", text("CHANGELOG.md"), re.MULTILINE)
    assert moved
    for olds, first in moved:
        names = re.findall(r"[.`]?\.?([a-z_]+)(?:`|$)", olds)
        package = first.rpartition(".")[0]
        modules = [first] if len(names) == 1 else [f"{package}.{name}" for name in names]
        for module in modules:
            path = ROOT / module.replace(".", "/")
            assert path.is_dir() or path.with_suffix(".py").exists(), module
