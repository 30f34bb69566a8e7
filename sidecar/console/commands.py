"""What the buttons do: one call of the control service each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sidecar.console.starting import form_of, settings_request, start_request
from sidecar.control.answers import new_operation_id
from sidecar.shared.model.nouns import TableName
from ticdc_dump.v1 import control_pb2 as pb

Params = Sequence[tuple[str, str]]
Call = Callable[[str, Any], Any]
"""The name of a method of the control service, and its request."""


def start(call: Call, changefeed: pb.Changefeed, params: Params, known: Mapping[str, TableName]) -> pb.DumpStatus:
    """`known`: as of start_request. The page has chosen the id, so that a button that is pressed twice starts one."""
    dump_id = dict(params).get("dump_id") or new_operation_id()
    return call("Start", start_request(form_of(params), changefeed, dump_id, known))  # type: ignore[no-any-return]


def pause(call: Call, changefeed: pb.Changefeed, dump_id: str, _: Params) -> Any:
    return call("Pause", pb.DumpRequest(changefeed=changefeed, dump_id=dump_id))


def resume(call: Call, changefeed: pb.Changefeed, dump_id: str, _: Params) -> Any:
    return call("Resume", pb.ResumeRequest(changefeed=changefeed, dump_id=dump_id))


def stop(call: Call, changefeed: pb.Changefeed, dump_id: str, _: Params) -> Any:
    return call("Stop", pb.DumpRequest(changefeed=changefeed, dump_id=dump_id))


def restart(call: Call, changefeed: pb.Changefeed, dump_id: str, params: Params) -> Any:
    new = dict(params).get("new_dump_id") or new_operation_id()
    return call("Restart", pb.RestartRequest(changefeed=changefeed, dump_id=dump_id, new_dump_id=new))


def change(call: Call, changefeed: pb.Changefeed, dump_id: str, params: Params) -> Any:
    return call("Set", settings_request(params, changefeed, dump_id))


COMMANDS: Mapping[str, Callable[[Call, pb.Changefeed, str, Params], Any]] = {
    "pause": pause,
    "resume": resume,
    "stop": stop,
    "restart": restart,
    "set": change,
}
OFFERED = {
    "queued": ("stop", "set"),
    "running": ("pause", "stop", "set"),
    "paused": ("resume", "stop", "restart", "set"),
    "failed": ("resume", "restart"),
    "finished": ("restart",),
    "stopped": ("restart",),
}
"""By the dump's state."""
