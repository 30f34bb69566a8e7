"""Whether a task reaches what it is to read, and what it says where it does not."""

from __future__ import annotations

import pickle
import socket
from functools import partial
from pathlib import Path

import msgspec
import pytest

from sidecar.shared.config import SourceSection, TikvSection
from sidecar.shared.log.storage import open_folder
from spark_merge.worker.read_reach import ReadsTried, try_reads
from tests.support.read_tasks import reading_settings
from tests.support.services.ports import free_port
from tests.support.tikv.cluster import Cluster
from tests.support.tikv.recorded import History
from tests.support.tikv.server import TikvServers


def source(**fields: object) -> SourceSection:
    return msgspec.structs.replace(SourceSection(host="127.0.0.1", port=free_port(), user="dump", retry_s=1), **fields)


def tried(folder: Path, section: SourceSection, *, sql: bool = False, tikv: TikvSection | None = None) -> ReadsTried:
    return try_reads(reading_settings(section, open_folder(str(folder)), tikv=tikv), sql, tikv is not None, 0)


def test_a_task_that_reaches_nothing_names_host_setting_and_remedy(tmp_path: Path) -> None:
    section = source()
    away = TikvSection(pd=(f"127.0.0.1:{free_port()}",), outage_max_s=1)
    result = tried(tmp_path, section, sql=True, tikv=away)
    assert (result.host, result.folder) == (socket.gethostname(), str(Path.cwd()))
    assert [each.setting for each in result.unreached] == ["source", "tikv.pd"]
    assert f"127.0.0.1:{section.port}" in result.unreached[0].what
    assert away.pd[0] in result.unreached[1].what
    assert all(each.hint for each in result.unreached)


def test_a_task_without_the_password_says_what_executors_need(tmp_path: Path) -> None:
    (failed,) = tried(tmp_path, source(password_file="/nowhere/password"), sql=True).unreached
    assert "source.password_file" in failed.hint


def test_what_is_not_read_is_not_tried(tmp_path: Path) -> None:
    (tmp_path / "changefeed.txt").write_text("cf")
    result = tried(tmp_path, source())
    assert (result.files, result.unreached) == (("changefeed.txt",), ())


def test_a_task_reads_from_tikv_by_its_own_connection(tmp_path: Path) -> None:
    with TikvServers(Cluster(History((), (), {}))) as servers:
        assert tried(tmp_path, source(), tikv=servers.section()).unreached == ()


def test_the_password_is_in_nothing_that_a_task_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    password = tmp_path / "password"
    password.write_text("hush-of-the-source")
    monkeypatch.setenv("TICDC_DUMP_MYSQL_PASSWORD", "hush-of-the-source")
    for section in (source(), source(password_file=str(password))):
        settings = reading_settings(section, open_folder(str(tmp_path)))
        assert b"hush" not in pickle.dumps(partial(try_reads, settings, True, False))
