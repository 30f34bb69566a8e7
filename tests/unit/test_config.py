"""Settings are read once, and what is wrong with them is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.config import Config, SparkSection, read_config, read_secret
from sidecar.errors import ConfigError
from spark_merge.places import WORKER_ROWS

LEAST = """
sinks = ["file:///var/out"]
[changefeed]
id = "orders"
[etcd]
endpoints = ["127.0.0.1:2379"]
[source]
host = "127.0.0.1"
user = "dumper"
[log]
uri = "/var/log/orders"
"""


def config(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "sidecar.toml"
    path.write_text(text)
    return read_config(path)


def test_the_least_settings_get_sane_defaults(tmp_path: Path) -> None:
    found = config(tmp_path, LEAST)
    assert (found.changefeed.namespace, found.source.port, found.spark.managed) == ("default", 4000, True)
    assert found.control.listen.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sinks = [", "is not TOML"),
        (LEAST.replace("[log]", "[logs]"), "unknown field `logs`"),
        (LEAST + "held_bytes = 3\n", "unknown field `held_bytes`"),
        (LEAST.replace('user = "dumper"', 'user = "dumper"\nport = 70000'), r"`int` <= 65535 - at `\$.source.port`"),
        (LEAST.replace('id = "orders"', ""), r"missing required field `id` - at `\$.changefeed`"),
        (LEAST.replace('["127.0.0.1:2379"]', "[]"), r"length >= 1 - at `\$.etcd.endpoints`"),
        (LEAST + "[spark]\nmanaged = 1\n", r"Expected `bool`, got `int` - at `\$.spark.managed`"),
    ],
)
def test_what_is_wrong_is_named_with_the_file_and_the_setting(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        config(tmp_path, text)
    assert "sidecar.toml" in str(error.value)
    assert "config.example.toml" in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read: No such file"):
        read_config(tmp_path / "nowhere.toml")


def test_a_secret_is_its_file_without_the_last_newline(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("pass word \r\n")
    assert read_secret(str(tmp_path / "secret")) == "pass word "
    assert read_secret("") == ""
    with pytest.raises(ConfigError, match="absent cannot be read"):
        read_secret(str(tmp_path / "absent"))


def test_the_bound_of_the_worker_s_own_process_is_the_one_that_was_measured() -> None:
    assert SparkSection().worker_rows == WORKER_ROWS
