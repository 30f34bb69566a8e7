"""A merge worker that is started by itself asks etcd whose log it is: one that comes up before etcd does waits for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.run.changefeed_watch import log_of, read_changefeed
from sidecar.shared.config import read_config
from sidecar.shared.errors import ConfigError
from tests.support.eventually import PATIENCE_S
from tests.support.services.etcd import Etcd
from tests.tools.rig import changefeed

SETTINGS = """
sinks = ["console:"]
[changefeed]
id = "orders"
[etcd]
endpoints = {endpoints}
[source]
host = "nowhere"
user = "nobody"
[log]
uri = "file://{log}"
"""


def test_a_worker_that_is_started_before_etcd_waits_for_it(tmp_path: Path) -> None:
    with Etcd(tmp_path / "etcd") as etcd:
        path = tmp_path / "sidecar.toml"
        path.write_text(SETTINGS.format(endpoints=list(etcd.endpoints), log=tmp_path / "log"))
        config = read_config(path)
        with pytest.raises(ConfigError, match="does not exist"):
            log_of(config)
        uri = changefeed.sink_uri("nowhere:9092", "orders", protocol="open-protocol", partitions=1)
        now = datetime.now(UTC)
        text = changefeed.info(
            "orders", sink_uri=uri, start_ts=5 << 18, created=now, filter_rules=["*.*"], dispatchers=(), protocol="open-protocol"
        )
        etcd.put(changefeed.info_key("orders"), text)
        with closing(EtcdClient(config.etcd)) as client:
            expected = read_changefeed(client, config).log_id
        etcd.kill()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(log_of, config)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=2)
            etcd.start()
            assert waiting.result(timeout=PATIENCE_S) == expected
