"""The whole rig as one context manager: servers, tables, changefeed, publisher; and what tests do to them.

    with Rig(folder) as rig:
        config = rig.sidecar_config(sinks=["file:///…?format=jsonl"], log="file:///…")
        with rig.workload(writes_per_s=500):
            … run the sidecar with config; rig.kafka.kill(); rig.kafka.start(); rig.publisher.restart() …
        truth = rig.truth()
        verdict = await_delivered(output, truth, complete_at=…, timeout_s=60)

Everything it starts dies with it; the folder stays. `rig.db`, `rig.kafka` and `rig.etcd` have stop, kill, start, freeze and
thaw; `rig.publisher` (publisher_process.py) has kill, start, restart, freeze, thaw and resend.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName
from tests.support.services.etcd import Etcd
from tests.support.services.kafka import KafkaBroker
from tests.support.services.mariadb import MariaDb
from tests.support.services.ports import free_ports
from tests.tools.rig import changefeed
from tests.tools.rig.binlog import MySqlAddress
from tests.tools.rig.dispatch import Dispatcher, matches
from tests.tools.rig.heartbeat import SERVER_SETTINGS, STATEMENTS
from tests.tools.rig.publisher import Checkpoint, Settings
from tests.tools.rig.publisher_process import PublisherProcess
from tests.tools.rig.tables import MARK_TABLE_DDL, SCHEMA, TABLES
from tests.tools.rig.truth import LiveTruth, read_truth
from tests.tools.rig.tso import ms_of_tso, tso_of_ms
from tests.tools.rig.workload import Workload, connect, fill

CONSOLE_TOKEN = "a-token-for-the-console-of-a-rig"
QUIET_S_MAX = 300.0
"""How long the publisher may take to send what was written."""


@dataclass(frozen=True, slots=True)
class RigOptions:
    """`initial_rows`: in each table (fewer where it has fewer keys), before the changefeed starts: only a dump brings them.
    `statements`: more to carry out before it starts, on one connection. `ways_s`: how long a change takes through TiCDC (way.py).
    `etcd_in_reach` False: the sidecar has the definition from a file, and a folder in the place of etcd. `files`: TiCDC's storage sink, and
    no Kafka; the protocol is canal-json then."""

    protocol: str = "open-protocol"
    partitions: int = 3
    changefeed_id: str = "rig-feed"
    filter_rules: tuple[str, ...] = (f"{SCHEMA}.*", f"{MARK_TABLE.schema}.*")
    dispatchers: tuple[Dispatcher, ...] = ()
    initial_rows: int = 200
    statements: tuple[str, ...] = ()
    seed: int = 1
    mark_every_s: float = 0.2
    checkpoint_every_s: float = 1.0
    ways_s: tuple[float, ...] = ()
    etcd_in_reach: bool = True
    files: bool = False


class Rig:
    """`options` are RigOptions' fields. Attributes from `__enter__` on: `start_ts`, `source`, `publisher`."""

    source: MySqlAddress
    publisher: PublisherProcess
    start_ts: CommitTs

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.options = RigOptions(**options)
        self.protocol = "canal-json" if self.options.files else self.options.protocol
        self.files = folder / "files"
        self.topic = f"{self.options.changefeed_id}-topic"
        self.db = _MariaDb(folder / "mariadb", settings=SERVER_SETTINGS)
        self.kafka = KafkaBroker(folder / "kafka")
        self.etcd = Etcd(folder / "etcd")
        self.definition = folder / "changefeed.json"
        self.state = folder / "state"
        self._created = datetime.now(UTC)
        self._started = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._started.close)
            self._start_servers()
            self.source = MySqlAddress(self.db.host, self.db.port, self.db.user, self.db.password)
            self._make_tables()
            self._make_changefeed()
            self.publisher.start()
            undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._started.close()

    # ---- the start ------------------------------------------------------------------------------------------------------

    def _start_servers(self) -> None:
        servers = (self.db, self.etcd) if self.options.files else (self.db, self.kafka, self.etcd)
        for server in servers:
            self._started.push(server)
        with ThreadPoolExecutor(len(servers)) as pool:
            for starting in [pool.submit(server.start) for server in servers]:
                starting.result()

    def _make_tables(self) -> None:
        connection = connect(self.source)
        try:
            with connection.cursor() as cursor:
                for statement in (
                    *MARK_TABLE_DDL,
                    f"create database {SCHEMA}",
                    *(table.create() for table in TABLES),
                    *STATEMENTS,
                    *self.options.statements,
                ):
                    cursor.execute(statement)
        finally:
            connection.close()
        if self.options.initial_rows:
            fill(self.source, rows=self.options.initial_rows, seed=self.options.seed)

    def _make_changefeed(self) -> None:
        """It starts at the binlog's end of this moment."""
        options = self.options
        ((gtid, now_ms),) = self.db.execute("select @@global.gtid_binlog_pos, floor(unix_timestamp(sysdate(3)) * 1000)")
        start = Checkpoint(gtid, tso_of_ms(int(now_ms)))
        self.start_ts = CommitTs(start.ts)
        self._created = datetime.fromtimestamp(ms_of_tso(start.ts) / 1000, UTC)
        if not options.files:
            self.kafka.create_topic(self.topic, options.partitions)
        self.put_changefeed()
        self.etcd.put(changefeed.status_key(options.changefeed_id), changefeed.status(start.ts))
        settings = Settings(
            source=self.source,
            brokers="" if options.files else self.kafka.bootstrap,
            topic=self.topic,
            protocol=self.protocol,
            filter_rules=options.filter_rules,
            start=start,
            partitions=options.partitions,
            dispatchers=options.dispatchers,
            etcd=self.etcd.endpoints[0],
            status_key=changefeed.status_key(options.changefeed_id),
            mark_every_s=options.mark_every_s,
            checkpoint_every_s=options.checkpoint_every_s,
            ways_s=options.ways_s,
            files=str(self.files) if options.files else "",
        )
        self.publisher = PublisherProcess(self.folder / "publisher", settings)
        self._started.callback(self.publisher.kill)

    def put_changefeed(self, *, state: str = "normal") -> None:
        """Write the changefeed's info into etcd, as TiCDC does when it is made, paused (`stopped`) and resumed."""
        options = self.options
        if options.files:
            uri = changefeed.files_uri(self.files, protocol=self.protocol)
        else:
            uri = changefeed.sink_uri(self.kafka.bootstrap, self.topic, protocol=self.protocol, partitions=options.partitions)
        info = changefeed.info(
            options.changefeed_id,
            sink_uri=uri,
            start_ts=self.start_ts,
            created=self._created,
            filter_rules=options.filter_rules,
            dispatchers=options.dispatchers,
            protocol=self.protocol,
            state=state,
        )
        self.etcd.put(changefeed.info_key(options.changefeed_id), info)
        self.definition.write_text(changefeed.queried(info))

    # ---- what tests ask and do --------------------------------------------------------------------------------------------

    def workload(self, *, writes_per_s: float = 500, sessions: int = 4, seed: int = 1) -> Workload:
        """Not started; it is a context manager."""
        return Workload(self.source, writes_per_s=writes_per_s, sessions=sessions, seed=seed)

    def tables(self) -> tuple[TableName, ...]:
        """What the changefeed replicates but the watermark table."""
        names = self.db.execute("select table_schema, table_name from information_schema.tables where table_type = 'BASE TABLE'")
        tables = (TableName(schema, table) for schema, table in names)
        return tuple(sorted(name for name in tables if matches(self.options.filter_rules, name) and name != MARK_TABLE))

    def truth(self, *, timeout_s: float = QUIET_S_MAX) -> LiveTruth:
        """The tables now, while nobody writes them, at a commit_ts that the topics have reached. Raises TimeoutError."""
        ts = self.await_published(timeout_s=timeout_s)
        return read_truth(self.source, self.tables(), ts=ts)

    def await_published(self, *, timeout_s: float = QUIET_S_MAX) -> CommitTs:
        """Wait until everything committed before this call is in Kafka; a resolved that came after it."""
        ((gtid,),) = self.db.execute("select @@global.gtid_binlog_pos")
        return CommitTs(self.publisher.await_gtid(gtid, timeout_s=timeout_s).ts)

    def pause(self) -> None:
        """As `cdc cli changefeed pause`: the state is in etcd, and neither rows nor marks come."""
        self.publisher.kill()
        self.put_changefeed(state="stopped")

    def resume(self) -> None:
        self.put_changefeed()
        self.publisher.start()

    def resend(self, *, back_s: float) -> Checkpoint:
        """The publisher starts again from the newest checkpoint that is `back_s` older than its last one, else the first."""
        written = self.publisher.checkpoints()
        newest = written[-1].ts - tso_of_ms(int(back_s * 1000))
        checkpoint = max((item for item in written if item.ts <= newest), key=lambda value: value.ts, default=written[0])
        self.publisher.resend(checkpoint)
        return checkpoint

    def add_partitions(self, total: int) -> None:
        """To the changefeed's topic: the publisher sees them within about a second, and uses them all."""
        self.kafka.add_partitions(self.topic, total)

    # ---- the sidecar's settings -------------------------------------------------------------------------------------------

    def sidecar_config(self, *, sinks: Sequence[str], log: str, **sections: dict[str, Any]) -> Path:
        """Write sidecar.toml and return its path. `sections`: more settings, by section (`dump={"chunk_rows": 500}`)."""
        password = self.folder / "source.password"
        password.write_text(self.source.password)
        password.chmod(0o600)
        control, metrics, console = free_ports(3)
        token = self.folder / "console.token"
        token.write_text(CONSOLE_TOKEN)
        token.chmod(0o600)
        changefeed: dict[str, Any] = {"id": self.options.changefeed_id}
        near = self.options.etcd_in_reach
        result: dict[str, dict[str, Any]] = {
            "changefeed": changefeed if near else changefeed | {"file": str(self.definition)},
            "etcd": {"endpoints": list(self.etcd.endpoints)} if near else {"folder": str(self.state)},
            "source": {"host": self.source.host, "port": self.source.port, "user": self.source.user, "password_file": str(password)},
            "log": {"uri": log},
            "control": {"listen": f"127.0.0.1:{control}"},
            "metrics": {"listen": f"127.0.0.1:{metrics}"},
            "console": {"listen": f"127.0.0.1:{console}", "token_file": str(token)},
        }
        for name, settings in sections.items():
            result[name] = result.get(name, {}) | settings
        path = self.folder / "sidecar.toml"
        feed = {"feed": "storage"} if self.options.files else {}
        path.write_text(
            _toml({"sinks": list(sinks), **feed}) + "".join(f"\n[{name}]\n{_toml(settings)}" for name, settings in result.items())
        )
        return path


class _MariaDb(MariaDb):
    """With a temporary folder of its own, from the bootstrap on: a server that starts removes what looks left over in it,
    be it another server's that is at work."""

    def _command(self) -> list[str]:
        scratch = self.folder / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        return [*super()._command(), f"--tmpdir={scratch}"]


def _toml(settings: dict[str, Any]) -> str:
    return "".join(f"{name} = {_toml_value(value)}\n" for name, value in settings.items())


def _toml_value(value: Any) -> str:
    """A JSON string, number, list or truth value is TOML's too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml_value(entry)}" for name, entry in value.items()) + "}"
    return json.dumps(value)
