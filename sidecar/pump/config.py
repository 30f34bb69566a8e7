"""A pump's settings: a TOML file of its own, for it runs on machines of its own. deploy/pump.example.toml documents each, and a test
holds it against this.

TLS of two kinds: `tls` is what others need to reach the pump, `cluster_tls` what the pump needs to reach PD, TiKV and drainers. Clients of
a pump send no token, so one that is reached from other machines has mutual TLS, or is said to be unprotected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from sidecar.pump.storage import PumpRoom
from sidecar.shared.config import Bytes, LoggingSection, Name, Seconds, TikvSection, Tls, read_settings
from sidecar.shared.config_forms import is_address
from sidecar.shared.errors import ConfigError
from sidecar.shared.process.listening import is_loopback

DOCUMENTED = "deploy/pump.example.toml"


class PumpSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`pd`: PD's client endpoints, `host:port`. `node_id`: empty for the one in data_dir, or else host name and port. `advertise`: what
    is in the registry, where TiDB, drainers and binlogctl ask; empty: `listen`. `etcd`: PD's, where it has other addresses than `pd`."""

    pd: Annotated[tuple[Name, ...], Meta(min_length=1)]
    data_dir: Name
    etcd: tuple[Name, ...] = ()
    listen: Name = "127.0.0.1:8250"
    advertise: str = ""
    node_id: str = ""
    tls: Tls = Tls()
    unprotected: bool = False
    cluster_tls: Tls = Tls()
    gc_days: Annotated[float, Meta(gt=0, le=36_500)] = 7.0
    heartbeat_s: Seconds = 2.0
    fake_s: Seconds = 3.0
    free_bytes_min: Annotated[int, Meta(ge=0, le=1 << 50)] = 10 << 30
    value_file_bytes: Bytes = 256 << 20

    @property
    def host(self) -> str:
        return self.advertise or self.listen

    @property
    def room(self) -> PumpRoom:
        return PumpRoom(self.value_file_bytes, self.free_bytes_min)

    @property
    def cluster(self) -> TikvSection:
        return TikvSection(pd=self.pd, tls=self.cluster_tls)


class PumpConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pump: PumpSection
    logging: LoggingSection = LoggingSection()


def read_pump_config(path: Path) -> PumpConfig:
    """Raises ConfigError."""
    config = read_settings(path, PumpConfig, documented=DOCUMENTED)
    check(config.pump)
    return config


def check(section: PumpSection) -> None:
    """Raises ConfigError."""
    for setting, address in (("listen", section.listen), ("advertise", section.host)):
        if not is_address(address):
            raise ConfigError(f"pump.{setting} is {address!r}, expected host:port", hint="give a host and a port, such as 10.0.1.5:8250")
    if section.host.rpartition(":")[0] in ("0.0.0.0", "[::]"):
        raise ConfigError(f"pump.advertise is {section.host}, where nobody can ask", hint="set pump.advertise to this machine's address")
    if "/" in section.node_id:
        raise ConfigError(f"pump.node_id {section.node_id!r} cannot be part of a key", hint="give one without '/'")
    tls = section.tls
    if bool(tls.cert_file) != bool(tls.key_file) or (tls.ca_file and not tls.cert_file):
        raise ConfigError("pump.tls needs cert_file and key_file together, and ca_file only with them", hint=f"see {DOCUMENTED}")
    if not (is_loopback(section.listen) or tls.ca_file or section.unprotected):
        raise ConfigError(
            f"pump.listen is {section.listen}, beyond this machine, and anybody who reaches it could write binlogs and read all changes",
            hint="set pump.tls with ca_file (mutual TLS), as TiDB's and drainer's ssl-ca, ssl-cert and ssl-key; or, in a network of the "
            "cluster's own, pump.unprotected = true: TiDB's own pumps are so by default",
        )
