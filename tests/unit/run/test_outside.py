"""What a term has of its own: closed with it, also where the next part cannot be made."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from sidecar.pipeline import Outside
from sidecar.run import outside
from sidecar.run.outside import Lasting, beside, outside_of
from sidecar.run.sightings import SeenHoles
from sidecar.shared.config import Config
from sidecar.shared.model.schema_step import Beside
from tests.unit.run.test_term import SETTINGS


def config(folder: Path, **sections: object) -> Config:
    return msgspec.convert(SETTINGS | {"log": {"uri": str(folder)}} | sections, Config)


def made(folder: Path, opened: ExitStack, brought: Mock) -> Outside:
    lasting = Lasting(config(folder), Mock(upstream_id=""), Mock(), Mock(), Mock(), Mock(), Mock(), lambda *_: Mock())
    return outside_of(brought, lasting, Mock(), Mock(), SeenHoles(), opened)


def test_feed_and_source_end_with_the_term(tmp_path: Path) -> None:
    brought = Mock()
    with ExitStack() as opened:
        assert made(tmp_path, opened, brought).feed == brought.feed.return_value
        brought.feed.return_value.close.assert_not_called()
    brought.feed.return_value.close.assert_called_once()


def test_a_feed_is_closed_where_the_source_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = Mock()
    monkeypatch.setattr(outside, "TidbSource", Mock(side_effect=ValueError("no source")))
    with pytest.raises(ValueError, match="no source"), ExitStack() as opened:
        made(tmp_path, opened, brought)
    brought.feed.return_value.close.assert_called_once()


def test_rows_beside_a_ddl_are_read_again_where_the_operator_wants_it(tmp_path: Path) -> None:
    assert beside(config(tmp_path)) is Beside.REPORTED
    assert beside(config(tmp_path, dump={"reread_rewritten": True})) is Beside.READ_AGAIN
