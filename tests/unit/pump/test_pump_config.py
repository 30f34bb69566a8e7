"""A pump's settings: documented, and refused where they cannot be meant."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from sidecar.cli import pump as pump_command
from sidecar.cli.main import app
from sidecar.pump.config import PumpSection, check, read_pump_config
from sidecar.shared.config import Tls
from sidecar.shared.errors import ConfigError

EXAMPLE = Path(__file__).parents[3] / "deploy" / "pump.example.toml"


def test_the_example_shows_every_setting_with_its_default() -> None:
    shown = tomllib.loads(EXAMPLE.read_text())["pump"]
    assert shown.keys() == {field.name for field in msgspec.structs.fields(PumpSection)}
    section = read_pump_config(EXAMPLE).pump
    assert section == PumpSection(pd=section.pd, data_dir=section.data_dir)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"listen": "8250"}, "pump.listen is '8250', expected host:port"),
        ({"listen": "10.0.0.1:8250"}, "beyond this machine, and anybody who reaches it could write binlogs"),
        ({"listen": "0.0.0.0:8250", "unprotected": True}, "pump.advertise is 0.0.0.0:8250, where nobody can ask"),
        ({"tls": Tls(cert_file="cert")}, "needs cert_file and key_file together"),
        ({"tls": Tls(ca_file="ca")}, "ca_file only with them"),
        ({"listen": "10.0.0.1:8250", "tls": Tls(cert_file="cert", key_file="key")}, "beyond this machine"),
        ({"node_id": "a/b"}, "cannot be part of a key"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        check(msgspec.structs.replace(PumpSection(pd=("pd:2379",), data_dir="data"), **settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"listen": "10.0.0.1:8250", "tls": Tls(ca_file="ca", cert_file="cert", key_file="key")},
        {"listen": "0.0.0.0:8250", "advertise": "10.0.0.1:8250", "unprotected": True},
    ],
)
def test_beyond_this_machine_it_has_mutual_tls_or_is_said_to_be_unprotected(settings: dict[str, object]) -> None:
    check(msgspec.structs.replace(PumpSection(pd=("pd:2379",), data_dir="data"), **settings))


def test_the_command_names_the_file_and_the_setting(tmp_path: Path) -> None:
    assert pump_command.pump.__doc__
    path = tmp_path / "pump.toml"
    path.write_text('[pump]\npd = ["a:1"]\n')
    run = CliRunner().invoke(app, ["pump", "--config", str(path)])
    assert isinstance(run.exception, ConfigError)
    assert "the setting pump.data_dir is missing" in str(run.exception)
    assert "see deploy/pump.example.toml" in str(run.exception)
