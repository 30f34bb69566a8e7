"""deploy/CHANGEFEEDS.md: which changefeeds can carry a dump, by what `check` says of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sidecar.shared.codecs.registry import PROTOCOLS, TicdcProtocol
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed
from sidecar.shared.ticdc.suitability import Problem, problems

HEAD = """# Which changefeeds can carry a dump

`make pages` writes this page from what `ticdc-dump check` says. **yes**: a sidecar attaches as it is. A number says why not.

- [KV.md](KV.md) and [BINLOG.md](BINLOG.md) read TiKV or TiDB-Binlog instead: there a changefeed's sink does not matter.
- One with a MySQL sink, or a protocol without a **yes**: [attach beside it](ATTACH.md#a-changefeed-that-cannot-carry-a-dump).
- `simple` has [limits](OTHER-CHANGEFEEDS.md#simple), in the classic architecture above all: prefer another protocol there.
- Without PD, as in TiDB Cloud, give [its definition in a file](ATTACH.md#without-ticdcs-etcd).

"""
TABLE = TableName("shop", "orders")
SCHEMAS = {TABLE: TableSchema(TABLE, (Column("id", "int", nullable=False), Column("v", "int")), ("id",))}
VERSIONS = {"classic (v6.5 to v8.5)": ("v8.5.0", False), "new, v8.5.4 and v8.5.5": ("v8.5.5", True), "new, from v8.5.6": ("v8.5.8", True)}
"""TiCDC's two architectures, where they differ: a version, and whether it is the new one."""
MESSAGES, FILES = "Kafka, push", "files"
FEEDS = {MESSAGES: "kafka://h:9092/t", FILES: "s3://bucket/prefix"}
EXTENSION = "enable-tidb-extension"


def _large(settings: dict[str, Any]) -> dict[str, Any]:
    return {"sink": {"kafka-config": {"large-message-handle": settings}}}


SETTINGS: dict[str, dict[str, Any]] = {
    "`[sink.open] output-old-value = false`": {"sink": {"open": {"output-old-value": False}}},
    "`[sink] content-compatible`": {"sink": {"content-compatible": True}},
    "`[sink] only-output-updated-columns`": {"sink": {"only-output-updated-columns": True}},
    "`[sink] delete-only-output-handle-key-columns`": {"sink": {"delete-only-output-handle-key-columns": True}},
    "`[sink] column-selectors` that leave a column out": {"sink": {"column-selectors": [{"matcher": ["*.*"], "columns": ["id"]}]}},
    "`[sink] column-selectors` that leave the key out": {"sink": {"column-selectors": [{"matcher": ["*.*"], "columns": ["v"]}]}},
    "`target-schema`, `target-table` of a dispatcher": {"sink": {"dispatchers": [{"matcher": ["*.*"], "target-schema": "copy"}]}},
    '`large-message-handle-option = "claim-check"`': _large({"large-message-handle-option": "claim-check"}),
    '`large-message-handle-option = "handle-key-only"`': _large({"large-message-handle-option": "handle-key-only"}),
    "`large-message-handle-compression`": _large({"large-message-handle-compression": "lz4"}),
    "several topics, any dispatcher by partition": {
        "sink": {"dispatchers": [{"matcher": ["*.*"], "partition": "columns", "columns": ["id"], "topic": "{schema}_{table}"}]}
    },
    "no watermark table in `filter.rules`": {"filter": {"rules": ["shop.*"]}},
    "event filters, also of DDLs": {"filter": {"event-filters": [{"matcher": ["*.*"], "ignore-event": ["drop table", "delete"]}]}},
    "`[filter] ignore-txn-start-ts`": {"filter": {"ignore-txn-start-ts": [7]}},
    "`[integrity] integrity-check-level`": {"integrity": {"integrity-check-level": "correctness", "corruption-handle-level": "warn"}},
    "`[scheduler] enable-table-across-nodes`": {"scheduler": {"enable-table-across-nodes": True}},
    "`force-replicate`, where each table has a key": {"force-replicate": True},
    "`bdr-mode`": {"bdr-mode": True},
    "`enable-active-active`": {"enable-active-active": True},
}
"""What users set, with a part of a definition that has it."""


class Reasons:
    """Each once, with its number on the page."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def cell(self, against: list[Problem]) -> str:
        if not against:
            return "yes"
        numbers = sorted({self.texts.setdefault(_plain(one.what), len(self.texts) + 1) for one in against})
        return ", ".join(map(str, numbers))

    def listed(self) -> str:
        return "".join(f"{number}. {text}\n" for text, number in self.texts.items())


def page() -> str:
    of_protocols, of_settings = Reasons(), Reasons()
    protocols = _table(["protocol", "feed", *VERSIONS], _protocols(of_protocols))
    settings = _table(["setting", *FEEDS], _settings(of_settings))
    return (
        f"{HEAD}## Protocols\n\n{protocols}\n{of_protocols.listed()}\n"
        f"## Settings\n\nOf open-protocol to Kafka, and of canal-json in files:\n\n{settings}\n{of_settings.listed()}"
    )


def _protocols(reasons: Reasons) -> Iterator[list[str]]:
    for protocol in PROTOCOLS:
        for parameters in _ways(protocol):
            name = f"`{protocol.name}`" + "".join(f" with `{one}`" for one in parameters)
            for feed, uri in FEEDS.items():
                if not (protocol.in_files if feed == FILES else protocol.codec or protocol.lacks):
                    continue  # the storage sink does not write it, or nothing else does
                said = [f"protocol={protocol.name}", *parameters]
                cells = [_judged(said, uri, version, _with_times(protocol)) for version in VERSIONS.values()]
                yield [name, feed, *map(reasons.cell, cells)]


def _ways(protocol: TicdcProtocol) -> Iterator[list[str]]:
    yield []
    if protocol.needs_extension and not protocol.lacks:
        yield [f"{EXTENSION}=true"]
    if protocol.codec_avro is not None:
        yield ["encoding-format=avro"]


def _with_times(protocol: TicdcProtocol) -> dict[str, Any]:
    return {"sink": {"csv": {"include-commit-ts": True}}} if protocol.codec is None else {}


def _settings(reasons: Reasons) -> Iterator[list[str]]:
    for name, config in SETTINGS.items():
        yield [
            name,
            reasons.cell(_judged(["protocol=open-protocol"], FEEDS[MESSAGES], ("v8.5.8", True), config)),
            reasons.cell(_judged(["protocol=canal-json", f"{EXTENSION}=true"], FEEDS[FILES], ("v8.5.8", True), config)),
        ]


def _judged(parameters: list[str], uri: str, version: tuple[str, bool], config: dict[str, Any]) -> list[Problem]:
    return problems(_changefeed(f"{uri}?{'&'.join(parameters)}", version, config), SCHEMAS)


def _changefeed(uri: str, version: tuple[str, bool], config: dict[str, Any]) -> Changefeed:
    creator, new = version
    times = {"create-time": "2026-11-21T03:36:19Z", "start-ts": 7, "creator-version": creator}
    own = {"id": {"display": {"name": "orders", "namespace": "default"}}} if new else {}
    return changefeed(ChangefeedName("default", "default", "orders"), json.dumps({"sink-uri": uri, "config": config} | times | own))


def _table(heads: list[str], rows: Iterator[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _plain(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
