"""A changefeed's definition from a file, where TiCDC's etcd is out of reach: as etcd would have it (ChangeFeedInfo), for `changefeed_info`.

    JSON of `cdc cli changefeed query` or of TiCDC's OpenAPI      names in snake_case; passwords are hidden
    JSON as etcd has it                                           names in kebab-case
    JSON of `ticloud serverless changefeed get`                   TiDB Cloud's own form
    TOML as `cdc cli changefeed create --config` takes it         with sink-uri, and start-ts if there is one, at its top

A file says how the changefeed was when it was written: its state is `unknown` from then on, whatever the file says. A password that the
file hides is none. What TiDB Cloud writes of a private link has no brokers that can be reached from elsewhere: the settings name them.

Source: pingcap/ticdc api/v2/model.go, cmd/cdc/cli/cli_changefeed_query.go; tidbcloud/tidbcloud-cli pkg/tidbcloud/v1beta1/serverless/cdc and
internal/cli/serverless/changefeed/template.go.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from sidecar.shared.errors import ConfigError
from sidecar.shared.ticdc.changefeed import UNKNOWN, ChangefeedName
from sidecar.shared.ticdc.changefeed_file import kebab

HIDDEN = "xxxxx"
"""What TiCDC shows in the place of a password (Go's url.Redacted)."""

_OF_THE_DEFINITION = {
    "upstream-id", "id", "changefeed-id", "keyspace", "namespace", "sink-uri", "create-time", "start-ts", "target-ts", "admin-job-type",
    "state", "error", "creator-version", "resolved-ts", "checkpoint-ts", "checkpoint-tso", "checkpoint-time", "task-status", "gid",
    "maintainer-addr", "sort-engine", "error-history",
}  # fmt: skip
"""At the top of a file; everything else there is the changefeed's configuration."""

_HINT = "write it with `cdc cli changefeed query -c ID`, `ticloud serverless changefeed get`, or as the TOML of `cdc cli changefeed create`"


def name_in(text: str, *, cluster: str = "", namespace: str = "", id: str = "") -> ChangefeedName:  # TiCDC's word
    """What is not given, as the file says it; `default` for what it does not. Raises ConfigError for a file without an id."""
    content = _content(text)
    try:
        named = kebab(content)
        said = content.get("changefeedId") or named.get("id") or named.get("changefeed-id")
        if isinstance(said, dict):
            said = (said.get("display") or {}).get("name")
    except (AttributeError, RecursionError) as error:
        raise ConfigError(f"this is no changefeed's definition ({type(error).__name__})", hint=_HINT) from error
    if not (id or said):
        raise ConfigError("the definition does not say the changefeed's id", hint="give --changefeed-id: what dumps are called by")
    space = namespace or named.get("keyspace") or named.get("namespace")
    return ChangefeedName(cluster or "default", str(space or "default"), id or str(said))


def definition_in(text: str, name: ChangefeedName, *, place: str, brokers: str = "") -> bytes:
    """What TiCDC's etcd would hold for `name`. `place`: of the text, for errors. `brokers`: Kafka's, for a definition that names none.
    Raises ConfigError; its text holds nothing of the file but names."""
    try:
        return json.dumps(_definition(_content(text), name, brokers, text_is_json=_is_json(text))).encode()
    except ConfigError as error:
        raise ConfigError(f"{place}: {error.message}", hint=error.hint) from error
    except (AttributeError, TypeError, RecursionError) as error:  # a value of another kind than TiCDC writes there
        raise ConfigError(f"{place}: this is no changefeed's definition ({type(error).__name__})", hint=_HINT) from error


def _definition(content: Mapping[str, Any], name: ChangefeedName, brokers: str, *, text_is_json: bool) -> dict[str, Any]:
    if "clusterId" in content and isinstance(content.get("sink"), dict):
        return _of_cloud(content, name, brokers)
    named = kebab(content)
    config = named.get("config", named.get("replica-config"))
    if not isinstance(config, dict) and text_is_json:
        raise ConfigError("the definition has no config", hint=_HINT)
    if not isinstance(config, dict):
        config = {key: value for key, value in named.items() if key not in _OF_THE_DEFINITION}
    sink_uri = named.get("sink-uri")
    if not isinstance(sink_uri, str) or not sink_uri:
        raise ConfigError("the definition has no sink-uri", hint=f'{_HINT}, with sink-uri = "kafka://…" at its top')
    own_id = named.get("id", named.get("changefeed-id"))
    if isinstance(own_id, dict):  # as the new architecture's etcd has it
        own_id, new = (own_id.get("display") or {}).get("name"), True
    else:
        new = "keyspace" in named
    _check_name(name, id=own_id, namespace=named.get("keyspace" if new else "namespace"))
    made = {
        "sink-uri": _shown_only(sink_uri),
        "create-time": _text(named.get("create-time")) or "file",
        "start-ts": _number(named, "start-ts"),
        "target-ts": _number(named, "target-ts"),
        "upstream-id": _number(named, "upstream-id"),
        "creator-version": _text(named.get("creator-version")),
        "state": UNKNOWN,
        "config": _without_hidden(config),
    }
    return made | _id(name, new=new)


def _is_json(text: str) -> bool:
    return text.lstrip("\ufeff \t\r\n").startswith("{")


def _content(text: str) -> dict[str, Any]:
    try:
        text = text.lstrip("\ufeff")
        content = json.loads(text) if _is_json(text) else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        place = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(f"the definition is neither JSON nor TOML: {type(error).__name__}{place}", hint=_HINT) from error
    assert isinstance(content, dict), "both begin with names"
    return content


def _id(name: ChangefeedName, *, new: bool) -> dict[str, Any]:
    """The key shows which of TiCDC's two architectures wrote it."""
    return {"id": {"display": {"name": name.id}}} if new else {"changefeed-id": name.id}


def _check_name(name: ChangefeedName, **said: object) -> None:
    for setting, value in said.items():
        if value not in (None, "", getattr(name, setting)):
            raise ConfigError(
                f"the definition is of changefeed {setting} {value!r}, and changefeed.{setting} is {getattr(name, setting)!r}",
                hint=f"set changefeed.{setting} to the one in the file, or name the file of this changefeed",
            )


def _number(of: Mapping[str, Any], name: str) -> int:
    value = of.get(name) or 0
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value[:20])
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} of the definition is no number", hint=_HINT)
    return value


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _without_hidden(config: Any) -> Any:
    if isinstance(config, dict):
        return {name: _without_hidden(value) for name, value in config.items() if value != HIDDEN}
    return [_without_hidden(one) for one in config] if isinstance(config, list) else config


def _shown_only(uri: str) -> str:
    """Without parameters that the file hides."""
    before, question, query = uri.partition("?")
    shown = [pair for pair in query.split("&") if pair.partition("=")[2] != HIDDEN]
    return before + question + "&".join(shown)


# ---- TiDB Cloud -----------------------------------------------------------------------------------------------------

_PROTOCOLS = {"CANAL_JSON": "canal-json", "OPEN_PROTOCOL": "open-protocol", "AVRO": "avro", "DEBEZIUM": "debezium"}
_MECHANISMS = {"SASL_PLAIN": "PLAIN", "SASL_SCRAM_SHA_256": "SCRAM-SHA-256", "SASL_SCRAM_SHA_512": "SCRAM-SHA-512"}


def _of_cloud(content: Mapping[str, Any], name: ChangefeedName, brokers: str) -> dict[str, Any]:
    _check_name(name, id=content.get("changefeedId"))
    sink = content["sink"]
    kafka = sink.get("kafka")
    if not isinstance(kafka, dict):
        raise ConfigError(
            f"the sink of TiDB Cloud's changefeed {name.id} is {_text(sink.get('type')) or 'not named'}, and no Kafka",
            hint="create a changefeed into Kafka beside it",
        )
    of_format, topic = _dict(kafka, "dataFormat"), _dict(kafka, "topicPartitionConfig")
    filters, parameters = _dict(content, "filter"), urlencode(dict(_parameters(kafka, of_format)))
    return {
        "sink-uri": f"kafka://{_brokers(kafka, brokers)}/{quote(_text(topic.get('defaultTopic')))}?{parameters}",
        "create-time": _text(content.get("createTime")) or "file",
        "start-ts": _number(_dict(content, "startPosition"), "tso"),
        "state": UNKNOWN,
        "config": {
            "force-replicate": filters.get("mode") == "FORCE_SYNC",
            "filter": {
                "rules": filters.get("filterRule"),
                "event-filters": [
                    {"matcher": one.get("matcher"), "ignore-event": one.get("ignoreEvent")} for one in _dicts(filters, "eventFilterRule")
                ],
            },
            "sink": {
                "dispatchers": list(_dispatchers(topic)),
                "column-selectors": _dicts(kafka, "columnSelectors"),
            },
        },
    } | _id(name, new=False)


def _dict(of: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Empty where there is none."""
    value = of.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{name} of the definition is no object", hint=_HINT)
    return value


def _dicts(of: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    value = of.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ConfigError(f"{name} of the definition is no list of objects", hint=_HINT)
    return value


def _known(name: str, of: Mapping[str, Any], meanings: Mapping[str, str]) -> str:
    """Empty where it is not given. Raises ConfigError for a value that nobody here knows: what it would change is not known either."""
    value = _text(of.get(name))
    if value and value not in meanings:
        raise ConfigError(f"{name} of the definition is {value!r}, expected one of {', '.join(meanings)}", hint=_HINT)
    return meanings.get(value, "")


def _brokers(kafka: Mapping[str, Any], brokers: str) -> str:
    network = _dict(kafka, "network") or _dict(kafka, "networkInfo")
    public = network.get("publicEndpoints")
    if isinstance(public, list):
        public = ",".join(map(str, public))
    if not (hosts := brokers or public):
        raise ConfigError(
            f"TiDB Cloud's changefeed reaches Kafka by {_text(network.get('networkType')) or 'a network of its own'}, not by addresses",
            hint="set kafka.brokers to the brokers as they are reached from here",
        )
    return re.sub(r"\s", "", str(hosts))


def _parameters(kafka: Mapping[str, Any], of_format: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    protocol = _text(of_format.get("protocol"))
    yield "protocol", _PROTOCOLS.get(protocol, protocol.lower())
    if of_format.get("enableTidbExtension") is True:
        yield "enable-tidb-extension", "true"
    authentication = _dict(kafka, "authentication")
    mechanism = _known("authType", authentication, {"DISABLE": "", **_MECHANISMS})
    if mechanism:
        yield "sasl-mechanism", mechanism
        yield "sasl-user", _text(authentication.get("userName"))
        if (password := _text(authentication.get("password"))) and password.strip("*x"):
            yield "sasl-password", password
    if authentication.get("enableTls") is True:
        yield "enable-tls", "true"


def _dispatchers(topic: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """TiCDC takes the first rule that has a table; the topic is the same in all."""
    prefix, separator, suffix = (_text(topic.get(name)) for name in ("topicPrefix", "separator", "topicSuffix"))
    by_table, by_database = f"{prefix}{{schema}}{separator}{{table}}{suffix}", f"{prefix}{{schema}}{suffix}"
    expression = _known("dispatchType", topic, {"ONE_TOPIC": "", "BY_TABLE": by_table, "BY_DATABASE": by_database})
    for one in _dicts(topic, "partitionDispatchers"):
        partition = {"COLUMN": "columns"}.get(_text(one.get("partitionType")), _text(one.get("partitionType")).lower().replace("_", "-"))
        yield {"matcher": one.get("matcher"), "topic": expression, "partition": partition}
    if expression:
        yield {"matcher": ["*.*"], "topic": expression}
