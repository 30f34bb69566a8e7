"""The sidecar's settings: one frozen tree, read from TOML once and checked once. Each field is documented in
deploy/config.example.toml, which a test holds against this file.

Sizes are bytes and times seconds, by their names. A secret is never in the file: `*_file` names the file that holds it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from sidecar.core.messages import READERS_MAX
from sidecar.errors import ConfigError

Port = Annotated[int, Meta(ge=1, le=65535)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Name = Annotated[str, Meta(min_length=1)]


class _Section(Struct, frozen=True, forbid_unknown_fields=True):
    """Unknown settings are refused: a misspelt one would silently be the default."""


class Tls(_Section, frozen=True, kw_only=True):
    """`ca_file` makes a connection TLS; certificate and key are for mutual TLS."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class ChangefeedSection(_Section, frozen=True, kw_only=True):
    """Which changefeed. `cluster` is TiCDC's --cluster-id."""

    id: Name
    namespace: Name = "default"
    cluster: Name = "default"


class EtcdSection(_Section, frozen=True, kw_only=True):
    """TiCDC's own etcd: PD's client endpoints, `host:port` without a scheme. `lease_s`: a standby takes over after so long."""

    endpoints: Annotated[tuple[Name, ...], Meta(min_length=1)]
    tls: Tls = Tls()
    user: str = ""
    password_file: str = ""
    lease_s: Annotated[int, Meta(ge=2, le=600)] = 10
    timeout_s: Seconds = 5.0


class SourceSection(_Section, frozen=True, kw_only=True):
    """The changefeed's upstream TiDB. `reader` has no effect: settings of 0.1.0 name it. `status_port`: TiDB's HTTP port, asked by
    feeds of key-values only."""

    host: Name
    port: Port = 4000
    status_port: Port = 10080
    user: Name
    password_file: str = ""
    tls: Tls = Tls()
    reader: Literal["auto", "connectorx", "pymysql"] = "auto"
    statement_timeout_s: Seconds = 60.0
    retry_s: Seconds = 60.0


class KafkaSection(_Section, frozen=True, kw_only=True):
    """`brokers` and `topic` default to those of the changefeed's sink URI. `client`: librdkafka settings as they are, for TLS
    and SASL. `server_tz`: the TiCDC server's --tz. `queue_bytes_max`: fetched and not yet taken."""

    brokers: str = ""
    client: dict[str, str] = {}
    sasl_password_file: str = ""
    group: str = ""
    queue_bytes_max: Positive = 128 << 20
    server_tz: Name = "UTC"


class PushSection(_Section, frozen=True, kw_only=True):
    """For `feed = "push"`: where custom sinks hand over key-values (proto/ticdc_dump/v1/feed.proto). `listen` beyond loopback
    needs `tls` or a token. `queue_bytes_max`: received and not yet taken, of all senders together."""

    listen: Name = "127.0.0.1:8312"
    tls: Tls = Tls()
    token_file: str = ""
    queue_bytes_max: Positive = 128 << 20
    silent_max_s: Seconds = 60.0


class TikvSection(_Section, frozen=True, kw_only=True):
    """For `feed = "tikv"`: TiKV's change feed, found by PD. `pd`: PD's client endpoints, `host:port`. `outage_max_s`: a range that
    nobody serves for longer ends the term."""

    pd: tuple[Name, ...] = ()
    tls: Tls = Tls()
    queue_bytes_max: Positive = 128 << 20
    outage_max_s: Seconds = 60.0


class LogSection(_Section, frozen=True, kw_only=True):
    """Where the segment log is: a folder or s3://bucket/prefix, one for each changefeed. `spill_folder`: a local disk for
    changes that do not fit into memory; empty: the system's temporary folder."""

    uri: Name
    spill_folder: str = ""
    held_bytes_max: Positive = 256 << 20
    retain: bool = True


class SparkSection(_Section, frozen=True, kw_only=True):
    """`managed`: the sidecar starts the merge worker itself and starts it again when it dies; else run
    `ticdc-dump merge --config …` (or spark-submit) beside it. `worker_rows`: live rows of a batch up to which it is done in the worker's
    own process, at once; 0: everything is done by Spark's tasks."""

    master: Name = "local[*]"
    memory: Name = "2g"
    managed: bool = True
    worker_rows: Annotated[int, Meta(ge=0)] = 20_000


class DumpSection(_Section, frozen=True, kw_only=True):
    """Defaults of dumpstart, and the bounds of what may be read and not yet in the log. `delivery_bound_s` 0: by what delivery takes
    without a dump."""

    chunk_rows: Positive = 10_000
    readers: Annotated[int, Meta(ge=1, le=READERS_MAX)] = 2
    window_chunks_max: Positive = 8
    open_windows_max: Positive = 16
    chunk_bytes_max: Positive = 256 << 20
    delivery_bound_s: Annotated[float, Meta(ge=0)] = 0.0


class ControlSection(_Section, frozen=True, kw_only=True):
    """`listen` beyond loopback needs `tls` (with `ca_file`: mutual) or a token. `advertise`: what is written to etcd for
    the command line to find; default: `listen`."""

    listen: Name = "127.0.0.1:8310"
    advertise: str = ""
    tls: Tls = Tls()
    token_file: str = ""


class MetricsSection(_Section, frozen=True, kw_only=True):
    """Prometheus metrics and /healthz; empty: none."""

    listen: str = "127.0.0.1:8311"


class LoggingSection(_Section, frozen=True, kw_only=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Config(_Section, frozen=True, kw_only=True):
    """The whole file. `sinks`: URIs as in README.md. `feed`: by which way the changes come."""

    changefeed: ChangefeedSection
    etcd: EtcdSection
    source: SourceSection
    log: LogSection
    sinks: Annotated[tuple[Name, ...], Meta(min_length=1)]
    feed: Literal["kafka", "push", "tikv"] = "kafka"
    kafka: KafkaSection = KafkaSection()
    push: PushSection = PushSection()
    tikv: TikvSection = TikvSection()
    spark: SparkSection = SparkSection()
    dump: DumpSection = DumpSection()
    control: ControlSection = ControlSection()
    metrics: MetricsSection = MetricsSection()
    logging: LoggingSection = LoggingSection()


def read_config(path: Path) -> Config:
    """Raises ConfigError that names the file, the setting and what is wrong with it."""
    try:
        found = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", hint="give the sidecar's settings with --config FILE") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}", hint="see deploy/config.example.toml") from error
    try:
        return msgspec.convert(found, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}", hint="see deploy/config.example.toml for every setting and its unit") from error


def read_secret(path: str) -> str:
    """The text of a secret's file without its last newline; empty for no file. Raises ConfigError."""
    if not path:
        return ""
    try:
        return Path(path).read_text().rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise ConfigError(f"the file of a secret {path} cannot be read: {error}", hint="make it a text file for this user") from error
