"""Puts the changefeed's status into etcd, in the background and best effort: an etcd that is away delays no row."""

from __future__ import annotations

import base64
import json
import logging
import threading
import urllib.request

from tests.tools.rig.changefeed import status

_TIMEOUT_S = 2.0


class StatusWriter:
    """`put` returns at once; of several waiting the last one is written. No `endpoint`: nothing is."""

    def __init__(self, endpoint: str, key: str) -> None:
        self._endpoint = endpoint
        self._key = key
        self._checkpoint_ts = 0
        self._changed = threading.Event()
        if endpoint:
            threading.Thread(target=self._run, name="etcd-status", daemon=True).start()

    def put(self, checkpoint_ts: int) -> None:
        self._checkpoint_ts = checkpoint_ts
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            try:
                put_etcd(self._endpoint, self._key, status(self._checkpoint_ts), timeout_s=_TIMEOUT_S)
            except OSError as error:
                logging.warning("etcd is away: %s", error)


def put_etcd(endpoint: str, key: str, value: str, *, timeout_s: float) -> None:
    """Through etcd's JSON gateway. Raises OSError."""
    body = {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value.encode()).decode()}
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"http://{endpoint}/v3/kv/put", json.dumps(body).encode(), timeout_s) as answer:
        answer.read()
