"""Settings are read once, and what is wrong with them is told with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sidecar.shared.config import Config, SparkSection, placed, read_config
from sidecar.shared.config_files import read_secret
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.messages import ReadWith
from spark_merge.delivery.places import WORKER_ROWS

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
    result = config(tmp_path, LEAST)
    assert (result.changefeed.namespace, result.source.port, result.spark.managed) == ("default", 4000, True)
    assert result.control.listen.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sinks = [", "is not TOML"),
        pytest.param("a = " + "[" * 10_000, "is not TOML", id="10,000 brackets"),
        (LEAST.replace("[log]", "[logs]"), "there is no setting logs, did you mean log?"),
        (LEAST + "held_bytes = 3\n", "there is no setting log.held_bytes, did you mean held_bytes_max?"),
        (LEAST + "xyzzy = 3\n", "there is no setting log.xyzzy; known here: uri, "),
        (
            LEAST.replace('user = "dumper"', 'user = "dumper"\nport = 70000'),
            "source.port is out of range, expected a whole number of at most 65535",
        ),
        (LEAST.replace('id = "orders"', ""), "the setting changefeed.id is missing"),
        (LEAST.replace('["127.0.0.1:2379"]', "[2379]"), r"etcd.endpoints \(number 1\) is a whole number, expected a text"),
        (
            LEAST.replace("[changefeed]", 'feed = "kafak"\n[changefeed]', 1),
            "feed is 'kafak', expected one of kafka, push, storage, tikv, binlog, did you mean",
        ),
        (LEAST + "[spark]\nmemory = '2gb'\n", r"spark.memory is not of the form \^\[1-9\]"),
        (LEAST.replace('user = "dumper"', 'user = "dumper"\nport = "x"'), "source.port is a text, expected a whole number"),
        (LEAST.replace('user = "dumper"', 'user = "dumper"\ntls = 1'), "source.tls is a whole number, expected a section of settings"),
        (LEAST + "[spark]\nmanaged = 1\n", "spark.managed is a whole number, expected true or false"),
    ],
)
def test_what_is_wrong_is_named_with_the_file_and_the_setting(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        config(tmp_path, text)
    assert "sidecar.toml" in str(error.value)
    assert "config.example.toml" in str(error.value)
    assert not re.search("`|Expected |Object ", error.value.message), "no text of a library"


ENDPOINTS = 'endpoints = ["127.0.0.1:2379"]'


@pytest.mark.parametrize(
    ("etcd", "changefeed", "message"),
    [
        ("endpoints = []", "", "neither etcd.endpoints nor etcd.folder is given"),
        (f'{ENDPOINTS}\nfolder = "/var/state"', 'file = "/etc/cf.json"', "both etcd.endpoints and etcd.folder are given"),
        ('folder = "/var/state"', "", "etcd.folder has no definition of a changefeed, and changefeed.file is not given"),
        ('folder = "state"', 'file = "/etc/cf.json"', "etcd.folder is 'state', which is not a whole path"),
        (ENDPOINTS, 'file = "cf.json"', "changefeed.file is 'cf.json', which is not a whole path"),
        ('folder = "/var/state"', 'file = "/etc/cf.json"', ""),
        (ENDPOINTS, 'file = "/etc/cf.json"', ""),
    ],
)
def test_lease_and_progress_have_one_place_and_a_folder_needs_a_definition(
    tmp_path: Path, etcd: str, changefeed: str, message: str
) -> None:
    text = LEAST.replace(ENDPOINTS, etcd).replace('id = "orders"', f'id = "orders"\n{changefeed}')
    if not message:
        assert config(tmp_path, text).changefeed.file == "/etc/cf.json"
        return
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, text)


def with_setting(name: str, value: str) -> str:
    """LEAST, with a setting of a section set."""
    section, _, setting = name.partition(".")
    line = f"{setting} = {value}\n"
    text = LEAST.replace(f"[{section}]\n", f"[{section}]\n{line}")
    return text if text != LEAST else f"{LEAST}[{section}]\n{line}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("etcd.timeout_s", "inf"),
        ("etcd.timeout_s", "nan"),
        ("etcd.timeout_s", "1e300"),
        ("source.statement_timeout_s", "inf"),
        ("source.retry_s", "1e300"),
        ("push.silent_max_s", "inf"),
        ("tikv.outage_max_s", "inf"),
        ("dump.delivery_bound_s", "inf"),
        ("dump.chunk_rows", str(2**70)),
        ("dump.chunk_rows", str(2**32)),
        ("dump.chunk_bytes_max", str(2**63)),
        ("dump.open_windows_max", str(2**40)),
        ("log.held_bytes_max", str(2**62)),
        ("spark.worker_rows", str(2**62)),
        ("spark.memory", '"2gb please"'),
        ("spark.memory", '"2gb"'),
        ("spark.memory", '"0g"'),
        ("files.umask", '"099"'),
        ("files.umask", '"7"'),
        ("files.umask", '"770"'),
    ],
)
def test_what_nobody_could_mean_is_refused_where_it_is_read(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf": {name} is "):
        config(tmp_path, with_setting(name, value))


@pytest.mark.parametrize(("given", "setting"), [("file:///var/out", "sinks (number 1)"), ("/var/log/orders", "log.uri")])
def test_a_uri_that_is_none_is_refused_without_being_shown(tmp_path: Path, given: str, setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(tmp_path, LEAST.replace(given, "mysql://u:a[hunter2@db/"))
    assert f"{setting} is no URI" in refused.value.message
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("given", "setting"), [("file:///var/out", "sinks (number 1)"), ("/var/log/orders", "log.uri")])
@pytest.mark.parametrize("value", ["not a uri", "out", "kafka//broker/topic"])
def test_a_place_that_would_depend_on_where_the_process_is_started_is_refused(tmp_path: Path, given: str, setting: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(tmp_path, LEAST.replace(given, value))
    assert f"{setting} is neither a URI nor the whole path of a folder" in refused.value.message


@pytest.mark.parametrize("value", ["Europe/Berlinn", "utc", "SYSTEM", "+08:00", "../../etc/passwd", "/etc/localtime", "Europe", ""])
def test_a_zone_that_is_not_known_is_refused_before_the_first_timestamp(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="server_tz"):
        config(tmp_path, with_setting("kafka.server_tz", f'"{value}"'))


@pytest.mark.parametrize("value", ["UTC", "Asia/Shanghai", "Etc/GMT+8"])
def test_a_zone_of_the_database_is_taken(tmp_path: Path, value: str) -> None:
    assert config(tmp_path, with_setting("kafka.server_tz", f'"{value}"')).kafka.server_tz == value


@pytest.mark.parametrize("setting", ["control.listen", "control.advertise", "push.listen", "metrics.listen"])
@pytest.mark.parametrize(
    "value", ["not an address", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", "h:", ":", "http://h:1", "::1:8310", "h:1x"]
)
def test_an_address_that_nobody_could_connect_to_is_refused(tmp_path: Path, setting: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting} is .*, expected host:port"):
        config(tmp_path, with_setting(setting, f'"{value}"'))


@pytest.mark.parametrize("value", ["127.0.0.1:8310", "[::1]:8310", "sidecar-0.svc:65535"])
def test_addresses_are_taken_as_others_write_them(tmp_path: Path, value: str) -> None:
    assert config(tmp_path, with_setting("control.advertise", f'"{value}"')).control.advertise == value


def test_an_answer_may_not_take_longer_than_the_lease_that_it_keeps(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"etcd\.timeout_s is 60, longer than the lease"):
        config(tmp_path, with_setting("etcd.timeout_s", "60"))


@pytest.mark.parametrize(
    ("feed", "pd", "fits"),
    [("tikv", '["pd:2379"]', True), ("push", '["pd:2379"]', True), ("tikv", "[]", False), ("kafka", '["pd:2379"]', False)],
)
def test_a_dump_is_read_from_tikv_where_pd_is_known_and_the_feed_brings_key_values(tmp_path: Path, feed: str, pd: str, fits: bool) -> None:
    text = f'feed = "{feed}"\n{LEAST}[dump]\nread_with = "tikv"\n[tikv]\npd = {pd}\n'
    if fits:
        assert config(tmp_path, text).dump.read_with is ReadWith.TIKV
        return
    with pytest.raises(ConfigError, match=r'dump\.read_with is "tikv", which needs tikv\.pd') as error:
        config(tmp_path, text)
    assert 'set dump.read_with to "sql"' in error.value.hint


def test_a_short_lease_may_keep_the_default(tmp_path: Path) -> None:
    assert config(tmp_path, with_setting("etcd.lease_s", "2")).etcd.timeout_s == 5.0


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


@pytest.mark.parametrize(
    ("sink", "log", "expected"),
    [
        ("grpc:", "/var/log/x", "grpc:///var/log/x.subscribers"),
        ("grpc://", "file:///var/log/x/", "grpc:///var/log/x.subscribers"),
        ("grpc:?retain-hours=2", "/var/log/x", "grpc:///var/log/x.subscribers?retain-hours=2"),
        ("grpc:?retain-hours=2", "s3://b/x?region=r", "grpc://b/x.subscribers?region=r&retain-hours=2"),
        ("grpc:///spool", "/var/log/x", "grpc:///spool"),
        ("grpc://bucket/spool", "/var/log/x", "grpc://bucket/spool"),
        ("file:///x", "/var/log/x", "file:///x"),
    ],
)
def test_a_sink_of_subscribers_without_a_folder_has_one_beside_the_log(sink: str, log: str, expected: str) -> None:
    assert placed(sink, log) == expected
