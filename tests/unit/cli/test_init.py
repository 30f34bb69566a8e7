"""`ticdc-dump init` with an etcd in memory: it asks for what is missing only, and what it writes is whole, private and free of secrets."""

from __future__ import annotations

import io
import json
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sidecar.adapters.etcd import client as etcd_client
from sidecar.adapters.etcd.cluster import CLUSTER_ID_KEY
from sidecar.cli import init
from sidecar.cli.main import main
from sidecar.setup.sql import account_sql, watermark_sql
from sidecar.shared.config import read_config
from sidecar.shared.errors import CoordinationLost
from tests.tools.hostile.keys import Etcd
from tests.tools.rig.changefeed import info_key, queried
from tests.unit.setup.test_cluster import KAFKA, PD, SERVERS, definition

WHOLE = ("--pd", "http://pd-0:2379/,pd-1:2379", "--pd", "pd-2:2379", "-c", "orders")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass
class Stage:
    """A folder of its own, and etcd as `values` have it."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    folder: Path
    values: dict[str, bytes] = field(default_factory=lambda: {info_key("orders"): definition(), CLUSTER_ID_KEY: PD, **SERVERS})

    @property
    def file(self) -> Path:
        return self.folder / "sidecar.toml"

    def run(self, *arguments: str, typed: str | None = None, code: int = 0) -> str:
        """What was printed."""
        self.monkeypatch.setattr(sys, "argv", ["ticdc-dump", "init", *arguments])
        self.monkeypatch.setattr(sys, "stdin", io.StringIO() if typed is None else Terminal(typed))
        with pytest.raises(SystemExit) as ended:
            main()
        output = self.capsys.readouterr()
        assert ended.value.code == code, output.out + output.err
        return output.out + output.err

    def settings(self) -> dict[str, Any]:
        return tomllib.loads(self.file.read_text())


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Stage:
    made = Stage(monkeypatch, capsys, tmp_path)

    class Client(Etcd):
        def __init__(self, section: Any, *, named: Any) -> None:
            super().__init__(made.values)
            self.section, self.named = section, named

        def close(self) -> None:
            pass

    monkeypatch.setattr(etcd_client, "EtcdClient", Client)
    monkeypatch.chdir(tmp_path)
    return made


def test_the_settings_say_where_each_value_comes_from_and_are_accepted(stage: Stage) -> None:
    output = stage.run(*WHOLE, "--yes")
    assert stage.settings() == {
        "sinks": ["file:///var/lib/ticdc-dump/orders/output?format=jsonl"],
        "changefeed": {"id": "orders"},
        "etcd": {"endpoints": ["pd-0:2379", "pd-1:2379", "pd-2:2379"]},
        "source": {"host": "10.0.0.1", "user": "ticdc_dump"},
        "log": {"uri": "file:///var/lib/ticdc-dump/orders/log"},
    }
    assert read_config(stage.file).changefeed.id == "orders"
    lines = stage.file.read_text().splitlines()
    values = [number for number, line in enumerate(lines) if "=" in line and not line.startswith("#")]
    assert len(values) == 6
    assert all(lines[number - 1].startswith("# ") for number in values)
    assert "server_tz" in lines[2], "what etcd does not say"
    assert stage.file.stat().st_mode & 0o777 == 0o600
    assert all(lines[number] in output for number in values)
    assert watermark_sql() in output
    assert account_sql("ticdc_dump", ["shop"]) in output
    assert (
        output.index("mysql -h 10.0.0.1 -P 4000") < output.index("ticdc-dump check --config sidecar.toml") < output.index("ticdc-dump run")
    )


def test_options_are_taken_as_they_are_given(stage: Stage) -> None:
    (stage.folder / "pw").write_text("hush")
    tls = ("--ca", "ca.pem", "--cert", "cert.pem", "--key", "key.pem")
    sinks = ("--sink", "kafka://h:1/t?protocol=open-protocol", "--sink", "file:///x?format=jsonl")
    output = stage.run(
        *WHOLE,
        *tls,
        *sinks,
        "--tidb",
        "tidb:4001",
        "--user",
        "me",
        "--password-file",
        "pw",
        "--log",
        "/log",
        "--tikv",
        "-o",
        "a/b.toml",
        "-y",
    )
    config = read_config(stage.folder / "a" / "b.toml")
    assert config.etcd.tls == config.tikv.tls
    assert config.etcd.tls.key_file == str(stage.folder / "key.pem"), "a service has another working directory"
    assert (config.source.host, config.source.port, config.source.user) == ("tidb", 4001, "me")
    assert config.source.password_file == str(stage.folder / "pw")
    assert config.sinks == sinks[1::2]
    assert (config.log.uri, config.feed, config.tikv.pd) == ("/log", "tikv", config.etcd.endpoints)
    assert "hush" not in output + (stage.folder / "a" / "b.toml").read_text()
    assert "\nGRANT SELECT ON mysql.tidb TO 'me'@'%';" in output


def test_json_is_one_object_with_all_that_was_found(stage: Stage) -> None:
    stage.values[info_key("orders")] = definition("kafka://h:1/t?protocol=canal-json", rules=("*.*",))
    result = json.loads(stage.run(*WHOLE, "--json", "--sql", "setup.sql", "--log", "s3://b/log?access-key=AK&secret-access-key=hush"))
    assert result["ok"] is True
    assert (result["file"], result["sql_file"], result["pd_cluster_id"]) == ("sidecar.toml", "setup.sql", str(int.from_bytes(PD, "big")))
    assert result["changefeed"]["sink"] == "kafka://h:1/t?protocol=canal-json"
    origins = {one["setting"]: (one["value"], one["from"]) for one in result["settings"]}
    assert origins["changefeed.id"] == ("orders", "from PD's etcd")
    assert origins["etcd.endpoints"][1].startswith("by --pd; PD's cluster ")
    assert origins["log.uri"] == ("s3://b/log", "by --log")
    assert [one["setting"] for one in result["problems"]] == [
        "enable-tidb-extension (changefeed)",
        "source.password_file",
        "GRANT SELECT",
    ]
    assert all(one["what"] and one["hint"] for one in result["problems"])
    assert result["sql"] == (stage.folder / "setup.sql").read_text()
    assert result["next"][0].endswith("< setup.sql")
    assert "hush" not in json.dumps(result)


@pytest.mark.parametrize("name", ["sidecar.toml", "setup.sql"])
def test_what_exists_is_replaced_with_force_only(stage: Stage, name: str) -> None:
    there = stage.folder / name
    there.write_text("precious")
    there.chmod(0o644)
    output = stage.run(*WHOLE, "--yes", "--sql", "setup.sql", code=3)
    assert f"{name} exists" in output
    assert "--force" in output
    assert there.read_text() == "precious"
    assert [path.name for path in stage.folder.iterdir()] == [name], "nothing else was written"
    stage.run(*WHOLE, "--yes", "--sql", "setup.sql", "--force")
    assert "precious" not in there.read_text()
    assert there.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in stage.folder.iterdir()} == {"sidecar.toml", "setup.sql"}


def test_a_file_that_comes_meanwhile_is_not_replaced(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "_check_free", lambda files, *, force: None)
    stage.file.write_text("precious")
    assert "exists" in stage.run(*WHOLE, "--yes", code=3)
    assert stage.file.read_text() == "precious"


def test_without_a_terminal_nothing_is_prompted_for(stage: Stage) -> None:
    assert "--pd" in stage.run("-c", "orders", code=2)
    stage.values = {info_key("orders"): definition()}
    assert "--tidb" in stage.run(*WHOLE, code=2)
    for flag in ("--yes", "--no-input", "--json"):
        assert "--tidb" in stage.run(*WHOLE, flag, typed="tidb\n\n\n\n\n", code=2)
    assert not stage.file.exists()


def test_on_a_terminal_the_command_prompts_for_what_is_missing_and_no_more(stage: Stage) -> None:
    output = stage.run("--pd", "pd:2379", "--user", "me", "--log", "/log", typed="tidb.local\n\n\n")
    prompts = ["TiDB's address", "its password", "The sink's URI"]
    given = ["PD's client", "Changefeed (", "account in TiDB", "The log ("]
    assert [word for word in (*prompts, *given) if word in output] == prompts
    assert stage.settings()["source"] == {"host": "tidb.local", "user": "me"}
    assert "# your answer" in stage.file.read_text()


def test_after_a_wrong_answer_the_question_comes_again(stage: Stage) -> None:
    output = stage.run(*WHOLE, typed="a b\ntidb:4001\n\n\nhttp://x\n/log\nfile:///x?formt=1\nconsole:\n")
    assert "'a b' is no address of TiDB" in output
    assert "is not used here" in output
    assert "no parameter formt" in output
    config = read_config(stage.file)
    assert (config.source.port, config.log.uri, config.sinks) == (4001, "/log", ("console:",))


def test_of_several_changefeeds_one_is_chosen_by_number_or_id(stage: Stage) -> None:
    stage.values |= {info_key("items"): definition("kafka://me:hush@h:1/items?protocol=avro").replace(b'"orders"', b'"items"')}
    output = stage.run("--pd", "pd:2379", typed="3\nitem\n1\n\n\n\n\n\n")
    assert "1  default/default/orders: normal, open-protocol to kafka://broker:9092/orders" in output
    assert "2  default/default/items: normal, avro to kafka://h:1/items" in output
    assert output.count("give a number from 1 to 2") == 2
    assert stage.settings()["changefeed"] == {"id": "orders"}
    stage.file.unlink()
    assert "protocol avro cannot carry a dump" in stage.run("--pd", "pd:2379", typed="items\n", code=3)
    output = stage.run("--pd", "pd:2379", "--yes", code=3)
    assert "2 changefeeds fit" in output
    assert "default/default/items: normal, avro" in output
    assert "hush" not in output
    assert not stage.file.exists()


def test_a_changefeed_that_is_not_there_is_reported_with_those_that_are(stage: Stage) -> None:
    assert "has: default/default/orders" in stage.run("--pd", "pd:2379", "-c", "order", "-y", code=3)
    assert "has: default/default/orders" in stage.run("--pd", "pd:2379", "-c", "orders", "-n", "app", "-y", code=3)
    stage.values.clear()
    assert "has no changefeed of TiCDC" in stage.run(*WHOLE, "-y", code=3)
    assert not stage.file.exists()


def test_a_pd_that_does_not_answer_is_reported_with_the_options_to_check(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object, **__: object) -> None:
        raise CoordinationLost("etcd does not answer (Range): gone", hint="-")

    monkeypatch.setattr("sidecar.setup.cluster.list_changefeeds", lost)
    output = stage.run(*WHOLE, "-y", code=3)
    assert "PD at pd-0:2379, pd-1:2379, pd-2:2379 does not answer" in output
    assert "--pd" in output


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--pd", "pd"), "--pd"),
        (("--pd", ","), "'--pd'"),
        (("--pd", "https://pd:2379"), "--ca"),
        (("--pd", "pd:2379", "--sql", "sidecar.toml"), "--sql"),
    ],
)
def test_wrong_usage_names_the_option(stage: Stage, arguments: tuple[str, ...], named: str) -> None:
    assert f"Invalid value for {named}" in stage.run(*arguments, "-y", code=2)


def test_what_is_wrong_with_the_changefeed_is_a_warning_and_the_file_is_written(stage: Stage) -> None:
    stage.values[info_key("orders")] = definition(rules=("shop.*",), state="stopped")
    output = stage.run(*WHOLE, "-y")
    assert "the changefeed is stopped and sends nothing" in output
    assert "cdc cli changefeed resume" in output
    assert stage.file.exists()


def test_where_marks_do_not_come_the_sql_grants_no_write_and_init_says_why(stage: Stage) -> None:
    with_marks = stage.run(*WHOLE, "-y")
    assert "GRANT SELECT, INSERT, UPDATE ON changefeed_dump" in with_marks
    assert "snapshot brackets" not in with_marks
    stage.values[info_key("orders")] = definition(rules=("shop.*",))
    output = stage.run(*WHOLE, "-y", "--force")
    assert "Dumps have snapshot brackets, and write nothing to TiDB" in " ".join(output.split())
    assert "filter.rules omit changefeed_dump.changefeed_dump_event" in " ".join(output.split())
    assert "CREATE TABLE" not in output
    assert "INSERT" not in output
    assert "cdc cli changefeed" not in output, "the changefeed need not be touched"


@pytest.mark.parametrize("sql", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_each_text_that_asks_for_the_accounts_password_says_where_else_it_is(stage: Stage, sql: bool, named: bool) -> None:
    secret, statements = stage.folder / "pw", stage.folder / "setup.sql"
    options = [*(["--password-file", str(secret)] if named else []), *(["--sql", str(statements)] if sql else [])]
    output = " ".join(stage.run(*WHOLE, *options, "-y").split())
    assert output.count("Replace change-me in it with a password. Write the same password, on one line, to") == 1
    assert (f"to {secret}." in output) is named
    assert ("name that as source.password_file in" in output) is not named
    text = statements.read_text() if sql else output
    assert "source.password_file of the sidecar's settings names" in text
    assert "IDENTIFIED BY 'change-me'" in text


def test_a_sidecar_that_listens_elsewhere_than_ticdc_sends_is_reported(stage: Stage) -> None:
    stage.values[info_key("orders")] = definition("ticdc-dump://10.0.0.9:8312/orders?protocol=open-protocol")
    assert "TiCDC sends to 10.0.0.9:8312" in stage.run(*WHOLE, "-y")
    assert (stage.settings()["feed"], stage.settings()["push"]) == ("push", {"form": "messages"})
    stage.values[info_key("orders")] = definition("ticdc-dump://127.0.0.1:8312/orders?protocol=open-protocol")
    assert "TiCDC sends to" not in stage.run(*WHOLE, "-y", "--force")


@pytest.mark.parametrize(
    "uri",
    [
        f"{KAFKA}&sasl-user=me&sasl-password=hush&sasl-mechanism=PLAIN",
        "kafka://me:hush@h:1,i:2/orders?protocol=open-protocol",
        "kafka://me:hu#sh@h:1/orders?protocol=open-protocol&sasl-password=hush",
        'kafka://me:hush@b"r:1/to"p\n[source]\nhost = "evil"\u2028\u00fc\U0001f600\x1b[31m?protocol=open-protocol&ca=\n&sasl-password=hush',
        "kafka://[::1:1/orders?protocol=open-protocol&sasl-password=hush",
    ],
)
def test_a_sink_uri_leaves_neither_a_secret_nor_a_line_of_its_own(stage: Stage, uri: str) -> None:
    stage.values[info_key("orders")] = definition(uri)
    torn = ["--tikv"] if "#" in uri else []  # no sink that can be attached to
    output = stage.run(*WHOLE, *torn, "-y", "--sql", "setup.sql", "--force")
    output += stage.run(*WHOLE, *torn, "--json", "--force")
    written = stage.file.read_text() + (stage.folder / "setup.sql").read_text()
    assert "hush" not in output + written
    assert "\x1b" not in output + written
    assert stage.settings()["source"]["host"] == "10.0.0.1"
    assert read_config(stage.file).changefeed.id == "orders"


def test_hostile_values_are_written_as_they_are(stage: Stage) -> None:
    evil = 'q"\\ \u00fc\U0001f600\x7f'
    stage.run(*WHOLE, "-y", "--user", evil, "--log", f"/{evil}", "--password-file", f"/{evil}\nx = 1", "--tidb", 't"t:1')
    config = read_config(stage.file)
    assert (config.source.user, config.log.uri, config.source.host) == (evil, f"/{evil}", 't"t')
    assert config.source.password_file == f"/{evil}\nx = 1"


def test_a_sink_within_the_log_is_refused_before_anything_is_written(stage: Stage) -> None:
    stage.run(*WHOLE, "-y", "--log", "/data", "--sink", "file:///data/out?format=jsonl", code=3)
    stage.run(*WHOLE, "-y", "--log", "s3://[x", code=3)
    assert not stage.file.exists()


def test_commands_are_quoted_for_a_shell(stage: Stage) -> None:
    result = json.loads(stage.run(*WHOLE, "--json", "-o", "it's; rm.toml", "--tidb", "$(id):1"))
    assert result["next"] == [
        "mysql -h '$(id)' -P 1 -u root -p < SQL-FILE",
        "ticdc-dump check --config 'it'\"'\"'s; rm.toml'",
        "ticdc-dump run --config 'it'\"'\"'s; rm.toml'",
    ]


UPDATE = [
    "cdc cli changefeed pause -c orders",
    "cdc cli changefeed update -c orders --config changefeed.toml",
    "cdc cli changefeed resume -c orders",
]


BDR = {"config": json.loads(definition())["config"] | {"bdr-mode": True}}


@pytest.mark.parametrize(("changed", "update"), [(BDR, UPDATE), ({"rules": ("shop.*",)}, []), ({"state": "stopped"}, []), ({}, [])])
def test_the_next_commands_correct_the_changefeed_where_its_configuration_is_wrong(
    stage: Stage, changed: dict[str, Any], update: list[str]
) -> None:
    stage.values[info_key("orders")] = definition(**changed)
    result = json.loads(stage.run(*WHOLE, "--json"))
    assert [command.split()[0] for command in result["next"]] == ["mysql", *["cdc"] * len(update), "ticdc-dump", "ticdc-dump"]
    assert result["next"][1:-2] == update
    shown = stage.run(*WHOLE, "--yes", "--force")
    assert ("`update` changes what changefeed.toml names, and replaces a list such as filter.rules whole" in shown) is bool(update)
    assert "whole configuration" not in shown, "what the file does not name stays"
    assert all(f"  {command}\n" in shown for command in result["next"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "orders.json").write_text(queried(definition().decode()))
    return tmp_path / "orders.json"


def test_without_pd_a_file_has_the_definition_and_a_folder_the_rest(stage: Stage, file: Path) -> None:
    stage.values.clear()
    written = json.loads(stage.run("--definition", file.name, "--tidb", "tidb:4000", "--json"))
    settings = stage.settings()
    assert settings["changefeed"] == {"id": "orders", "file": str(file)}
    assert settings["etcd"] == {"folder": "/var/lib/ticdc-dump/orders/state"}
    assert "kafka" not in settings
    assert read_config(stage.file).etcd.folder
    assert {one["setting"]: one["from"] for one in written["settings"]}["changefeed.id"] == f"as {file} has it"
    assert written["changefeed"]["state"] == "unknown"
    assert written["pd_cluster_id"] == ""
    assert [command.split()[0] for command in written["next"]] == ["mysql", "ticdc-dump", "ticdc-dump"]


def test_without_pd_a_folder_and_an_etcd_of_ones_own_can_be_named_and_kafkas_brokers(stage: Stage, file: Path) -> None:
    whole = ("--definition", str(file), "--tidb", "tidb:4000", "--yes", "--force")
    stage.run(*whole, "--state", "here", "--brokers", "b:9092")
    assert stage.settings()["etcd"] == {"folder": str(stage.folder / "here")}
    assert stage.settings()["kafka"] == {"brokers": "b:9092"}
    stage.run(*whole, "--pd", "own:2379")
    assert stage.settings()["etcd"] == {"endpoints": ["own:2379"]}


@pytest.mark.parametrize(
    ("more", "says"),
    [(("--state", "here", "--pd", "own:2379"), "--state"), (("--tikv",), "--tikv"), (("--pd", "no address"), "--pd")],
)
def test_what_does_not_go_with_a_definition_is_wrong_usage(stage: Stage, file: Path, more: tuple[str, ...], says: str) -> None:
    assert says in stage.run("--definition", str(file), "--tidb", "t:1", "--yes", *more, code=2)
    assert not stage.file.exists()


def test_a_folder_without_a_definition_is_wrong_usage_and_a_file_that_is_none_an_error(stage: Stage, file: Path) -> None:
    assert "--state" in stage.run(*WHOLE, "--yes", "--state", "here", code=2)
    file.write_text('{"config": {}}')
    assert "the changefeed's id" in stage.run("--definition", str(file), "--tidb", "t:1", "--yes", code=3)
    assert f"{file}: the definition has no sink-uri" in stage.run(
        "--definition", str(file), "-c", "orders", "--tidb", "t:1", "--yes", code=3
    )


def test_problems_of_a_definition_in_a_file_are_no_commands_of_ticdc(stage: Stage, file: Path) -> None:
    """They may not reach this changefeed: TiDB Cloud has a console."""
    file.write_text(queried(definition(**BDR).decode()))
    shown = stage.run("--definition", str(file), "--tidb", "t:1", "--yes")
    assert "bdr-mode" in shown
    assert "cdc cli" not in shown
