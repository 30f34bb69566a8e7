"""Files of secrets that others may read are told, at the start and by the preflight, and stop nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.run.log_events import open_secrets
from sidecar.shared.config import ChangefeedSection, Config, ControlSection, EtcdSection, LogSection, PushSection, SourceSection, Tls
from sidecar.shared.process.checks import CheckStatus
from sidecar.shared.process.secret_files import check, unprotected


def config(**sections: object) -> Config:
    given: dict[str, object] = {
        "changefeed": ChangefeedSection(id="cf"),
        "etcd": EtcdSection(endpoints=("127.0.0.1:1",)),
        "source": SourceSection(host="127.0.0.1", user="u"),
        "log": LogSection(uri="file:///nowhere"),
        "sinks": ("console://",),
    }
    return Config(**given | sections)  # type: ignore[arg-type]  # sections by name


def secret(folder: Path, mode: int) -> str:
    path = folder / f"{mode:o}"
    path.write_text("x" * 32)
    path.chmod(mode)
    return str(path)


def sections(folder: Path, mode: int) -> Config:
    path = secret(folder, mode)
    return config(
        source=SourceSection(host="127.0.0.1", user="u", password_file=path, tls=Tls(ca_file=path)),
        control=ControlSection(token_file=path, tls=Tls(cert_file=path, key_file=path)),
        push=PushSection(token_file=path),
    )


NAMED = ["source.password_file", "push.token_file", "control.tls.key_file", "control.token_file"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o604, 0o601, 0o777])
def test_every_secret_that_others_may_read_is_reported_by_its_setting(tmp_path: Path, mode: int) -> None:
    result = sections(tmp_path, mode)
    assert [setting for setting, _, _ in unprotected(result)] == NAMED
    assert {reported for _, _, reported in unprotected(result)} == {f"{mode:04o}"}
    reported = [*check(result)]
    assert [finding.status for finding in reported] == [CheckStatus.WARNING] * len(NAMED)
    assert [finding.setting for finding in reported] == NAMED
    lines = open_secrets(result)
    assert [line.values["setting"] for line in lines] == NAMED
    assert {line.level for line in lines} == {"warning"}
    assert "x" * 32 not in str(lines)


def test_files_that_sinks_name_are_looked_at(tmp_path: Path) -> None:
    path = secret(tmp_path, 0o644)
    uris = (f"mysql://u@h/?password-file={path}", f"file:///out?format=jsonl&hash=*.*.e&salt-file={path}", "console:?salt-file=/nowhere")
    assert [setting for setting, _, _ in unprotected(config(sinks=uris))] == [
        "password-file of sinks (number 1)",
        "salt-file of sinks (number 2)",
    ]


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_ours_alone_is_fine(tmp_path: Path, mode: int) -> None:
    result = sections(tmp_path, mode)
    assert [finding.status for finding in check(result)] == [CheckStatus.OK]
    assert not open_secrets(result)


def test_the_group_reads_a_file_that_is_another_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """root's, with the service's group: how packages and Kubernetes give a secret to a service."""
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert not [*unprotected(sections(tmp_path, 0o640))]
    assert len([*unprotected(sections(tmp_path, 0o660))]) == len(NAMED)
    assert len([*unprotected(sections(tmp_path, 0o644))]) == len(NAMED)


def test_a_file_that_is_not_there_is_another_checks_finding(tmp_path: Path) -> None:
    assert not [*unprotected(config(source=SourceSection(host="h", user="u", password_file=str(tmp_path / "none"))))]
