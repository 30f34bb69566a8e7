"""The report of a real dump, in which the sidecar and the follower of certificates died: it agrees with the dump's certificate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

import pytest

from sidecar.report.build import CHUNKS_AT_ONCE
from sidecar.report.figures import amount
from spark_merge.delivery import loop as loops
from tests.support.certified import CertifiedDump
from tests.support.replaying import Run
from tests.unit.report.parsed import page, texts


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CertifiedDump]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "CERTIFY_EVERY_S", 0.01)
        with CertifiedDump(tmp_path_factory.mktemp("reported"), Run("watermark", 3, chunk_rows=50), follower_dies=3) as made:
            made.play()
        yield made


@pytest.fixture
def content(run: CertifiedDump) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run.certificate.read_bytes())
    return result


@pytest.fixture
def root(run: CertifiedDump) -> Element:
    return page(run.report.read_text())


def cells(root: Element, section: str) -> list[str]:
    return ["".join(cell.itertext()) for cell in root.iterfind(f".//div[@aria-label='{section}']//td")]


def test_its_tables_have_the_figures_of_the_certificate(root: Element, content: dict[str, Any]) -> None:
    expected = []
    for one in content["rows"]:
        dropped = "not known" if one["dropped"] is None else f"{one['dropped']:,}"
        delivered = "not known" if one["dropped"] is None else f"{one['rows'] - one['dropped']:,}"
        read = [f"{one['schema']}.{one['table']}", f"{one['chunks']:,}", f"{one['rows']:,}", amount(one["bytes"])]
        expected += [*read, dropped, delivered]
    assert cells(root, "Tables") == expected
    rows = sum(one["rows"] for one in content["rows"])
    assert f"{rows:,} rows of {len(content['rows'])} tables" in "".join(texts(root, ".//p"))


def test_its_pictures_have_the_chunks_of_the_certificate(root: Element, content: dict[str, Any]) -> None:
    logged = [(f"{line['schema']}.{line['table']}: {line['rows']:,} rows", line["seq"]) for line in content["chunks"]]
    titles = [title.rpartition("; segment ") for title in texts(root, ".//g/title") if "; segment " in title]
    shown = [(text.partition(";")[0], int(seq)) for text, _, seq in titles]
    assert len(logged) > 2 * CHUNKS_AT_ONCE
    assert sorted(shown[:CHUNKS_AT_ONCE]) == sorted(logged[:CHUNKS_AT_ONCE])
    assert sorted(shown[-CHUNKS_AT_ONCE:]) == sorted(logged[-CHUNKS_AT_ONCE:])


def test_the_death_of_the_sidecar_is_an_event_and_what_was_waited_for_is_named(run: CertifiedDump, root: Element) -> None:
    assert run.follower_dies < 3
    assert any(text.startswith("a new owner takes over (epoch ") for text in cells(root, "What happened"))
    assert cells(root, "What held it back")[::3] == ["source"]


def test_the_chunks_for_those_who_watch_are_the_last_ones(run: CertifiedDump, content: dict[str, Any]) -> None:
    logged = [line["seq"] for line in content["chunks"]]
    seqs = [chunk.seq for chunk in run.chunks.kept() if chunk.dump_id == run.dump_id]
    assert seqs == logged[-len(seqs) :]
    assert len(seqs) == 100
