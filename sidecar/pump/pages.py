"""What a pump answers by HTTP, as pingcap/tidb-binlog's pump does (pump/server.go, pump/status.go): binlogctl, people, Prometheus.

GET /status  GET /drainers  GET /metrics  GET /debug/binlog/<ts>  POST /debug/gc/trigger  PUT /state/<nodeId>/pause|close
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from sidecar.binlog.nodes import NodeState
from sidecar.pump.front import PumpAnswer
from sidecar.pump.lost import Tikv
from sidecar.pump.metrics import Metrics
from sidecar.pump.node import PumpNode
from sidecar.pump.storage import Storage
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.model.nouns import CommitTs
from ticdc_dump.binlog import binlog_pb2

_NOT_FOUND = HTTPStatus.NOT_FOUND.phrase.lower()  # in the words of Go's net/http and of goleveldb

_DONE, _REFUSED = 200, 3
"""`code` of an answer about a state, whose HTTP status is 200 in any case."""
_LEAVING = {"pause": NodeState.PAUSING, "close": NodeState.CLOSING}


class Shown(NamedTuple):
    """What the pages show. `leave`: begin to leave, by that state; it does not wait."""

    node: PumpNode
    storage: Storage
    tso: Callable[[], CommitTs]
    connect: Callable[[], Tikv]
    metrics: Metrics
    collect: Callable[[], bool]
    leave: Callable[[NodeState], None]


class Pages:
    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def answer(self, method: str, path: str) -> PumpAnswer:
        """May wait for PD, etcd, TiKV."""
        try:
            match method, unquote(urlsplit(path).path).strip("/").split("/"):
                case "GET", ["status"]:
                    return _json(self._status())
                case "GET", ["drainers"]:
                    return _json([drainer.plain() for drainer in self._shown.node.registry.drainers()])
                case "GET", ["metrics"]:
                    return PumpAnswer(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", self._shown.metrics.text())
                case "GET", ["debug", "binlog", ts]:
                    return _text(self._binlog(ts))
                case "POST", ["debug", "gc", "trigger"]:
                    return _text("trigger gc success\n" if self._shown.collect() else "nothing to collect\n")
                case "PUT", ["state", node_id, action]:
                    return _json(self._leave(node_id, action))
        except TicdcDumpError as error:
            return _text(f"{error}\n", HTTPStatus.INTERNAL_SERVER_ERROR)
        return _text(f"404 page {_NOT_FOUND}\n", HTTPStatus.NOT_FOUND)

    def _status(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"status": None, "CommitTS": 0, "Checkpoint": {}, "ErrMsg": ""}
        try:
            answer["status"] = {pump.node_id: pump.plain() for pump in self._shown.node.registry.pumps()}
            answer["CommitTS"] = self._shown.tso()
        except TicdcDumpError as error:
            answer["ErrMsg"] = error.message
        return answer

    def _leave(self, node_id: str, action: str) -> dict[str, Any]:
        node = self._shown.node
        if node_id != node.node_id:
            return _said(_REFUSED, f"invalide nodeID {node_id}, this pump's nodeID is {node.node_id}")
        if node.state != NodeState.ONLINE:
            return _said(_REFUSED, f"this pump's state is {node.state.value}, apply {action} failed!")
        if action not in _LEAVING:
            return _said(_REFUSED, f"invalide action {action}")
        self._shown.leave(_LEAVING[action])
        return _said(_DONE, f"apply action {action} success!")

    def _binlog(self, ts: str) -> str:
        if not ts.isdecimal() or int(ts) >= 1 << 63:
            return f"invalid parameter ts: {ts}"
        reader = self._shown.storage.reader()
        try:
            binlog = reader.binlog_at(int(ts))
        finally:
            reader.close()
        if binlog is None:
            return f"fail read binlog by ts: {ts}: {_NOT_FOUND}"
        message = binlog_pb2.Binlog.FromString(binlog.payload)
        page = _line(message)
        if message.prewrite_value:
            page += f"\n\n PrewriteValue: \n{_prewrite_value(message.prewrite_value)}"
        if message.prewrite_key:
            page += f"\n\n GetMvccByEncodedKey: \n{self._mvcc(message.prewrite_key)}"
        return page

    def _mvcc(self, key: bytes) -> str:
        tikv = self._shown.connect()
        try:
            return "".join(f"start_ts:{write.start_ts} commit_ts:{write.commit_ts} \n" for write in tikv.mvcc_by_key(key))
        except TicdcDumpError as error:
            return f"failed: {error.message}"
        finally:
            tikv.close()


def _said(code: int, message: str) -> dict[str, Any]:
    return {"message": message, "code": code, "data": None}


def _prewrite_value(value: bytes) -> str:
    try:
        return _line(binlog_pb2.PrewriteValue.FromString(value))
    except DecodeError:
        return "<Unmarshallable>"


def _line(message: Any) -> str:
    text: str = text_format.MessageToString(message, as_one_line=True)
    return text


def _json(value: Any) -> PumpAnswer:
    return PumpAnswer(HTTPStatus.OK, "application/json; charset=UTF-8", json.dumps(value).encode() + b"\n")


def _text(text: str, status: HTTPStatus = HTTPStatus.OK) -> PumpAnswer:
    return PumpAnswer(status, "text/plain; charset=utf-8", text.encode())
