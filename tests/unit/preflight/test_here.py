"""What the preflight says of its own machine, without a server."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sidecar.config import ChangefeedSection, Config, EtcdSection, LogSection, PushSection, SourceSection, TikvSection, Tls
from sidecar.errors import ConfigError
from sidecar.preflight import here
from sidecar.process.checks import CheckFinding, CheckStatus, Told


def settings(folder: Path, **sections: object) -> Config:
    least: dict[str, object] = {
        "changefeed": ChangefeedSection(id="feed"),
        "etcd": EtcdSection(endpoints=("127.0.0.1:1",)),
        "source": SourceSection(host="127.0.0.1", user="dump"),
        "log": LogSection(uri=f"{folder}/log"),
        "sinks": ("console:",),
    }
    return Config(**{**least, **sections})  # type: ignore[arg-type]  # by name


def bad(told: Told[None]) -> dict[str, CheckFinding]:
    return {finding.setting: finding for finding in told if finding.status is CheckStatus.FAILED}


def settings_of_files(section: type[msgspec.Struct], prefix: str = "") -> list[str]:
    found: list[str] = []
    for field in msgspec.structs.fields(section):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            found += settings_of_files(field.type, f"{prefix}{field.name}.")
        elif field.name.endswith("_file"):
            found.append(prefix + field.name)
    return found


@pytest.mark.parametrize("setting", settings_of_files(Config))
def test_every_file_that_a_setting_names_is_looked_at(tmp_path: Path, setting: str) -> None:
    value: object = str(tmp_path / "absent")
    for name in reversed(setting.split(".")):
        value = {name: value}
    least = msgspec.to_builtins(settings(tmp_path))
    assert isinstance(value, dict)
    for section, given in value.items():
        least[section] |= given
    found = bad(here.secrets(msgspec.convert(least, Config)))
    assert found.keys() == {setting}
    assert "cannot be read" in found[setting].what


def test_files_of_the_push_and_tikv_feeds_are_among_them(tmp_path: Path) -> None:
    push = PushSection(token_file=f"{tmp_path}/a", tls=Tls(cert_file=f"{tmp_path}/b"))
    found = bad(here.secrets(settings(tmp_path, push=push, tikv=TikvSection(tls=Tls(ca_file=f"{tmp_path}/c")))))
    assert found.keys() == {"push.token_file", "push.tls.cert_file", "tikv.tls.ca_file"}


def test_a_spill_folder_that_is_not_there_has_failed_and_a_log_that_is_not_there_is_made(tmp_path: Path) -> None:
    log = LogSection(uri=f"{tmp_path}/new/log", spill_folder="/nonexist", held_bytes_max=1)
    found = bad(here.space(settings(tmp_path, log=log)))
    assert found.keys() == {"log.spill_folder"}
    assert "it is no folder" in found["log.spill_folder"].what


def test_a_log_that_would_be_elsewhere_has_failed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="three slashes"):
        list(here.space(settings(tmp_path, log=LogSection(uri="file://tmp/x/y"))))
