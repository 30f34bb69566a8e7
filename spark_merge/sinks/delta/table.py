"""One Delta table as its one writer has it: what it is, how far it is, and its commits.

- Each commit carries the application's transaction: the log's name, and the last segment of the batch plus one. So a table itself says
  which segments it has, and a batch that is done again, in whatever cut, gives it the others only: its tasks write no others, and a file
  with segments of both kinds is refused (../held.py).
- A commit is made for exactly the version after the one that was looked at (no retries in delta-rs, whose own look for conflicts then plays
  no part). Where another commit was first, an OPTIMIZE or an earlier owner that woke up, the table is read again. So of two workers that
  bring the same segments one commits them, whichever.
- A table is read once; after that only its new commits. A state that is out of date does no harm: the commit fails.
- `userMetadata` of a commit holds log, segments, owner and `upto_ts`, for a reader of a version of the past.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq
from sidecar.shared.process.kept_secrets import kept
from sidecar.shared.process.progress import may_take
from spark_merge.port.contract import Owner
from spark_merge.port.maintained import FileTotals
from spark_merge.sinks.delta import statistics
from spark_merge.sinks.delta.columns import SOURCE, DeltaColumn, Layout
from spark_merge.sinks.delta.writer import WrittenFile
from spark_merge.sinks.kit.held import missing
from spark_merge.sinks.lake.steps import STEPS_MAX, at_its_end

READ_AGAIN_COMMITS = 100
"""After so many a table is read from its start, where delta-rs writes a checkpoint as often: what is held never depends on log files that
expire. Expired files are removed as often: that lists the whole log."""

RETRY_S_MAX = 30
"""Of S3's client in delta-rs, for a request; after that the sink is opened again."""

CALL_S_MAX = 6 * 3600
"""Of delta-rs: a MERGE rewrites each file in which it finds a key. Its requests end by RETRY_S_MAX; what takes longer than this hangs."""

_KINDS: dict[str, pa.DataType] = {
    "long": pa.int64(),
    "short": pa.int16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class Moment:
    """Of a commit: the segments of its batch, and the log's name. `of`: which of our transactions of a table it is."""

    log_id: str
    first: Seq
    last: Seq
    upto_ts: CommitTs
    owner: Owner
    of: str = ""

    def metadata(self) -> str:
        reported = {
            "log": self.log_id,
            "first_seq": self.first,
            "last_seq": self.last,
            "upto_ts": str(self.upto_ts),
            "owner": list(self.owner),
        } | ({"ddl": True} if self.of else {})
        return json.dumps({"ticdc-dump": reported}, separators=(",", ":"))


Act = Callable[[DeltaTable, CommitProperties], object]


class Table:
    def __init__(self, folder: Folder, place: str) -> None:
        self.uri = folder.path(place) if folder.protocol == "file" else f"{folder.protocol}://{folder.path(place)}"
        self._log = replace(folder, root=f"{folder.path(place)}/_delta_log")
        self._options = storage_options(folder)
        self._held: DeltaTable | None = None
        self._read_at = 0
        """The version at which it was read from its start."""
        self._transactions: tuple[int, dict[str, int]] = (-1, {})
        """Those that are known of this version of the table."""
        self.totals = FileTotals(0, 0)
        """Of the version on which it was committed last."""

    def latest(self) -> DeltaTable | None:
        """As `load`, with the requests that new commits need."""
        if (held := self._held) is not None:
            with delta_errors(self.uri):
                if storage.exists(self._log, f"{held.version():020d}.json"):  # else somebody has removed the table
                    held.update_incremental()
                    if held.version() // READ_AGAIN_COMMITS == self._read_at // READ_AGAIN_COMMITS:
                        return held
        self._transactions = (-1, {})
        if (loaded := self.load()) is not None:
            self._read_at = loaded.version()
        self._held = loaded
        return loaded

    def load(self) -> DeltaTable | None:
        with delta_errors(self.uri):
            try:
                return DeltaTable(self.uri, storage_options=self._options)
            except TableNotFoundError:
                return None

    def due(self, table: DeltaTable, log_id: str, of: str = "") -> Seq:
        """The first segment that it has not. `of`: as of Moment."""
        names = [log_id, log_id.rpartition("#")[0]]  # of the changefeed alone: continued (sidecar/shared/log/identity.py)
        return Seq(max(self.transaction(table, app(name) + of) for name in names))

    def transaction(self, table: DeltaTable, name: str) -> int:
        """The version of it that the table has; 0 for none. delta-rs reads all commits since the last checkpoint for it."""
        version, known = self._transactions
        if version != table.version():
            version, known = self._transactions = (table.version(), {})
        if name not in known:
            with delta_errors(self.uri):
                known[name] = table.transaction_version(name) or 0
        return known[name]

    def bring(self, layout: Layout, moment: Moment, act: Callable[[DeltaTable, Seq], Act | None]) -> Seq:
        """One commit that `act` makes of the table as it is and the first segment that it has not; None: there is nothing to do. The table
        is made, and gets the columns that `layout` has, before that. Gives the first segment that the table has not then."""

        def step(table: DeltaTable | None) -> Seq | None:
            due = Seq(0) if table is None else self.due(table, moment.log_id, moment.of)
            if due > moment.last:
                return due
            if table is None:
                self._make(layout)
            elif not self.exact(table):
                self._make_exact(table)
            elif missing := _missing(table, layout, self.uri):
                self.commit(table, lambda value, how: value.alter.add_columns(list(map(_field, missing)), commit_properties=how))
            elif (made := act(table, due)) is None or self.commit(table, made, moment):
                return Seq(moment.last + 1)
            return None

        return at_its_end(self.latest, step, self._overtaken())

    def _overtaken(self) -> SinkError:
        return SinkError(
            f"the Delta table {self.uri} is changed by others faster than a batch can be committed, {STEPS_MAX} times",
            hint="nobody else may write to it; run OPTIMIZE and VACUUM less often",
        )

    def append(self, layout: Layout, files: Sequence[WrittenFile], moment: Moment) -> Seq:
        """As `bring`."""

        def act(_: DeltaTable, due: Seq) -> Act | None:
            new = missing(files, due, table=f"the Delta table {self.uri}")
            return adding(new) if new else None

        return self.bring(layout, moment, act)

    def exact(self, table: DeltaTable) -> bool:
        """Whether the log has no statistics of its files that may be wrong (statistics.py)."""
        return self.transaction(table, statistics.DONE) > 0

    def make_exact(self) -> None:
        """Once, of a table that an earlier version wrote; nothing of a table that is not this sink's."""

        def step(table: DeltaTable | None) -> bool | None:
            if table is None or self.exact(table) or all(column.source is None for column in columns_of(table)):
                return True
            self._make_exact(table)
            return None

        at_its_end(self.load, step, self._overtaken())

    def _make_exact(self, table: DeltaTable) -> None:
        """Nothing, or the property alone, where others were faster. Who finds the property, and not that its files are done, does all."""
        with delta_errors(self.uri):
            files, there = statistics.files_of(table), statistics.named(table)
        names = statistics.had_by_all(files, columns_of(table))
        wrong = files if there == names else statistics.with_others(files, names)
        named = table if there == names else self.name_statistics(table, names)
        if named is not None:
            actions = list(statistics.corrected(named, wrong, names))
            self.commit(named, with_transactions(_adding(actions), Transaction(statistics.DONE, 1)))

    def name_statistics(self, table: DeltaTable, names: Sequence[str]) -> DeltaTable | None:
        """The columns that have statistics in files that are written from here on: the table as it is then. None where somebody else made
        this version."""
        version = table.version() + 1
        with delta_errors(self.uri):
            if not storage.create_exclusively(self._log, f"{version:020d}.json", statistics.naming(table, names)):
                return None
            return DeltaTable(self.uri, version=version, storage_options=self._options)

    def _make(self, layout: Layout) -> None:
        """Of two who make it at once one does."""
        if not layout.missing or layout.missing[0].source is not None:
            raise SinkError(f"the Delta table {self.uri} is gone", hint="restore it; else deliver a new dump to a new folder")
        with delta_errors(self.uri):
            try:
                DeltaTable.create(
                    self.uri,
                    Schema([_field(column) for column in layout.missing]),
                    mode="error",
                    configuration=statistics.properties(column.name for column in layout.missing if statistics.exact(column.kind)),
                    storage_options=self._options,
                    commit_properties=CommitProperties(max_commit_retries=0, app_transactions=[Transaction(statistics.DONE, 1)]),
                )
            except (CommitFailedError, DeltaError):
                if self.load() is None:
                    raise

    def commit(self, table: DeltaTable, act: Act, moment: Moment | None = None) -> bool:
        """False where somebody else made this version."""
        reported = {} if moment is None else {"userMetadata": moment.metadata()}
        applied = [] if moment is None else [Transaction(app(moment.log_id) + moment.of, moment.last + 1)]
        how = CommitProperties(custom_metadata=reported, max_commit_retries=0, app_transactions=applied)
        version, known = table.version(), self._transactions[1] if self._transactions[0] == table.version() else {}
        with delta_errors(self.uri):
            self.totals = totals_of(table)
            try:
                act(table, how)
            except CommitFailedError:
                return False
        self._transactions = (version + 1, known | {one.app_id: one.version for one in how.app_transactions or ()})
        return True


def adding(files: Sequence[WrittenFile]) -> Act:
    """These files as they are, to the rows that are there."""

    def acting(table: DeltaTable, how: CommitProperties) -> object:
        names = statistics.named(table) or []
        reported = [(file, statistics.completed(file.stats, names)) for file in files]
        actions = [AddAction(file.name, file.bytes, {}, file.written_ms, data_change=True, stats=stats) for file, stats in reported]
        return _adding(actions)(table, how)

    return acting


def transaction_only(table: DeltaTable, how: CommitProperties) -> None:
    _adding([])(table, how)


def _adding(actions: Sequence[AddAction]) -> Act:
    def acting(table: DeltaTable, how: CommitProperties) -> None:
        after = hooks(table)
        table.create_write_transaction(list(actions), "append", table.schema(), commit_properties=how, post_commithook_properties=after)

    return acting


def hooks(table: DeltaTable) -> PostCommitHookProperties:
    """Of a batch's commit."""
    return PostCommitHookProperties(cleanup_expired_logs=None if (table.version() + 1) % READ_AGAIN_COMMITS == 0 else False)


def with_transactions(act: Act, *more: Transaction) -> Act:
    """The same act, whose commit says these of the table, too."""

    def acting(table: DeltaTable, how: CommitProperties) -> object:
        how.app_transactions = [*(how.app_transactions or ()), *more]
        return act(table, how)

    return acting


def totals_of(table: DeltaTable) -> FileTotals:
    """Of the version that it has been read at, without a request: half a millisecond for 10,000 files."""
    sizes = pa.table(table.get_add_actions()).column("size_bytes")
    return FileTotals(len(sizes), pc.sum(sizes).as_py() or 0)


def columns_of(table: DeltaTable) -> list[DeltaColumn]:
    return [DeltaColumn(field.name, _kind_of(field.type), field.metadata.get(SOURCE)) for field in table.schema().fields]


def storage_options(folder: Folder) -> dict[str, str]:
    """Of delta-rs. Without keys it takes them from the environment, as S3's own clients do."""
    if folder.protocol != "s3":
        return {}
    client, key = folder.options.get("client_kwargs", {}), folder.options.get("key")
    result = {"aws_conditional_put": "etag", "retry_timeout": f"{RETRY_S_MAX}s"}
    if endpoint := client.get("endpoint_url"):
        result |= {"aws_endpoint_url": endpoint} | ({"aws_allow_http": "true"} if endpoint.startswith("http:") else {})
    if region := client.get("region_name"):
        result["aws_region"] = region
    if key is not None:
        result |= {"aws_access_key_id": key, "aws_secret_access_key": kept("s3", key) or ""}
    return result


@contextmanager
def delta_errors(uri: str) -> Iterator[None]:
    """Around calls of delta-rs: what it says, but that a commit came too late."""
    try:
        with may_take(CALL_S_MAX):
            yield
    except CommitFailedError:
        raise
    except (DeltaError, OSError) as error:
        raise SinkError(
            f"the Delta table {uri} cannot be read or written: {error}",
            hint="make it reachable and writable for this process: nothing accepted is lost, and it continues automatically",
        ) from error


def app(log_id: str) -> str:
    return f"ticdc-dump {log_id}"


def _missing(table: DeltaTable, layout: Layout, uri: str) -> list[DeltaColumn]:
    there = {column.name: column for column in columns_of(table)}
    wanted = [column for column in layout.columns if there.get(column.name) != column]
    if odd := [column.name for column in wanted if column.name in there]:
        raise SinkError(
            f"column {', '.join(odd)} of the Delta table {uri} is not what it was when the batch was planned",
            hint="nobody else may alter the table; the batch is planned again",
        )
    return wanted


def _field(column: DeltaColumn) -> Field:
    about: dict[str, Any] = {} if column.source is None else {SOURCE: column.source}
    return Field(column.name, PrimitiveType(_name_of(column.kind)), nullable=True, metadata=about)


def _name_of(kind: pa.DataType) -> str:
    return f"decimal({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _NAMES[kind]


def _kind_of(value: Any) -> pa.DataType:
    """Null for a type that no column of ours has."""
    name = getattr(value, "type", "")
    if isinstance(name, str) and name.startswith("decimal("):
        digits, _, scale = name[len("decimal(") : -1].partition(",")
        return pa.decimal128(int(digits), int(scale))
    return _KINDS.get(name, pa.null())
