"""The sidecar's settings: one frozen tree, read from TOML once and checked once. Each field is documented in
deploy/config.example.toml, which a test holds against this file.

Sizes are bytes and times seconds, by their names. A secret is never in the file: `*_file` names the file that holds it.

Each value is checked here, at once, as far as that is possible without the others. Bounds are beyond any need, and what its user accepts.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from sidecar.shared.config_errors import in_words
from sidecar.shared.config_forms import is_address, is_uri, is_zone
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.messages import DELIVERY_BOUND_MAX_S, READERS_MAX, ReadWith

ETCD_TIMEOUT_S = 5.0
"""By default, whatever the lease: keepalives and writes have bounds of their own."""
CHUNK_ROWS_MAX = 2**32 - 1
"""What a message of the control service carries."""

SPOOL_SUFFIX = ".subscribers"
"""Of the folder beside the log in which a `grpc:` sink keeps what subscribers have yet to get."""

Port = Annotated[int, Meta(ge=1, le=65535)]
Bytes = Annotated[int, Meta(ge=1, le=1 << 50)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Name = Annotated[str, Meta(min_length=1)]
Settings = TypeVar("Settings", bound=Struct)


class _Section(Struct, frozen=True, forbid_unknown_fields=True):
    """Unknown settings are refused: a misspelt one would silently be the default."""


class Tls(_Section, frozen=True, kw_only=True):
    """`ca_file` makes a connection TLS; certificate and key are for mutual TLS."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class ChangefeedSection(_Section, frozen=True, kw_only=True):
    """Which changefeed. `cluster` is TiCDC's --cluster-id. `file`: its definition, where TiCDC's etcd is out of reach
    (shared/ticdc/definition_file.py); empty: etcd has it."""

    id: Name
    namespace: Name = "default"
    cluster: Name = "default"
    file: str = ""


class EtcdSection(_Section, frozen=True, kw_only=True):
    """Where lease, progress and history are. `endpoints`: TiCDC's own etcd, PD's client endpoints, `host:port` without a scheme; with
    `changefeed.file` any etcd. `folder`: in its place a folder on a local disk, for one machine. `lease_s`: a standby takes over after so
    long. `timeout_s`: for one answer, no longer than that."""

    endpoints: tuple[Name, ...] = ()
    folder: str = ""
    tls: Tls = Tls()
    user: str = ""
    password_file: str = ""
    lease_s: Annotated[int, Meta(ge=2, le=600)] = 10
    timeout_s: Annotated[float, Meta(gt=0, le=600)] = ETCD_TIMEOUT_S


class SourceSection(_Section, frozen=True, kw_only=True):
    """The changefeed's upstream TiDB. `reader` has no effect: settings of 0.1.0 name it. `status_port`: TiDB's HTTP port, which
    only feeds of key-values use."""

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
    and SASL. `server_tz`: the TiCDC server's --tz. `ambiguous`: which moment of two a TIMESTAMP is where that zone has an hour twice.
    `queue_bytes_max`: fetched and not yet taken. `begin`: where a new log does; empty: now, unless a sink holds rows already.
    `claim_check_uri`: the folder of claim-check-storage-uri, as this machine reaches it; empty: as that says."""

    begin: Literal["", "now", "topic"] = ""
    brokers: str = ""
    client: dict[str, str] = {}
    sasl_password_file: str = ""
    claim_check_uri: str = ""
    group: str = ""
    queue_bytes_max: Annotated[int, Meta(ge=1, le=8 << 30)] = 128 << 20
    server_tz: Name = "UTC"
    ambiguous: Literal["refuse", "first", "second"] = "refuse"


class PushSection(_Section, frozen=True, kw_only=True):
    """For `feed = "push"`: where TiCDC hands its changes over without a broker (proto/ticdc_dump/v1/feed.proto). `form`: what its own sink
    has, or key-values from before its sorter. `listen` beyond loopback needs `tls` or a token. `queue_bytes_max`: received and not yet
    taken, of all senders together. Of messages: `ahead_bytes_max`, kept and not yet read, beyond which TiCDC waits; `begin` as kafka.begin,
    or with all that was sent."""

    form: Literal["key-values", "messages"] = "key-values"
    begin: Literal["", "now", "sent"] = ""
    ahead_bytes_max: Bytes = 16 << 30
    listen: Name = "127.0.0.1:8312"
    tls: Tls = Tls()
    token_file: str = ""
    queue_bytes_max: Bytes = 128 << 20
    silent_max_s: Seconds = 60.0


class StorageSection(_Section, frozen=True, kw_only=True):
    """For `feed = "storage"`: the files that TiCDC's storage sink writes. `uri`: their folder as this machine reaches it; empty: as the
    sink URI says. `begin` as kafka.begin, or with all that is there. `look_s`: between two looks for what is new. `queue_bytes_max`: read
    and not yet taken."""

    begin: Literal["", "now", "files"] = ""
    uri: str = ""
    look_s: Annotated[float, Meta(ge=0.1, le=600)] = 1.0
    queue_bytes_max: Bytes = 64 << 20


class TikvSection(_Section, frozen=True, kw_only=True):
    """For `feed = "tikv"` and `dump.read_with = "tikv"`: TiKV, located through PD. `pd`: PD's client endpoints, `host:port`.
    `outage_max_s`: a range that nobody serves for longer ends the term, or is read later."""

    pd: tuple[Name, ...] = ()
    tls: Tls = Tls()
    queue_bytes_max: Bytes = 128 << 20
    outage_max_s: Seconds = 60.0


class BinlogSection(_Section, frozen=True, kw_only=True):
    """For `feed = "binlog"`: TiDB-Binlog, read as a drainer does. `name` stands for a changefeed's id. `listen`: where pumps that
    come announce themselves; `advertise`: under which address they reach that. `filter`: as in a changefeed's configuration."""

    name: str = ""
    pd: tuple[Name, ...] = ()
    initial_commit_ts: Annotated[int, Meta(ge=0)] = 0
    listen: Name = "127.0.0.1:8249"
    advertise: str = ""
    case_sensitive: bool = False
    filter: dict[str, Any] = {}
    gzip: bool = False
    queue_bytes_max: Bytes = 128 << 20
    ahead_bytes_max: Bytes = 4 << 30
    outage_max_s: Seconds = 60.0
    tls: Tls = Tls()


class LogSection(_Section, frozen=True, kw_only=True):
    """Where the segment log is: a folder or s3://bucket/prefix, one for each changefeed. `spill_folder`: a local disk for
    changes that do not fit into memory; empty: the system's temporary folder."""

    uri: Name
    spill_folder: str = ""
    held_bytes_max: Bytes = 256 << 20
    retain: bool = True


class SparkSection(_Section, frozen=True, kw_only=True):
    """`managed`: the sidecar starts the merge worker itself and starts it again when it dies; else run `ticdc-dump merge --config …` (or
    spark-submit) beside it. `worker_rows`, `idle_s`: when Spark is used, and when it ends; 0: always, and never."""

    master: Name = "local[*]"
    memory: Annotated[str, Meta(pattern="^[1-9][0-9]{0,9}[kmgtKMGT]$")] = "2g"
    managed: bool = True
    worker_rows: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 20_000
    idle_s: Annotated[float, Meta(ge=0, le=86_400)] = 600.0


class DumpSection(_Section, frozen=True, kw_only=True):
    """Defaults of dumpstart, and the bounds of what may be read and not yet in the log. `delivery_bound_s` 0: by what delivery takes
    without a dump, within `delivery_bound_max_s`. `strict_bound`: the bound holds, however slow a dump gets (sidecar/pace).
    `reread_rewritten`: tables beside whose DDLs TiCDC's rows may be wrong; with `feed = "kafka"` only. `fill_holes`: dump what is
    incomplete (run/filling.py). `read_with`: as of StartDump. `read_on`: in the sidecar's own threads or in tasks of Spark; `auto`: on
    Spark where spark.master is a cluster. `read_port`: where those tasks reach the sidecar, 0 for any that is free."""

    chunk_rows: Annotated[int, Meta(ge=1, le=CHUNK_ROWS_MAX)] = 10_000
    readers: Annotated[int, Meta(ge=1, le=READERS_MAX)] = 2
    window_chunks_max: Annotated[int, Meta(ge=1, le=10_000)] = 8
    open_windows_max: Annotated[int, Meta(ge=1, le=10_000)] = 256
    chunk_bytes_max: Bytes = 256 << 20
    delivery_bound_s: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    delivery_bound_max_s: Annotated[float, Meta(gt=0, le=86_400)] = DELIVERY_BOUND_MAX_S
    strict_bound: bool = False
    reread_rewritten: bool = False
    fill_holes: bool = False
    read_with: ReadWith = ReadWith.SQL
    read_on: Literal["auto", "sidecar", "spark"] = "auto"
    read_port: Annotated[int, Meta(ge=0, le=65535)] = 0


class GcSection(_Section, frozen=True, kw_only=True):
    """`hold_max_s`: the oldest moment of TiDB that the sidecar keeps from garbage collection, in PD, while it has to read it; 0: none."""

    hold_max_s: Annotated[float, Meta(ge=0, le=30 * 86_400)] = 86_400.0


class VerifySection(_Section, frozen=True, kw_only=True):
    """Continuous verification. `share_per_day`: of all rows in all sinks that can be read back; 0: none."""

    share_per_day: Annotated[float, Meta(ge=0, le=1)] = 0.0


class ControlSection(_Section, frozen=True, kw_only=True):
    """`listen` beyond loopback needs `tls` (with `ca_file`: mutual) or a token. `advertise`: what is written to etcd for
    the command line to find; default: `listen`."""

    listen: Name = "127.0.0.1:8310"
    advertise: str = ""
    tls: Tls = Tls()
    token_file: str = ""


class ConsoleSection(_Section, frozen=True, kw_only=True):
    """The web console; `listen` empty: none. Beyond loopback it needs `tls` (with `ca_file`: mutual) or a token. `advertise`: under which
    address browsers reach it; default: `listen`. `show_rows`: who may give commands may look at rows of the tables, too."""

    listen: str = "127.0.0.1:8320"
    advertise: str = ""
    tls: Tls = Tls()
    token_file: str = ""
    show_rows: bool = False


class MetricsSection(_Section, frozen=True, kw_only=True):
    """Prometheus metrics and /healthz; empty: none."""

    listen: str = "127.0.0.1:8311"


class CertificateSection(_Section, frozen=True, kw_only=True):
    """Certificates of finished dumps. `row_sums`: with a sum of the hashes of each chunk's rows."""

    row_sums: bool = False


class FilesSection(_Section, frozen=True, kw_only=True):
    """`umask`: of all files that the sidecar and its worker make, in octal; they hold rows of the source, and it reads them itself."""

    umask: Annotated[str, Meta(pattern="^0?0[0-7]{2}$")] = "077"


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
    feed: Literal["kafka", "push", "storage", "tikv", "binlog"] = "kafka"
    kafka: KafkaSection = KafkaSection()
    push: PushSection = PushSection()
    storage: StorageSection = StorageSection()
    tikv: TikvSection = TikvSection()
    binlog: BinlogSection = BinlogSection()
    spark: SparkSection = SparkSection()
    dump: DumpSection = DumpSection()
    gc: GcSection = GcSection()
    verify: VerifySection = VerifySection()
    control: ControlSection = ControlSection()
    console: ConsoleSection = ConsoleSection()
    metrics: MetricsSection = MetricsSection()
    certificate: CertificateSection = CertificateSection()
    files: FilesSection = FilesSection()
    logging: LoggingSection = LoggingSection()

    @property
    def way(self) -> str:
        """By which way the changes come: `feed`, and of the two of push which."""
        return "push-messages" if self.feed == "push" and self.push.form == "messages" else self.feed

    @property
    def reads_on_spark(self) -> bool:
        """Whether tasks of Spark read a dump's chunks. A worker that the sidecar does not start does not learn what to read."""
        clustered = self.spark.managed and not self.spark.master.startswith("local")
        return self.dump.read_on == "spark" or (self.dump.read_on == "auto" and clustered)

    @property
    def encoded(self) -> bool:
        """Whether what comes is TiCDC's encoded messages, with what TiCDC makes of rows."""
        return self.way in ("kafka", "push-messages", "storage")


def read_config(path: Path, text: str | None = None) -> Config:
    """`text`: what is to be written to `path`; None: what is there. Raises ConfigError that names the file, the setting and what is wrong
    with it."""
    config = read_settings(path, Config, documented="deploy/config.example.toml", completed=_completed, text=text)
    for what, hint in _problems(config):
        raise ConfigError(f"{path}: {what}", hint=hint)
    return msgspec.structs.replace(config, sinks=tuple(placed(uri, config.log.uri) for uri in config.sinks))


def read_settings(
    path: Path,
    kind: type[Settings],
    *,
    documented: str,
    completed: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    text: str | None = None,
) -> Settings:
    """A file as its types say. `documented`: where its settings are. `completed`: with what follows from others. `text`: as read_config
    has it. Raises ConfigError."""
    try:
        result = tomllib.loads(path.read_text(encoding="utf-8") if text is None else text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", hint="give this command's settings with --config FILE") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", hint=f"see {documented}") from error
    try:
        return msgspec.convert(completed(result), kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {in_words(error, kind)}", hint=f"see {documented} for every setting and its unit") from error


def _completed(value: dict[str, Any]) -> dict[str, Any]:
    """TiDB-Binlog has no changefeed, and its etcd is PD's. What is wrong with a value is said where types are."""
    binlog = value.get("binlog")
    if value.get("feed") != "binlog" or not isinstance(binlog, dict) or not isinstance(value.get("etcd", {}), dict):
        return value
    etcd = {"endpoints": binlog.get("pd", []), "tls": binlog.get("tls", {})} | value.get("etcd", {})
    return {"changefeed": {"id": binlog.get("name", "")}} | value | {"etcd": etcd}


def placed(sink: str, log: str) -> str:
    """A `grpc:` sink that names no folder has one beside the log: its URI with that, and the log's own parameters of a storage."""
    parts, of_log = urlsplit(sink), urlsplit(log)
    if parts.scheme != "grpc" or parts.netloc or parts.path.strip("/"):
        return sink
    query = "&".join(filter(None, (of_log.query, parts.query)))
    place = (of_log.netloc, of_log.path.rstrip("/")) if of_log.scheme == "s3" else ("", os.path.abspath(of_log.path))
    return f"grpc://{place[0]}{place[1]}{SPOOL_SUFFIX}{f'?{query}' if query else ''}"


def _problems(config: Config) -> Iterator[tuple[str, str]]:
    """What a type cannot say, and the way out."""
    if bool(config.etcd.endpoints) == bool(config.etcd.folder):
        what = "both etcd.endpoints and etcd.folder are given" if config.etcd.folder else "neither etcd.endpoints nor etcd.folder is given"
        yield what, "give PD's client addresses as etcd.endpoints; or, where no etcd is in reach, a folder on a local disk as etcd.folder"
    for setting, path in (("etcd.folder", config.etcd.folder), ("changefeed.file", config.changefeed.file)):
        if path and not path.startswith("/"):
            yield f"{setting} is {path!r}, which is not a whole path", "write it from the root on: a service has another working folder"
    if config.etcd.folder and not config.changefeed.file:
        what = "etcd.folder has no definition of a changefeed, and changefeed.file is not given"
        yield what, "write the definition to a file, and name that: deploy/ATTACH.md#without-ticdcs-etcd"
    if config.etcd.timeout_s > max(config.etcd.lease_s, ETCD_TIMEOUT_S):
        what = f"etcd.timeout_s is {config.etcd.timeout_s:g}, longer than the lease that it is to keep ({config.etcd.lease_s} s)"
        yield what, "set etcd.timeout_s well below etcd.lease_s"
    if config.dump.read_on == "spark" and not config.spark.managed:
        yield 'dump.read_on is "spark" and spark.managed is false', 'let the sidecar start the worker, or set dump.read_on = "sidecar"'
    if config.dump.read_with is ReadWith.TIKV and not (config.tikv.pd and config.way in ("tikv", "push")):
        what = 'dump.read_with is "tikv", which needs tikv.pd, and a feed of key-values, by whose schemas raw rows are decoded'
        yield what, 'set tikv.pd, and feed to "tikv", or to "push" with push.form = "key-values"; or set dump.read_with to "sql"'
    if not is_zone(config.kafka.server_tz):
        what = f"kafka.server_tz is {config.kafka.server_tz!r}, and no such time zone is known here"
        yield what, "give the TiCDC server's --tz by its name in the tz database: UTC, Asia/Shanghai; SYSTEM is the zone of its machine"
    for setting, uri in (("log.uri", config.log.uri), *((f"sinks (number {number})", uri) for number, uri in enumerate(config.sinks, 1))):
        if not is_uri(uri):
            yield f"{setting} is no URI", "in a password, and in a parameter's value, write '[' as %5B and ']' as %5D"
        elif not urlsplit(uri).scheme and not uri.startswith("/"):
            yield f"{setting} is neither a URI nor the whole path of a folder", "write /var/out, or a URI as deploy/SINKS.md has them"
    if config.feed == "binlog":
        yield from _of_binlog(config)
    served = {"control.listen": config.control.listen, "push.listen": config.push.listen}
    named = {"metrics.listen": config.metrics.listen, "control.advertise": config.control.advertise}
    named |= {"console.listen": config.console.listen, "console.advertise": config.console.advertise}
    for setting, address in {**served, **{name: given for name, given in named.items() if given}}.items():
        if not is_address(address):
            yield f"{setting} is {address!r}, expected host:port", "give a host and a port from 1 to 65535; IPv6 as [::1]:8310"


def _of_binlog(config: Config) -> Iterator[tuple[str, str]]:
    if not config.binlog.name or not config.binlog.pd:
        yield 'binlog.name and binlog.pd are needed with feed = "binlog"', "name this sidecar, and give PD's client addresses"
    if config.changefeed != ChangefeedSection(id=config.binlog.name):
        yield "[changefeed] is given, and TiDB-Binlog has none", "leave it out: binlog.name is what commands call this sidecar by"
    named = {"binlog.listen": config.binlog.listen, "binlog.advertise": config.binlog.advertise or config.binlog.listen}
    for setting, address in named.items():
        if not is_address(address):
            yield f"{setting} is {address!r}, expected host:port", "give a host and a port from 1 to 65535; IPv6 as [::1]:8249"
