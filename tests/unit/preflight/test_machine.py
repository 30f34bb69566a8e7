"""What the preflight says of its own machine, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from sidecar.preflight import machine
from sidecar.shared.config import ChangefeedSection, Config, EtcdSection, LogSection, PushSection, SourceSection, TikvSection, Tls
from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.process.checks import CheckFinding, Checking, CheckSkipped, CheckStatus
from sidecar.shared.process.patience import patience_s
from tests.support.deliveries import ORDERS, SCHEMA

T = TypeVar("T")


def settings(folder: Path, **sections: object) -> Config:
    least: dict[str, object] = {
        "changefeed": ChangefeedSection(id="feed"),
        "etcd": EtcdSection(endpoints=("127.0.0.1:1",)),
        "source": SourceSection(host="127.0.0.1", user="dump"),
        "log": LogSection(uri=f"{folder}/log"),
        "sinks": ("console:",),
    }
    return Config(**{**least, **sections})  # type: ignore[arg-type]  # by name


def bad(body: Checking[None]) -> dict[str, CheckFinding]:
    return {finding.setting: finding for finding in body if finding.status is CheckStatus.FAILED}


def settings_of_files(section: type[msgspec.Struct], prefix: str = "") -> list[str]:
    results: list[str] = []
    for field in msgspec.structs.fields(section):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            results += settings_of_files(field.type, f"{prefix}{field.name}.")
        elif field.name.endswith("_file"):
            results.append(prefix + field.name)
    return results


@pytest.mark.parametrize("setting", settings_of_files(Config))
def test_every_file_that_a_setting_names_is_looked_at(tmp_path: Path, setting: str) -> None:
    value: object = str(tmp_path / "absent")
    for name in reversed(setting.split(".")):
        value = {name: value}
    least = msgspec.to_builtins(settings(tmp_path))
    assert isinstance(value, dict)
    for section, given in value.items():
        least[section] |= given
    findings = bad(machine.secrets(msgspec.convert(least, Config)))
    assert findings.keys() == {setting}
    assert "cannot be read" in findings[setting].what


def test_files_of_the_push_and_tikv_feeds_are_among_them(tmp_path: Path) -> None:
    push = PushSection(token_file=f"{tmp_path}/a", tls=Tls(cert_file=f"{tmp_path}/b"))
    findings = bad(machine.secrets(settings(tmp_path, push=push, tikv=TikvSection(tls=Tls(ca_file=f"{tmp_path}/c")))))
    assert findings.keys() == {"push.token_file", "push.tls.cert_file", "tikv.tls.ca_file"}


def test_a_spill_folder_that_is_not_there_has_failed_and_a_log_that_is_not_there_is_made(tmp_path: Path) -> None:
    log = LogSection(uri=f"{tmp_path}/new/log", spill_folder="/nonexist", held_bytes_max=1)
    findings = bad(machine.space(settings(tmp_path, log=log)))
    assert findings.keys() == {"log.spill_folder"}
    assert "it is no folder" in findings["log.spill_folder"].what


def test_a_log_that_would_be_elsewhere_has_failed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="three slashes"):
        list(machine.space(settings(tmp_path, log=LogSection(uri="file://tmp/x/y"))))


def carried_out(body: Checking[T]) -> tuple[list[CheckFinding], T]:
    findings = []
    while True:
        try:
            findings.append(next(body))
        except StopIteration as end:
            return findings, end.value


def test_a_sink_that_does_not_answer_is_reported_once_and_the_others_are_queried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SINK_PATIENCE_S", 0.3)
    dead = ("kafka://127.0.0.1:1/orders?protocol=open-protocol", "mysql://u@127.0.0.1:1/")
    config = settings(tmp_path, sinks=(*dead, f"{tmp_path}/out?format=jsonl"))
    findings, fit = carried_out(machine.sinks(config, "log-1"))
    assert [one.setting for one in findings if one.status is CheckStatus.FAILED] == ["sinks (number 1)", "sinks (number 2)"]
    assert fit == {3}
    findings, _ = carried_out(machine.targets(config, "log-1", {}, fit))
    assert [one.what for one in findings] == [f"nothing is against rows of 0 tables in {tmp_path}/out?format=jsonl"]
    with pytest.raises(CheckSkipped, match="see 'sinks'"):
        carried_out(machine.targets(config, "log-1", {}, frozenset()))


def test_of_a_sink_nothing_is_tried_for_longer_than_a_person_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried_s = []

    class Silent:
        def look(self) -> None:
            tried_s.append(patience_s(60.0))
            raise SinkError("no answer", hint="start it")

        def close(self) -> None: ...

    def misfits(*_: object, **__: object) -> list[tuple[str, str]]:
        tried_s.append(patience_s(60.0))
        return []

    monkeypatch.setattr(machine, "open_sink", lambda uri, log_id: Silent())
    monkeypatch.setattr(machine, "misfits", misfits)
    carried_out(machine.sinks(settings(tmp_path), "log-1"))
    carried_out(machine.targets(settings(tmp_path), "log-1", {}, {1}))
    assert tried_s == [machine.SINK_PATIENCE_S] * 2


def test_a_column_rule_that_matches_nothing_is_a_warning_and_one_that_no_sink_can_keep_a_failure(tmp_path: Path) -> None:
    sinks = (f"file://{tmp_path}/a?format=jsonl&leave-out=shop.*.nmae", f"file://{tmp_path}/b?format=jsonl&leave-out=shop.*.*")
    config = settings(tmp_path, sinks=sinks)
    findings, _ = carried_out(machine.targets(config, "log-1", {ORDERS: SCHEMA}, {1, 2}))
    assert [one.status for one in findings] == [CheckStatus.WARNING, CheckStatus.FAILED, CheckStatus.OK]
    assert findings[0].what.startswith("leave-out=shop.*.nmae of ")
    assert "which is of the handle key" in findings[1].what
