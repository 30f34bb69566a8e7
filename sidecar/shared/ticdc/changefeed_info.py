"""A changefeed's definition out of TiCDC's etcd (ChangeFeedInfo), and what follows from it for a consumer of its topics.

    changefeed          the JSON of `.../changefeed/info/{id}` to a `Changefeed`, of both architectures and of older releases
    kafka_place         brokers and default topic        client_settings   TLS and SASL as librdkafka names them
    codec_settings      what the codec registry asks for        masked     a URI without its secrets, for people

- A parameter of the sink URI wins over the config; an empty one is none.
- What is missing is read as TiCDC reads it: Go's zero value (so `case-sensitive` false, whatever that release's default for
  new changefeeds: TiCDC always writes it), except for rules (`*.*`) and open-protocol's old values (sent).
- The incarnation is made of create-time and start-ts. `epoch` changes at every pause; start-ts changes when a changefeed is
  resumed from another checkpoint by hand, and then the feed has a gap or goes back: it is another one.
- Files (ca, cert, key, keytab) are paths on TiCDC's hosts; where they differ here, the sidecar's own settings replace them.

Source: pingcap/tiflow cdc/model/changefeed.go, pkg/sink/kafka/options.go, pkg/util/uri.go; pingcap/ticdc pkg/config.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, unquote_plus

import msgspec

from sidecar.shared.codecs.contract import Codec
from sidecar.shared.codecs.csv import CsvCodec
from sidecar.shared.codecs.registry import codec_for, protocol_of
from sidecar.shared.errors import ConfigError
from sidecar.shared.ticdc.changefeed import (
    KAFKA_SCHEMES,
    MESSAGE_SCHEMES,
    PUSH_SCHEME,
    STORAGE_SCHEMES,
    Changefeed,
    ChangefeedName,
    ChangefeedSinkUri,
    ColumnSelector,
    Dispatcher,
    EventFilter,
    FeedFilter,
)
from sidecar.shared.ticdc.large_rows import compression_of_values

_OLD_STATES = {1: "stopped", 3: "removed", 4: "finished"}
"""By admin-job-type: releases before 4.0.16 and 5.0.6 left the state at normal."""


class _Section(msgspec.Struct, rename="kebab"):
    """Null is taken as absent where a field says so; unknown fields belong to other releases and are let be."""


class _EventFilter(_Section):
    matcher: list[str] | None = None
    ignore_event: list[str] | None = None
    ignore_sql: list[str] | None = None
    ignore_insert_value_expr: str | None = None
    ignore_update_old_value_expr: str | None = None
    ignore_update_new_value_expr: str | None = None
    ignore_delete_value_expr: str | None = None
    ignore_update_only_columns: list[str] | None = None


class _Filter(_Section):
    rules: list[str] | None = None
    ignore_txn_start_ts: list[int] | None = None
    event_filters: list[_EventFilter] | None = None


class _Dispatcher(_Section):
    matcher: list[str] | None = None
    dispatcher: str = ""
    partition: str = ""
    topic: str = ""
    target_schema: str = ""
    target_table: str = ""


class _ColumnSelector(_Section):
    matcher: list[str] | None = None
    columns: list[str] | None = None


class _Sink(_Section):
    protocol: str | None = None
    dispatchers: list[_Dispatcher] | None = None
    column_selectors: list[_ColumnSelector] | None = None


class _Config(_Section):
    case_sensitive: bool | None = None
    force_replicate: bool | None = None
    filter: _Filter | None = None
    sink: _Sink | None = None


class _Failure(_Section):
    code: str = ""
    message: str = ""


class _Display(_Section):
    name: str


class _Id(_Section):
    display: _Display


class _Info(_Section):
    sink_uri: str
    create_time: str
    start_ts: int
    config: dict[str, Any]
    target_ts: int = 0
    upstream_id: int | None = None
    admin_job_type: int = 0
    changefeed_id: str = ""
    id: _Id | None = None
    state: str = ""
    error: _Failure | None = None
    warning: _Failure | None = None
    creator_version: str = ""


def changefeed(name: ChangefeedName, info_json: bytes | str) -> Changefeed:
    """The definition that etcd holds for `name`. Raises ConfigError for what is not one; its text holds no secrets."""
    try:
        info = msgspec.json.decode(info_json, type=_Info)
        config = msgspec.convert(info.config, _Config)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"what TiCDC's etcd holds for changefeed {name} is not a changefeed's definition: {error}",
            hint="check the id, namespace and cluster of the changefeed; if they are right, report TiCDC's version and this text",
        ) from error
    written_for = info.id.display.name if info.id else info.changefeed_id
    if written_for and written_for != name.id:
        raise ConfigError(
            f"the definition that was read for {name} is of changefeed {written_for}", hint="report this with TiCDC's version"
        )
    uri, sink, failure = ChangefeedSinkUri.parsed(info.sink_uri), config.sink or _Sink(), info.error or info.warning
    return Changefeed(
        name=name,
        incarnation=re.sub(r"[^0-9A-Za-z.]", "-", f"{info.create_time.replace(':', '').replace('+', 'p')}-{info.start_ts}"),
        sink_uri=info.sink_uri,
        protocol=uri.parameters.get("protocol") or sink.protocol or ("open-protocol" if uri.scheme in MESSAGE_SCHEMES else ""),
        start_ts=info.start_ts,
        target_ts=info.target_ts,
        upstream_id=info.upstream_id or 0,
        created_ms=_unix_ms(info.create_time),
        state=_OLD_STATES.get(info.admin_job_type, "normal") if info.state in ("", "normal") else info.state,
        error=f"{failure.code}: {failure.message}" if failure else None,
        creator_version=info.creator_version,
        new_architecture=info.id is not None,
        force_replicate=config.force_replicate is True,
        filter=_filter(config),
        dispatchers=tuple(
            Dispatcher(_texts(one.matcher), one.topic, one.partition or one.dispatcher, one.target_schema, one.target_table)
            for one in sink.dispatchers or ()
        ),
        column_selectors=tuple(ColumnSelector(_texts(one.matcher), _texts(one.columns)) for one in sink.column_selectors or ()),
        config=info.config,
    )


def _unix_ms(time: str) -> int:
    """Of Go's RFC 3339, which has up to nine digits of a second. 0 for what is none, or has no zone."""
    try:
        moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", time))
    except ValueError:
        return 0
    return round(moment.timestamp() * 1000) if moment.tzinfo is not None else 0


BINLOG = "binlog"
"""The incarnation and the protocol of what `of_binlog` makes."""


def of_binlog(name: str, *, filter: dict[str, Any], case_sensitive: bool, start_ts: int) -> Changefeed:  # TiCDC's word
    """What stands for a changefeed where TiDB-Binlog is read: settings of ours, with a filter as TiCDC's. Raises ConfigError."""
    try:
        config = msgspec.convert({"filter": filter, "case-sensitive": case_sensitive}, _Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"binlog.filter: {error}", hint="write it as [filter] in a changefeed's configuration of TiCDC") from error
    changefeed_name = ChangefeedName("default", "default", name)
    return Changefeed(name=changefeed_name, incarnation=BINLOG, sink_uri="", protocol=BINLOG, start_ts=start_ts, filter=_filter(config))


def _filter(config: _Config) -> FeedFilter:
    section = config.filter or _Filter()
    return FeedFilter(
        rules=_texts(section.rules) or ("*.*",),
        case_sensitive=config.case_sensitive is True,
        event_filters=tuple(
            EventFilter(
                matcher=_texts(one.matcher),
                ignore_event=_texts(one.ignore_event),
                ignore_sql=_texts(one.ignore_sql),
                ignore_insert_value_expr=one.ignore_insert_value_expr or "",
                ignore_update_old_value_expr=one.ignore_update_old_value_expr or "",
                ignore_update_new_value_expr=one.ignore_update_new_value_expr or "",
                ignore_delete_value_expr=one.ignore_delete_value_expr or "",
                ignore_update_only_columns=_texts(one.ignore_update_only_columns),
            )
            for one in section.event_filters or ()
        ),
        ignore_txn_start_ts=tuple(section.ignore_txn_start_ts or ()),
    )


def _texts(value: list[str] | None) -> tuple[str, ...]:
    return tuple(value or ())


# ---- secrets ----------------------------------------------------------------------------------------------------------

_SECRET = re.compile("password|passwd|pwd|access|token|secret|key|signature|credential|private|client|user-info|basic-auth", re.IGNORECASE)
"""In a parameter's name; TiCDC's own list (pkg/util/uri.go), and `basic-auth-user-info` of a schema registry."""


def masked(uri: str) -> str:
    """The URI for people: passwords, secrets and keys are `xxxxx`, also those of URIs in its parameters."""
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*://)(?:([^/?#]*)@)?([^?#]*)(?:\?(.*))?", uri, re.DOTALL)
    if match is None:
        return "<invalid uri>"
    scheme, user, place, query = match.groups(default="")
    user = re.sub(":.*", ":xxxxx", user, flags=re.DOTALL) + "@" if user else ""
    parameters = [_masked_parameter(*parameter.partition("=")) for parameter in query.split("&")]
    return f"{scheme}{user}{place}" + ("?" + "&".join(parameters) if query else "")


def _masked_parameter(name: str, equals: str, value: str) -> str:
    if _SECRET.search(unquote(name)):
        return f"{name}{equals}xxxxx" if value else name + equals
    plain = unquote_plus(value)
    if "://" in plain:
        value = quote(masked(plain), safe=":/@?=<> ") if masked(plain) != plain else value
    return name + equals + value


# ---- the place and the client -----------------------------------------------------------------------------------------


class KafkaPlace(NamedTuple):
    """`brokers`: librdkafka's bootstrap.servers."""

    brokers: str
    topic: str


def kafka_place(changefeed: Changefeed) -> KafkaPlace:
    """Raises ConfigError for a sink that is not Kafka's, or has no host or topic."""
    uri = changefeed.sink
    if uri.scheme not in KAFKA_SCHEMES or not uri.hosts or not uri.path:
        hints = {PUSH_SCHEME: 'set feed = "push" and push.form = "messages": TiCDC sends to the sidecar itself'}
        hints |= dict.fromkeys(STORAGE_SCHEMES, 'set feed = "storage": TiCDC writes files')
        raise ConfigError(
            f"the sink {masked(changefeed.sink_uri)} of changefeed {changefeed.name} has no Kafka broker and topic",
            hint=hints.get(uri.scheme, "attach to a changefeed with a sink URI kafka://host:9092/topic"),
        )
    return KafkaPlace(",".join(uri.hosts), uri.path)


class CodecSettings(NamedTuple):
    """The arguments of `codec_for`."""

    protocol: str
    tidb_extension: bool
    compression: str
    encoding: str = ""


def codec_settings(changefeed: Changefeed) -> CodecSettings:
    return CodecSettings(
        changefeed.protocol,
        changefeed.flag("sink", "kafka-config", "codec-config", "enable-tidb-extension"),
        compression_of_values(changefeed),
        changefeed.option("sink", "kafka-config", "codec-config", "encoding-format"),
    )


def files_of_csv(changefeed: Changefeed) -> bool:
    """Whether its rows are in files of csv, the one protocol there that is none of messages."""
    protocol = protocol_of(changefeed.protocol)
    return changefeed.sink.scheme in STORAGE_SCHEMES and protocol is not None and protocol.in_files and protocol.codec is None


def codec_of(changefeed: Changefeed) -> Codec:
    """Raises FeedUnsuitable for a protocol or setting that cannot carry a dump."""
    settings = codec_settings(changefeed)
    if files_of_csv(changefeed):
        return CsvCodec()
    return codec_for(**settings._asdict())


_MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"})


def client_settings(changefeed: Changefeed) -> dict[str, str]:
    """How TiCDC's own client reaches the brokers, as librdkafka settings; empty for a plain connection.

    Raises ConfigError for a mechanism that is unknown, or that librdkafka does not have (Kerberos with a password).
    """
    sasl = _sasl(changefeed)
    files = {
        "ssl.ca.location": _kafka(changefeed, "ca"),
        "ssl.certificate.location": _kafka(changefeed, "cert"),
        "ssl.key.location": _kafka(changefeed, "key"),
    }
    tls = changefeed.flag("sink", "kafka-config", "enable-tls") or all(files.values())
    if tls and changefeed.flag("sink", "kafka-config", "insecure-skip-verify"):
        files |= {"enable.ssl.certificate.verification": "false", "ssl.endpoint.identification.algorithm": "none"}
    protocol = {(True, True): "SASL_SSL", (True, False): "SASL_PLAINTEXT", (False, True): "SSL"}.get((bool(sasl), tls), "")
    settings = {"security.protocol": protocol} | sasl | (files if tls else {})
    return {name: value for name, value in settings.items() if value}


def _kafka(changefeed: Changefeed, name: str) -> str:
    return changefeed.option("sink", "kafka-config", name)


def _sasl(changefeed: Changefeed) -> dict[str, str]:
    mechanism = _kafka(changefeed, "sasl-mechanism").upper()
    match mechanism:
        case "":
            return {}
        case "GSSAPI":
            return _kerberos(changefeed)
        case "OAUTHBEARER":
            return _oauth(changefeed)
        case "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512":
            user, password = _kafka(changefeed, "sasl-user"), _kafka(changefeed, "sasl-password")
            return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
        case _:
            raise ConfigError(
                f"sasl-mechanism {mechanism} of changefeed {changefeed.name} is none that TiCDC has",
                hint=f"give one of {', '.join(sorted(_MECHANISMS))}, or set [kafka] client in the sidecar's settings",
            )


def _kerberos(changefeed: Changefeed) -> dict[str, str]:
    if _kafka(changefeed, "sasl-gssapi-auth-type").lower() != "keytab":
        raise ConfigError(
            f"changefeed {changefeed.name} reaches Kafka by Kerberos with a password, which librdkafka cannot do",
            hint="set sasl.kerberos.keytab and sasl.kerberos.principal under [kafka] client in the sidecar's settings",
        )
    user, realm = _kafka(changefeed, "sasl-gssapi-user"), _kafka(changefeed, "sasl-gssapi-realm")
    return {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": _kafka(changefeed, "sasl-gssapi-service-name"),
        "sasl.kerberos.principal": f"{user}@{realm}" if realm else user,
        "sasl.kerberos.keytab": _kafka(changefeed, "sasl-gssapi-keytab-path"),
    }


def _oauth(changefeed: Changefeed) -> dict[str, str]:
    """The client secret is base64 in TiCDC's config; these settings are read from the config alone."""
    part = {
        name: value if isinstance(value := changefeed.setting("sink", "kafka-config", f"sasl-oauth-{name}"), str) else ""
        for name in ("client-id", "client-secret", "token-url", "audience")
    }
    try:
        secret = base64.b64decode(part["client-secret"], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ConfigError(
            f"sasl-oauth-client-secret of changefeed {changefeed.name} is not base64", hint="set sasl.oauthbearer.* under [kafka] client"
        ) from error
    scopes = changefeed.setting("sink", "kafka-config", "sasl-oauth-scopes")
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": part["client-id"],
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.token.endpoint.url": part["token-url"],
        "sasl.oauthbearer.scope": " ".join(map(str, scopes)) if isinstance(scopes, list) else "",
    }
