"""deploy/helm/ticdc-dump/values.schema.json: of `settings` what the code accepts (sidecar/shared/config.py), of the rest what CHART says.

Helm validates values by it before it renders anything: a setting that is misspelt, of another type or out of its bounds is an error.
Two rules are across values: a log in files needs a volume, and two pods need a volume that both can write.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from sidecar.shared.config import Config

TEXT: dict[str, Any] = {"type": "string"}
NAME: dict[str, Any] = {"type": "string", "minLength": 1}
SECRET: dict[str, Any] = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"}
FLAG: dict[str, Any] = {"type": "boolean"}
ANY: dict[str, Any] = {"type": "object"}
LIST: dict[str, Any] = {"type": "array", "items": {"type": "object"}}
QUANTITY: dict[str, Any] = {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(m|[kKMGTPE]i?)?$"}
PORT: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 65535}
LISTEN: dict[str, Any] = {"type": "string", "pattern": "^.+:[0-9]+$"}
"""`control` and `metrics` listen, or no other pod and no probe reaches them."""
LABEL: dict[str, Any] = {"type": "string", "pattern": "^[a-z]([a-z0-9-]{0,13}[a-z0-9])?$"}
"""A name of a port or of a volume."""


def _object(required: str = "", **fields: dict[str, Any]) -> dict[str, Any]:
    one: dict[str, Any] = {"type": "object", "properties": fields, "additionalProperties": False}
    return one | ({"required": required.split()} if required else {})


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


CHART = _object(
    "image replicas settings secrets",
    image=_object("repository", repository=NAME, tag=TEXT, pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]}, pullSecrets=LIST),
    replicas={"type": "integer", "minimum": 1, "maximum": 5},
    settings={
        "allOf": [
            {"$ref": "#/$defs/Config"},
            {
                "required": ["control", "metrics"],
                "properties": {
                    "control": {"required": ["listen"], "properties": {"listen": LISTEN}},
                    "metrics": {"required": ["listen"], "properties": {"listen": LISTEN}},
                },
            },
        ]
    },
    secrets=_object(
        "source controlTls controlToken",
        source=SECRET,
        controlTls=SECRET,
        controlToken=SECRET,
        environment=TEXT,
        more=_list(_object("name folder", name=SECRET, folder=LABEL)),
    ),
    serviceAccount=_object(create=FLAG, name=TEXT, annotations=ANY, mountToken=FLAG),
    persistence=_object(
        enabled=FLAG,
        existingClaim=TEXT,
        storageClass=TEXT,
        accessModes={"type": "array", "minItems": 1, "items": {"enum": ["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"]}},
        size=QUANTITY,
    ),
    cacheSize=QUANTITY,
    resources=_object("requests limits", requests=ANY, limits={"type": "object", "required": ["memory"]}),
    extraPorts=_list(_object("name port from", name=LABEL, port=PORT, **{"from": LIST})),
    networkPolicy=_object(enabled=FLAG, controlFrom=LIST, metricsFrom=LIST, egress=LIST),
    podDisruptionBudget=_object(minAvailable={"type": "integer", "minimum": 1}),
    serviceMonitor=_object(enabled=FLAG, labels=ANY, interval={"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}),
    podAnnotations=ANY,
    nodeSelector=ANY,
    tolerations=LIST,
    priorityClassName=TEXT,
    **{"global": ANY},  # Helm's own
)

_FILES = {"properties": {"settings": {"properties": {"log": {"properties": {"uri": {"pattern": "^(/|file:)"}}}}}}}
_ON_A_VOLUME: dict[str, Any] = {
    "properties": {"persistence": {"required": ["enabled"], "properties": {"enabled": {"const": True}}}},
    "required": ["persistence"],
}
_TWO = {"properties": {"replicas": {"minimum": 2}, **_ON_A_VOLUME["properties"]}}
_SHARED = {"properties": {"persistence": {"properties": {"accessModes": {"contains": {"const": "ReadWriteMany"}}}}}}


NOTES = ("default", "description", "title")


def schema() -> str:
    settings = _without_notes(msgspec.json.schema(Config)["$defs"])
    rules = [{"if": _FILES, "then": _ON_A_VOLUME}, {"if": _TWO, "then": _SHARED}]
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **CHART, "allOf": rules, "$defs": settings}, indent=1) + "\n"


def _without_notes(part: Any) -> Any:
    """A reader of values has them in config.example.toml. Below `properties` a key is a setting's name."""
    match part:
        case dict():
            kept = {key: one for key, one in part.items() if key not in NOTES}
            return {
                key: {name: _without_notes(field) for name, field in one.items()} if key == "properties" else _without_notes(one)
                for key, one in kept.items()
            }
        case list():
            return [_without_notes(one) for one in part]
        case _:
            return part
