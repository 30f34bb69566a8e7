"""A changefeed's config as TiCDC takes it, for an output that routes and writes rows as a changefeed of that config would.

    TOML, as `cdc cli changefeed create --config` takes it                 names in kebab-case
    JSON, as etcd and `cdc cli changefeed query` have it                   the same; of the whole definition its `config`
    JSON, as the OpenAPI has it                                            names in snake_case

Followed are the dispatchers, `case-sensitive`, `protocol`, what shapes a message, and the parameters of `[sink.kafka-config]`. What
changes where or how rows are written and is not followed is rejected with its name, as is a setting of `[sink]` that no TiCDC has. What
says nothing of a Kafka topic in these protocols, and what TiCDC does before its sink (filters, mounter), is ignored; filters warn.

Source: pingcap/tiflow pkg/config/{replica_config,sink}.go, cdc/api/v2/model.go; pingcap/ticdc pkg/config, api/v2/model.go.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar.shared.errors import ConfigError

_FOLLOWED = {"dispatchers", "protocol", "kafka-config", "open", "case-sensitive", "schema-registry"}
_NOTHING_HERE = {
    "transaction-atomicity", "encoder-concurrency", "terminator", "date-separator", "enable-partition-separator",
    "file-index-digit", "file-index-width", "enable-kafka-sink-v2", "safe-mode", "pulsar-config", "mysql-config", "cloud-storage-config",
    "advance-timeout-in-sec", "advance-timeout", "send-bootstrap-interval-in-sec", "send-bootstrap-in-msg-count",
    "send-bootstrap-to-all-partition", "send-all-bootstrap-at-start", "debezium-disable-schema", "debezium", "csv", "integrity",
    "force-replicate",
}  # fmt: skip
"""Of storage, databases, other protocols, or TiCDC's own pace."""

_SHAPES = ("only-output-updated-columns", "delete-only-output-handle-key-columns", "content-compatible")
"""What a message holds: the encoder knows which of them it can follow."""

_LARGE, _COMPRESSION = "sink.kafka-config.large-message-handle", "large-message-handle-compression"
_KAFKA_NOTHING_HERE = {
    "large-message-handle", _COMPRESSION, "glue-schema-registry-config", "output-raw-change-event", "codec-config", "kafka-version",
}  # fmt: skip
_HINT = "take it out of the file that config= names"


@dataclass(frozen=True, slots=True)
class ChangefeedFile:
    """`dispatchers` as `Router.of` takes them. `protocol`: empty where the file has none. `parameters`: of [sink.kafka-config], its
    codec-config and large-message-handle, by the names that they have in a sink URI, which wins over them, and what of [sink] shapes a
    message; passwords are among them. `warnings`: what an operator should know."""

    dispatchers: tuple[Mapping[str, Any], ...] = ()
    case_sensitive: bool = False
    protocol: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()


def rules_of(config_text: str) -> ChangefeedFile:
    """Raises ConfigError for a text that is neither, and for settings that are refused; its text holds no values of settings."""
    config = _config(config_text)
    sink = _section(config, "sink", "sink")
    for name, value in sink.items():
        _check(name, value)
    kafka = _section(sink, "kafka-config", "sink.kafka-config")
    _check_kafka(kafka)
    if _section(sink, "open", "sink.open").get("output-old-value") is False:
        raise ConfigError("sink.open.output-old-value is false: updates are written with their old images", hint=_HINT)
    dispatchers = sink.get("dispatchers") or []
    if not isinstance(dispatchers, list) or not all(isinstance(one, dict) for one in dispatchers):
        raise ConfigError(
            "sink.dispatchers is no list of rules", hint='write it as dispatchers = [{matcher = ["shop.*"], partition = "ts"}]'
        )
    warnings = []
    if config.get("filter"):
        warnings.append("filter has no effect here: the log holds what the changefeed that it was made of let through")
    return ChangefeedFile(
        dispatchers=tuple(dispatchers),
        case_sensitive=config.get("case-sensitive") is True,
        protocol=str(sink.get("protocol") or ""),
        parameters=dict(_parameters(kafka)) | {name: "true" for name in _SHAPES if sink.get(name) is True} | dict(_registry(sink)),
        warnings=tuple(warnings),
    )


def _config(text: str) -> dict[str, Any]:
    what = "the file that config= names is no changefeed's config"
    hint = "give the TOML file of `cdc cli changefeed create --config`, or the JSON of `cdc cli changefeed query`"
    try:
        content = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{what}: {type(error).__name__}{_place(error)}", hint=hint) from error
    named = kebab(content)
    config = named["config"] if isinstance(named.get("config"), dict) else named
    return dict(config)


def _place(error: Exception) -> str:
    """Where, without the text around it, which may hold a password."""
    lines = getattr(error, "lineno", None)
    return f" in line {lines}" if lines else ""


def kebab(content: Any) -> Any:
    """With the names as the TOML has them. A date of TOML is a text."""
    if isinstance(content, dict):
        return {str(name).replace("_", "-"): kebab(value) for name, value in content.items()}
    if isinstance(content, list):
        return [kebab(one) for one in content]
    return content if isinstance(content, bool | int | float | str | None) else str(content)


def _section(of: Mapping[str, Any], name: str, setting: str) -> dict[str, Any]:
    section = of.get(name)
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise ConfigError(f"{setting} is no section", hint=f"write it as [{setting}]")
    return section


def _check(name: str, value: Any) -> None:
    if value in (None, False, [], "", {}):
        return
    if name == "column-selectors":
        raise ConfigError("sink.column-selectors cannot be followed: rows are written whole", hint=_HINT)
    if name not in _FOLLOWED | _NOTHING_HERE | {*_SHAPES}:
        raise ConfigError(f"sink.{name} is no setting of TiCDC's sinks that is known here", hint=_HINT)


def _check_kafka(kafka: Mapping[str, Any]) -> None:
    if kafka.get("output-raw-change-event") is True:
        raise ConfigError(
            "sink.kafka-config.output-raw-change-event cannot be followed: an update that changes a key is a delete and an insert",
            hint=_HINT,
        )
    large = _section(kafka, "large-message-handle", _LARGE)
    if large.get(_COMPRESSION) not in (None, "", "none"):
        raise ConfigError(
            f"{_LARGE}.{_COMPRESSION} cannot be followed: values are written as they are",
            hint=f"{_HINT}: Kafka's own compression makes messages smaller as well",
        )


def _registry(sink: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if address := sink.get("schema-registry"):
        yield "schema-registry", str(address)


def _parameters(kafka: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    sections = _section(kafka, "codec-config", "sink.kafka-config.codec-config"), _section(kafka, "large-message-handle", _LARGE)
    for name, value in {**sections[0], **sections[1], **kafka}.items():
        if name in _KAFKA_NOTHING_HERE or value is None or value == "":
            continue
        if isinstance(value, bool):
            yield name, "true" if value else "false"
        elif isinstance(value, list):
            yield name, ",".join(map(str, value))
        else:
            yield name, str(value)
