"""What people and programs see of `ticdc-dump init`. A URI that was given may have a password: none is shown."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sidecar.setup.cluster import ChosenChangefeed
    from sidecar.setup.settings import ChosenSetting
    from sidecar.shared.process.checks import CheckFinding


NOT_CONFIGURED = frozenset({"state", "target-ts", "upstream-id"})
"""What a problem of a changefeed is about where its configuration file does not help."""
UPDATE_NOTE = (
    "`update` changes what changefeed.toml names, and replaces a list such as filter.rules whole: take the file that the changefeed was"
    " created with, corrected as said above. It prints the differences and asks."
)
"""The file is decoded over the present configuration: pingcap/tiflow pkg/cmd/cli/cli_changefeed_update.go, applyChanges."""


@dataclass(frozen=True, slots=True)
class InitResult:
    """What was written, and of what it was made."""

    file: Path
    sql_file: Path | None
    result: ChosenChangefeed
    chosen: Sequence[ChosenSetting]
    findings: Sequence[CheckFinding]
    sql: str

    def next_commands(self) -> list[str]:
        values = {one.setting: one.value for one in self.chosen}
        host, port = shlex.quote(str(values["source.host"])), values.get("source.port", 4000)
        config = shlex.quote(str(self.file))
        sql = shlex.quote(str(self.sql_file)) if self.sql_file else "SQL-FILE"
        return [
            f"mysql -h {host} -P {port} -u root -p < {sql}",
            *self._update_commands(),
            f"ticdc-dump check --config {config}",
            f"ticdc-dump run --config {config}",
        ]

    def _update_commands(self) -> list[str]:
        """Where the changefeed's configuration is to change."""
        name = self.result.changefeed.name
        which = shlex.join(["-c", name.id, *(["-n", name.namespace] if name.namespace != "default" else [])])
        steps = ("pause", "update", "resume") if self.updates() else ()
        return [f"cdc cli changefeed {step} {which}{' --config changefeed.toml' if step == 'update' else ''}" for step in steps]

    def password_place(self) -> str:
        """Where the sidecar reads the password of its account in TiDB."""
        named = next((str(one.value) for one in self.chosen if one.setting == "source.password_file"), "")
        return named or f"a file that only the sidecar's user can read, and name that as source.password_file in {self.file}"

    def updates(self) -> bool:
        """Whether a problem of the changefeed is one of its configuration, which TiCDC's command changes."""
        return not self.result.file and any(one.setting not in NOT_CONFIGURED for one in self.result.problems)

    def to_json(self) -> dict[str, Any]:
        from sidecar.setup.cluster import shown_uri

        one, name = self.result.changefeed, self.result.changefeed.name
        return {
            "ok": True,
            "file": str(self.file),
            "sql_file": str(self.sql_file) if self.sql_file else None,
            "changefeed": {
                "cluster": name.cluster,
                "namespace": name.namespace,
                "id": name.id,
                "state": one.state,
                "protocol": one.protocol,
                "sink": shown_uri(one.sink_uri),
                "ticdc": one.creator_version,
            },
            "pd_cluster_id": self.result.pd_cluster_id,
            "settings": [{"setting": each.setting, "value": _shown(each).value, "from": each.origin} for each in self.chosen],
            "no_marks": self.result.no_marks,
            "problems": [{"setting": each.setting, "what": each.what, "hint": each.hint} for each in self.findings],
            "sql": self.sql,
            "next": self.next_commands(),
        }


def result_lines(result: InitResult) -> list[Any]:
    """For people: lines, as texts and as rich's."""
    from sidecar.cli.check import lines
    from sidecar.setup.settings import toml_value
    from sidecar.setup.sql import PASSWORD
    from sidecar.shared.errors import parted
    from sidecar.shared.process.checks import CheckStatus, Result

    shown: list[Any] = ["", f"{result.file} is written:"]
    shown += [f"  {one.setting} = {toml_value(_shown(one))}  ({one.origin})" for one in result.chosen]
    if result.findings:
        shown += ["", *lines(Result("to change", CheckStatus.WARNING, tuple(result.findings)))]
    if result.result.no_marks:
        shown += ["", f"Dumps have snapshot brackets, and write nothing to TiDB. No marks come: {parted(result.result.no_marks)[0]}"]
    where = f"is in {result.sql_file}" if result.sql_file else "is below (--sql FILE writes it)"
    shown += ["", f"The SQL for TiDB {where}. Replace {PASSWORD} in it with a password. Write the same password, on one line,"]
    shown += [f"to {result.password_place()}.", *([] if result.sql_file else ["", result.sql])]
    note = ["", UPDATE_NOTE] if result.updates() else []
    return [*shown, *note, "", "Next:", *(f"  {command}" for command in result.next_commands())]


def _shown(one: ChosenSetting) -> ChosenSetting:
    from spark_merge.sinks.registry import output_of

    match one.setting, one.value:
        case "log.uri", str(uri):
            return replace(one, value=output_of(uri))
        case "sinks", tuple(uris):
            return replace(one, value=tuple(map(output_of, uris)))
    return one
