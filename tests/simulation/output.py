"""The consumers of a simulated log, and who spoils their rows."""

from __future__ import annotations

import json
from random import Random

from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.shared.log.absent import parted
from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Seq, TableName
from spark_merge.delivery.complete import received
from spark_merge.merge.rule import Image, OutputRow, merged
from tests.simulation.cluster import Cluster


class Output:
    """A consumer: applies what the sink `name` receives of the merged log, and objects to every row that is not the source's own state at
    its commit_ts. `faults`: keys whose rows somebody else has changed here since they were last applied."""

    def __init__(self, name: str, cluster: Cluster, disk: MemoryDisk, rng: Random) -> None:
        self.name, self.cluster, self.disk, self.rng = name, cluster, disk, rng
        self.faults: set[tuple[TableName, str]] = set()
        self.dumped: set[TableName] = set()
        self.repaired = self.deleted = 0
        self.state: dict[TableName, dict[str, str]] = {table: {} for table in cluster.tables}
        self.newest: dict[tuple[TableName, str], int] = {}
        self.changes: list[OutputRow] = []
        self.next_seq = 0
        self.dump_rows = self.dropped = self.snapshots = 0

    def deliver(self) -> None:
        """Everything new in the log, a segment at a time."""
        log = MemoryLog(self.disk)
        while (logged := log.manifest(Seq(self.next_seq))) is not None:
            manifest = received(logged, self.name)
            if manifest.data is not None:
                self.changes += [
                    decoded(manifest.seq, n, c) for n, c in enumerate(log.read_data(manifest)) if (c.schema, c.table) != MARK_TABLE
                ]
            for row in merged(manifest, self.changes, rows_of=lambda chunk: rows_of(log, chunk)):
                self.apply(row)
            self.dump_rows += sum(chunk.rows for window in manifest.windows for chunk in window.chunks)
            for dump in manifest.dumps:
                for table in dump["tables"]:
                    if table["complete_at"] is not None and int(table["complete_at"]) <= manifest.upto_ts:
                        self._compare(
                            TableName(*table["table"]), table["whole"], {key for (key,) in table.get("keys", ())}, manifest.upto_ts
                        )
            self.next_seq += 1

    def _compare(self, table: TableName, whole: bool, keys: set[str], ts: CommitTs) -> None:
        """What the dump has read equals the source, but for what was spoilt since."""
        spoilt = {key for name, key in self.faults if name == table}
        seen, truth = self.state[table], self.cluster.state_at(table, ts)
        for key in ((seen.keys() | truth.keys()) if whole else keys) - spoilt:
            assert seen.get(key) == truth.get(key), f"P1: {key} of {table} at {ts}"
        self.dumped |= {table} if whole else set()
        self.snapshots += 1

    def complete(self) -> bool:
        """Whether each table was dumped whole."""
        return len(self.dumped) == len(self.cluster.tables)

    def right(self) -> bool:
        return self.complete() and not self.faults

    def spoil(self) -> None:
        """Remove a row, add one, or change one."""
        table, key = self.rng.choice(self.cluster.tables), f"{self.rng.randrange(40):03d}"
        if key in self.state[table] and self.rng.random() < 0.5:
            del self.state[table][key]
        else:
            self.state[table][key] = f"spoilt {self.rng.random()}"
        self.faults.add((table, key))

    def apply(self, row: OutputRow) -> None:
        key = str(row.key[0])
        source = self.cluster.value_at(row.table, key, row.commit_ts)
        image = None if row.op == "delete" else str(row.after[1] if row.after else None)
        split = row.op == "delete" and source is not None
        assert split or image == source, f"P2: {row} but the source had {source!r} at that moment"
        assert row.commit_ts >= self.newest.get((row.table, key), 0), f"P2: {row} is older than what was shown before"
        self.newest[row.table, key] = row.commit_ts
        self.deleted += row.op == "delete" and row.dump_id is not None
        self.repaired += (row.table, key) in self.faults
        self.faults.discard((row.table, key))
        if image is None:
            self.state[row.table].pop(key, None)
        else:
            self.state[row.table][key] = image


def decoded(seq: int, ordinal: int, change: Change) -> OutputRow:
    event = json.loads(change.value)
    image = _image(event["data"])
    before = image if event["type"] == "DELETE" else _image(event["old"])
    after = None if event["type"] == "DELETE" else image
    key = ((after or before or ("",))[0],)
    return OutputRow(
        seq, change.commit_ts, change.rank, ordinal, TableName(change.schema, change.table), event["type"].lower(), key, before, after
    )


def _image(rows: list[dict[str, str]] | None) -> Image | None:
    return tuple(rows[0].values()) if rows else None


def rows_of(log: MemoryLog, chunk: ChunkFile) -> list[tuple[Image, Image | None]]:
    absent, rows = parted(log.read_chunk(chunk.path))
    results: list[tuple[Image, Image | None]] = [((row["id"],), None) for row in absent.to_pylist()]
    return results + [((row["id"],), (row["id"], row["v"])) for row in rows.to_pylist()]
