"""The settings file that `init` writes: each value below a comment that says where it comes from, and nothing that equals a default.

Values are text, numbers and lists of text. TOML's basic strings are JSON's but for what JSON leaves as it is and TOML does not (DEL), and
for what JSON may write and TOML does not know (halves of surrogate pairs). Comments are one line, whatever names of others are in them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from sidecar.setup.cluster import ChosenChangefeed, shown_uri
from sidecar.shared.config import Config
from sidecar.shared.config_forms import is_address
from sidecar.shared.errors import ConfigError
from sidecar.shared.process.printable import one_line

TIDB_PORT = 4000

SettingValue = str | int | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChosenSetting:
    """`setting`: with its section, `etcd.tls.ca_file`. `origin`: where the value comes from, for people."""

    setting: str
    value: SettingValue
    origin: str


def settings_result(changefeed: ChosenChangefeed) -> list[ChosenSetting]:
    """What follows from the changefeed and from where it was read."""
    name, known = changefeed.changefeed.name, f"as {changefeed.file} has it" if changefeed.file else "from PD's etcd"
    sink = f"by the changefeed's sink, {shown_uri(changefeed.changefeed.sink_uri)}"
    chosen = [
        ChosenSetting("changefeed.id", name.id, known),
        ChosenSetting("changefeed.namespace", name.namespace, known),
        ChosenSetting("changefeed.cluster", name.cluster, known),
        ChosenSetting("changefeed.file", changefeed.file, "by --definition"),
        ChosenSetting("feed", changefeed.feed, "by --tikv" if changefeed.feed == "tikv" else sink),
    ]
    if changefeed.feed == "push":
        chosen.append(ChosenSetting("push.form", "messages", sink))
    if changefeed.feed == "tikv":
        chosen.append(ChosenSetting("tikv.pd", changefeed.endpoints, "as etcd.endpoints"))
    return chosen


def differing(chosen: Sequence[ChosenSetting]) -> list[ChosenSetting]:
    """Those that are not what the settings are without them, in the order of the file."""
    order = list(Config.__struct_fields__)

    def place(one: ChosenSetting) -> tuple[bool, int, str]:
        section = one.setting.rpartition(".")[0]
        return bool(section), order.index(one.setting.partition(".")[0]), section

    return sorted((one for one in chosen if one.value != _default(one.setting)), key=place)


def settings_text(chosen: Sequence[ChosenSetting], head: Sequence[str]) -> str:
    """`chosen`: as `differing` has them. `head`: comments on top. Raises ConfigError for a value that is no Unicode text."""
    lines = [f"# {one_line(text)}" for text in head]
    section = ""
    for one in chosen:
        of, _, name = one.setting.rpartition(".")
        if of != section:
            section = of
            lines += ["", f"[{section}]"]
        elif not section:
            lines.append("")
        lines += [f"# {one_line(one.origin)}", f"{name} = {toml_value(one)}"]
    return "\n".join(lines) + "\n"


def toml_value(one: ChosenSetting) -> str:
    """Raises ConfigError."""
    if isinstance(one.value, tuple):
        return f"[{', '.join(_toml_text(text, one.setting) for text in one.value)}]"
    return _toml_text(one.value, one.setting) if isinstance(one.value, str) else str(one.value)


def _toml_text(text: str, setting: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{setting} is not text in UTF-8: {text!a}", hint="give it in UTF-8") from error
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _default(setting: str) -> object:
    """NODEFAULT where it must be given."""
    kind: type = Config
    default: object = None
    for name in setting.split("."):
        field = next(field for field in msgspec.structs.fields(kind) if field.name == name)
        kind, default = field.type, field.default
    return default


def host_port(text: str) -> tuple[str, int]:
    """Of TiDB's address `host`, `host:port` or `[::1]:port`. Raises ConfigError."""
    address = text.strip()
    address = address if ":" in address.rpartition("]")[2] else f"{address}:{TIDB_PORT}"
    if not is_address(address):
        raise ConfigError(f"{text!r} is no address of TiDB", hint="give host:port, IPv6 as [::1]:4000")
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
