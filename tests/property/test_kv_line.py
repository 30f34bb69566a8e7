"""Random DDLs, rows, interleavings, repeats and deaths, through the whole line of key-values: the log holds exactly the rows whose
physical id was a replicated table's at commit_ts - 1, under that table's name, with its columns and ids in the segment's schemas file.

The cluster is the schema history's own slow one (tests/unit/schema/test_schema_history.py): it says who owns which id at each ts. Rows are
written to any id at any time, also to ids that are nobody's then.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.adapters.memory.puller import MemoryPuller
from sidecar.replay.kv_rows import row_key
from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID, KvEntry, rows_of
from sidecar.shared.schema.ddl import Action, DdlJob
from tests.lanes import examples
from tests.support.kv_jobs import job_entry, snapshot
from tests.support.kv_line import Line, rules_of
from tests.unit.schema.test_schema_history import Life

STEPS_MAX = 5_000
RULES = [("*.*",), ("app.*",), ("*.*", "!Log.a", "!app.b")]


class Cluster:
    """`rows`: physical id, commit_ts and the table's description where the row is one of a replicated table, in commit order."""

    def __init__(self, seed: int, rules: tuple[str, ...]) -> None:
        self.random = Random(seed)
        self.life = Life.of(seed)
        self.rules = rules_of(*rules)
        states = self.life.states()
        self.end_ts = CommitTs(states[-1][1] + 10)
        ids = sorted(self.life.ids())
        self.queues: dict[int, list[KvEntry]] = {one: [] for one in ids}
        self.queues[DDL_JOB_TABLE_ID] = [job_entry(step) for step, _ in self.life.steps]
        self.expected: list[tuple[int, TableName, int, tuple[str, ...]]] = []
        for first, last, state in states:
            owners = state.owners()
            for ts in range(first + 1, last + 2):
                for one in self.random.sample(ids, min(2, len(ids))):
                    entry = KvEntry(CommitTs(ts), ts - 1, row_key(one, self.random.randrange(3)), b"new", self.random.choice([b"", b"old"]))
                    self.queues[one].append(entry)
                    if one in owners and self.rules.tables.matches(name := TableName(*owners[one][:2])):
                        self.expected.append((ts, name, one, owners[one][3]))
        self.expected.sort()

    def snapshot(self) -> object:
        return snapshot(self.life.start.ts, self.life.start.snapshot())

    def play(self, puller: MemoryPuller) -> Iterator[None]:
        """Each id by itself: entries in any order among those near each other, marks between, and sometimes all of it again."""
        at = dict.fromkeys(self.queues, 0)
        while any(at[one] < len(queue) for one, queue in self.queues.items()):
            one = self.random.choice([one for one, queue in self.queues.items() if at[one] < len(queue)])
            queue, start = self.queues[one], at[one]
            at[one] = stop = min(start + self.random.randint(1, 8), len(queue))
            puller.commit(*self.random.sample(queue[start:stop], stop - start))
            ts = queue[stop].commit_ts - 1 if stop < len(queue) else self.end_ts
            if self.random.random() < 0.7:
                puller.resolve(ts, rows_of(one))
            if self.random.random() < 0.05 and rows_of(one) in puller.wanted():
                puller.repeat(rows_of(one))
            yield
        puller.resolve(self.end_ts)
        while True:
            yield


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 1 << 32), rules=st.sampled_from(RULES), deaths=st.booleans())
@example(seed=3, rules=("*.*",), deaths=False)  # a late row of a table that has been partitioned since, and has kept its id
def test_the_log_holds_the_rows_of_replicated_tables_and_no_others(seed: int, rules: tuple[str, ...], deaths: bool) -> None:
    cluster = Cluster(seed, rules)
    steps = [step for step, _ in cluster.life.steps]
    if any(isinstance(step, DdlJob) and step.action == Action.RECOVER_SCHEMA and not step.tables for step in steps):
        deaths = False  # what was dropped with a schema is known until the process ends
    puller = MemoryPuller()
    line = Line(puller, cluster.snapshot, cluster.rules)  # type: ignore[arg-type]  # a KvSnapshot
    random = Random(seed + 1)
    upto_ts, refused = cluster.end_ts, ""
    playing = cluster.play(puller)
    for _ in range(STEPS_MAX):
        next(playing)
        try:
            line.step()
        except UnsupportedDdl as error:  # everything below is there, and no more
            refused, upto_ts = str(error), line.upto_ts
            break
        if line.upto_ts >= cluster.end_ts - 1:
            break
        if deaths and random.random() < 0.03:
            line.live()
    else:
        raise AssertionError(f"does not end: {line.upto_ts} of {cluster.end_ts}")
    line.check_order()
    assert not refused or "from outside the changefeed's table rules to inside" in refused or "whose tables were dropped" in refused
    rows = sorted(rows_with_tables(line))
    last_ts = max((manifest.upto_ts for manifest in line.manifests()), default=0)
    assert rows == [row for row in cluster.expected if row[0] <= min(upto_ts, last_ts)]
    if not refused:
        owners = cluster.life.states()[-1][2].owners()
        wanted = {one for one, owner in owners.items() if cluster.rules.tables.matches(TableName(*owner[:2]))}
        assert line.schemas.wanted.keys() - line.schemas.leaving.keys() == wanted
        assert set(puller.wanted()) >= {rows_of(one) for one in wanted | {DDL_JOB_TABLE_ID}}


def rows_with_tables(line: Line) -> Iterator[tuple[int, TableName, int, tuple[str, ...]]]:
    for manifest in line.manifests():
        schemas = line.schemas_of(manifest)
        for row in line.rows(manifest):
            table = schemas[TableName(row.schema, row.table)]
            physical_id = int.from_bytes(row.key[1:9], "big") - (1 << 63)
            assert physical_id in table.physical_ids
            yield row.commit_ts, table.name, physical_id, table.column_names()
