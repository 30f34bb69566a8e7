"""What is wrong with settings and no type can say: values that do not fit one another, addresses, URIs and zones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sidecar.shared.model.messages import ReadWith

if TYPE_CHECKING:
    from sidecar.shared.config import Config

ETCD_TIMEOUT_S = 5.0
"""By default, whatever the lease: keepalives and writes have bounds of their own."""


def problems(config: Config) -> Iterator[tuple[str, str]]:
    """What a type cannot say, and the way out."""
    if bool(config.etcd.endpoints) == bool(config.etcd.folder):
        what = "both etcd.endpoints and etcd.folder are given" if config.etcd.folder else "neither etcd.endpoints nor etcd.folder is given"
        yield what, "give PD's client addresses as etcd.endpoints; or, where no etcd is in reach, a folder on a local disk as etcd.folder"
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
    if not _is_zone(config.kafka.server_tz):
        what = f"kafka.server_tz is {config.kafka.server_tz!r}, and no such time zone is known here"
        yield what, "give the TiCDC server's --tz by its name in the tz database: UTC, Asia/Shanghai; SYSTEM is the zone of its machine"
    for setting, uri in (("log.uri", config.log.uri), *((f"sinks (number {number})", uri) for number, uri in enumerate(config.sinks, 1))):
        if not _is_uri(uri):
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
    if config.changefeed != type(config.changefeed)(id=config.binlog.name):
        yield "[changefeed] is given, and TiDB-Binlog has none", "leave it out: binlog.name is what commands call this sidecar by"
    named = {"binlog.listen": config.binlog.listen, "binlog.advertise": config.binlog.advertise or config.binlog.listen}
    for setting, address in named.items():
        if not is_address(address):
            yield f"{setting} is {address!r}, expected host:port", "give a host and a port from 1 to 65535; IPv6 as [::1]:8249"


def _is_uri(text: str) -> bool:
    try:
        return bool(urlsplit(text))
    except ValueError:
        return False


def _is_zone(name: str) -> bool:
    try:
        return bool(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):  # the last one: a folder of the database
        return False


def is_address(text: str) -> bool:
    """`host:port`, with a port that others can connect to."""
    host, _, port = text.rpartition(":")
    whole = host.startswith("[") and host.endswith("]") if ":" in host else host.strip("[]") == host
    bare = host.strip("[]")
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= 65535
    return whole and bool(bare) and not any(letter.isspace() or letter in "/@?#" for letter in bare) and is_port
