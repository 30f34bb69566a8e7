"""A changefeed's keys in etcd, as TiCDC's classic architecture writes them (recordings/cluster)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.tools.rig.dispatch import Dispatcher

CLUSTER = "default"
NAMESPACE = "default"
UPSTREAM_ID = 7710454519564276754


def info_key(changefeed_id: str) -> str:
    return f"/tidb/cdc/{CLUSTER}/{NAMESPACE}/changefeed/info/{changefeed_id}"


def status_key(changefeed_id: str) -> str:
    return f"/tidb/cdc/{CLUSTER}/{NAMESPACE}/changefeed/status/{changefeed_id}"


def status(checkpoint_ts: int, *, paused: bool = False) -> str:
    return _json({"checkpoint-ts": checkpoint_ts, "min-table-barrier-ts": checkpoint_ts, "admin-job-type": int(paused)})


def sink_uri(brokers: str, topic: str, *, protocol: str, partitions: int) -> str:
    extension = {"enable-tidb-extension": "true"} if protocol == "canal-json" else {}
    return f"kafka://{brokers}/{topic}?{urlencode({'protocol': protocol, **extension, 'partition-num': partitions})}"


def files_uri(folder: Path, *, protocol: str) -> str:
    return f"file://{folder}?{urlencode({'protocol': protocol, 'enable-tidb-extension': 'true'})}"


def queried(info: str) -> str:
    """`info` as `cdc cli changefeed query` prints it, as far as a reader of the definition looks at it."""

    def snake(content: Any) -> Any:
        if isinstance(content, dict):
            return {name.replace("-", "_"): snake(value) for name, value in content.items()}
        return [snake(one) for one in content] if isinstance(content, list) else content

    printed = snake(json.loads(info))
    return _json(printed | {"id": printed.pop("changefeed_id")})


def info(
    changefeed_id: str,
    *,
    sink_uri: str,
    start_ts: int,
    created: datetime,
    filter_rules: Sequence[str],
    dispatchers: Sequence[Dispatcher],
    protocol: str,
    state: str = "normal",
) -> str:
    """ChangeFeedInfo. `state`: normal or stopped (paused)."""
    result = {
        "upstream-id": UPSTREAM_ID,
        "namespace": NAMESPACE,
        "changefeed-id": changefeed_id,
        "sink-uri": sink_uri,
        "create-time": f"{created.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z",
        "start-ts": start_ts,
        "target-ts": 0,
        "admin-job-type": 0 if state == "normal" else 1,
        "sort-engine": "",
        "sort-dir": "",
        "config": _config(filter_rules, dispatchers, protocol),
        "state": state,
        "error": None,
        "warning": None,
        "creator-version": "v9.0.0-beta.2",
        "epoch": start_ts + 1,
    }
    return _json(result)


def _config(filter_rules: Sequence[str], dispatchers: Sequence[Dispatcher], protocol: str) -> dict[str, Any]:
    rules = [
        {"matcher": list(rule.matcher), "dispatcher": "", "partition": rule.partition, "index": "", "columns": None, "topic": rule.topic}
        for rule in dispatchers
    ]
    sink = {
        "protocol": protocol, **({"dispatchers": rules} if rules else {}),
        "encoder-concurrency": 32, "terminator": "\r\n", "date-separator": "day", "enable-partition-separator": True,
        "enable-kafka-sink-v2": False, "only-output-updated-columns": False, "delete-only-output-handle-key-columns": False,
        "content-compatible": False, "advance-timeout-in-sec": 150, "send-bootstrap-interval-in-sec": 120,
        "send-bootstrap-in-msg-count": 10000, "send-bootstrap-to-all-partition": True, "send-all-bootstrap-at-start": False,
        "debezium-disable-schema": False, "open": {"output-old-value": True}, "debezium": {"output-old-value": True},
    }  # fmt: skip
    return {
        "memory-quota": 1073741824, "case-sensitive": False, "force-replicate": False, "check-gc-safe-point": True,
        "enable-sync-point": False, "enable-table-monitor": False, "ignore-ineligible-table": True, "bdr-mode": False,
        "filter": {"rules": list(filter_rules), "ignore-txn-start-ts": None, "event-filters": None},
        "mounter": {"worker-num": 16}, "sink": sink,
        "consistent": {"level": "none", "max-log-size": 64, "flush-interval": 2000, "storage": "", "use-file-backend": False},
        "scheduler": {"enable-table-across-nodes": False, "region-threshold": 100000, "write-key-threshold": 0, "region-per-span": 0},
        "integrity": {"integrity-check-level": "none", "corruption-handle-level": "warn"},
        "changefeed-error-stuck-duration": 1800000000000,
        "synced-status": {"synced-check-interval": 300, "checkpoint-interval": 15}, "sql-mode": "",
    }  # fmt: skip


def _json(value: dict[str, Any]) -> str:
    """Go escapes `&` in the sink URI."""
    return json.dumps(value, separators=(",", ":")).replace("&", "\\u0026")
