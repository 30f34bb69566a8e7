"""What a certificate says of the sidecar, and that it is followed for as long as a term."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import sidecar
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.report.chunks import Chunks
from sidecar.run import certificates
from sidecar.run.auxiliary import Services
from sidecar.run.certificates import serve_certificates
from sidecar.run.certifying import TermCertificates
from sidecar.run.ddls import SeenDdls
from sidecar.run.dump_reports import CertificateFacts
from sidecar.run.samples import MeasuredTerms, Samples
from sidecar.shared.log.owned import OwnedLog
from tests.unit.run.test_app import settings
from tests.unit.test_pipeline import FakeDeliveries


def term(folder: Path, deliveries: object) -> Any:
    outside = SimpleNamespace(deliveries=deliveries, progress=MemoryProgress(), log=SimpleNamespace(id="0" * 32))
    config = settings(log={"uri": str(folder)}, changefeed={"id": "orders", "cluster": "blue"})
    pipeline = SimpleNamespace(outside=outside)
    feed, owned = SimpleNamespace(log_id="blue/ns/orders/1"), partial(OwnedLog, epoch=1)
    return SimpleNamespace(pipeline=pipeline, config=config, changefeed=feed, collected=None, owned=owned)


def test_certificates_are_followed_with_what_the_sidecar_knows_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "pd_cluster_id", lambda _: "7")
    made = term(tmp_path, FakeDeliveries())
    with closing(Services()) as services:
        serve_certificates(made, cast("Any", None), MeasuredTerms(Samples(), Chunks(1), SeenDdls()), services)
        following = made.collected.__self__
        assert isinstance(following, TermCertificates)
        assert following._reports.facts() == CertificateFacts("blue/ns/orders/1", "0" * 32, "blue", "7", sidecar.__version__)
        assert [state.name for state in services.states()] == ["certificates"]


def test_nothing_is_followed_where_nobody_reports_what_sinks_have(tmp_path: Path) -> None:
    made = term(tmp_path, None)
    with closing(Services()) as services:
        serve_certificates(made, cast("Any", None), MeasuredTerms(Samples(), Chunks(1), SeenDdls()), services)
        assert services.states() == ()
    assert made.collected is None
