"""The schema history: what each DDL does, order and repeats, and equality with a list of full snapshots under random DDLs."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.shared.errors import FeedError, FeedUnsuitable, TicdcDumpError, UnsupportedDdl
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.schema.ddl import Action, DdlEvent, DdlJob, Effect, JobTable, PartitionSwitch
from sidecar.shared.schema.history import SchemaHistory
from sidecar.shared.schema.timeline import TimelineIndex
from sidecar.shared.schema.version import Rowless, SchemaSnapshot, TableVersion
from tests.lanes import examples

START = 100
Info = dict[str, Any]
Step = DdlJob | PartitionSwitch
Description = tuple[str, str, int, tuple[str, ...]]


def describe(info: Any, schema: str) -> Description:
    return schema, info["name"]["O"], info["id"], tuple(column["name"] for column in info["cols"])


def table(table_id: int, name: str, *, columns: tuple[str, ...] = ("id",), partitions: tuple[int, ...] = ()) -> Info:
    return {
        "id": table_id,
        "name": {"O": name, "L": name.lower()},
        "cols": [{"name": column} for column in columns],
        "state": 5,
        "update_timestamp": 1,
        "partition": {
            "enable": True,
            "type": 2,
            "expr": "`id`",
            "definitions": [{"id": one, "name": {"O": f"P{one}", "L": f"p{one}"}} for one in partitions],
        }
        if partitions
        else None,
        "view": None,
        "sequence": None,
    }


def view(table_id: int, name: str, *, form: str = "view") -> Info:
    return table(table_id, name) | {form: {}}


@dataclass
class Database:
    """A cluster that carries out DDLs at once: its state is the truth, its steps are what the history gets."""

    ts: int = START
    schemas: dict[int, str] = field(default_factory=dict)
    tables: dict[int, tuple[int, Info]] = field(default_factory=dict)
    """By table id: schema id and TableInfo."""
    switched: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Physical ids of tables amid a partition DDL."""
    last_id: int = 1000
    jobs: int = 0

    def copied(self) -> Database:
        """TableInfos are shared: a DDL makes others."""
        return replace(self, schemas=dict(self.schemas), tables=dict(self.tables), switched=dict(self.switched))

    def new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def job(self, action: Action, schema_id: int, table_id: int, *tables: Info | JobTable, **more: Any) -> DdlJob:
        self.ts += 10
        self.jobs += 1
        results = tuple(one if isinstance(one, JobTable) else JobTable(one, schema_id) for one in tables)
        name = more.pop("schema_name", self.schemas.get(schema_id, ""))
        return DdlJob(self.jobs, action, CommitTs(self.ts), self.ts - 5, f"ddl {self.jobs}", schema_id, name, table_id, results, **more)

    def step(self, action: Action, table_id: int, gone: frozenset[int | str] | None, came: tuple[int, ...]) -> PartitionSwitch:
        self.ts += 10
        schema = self.schemas[self.tables[table_id][0]]
        return PartitionSwitch(self.jobs + 1, action, CommitTs(self.ts), self.ts - 5, "step", schema, table_id, gone, came)

    def snapshot(self) -> list[SchemaSnapshot]:
        return [SchemaSnapshot(one, name, [info for at, info in self.tables.values() if at == one]) for one, name in self.schemas.items()]

    def history(self) -> SchemaHistory[Description]:
        return SchemaHistory(CommitTs(self.ts), self.snapshot(), describe=describe)

    # ---- DDLs: each changes the state and returns the job ---------------------------------------------------------------

    def create_schema(self, name: str) -> DdlJob:
        schema_id = self.new_id()
        self.schemas[schema_id] = name
        return self.job(Action.CREATE_SCHEMA, schema_id, 0)

    def drop_schema(self, schema_id: int) -> DdlJob:
        job = self.job(Action.DROP_SCHEMA, schema_id, 0)
        del self.schemas[schema_id]
        for table_id in [one for one, (at, _) in self.tables.items() if at == schema_id]:
            del self.tables[table_id]
        return job

    def create(self, schema_id: int, *infos: Info, action: Action = Action.CREATE_TABLE) -> DdlJob:
        self.tables |= {info["id"]: (schema_id, info) for info in infos}
        return self.job(action, schema_id, infos[0]["id"], *infos)

    def drop(self, table_id: int, action: Action = Action.DROP_TABLE) -> DdlJob:
        schema_id, _ = self.tables.pop(table_id)
        return self.job(action, schema_id, table_id)

    def alter(self, table_id: int, changes: Info, action: Action = Action.ADD_COLUMN) -> DdlJob:
        schema_id, info = self.tables[table_id]
        self.tables[table_id] = (schema_id, info | changes)
        self.switched.pop(table_id, None)
        return self.job(action, schema_id, table_id, self.tables[table_id][1])

    def replace(self, table_id: int, info: Info, action: Action = Action.TRUNCATE_TABLE) -> DdlJob:
        schema_id, _ = self.tables.pop(table_id)
        self.switched.pop(table_id, None)
        self.tables[info["id"]] = (schema_id, info)
        return self.job(action, schema_id, table_id, info)

    def rename(self, *moves: tuple[int, int, str]) -> DdlJob:
        """Each: table id, its schema id and name after; one after the other, as in RENAME TABLE a TO b, c TO a."""
        job_tables = []
        for table_id, schema_id, name in moves:
            info = self.tables[table_id][1] | {"name": {"O": name, "L": name.lower()}}
            self.tables[table_id] = (schema_id, info)
            job_tables.append(JobTable(info, schema_id))
        action = Action.RENAME_TABLE if len(moves) == 1 else Action.RENAME_TABLES
        return self.job(action, moves[-1][1], moves[-1][0], *job_tables)

    def exchange(self, single_id: int, parted_id: int, partition_id: int) -> DdlJob:
        single_schema, single = self.tables.pop(single_id)
        self.tables[partition_id] = (single_schema, single | {"id": partition_id})
        schema_id, parted = self.tables[parted_id]
        definitions = [one | {"id": single_id} if one["id"] == partition_id else one for one in parted["partition"]["definitions"]]
        self.tables[parted_id] = (schema_id, parted | {"partition": parted["partition"] | {"definitions": definitions}})
        return self.job(Action.EXCHANGE_PARTITION, single_schema, single_id, JobTable(self.tables[parted_id][1], schema_id))

    # ---- the slow oracle: what a lookup must say ------------------------------------------------------------------------

    def physical(self, table_id: int) -> tuple[int, ...]:
        info = self.tables[table_id][1]
        if info["view"] is not None or info["sequence"] is not None:
            return ()
        if table_id in self.switched:
            return self.switched[table_id]
        return tuple(one["id"] for one in info["partition"]["definitions"]) if info["partition"] else (table_id,)

    def owners(self) -> dict[int, Description]:
        return {one: describe(info, self.schemas[at]) for table_id, (at, info) in self.tables.items() for one in self.physical(table_id)}

    def names(self) -> dict[TableName, tuple[int, bool]]:
        return {
            TableName(self.schemas[at], info["name"]["O"]): (table_id, bool(self.physical(table_id)))
            for table_id, (at, info) in self.tables.items()
        }


def view_at(
    history: SchemaHistory[Description], ts: int, ids: set[int]
) -> tuple[dict[int, Description], dict[TableName, tuple[int, bool]]]:
    owners = {one: version.description for one in ids if (version := history.table_at(one, ts)) is not None}
    names = {item.name: (item.table_id, isinstance(item, TableVersion)) for item in every_name(history, ts)}
    return owners, names


def every_name(history: SchemaHistory[Description], ts: int) -> list[TableVersion[Description] | Rowless]:
    """By all names that a random database can have."""
    results = [history.by_name(TableName(schema, name), ts) for schema in SCHEMAS for name in NAMES]
    rows = [one for one in results if one is not None]
    assert {one.name for one in rows if isinstance(one, TableVersion)} == {one.name for one in history.tables_at(ts)}
    return rows


def assert_equals(history: SchemaHistory[Description], life: Life, states: list[tuple[int, int, Database]]) -> None:
    ids = life.ids()
    for first, last, state in states:
        expected = state.owners(), state.names()
        for ts in {first, last} if first <= last else ():
            assert view_at(history, ts, ids) == expected


SCHEMAS = ("app", "Log", "tmp")
NAMES = ("a", "b", "C", "d", "e", "f")


class RandomDdl:
    """Any DDL that the database allows now; an action that finds nothing to act on is left out."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.db = Database()
        self.dropped: dict[int, tuple[int, Info]] = {}
        self.dropped_schemas: dict[int, tuple[str, list[Info]]] = {}

    def step(self) -> list[tuple[Step, Database]]:
        """What the feed says, each with the state after it."""
        while True:
            made = self.random.choice(self.KINDS)(self)
            if made:
                return [(one, self.db.copied()) if not isinstance(one, tuple) else one for one in made]

    def _schema(self) -> int | None:
        return self.random.choice([*self.db.schemas]) if self.db.schemas else None

    def _free(self, schema_id: int) -> str | None:
        taken = {info["name"]["L"] for at, info in self.db.tables.values() if at == schema_id}
        names = [name for name in NAMES if name.lower() not in taken]
        return self.random.choice(names) if names else None

    def _table(self, *, parted: bool | None = None, form: str | None = None) -> int | None:
        results = [
            table_id
            for table_id, (_, info) in self.db.tables.items()
            if (info[form] is not None if form else info["view"] is None and info["sequence"] is None)
            and (parted is None or (info["partition"] is not None) == parted)
        ]
        return self.random.choice(results) if results else None

    def _new(self, name: str) -> Info:
        count = self.random.choice([0, 0, 1, 3])
        return table(self.db.new_id(), name, partitions=tuple(self.db.new_id() for _ in range(count)))

    def create_schema(self) -> list[Any]:
        names = [name for name in SCHEMAS if name not in self.db.schemas.values()]
        return [self.db.create_schema(self.random.choice(names))] if names else []

    def drop_schema(self) -> list[Any]:
        schema_id = self._schema()
        if schema_id is None or self.random.random() < 0.5:
            return []
        infos = [info for at, info in self.db.tables.values() if at == schema_id]
        self.dropped_schemas[schema_id] = (self.db.schemas[schema_id], infos)
        return [self.db.drop_schema(schema_id)]

    def recover_schema(self) -> list[Any]:
        results = [one for one, (name, _) in self.dropped_schemas.items() if name not in self.db.schemas.values()]
        if not results:
            return []
        schema_id = self.random.choice(results)
        name, infos = self.dropped_schemas.pop(schema_id)
        self.db.schemas[schema_id] = name
        self.db.tables |= {info["id"]: (schema_id, info) for info in infos}
        return [self.db.job(Action.RECOVER_SCHEMA, schema_id, 0, *(infos if self.random.random() < 0.5 else ()))]

    def create(self) -> list[Any]:
        schema_id = self._schema()
        name = self._free(schema_id) if schema_id is not None else None
        if schema_id is None or name is None:
            return []
        action = self.random.choice(
            [Action.CREATE_TABLE, Action.CREATE_TABLE, Action.CREATE_TABLES, Action.CREATE_VIEW, Action.CREATE_SEQUENCE]
        )
        if action == Action.CREATE_TABLES:
            first = self._new(name)
            others = [
                one
                for one in NAMES
                if one.lower() not in {info["name"]["L"] for at, info in self.db.tables.values() if at == schema_id} | {name.lower()}
            ]
            return [self.db.create(schema_id, first, *(self._new(one) for one in others[:2]), action=action)]
        if action == Action.CREATE_TABLE:
            return [self.db.create(schema_id, self._new(name))]
        form = "view" if action == Action.CREATE_VIEW else "sequence"
        return [self.db.create(schema_id, view(self.db.new_id(), name, form=form), action=action)]

    def replace_view(self) -> list[Any]:
        table_id = self._table(form="view")
        if table_id is None:
            return []
        schema_id, info = self.db.tables.pop(table_id)
        return [self.db.create(schema_id, info | {"id": self.db.new_id()}, action=Action.CREATE_VIEW)]

    def drop(self) -> list[Any]:
        table_id = self._table()
        if table_id is None:
            return []
        self.dropped[table_id] = self.db.tables[table_id]
        return [self.db.drop(table_id)]

    def recover(self) -> list[Any]:
        for table_id, (schema_id, info) in self.dropped.items():
            name = self._free(schema_id) if schema_id in self.db.schemas else None
            if name is not None:
                del self.dropped[table_id]
                return [self.db.create(schema_id, info | {"name": {"O": name, "L": name.lower()}}, action=Action.RECOVER_TABLE)]
        return []

    def drop_view(self) -> list[Any]:
        table_id = self._table(form="view")
        return [self.db.drop(table_id, Action.DROP_VIEW)] if table_id is not None else []

    def alter(self) -> list[Any]:
        table_id = self._table()
        if table_id is None:
            return []
        cols = self.db.tables[table_id][1]["cols"]
        action = self.random.choice(
            [Action.ADD_COLUMN, Action.MULTI_SCHEMA_CHANGE, Action.MODIFY_COLUMN, Action.CACHE_TABLE, Action.ADD_INDEX]
        )
        return [self.db.alter(table_id, {"cols": [*cols, {"name": f"c{len(cols)}"}]}, action)]

    def truncate(self) -> list[Any]:
        table_id = self._table()
        if table_id is None:
            return []
        info = self.db.tables[table_id][1]
        ids = tuple(self.db.new_id() for _ in info["partition"]["definitions"]) if info["partition"] else ()
        columns = tuple(one["name"] for one in info["cols"])
        return [self.db.replace(table_id, table(self.db.new_id(), info["name"]["O"], columns=columns, partitions=ids))]

    def rename(self) -> list[Any]:
        table_id, schema_id = self._table(), self._schema()
        name = self._free(schema_id) if schema_id is not None else None
        return [self.db.rename((table_id, schema_id, name))] if table_id is not None and schema_id is not None and name is not None else []

    def swap(self) -> list[Any]:
        one, other = self._table(), self._table()
        if one is None or other is None or one == other:
            return []
        (one_schema, one_info), (other_schema, other_info) = self.db.tables[one], self.db.tables[other]
        name = self._free(one_schema)
        if name is None:
            return []
        return [
            self.db.rename(
                (one, one_schema, name), (other, one_schema, one_info["name"]["O"]), (one, other_schema, other_info["name"]["O"])
            )
        ]

    def partitions(self) -> list[Any]:
        """ADD, DROP, TRUNCATE and REORGANIZE PARTITION; the last three may show a step before."""
        table_id = self._table(parted=True)
        if table_id is None:
            return []
        partition = self.db.tables[table_id][1]["partition"]
        definitions = partition["definitions"]
        added = table(0, "", partitions=(self.db.new_id(),))["partition"]["definitions"]
        action = self.random.choice(
            [Action.ADD_TABLE_PARTITION, Action.DROP_TABLE_PARTITION, Action.TRUNCATE_TABLE_PARTITION, Action.REORGANIZE_PARTITION]
        )
        if action == Action.ADD_TABLE_PARTITION:
            return [self.db.alter(table_id, {"partition": partition | {"definitions": definitions + added}}, action)]
        steps: list[Any] = []
        if action == Action.DROP_TABLE_PARTITION:
            if len(definitions) == 1:
                return []
            added = []
        first = definitions[0]
        if self.random.random() < 0.7:
            gone = first["id"] if action == Action.TRUNCATE_TABLE_PARTITION else first["name"]["L"]
            came = tuple(one["id"] for one in added)
            steps += self._step(action, table_id, frozenset({gone}), came, kept=tuple(one["id"] for one in definitions[1:]))
        return [*steps, self.db.alter(table_id, {"partition": partition | {"definitions": definitions[1:] + added}}, action)]

    def _step(
        self, action: Action, table_id: int, gone: frozenset[int | str] | None, came: tuple[int, ...], kept: tuple[int, ...]
    ) -> list[Any]:
        step = self.db.step(action, table_id, gone, came)
        self.db.switched[table_id] = kept + came
        results = [(step, self.db.copied())]
        if self.random.random() < 0.5:
            self.db.ts += 10
            results.append((replace(step, commit_ts=CommitTs(self.db.ts)), self.db.copied()))
        return results

    def repartition(self) -> list[Any]:
        table_id = self._table()
        if table_id is None:
            return []
        info = self.db.tables[table_id][1]
        action = Action.REMOVE_PARTITIONING if info["partition"] else Action.ALTER_TABLE_PARTITIONING
        after = table(self.db.new_id(), info["name"]["O"], columns=tuple(one["name"] for one in info["cols"]))
        if action == Action.ALTER_TABLE_PARTITIONING:
            after = table(after["id"], info["name"]["O"], partitions=(self.db.new_id(), self.db.new_id()))
        ids = tuple(one["id"] for one in after["partition"]["definitions"]) if after["partition"] else (after["id"],)
        steps = self._step(action, table_id, None, ids, kept=()) if self.random.random() < 0.7 else []
        return [*steps, self.db.replace(table_id, after, action)]

    def exchange(self) -> list[Any]:
        single, parted = self._table(parted=False), self._table(parted=True)
        if single is None or parted is None:
            return []
        return [self.db.exchange(single, parted, self.random.choice(self.db.tables[parted][1]["partition"]["definitions"])["id"])]

    def nothing(self) -> list[Any]:
        return [self.db.job(self.random.choice([Action.CREATE_PLACEMENT_POLICY, Action.LOCK_TABLE, Action.ALTER_RESOURCE_GROUP]), 0, 0)]

    KINDS = (
        create_schema, drop_schema, recover_schema, create, create, create, replace_view, drop, recover, drop_view, alter, alter, truncate,
        rename, swap, partitions, partitions, repartition, exchange, nothing,
    )  # fmt: skip


@dataclass
class Life:
    """A random history of `steps` DDLs from a random state on, with the truth after each."""

    start: Database
    steps: list[tuple[Step, Database]]

    @classmethod
    def of(cls, seed: int, *, before: int = 12, steps: int = 40) -> Life:
        ddl = RandomDdl(Random(seed))
        for _ in range(before):
            ddl.step()
        ddl.dropped_schemas.clear()  # what was dropped before the snapshot comes back with its tables in the job only
        start = ddl.db.copied()
        return cls(start, [made for _ in range(steps) for made in ddl.step()])

    def states(self) -> list[tuple[int, int, Database]]:
        """Each state with the first and the last ts at which it holds."""
        starts = [(self.start.ts, self.start)] + [(step.commit_ts, state) for step, state in self.steps]
        ends = [ts - 1 for ts, _ in starts[1:]] + [starts[-1][0] + 5]
        return [(first, last, state) for (first, state), last in zip(starts, ends, strict=True)]

    def ids(self) -> set[int]:
        return {one for _, _, state in self.states() for one in state.owners()} | set(self.start.schemas)


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 1 << 32))
def test_every_lookup_is_what_a_list_of_full_snapshots_says(seed: int) -> None:
    life = Life.of(seed)
    history = life.start.history()
    for step, _ in life.steps:
        history.apply(step)
    history.advance(CommitTs(life.steps[-1][0].commit_ts + 5))
    assert_equals(history, life, life.states())


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 1 << 32), bounds=st.lists(st.floats(0, 1.2), min_size=1, max_size=4))
def test_collecting_changes_no_lookup_above_its_bound(seed: int, bounds: list[float]) -> None:
    life = Life.of(seed, steps=25)
    history = life.start.history()
    for place, (step, _) in enumerate(life.steps):
        history.apply(step)
        for bound in bounds:
            if int(bound * len(life.steps)) == place:
                history.collect(CommitTs(int(START + bound * (step.commit_ts - START))))
    assert_equals(history, life, [(max(first, history.floor_ts), last, state) for first, last, state in life.states()[:-1]])
    for first, last, _ in life.states()[:-1]:
        for ts in {first, last}:
            if ts < history.floor_ts:
                with pytest.raises(FeedError, match="are known from"):
                    history.table_at(1, ts)


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 1 << 32),
    again=st.lists(st.tuples(st.integers(0, 15), st.integers(0, 30)), max_size=8),
    collected=st.integers(0, 15),
)
def test_jobs_seen_again_change_nothing(seed: int, again: list[tuple[int, int]], collected: int) -> None:
    life = Life.of(seed, steps=15)
    history = life.start.history()
    for place, (step, _) in enumerate(life.steps):
        assert history.apply(step) is not None or isinstance(step, PartitionSwitch)
        if place == collected:
            history.collect(CommitTs((START + step.commit_ts) // 2))
        for at, back in again:
            if at == place:
                assert all(history.apply(one) is None for one, _ in life.steps[max(0, place - back) : place + 1])
    assert_equals(history, life, [(max(first, history.floor_ts), last, state) for first, last, state in life.states()[:-1]])


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 1 << 32), cut=st.integers(0, 20))
def test_a_snapshot_in_the_middle_and_all_jobs_again_give_the_same_end(seed: int, cut: int) -> None:
    life = Life.of(seed, steps=20)
    states = [state for step, state in life.steps if isinstance(step, DdlJob)]
    middle = states[min(cut, len(states) - 1)]
    history = middle.history()
    later = [step for step, _ in life.steps if step.commit_ts > middle.ts]
    needed = {step.schema_id for step in later if isinstance(step, DdlJob) and step.action == Action.RECOVER_SCHEMA and not step.tables}
    for step, _ in life.steps:
        if isinstance(step, DdlJob) and step.action == Action.RECOVER_SCHEMA and step.schema_id in needed and step.commit_ts > middle.ts:
            return  # dropped before the snapshot: another test's
        history.apply(step)
    assert view_at(history, life.steps[-1][0].commit_ts, life.ids()) == (life.steps[-1][1].owners(), life.steps[-1][1].names())


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 1 << 32), place=st.integers(0, 14), broken=st.sampled_from(["no tables", "unknown table", "unknown schema"]))
def test_a_job_that_does_not_fit_changes_nothing(seed: int, place: int, broken: str) -> None:
    life = Life.of(seed, steps=15)
    history = life.start.history()
    for step, _ in life.steps[:place]:
        history.apply(step)
    job = life.steps[place][0]
    if isinstance(job, DdlJob):
        tables = tuple(JobTable(one.info, 999_999) for one in job.tables)
        wrong = {
            "no tables": replace(job, tables=(), action=Action.ADD_COLUMN),
            "unknown table": replace(job, table_id=999_999, action=Action.DROP_TABLE),
            "unknown schema": replace(job, tables=tables, schema_id=999_999, action=Action.MODIFY_SCHEMA_CHARSET),
        }[broken]
        with pytest.raises(TicdcDumpError):
            history.apply(wrong)
    for step, _ in life.steps[place:]:
        history.apply(step)
    assert_equals(history, life, life.states()[:-1])


# ---- one DDL each ------------------------------------------------------------------------------------------------------


def shop(*infos: Info) -> Database:
    return Database(schemas={1: "shop", 2: "other"}, tables={info["id"]: (1, info) for info in infos})


def applied(history: SchemaHistory[Description], *steps: Step) -> list[DdlEvent]:
    return [event for step in steps if (event := history.apply(step)) is not None]


def name_of(history: SchemaHistory[Description], physical_id: int, ts: int) -> str | None:
    version = history.table_at(physical_id, ts)
    return str(version.name) if version is not None else None


def test_a_row_at_the_commit_ts_of_a_ddl_has_the_columns_before_it() -> None:
    db = shop(table(10, "t"))
    history = db.history()
    job = db.alter(10, {"cols": [{"name": "id"}, {"name": "x"}]})
    history.apply(job)
    history.advance(CommitTs(job.commit_ts + 1))
    at, after = history.table_at(10, job.commit_ts - 1), history.table_at(10, job.commit_ts)
    assert at is not None
    assert after is not None
    assert (at.description[3], after.description[3]) == (("id",), ("id", "x"))


@pytest.mark.parametrize("order", ["chain", "swap", "cycle"])
def test_names_can_be_swapped_in_one_rename(order: str) -> None:
    """`rename table a to t, b to b2, t to a` stops classic TiCDC, which drops table a twice."""
    db = shop(table(10, "a"), table(11, "b"), table(12, "c"))
    history = db.history()
    moves = {
        "chain": [(10, 1, "t"), (11, 1, "b2"), (10, 1, "a")],
        "swap": [(10, 1, "t"), (11, 1, "a"), (10, 1, "b")],
        "cycle": [(10, 2, "c"), (11, 1, "a"), (12, 1, "b"), (10, 1, "c")],
    }[order]
    (event,) = applied(history, db.rename(*moves))
    expected = {"chain": ["a", "b2", "c"], "swap": ["b", "a", "c"], "cycle": ["c", "a", "b"]}[order]
    assert [name_of(history, one, event.commit_ts) for one in (10, 11, 12)] == [f"shop.{name}" for name in expected]
    assert [name_of(history, one, event.commit_ts - 1) for one in (10, 11, 12)] == ["shop.a", "shop.b", "shop.c"]
    assert {(change.id_before, str(change.name_after)) for change in event.tables} >= {
        (10, f"shop.{expected[0]}"),
        (11, f"shop.{expected[1]}"),
    }


def test_a_rename_of_a_job_without_ids_goes_by_the_schemas_name() -> None:
    db = shop(table(10, "a"), table(11, "b"))
    history = db.history()
    job = db.rename((10, 2, "x"), (11, 1, "y"))
    history.apply(replace(job, tables=(job.tables[0]._replace(schema="other"), job.tables[1]._replace(schema="shop"))))
    assert [name_of(history, one, job.commit_ts) for one in (10, 11)] == ["other.x", "shop.y"]


def test_an_exchange_swaps_the_ids_and_keeps_both_tables_columns() -> None:
    db = shop(table(10, "parted", partitions=(20, 21)), table(30, "single", columns=("id", "memo")))
    history = db.history()
    (event,) = applied(history, db.exchange(30, 10, 21))
    ts = event.commit_ts
    assert [name_of(history, one, ts - 1) for one in (20, 21, 30)] == ["shop.parted", "shop.parted", "shop.single"]
    assert [name_of(history, one, ts) for one in (20, 21, 30)] == ["shop.parted", "shop.single", "shop.parted"]
    version = history.table_at(21, ts)
    assert version is not None
    assert version.description == ("shop", "single", 21, ("id", "memo"))
    assert {(one.id_before, one.id_after, one.appeared, one.vanished) for one in event.tables} == {
        (10, 10, frozenset({30}), frozenset({21})),
        (30, 21, frozenset({21}), frozenset({30})),
    }


def test_an_exchange_that_is_none_is_refused() -> None:
    db = shop(table(10, "parted", partitions=(20, 21)), table(30, "single"))
    history = db.history()
    job = db.job(Action.EXCHANGE_PARTITION, 1, 30, table(10, "parted", partitions=(20, 99)))
    with pytest.raises(FeedError, match="does not swap table id 30"):
        history.apply(job)


def test_rows_are_under_the_new_partitions_from_the_step_on_not_from_the_end() -> None:
    db = shop(table(10, "t", partitions=(20, 21)))
    history = db.history()
    switch, done = applied(
        history,
        db.step(Action.REMOVE_PARTITIONING, 10, None, (40,)),
        db.replace(10, table(40, "t"), Action.REMOVE_PARTITIONING),
    )
    assert switch.effect is Effect.SWITCH
    assert [(one.appeared, one.vanished) for one in switch.tables] == [(frozenset({40}), frozenset({20, 21}))]
    assert [(one.id_before, one.id_after, one.appeared, one.vanished) for one in done.tables] == [(10, 40, frozenset(), frozenset())]
    assert [history.absence(one, ts) for one, ts in ((40, switch.commit_ts - 1), (20, switch.commit_ts), (77, done.commit_ts))] == [
        "not yet",
        "gone",
        "unknown",
    ]
    assert [name_of(history, 40, ts) for ts in (switch.commit_ts - 1, switch.commit_ts, done.commit_ts)] == [None, "shop.t", "shop.t"]


def test_amid_a_partition_ddl_the_description_is_made_with_the_ids_that_count() -> None:
    db = shop(table(10, "t", partitions=(20, 21)), table(11, "single"))
    described: list[tuple[str, list[int]]] = []
    history = SchemaHistory(
        CommitTs(START),
        db.snapshot(),
        describe=lambda info, _: described.append(
            (info["name"]["O"], [one["id"] for one in (info["partition"] or {"definitions": []})["definitions"]])
        ),
    )
    history.apply(db.step(Action.REORGANIZE_PARTITION, 10, frozenset({"p20"}), (40, 41)))
    history.apply(db.job(Action.LOCK_TABLE, 1, 0))
    history.apply(db.step(Action.ALTER_TABLE_PARTITIONING, 11, None, (50, 51)))
    assert described[2:] == [("t", [21, 40, 41]), ("single", [50, 51])]


def test_a_step_that_names_a_partition_that_is_not_there_is_refused() -> None:
    db = shop(table(10, "t", partitions=(20, 21)))
    history = db.history()
    with pytest.raises(FeedError, match="which has \\(20, 21\\)"):
        history.apply(db.step(Action.REORGANIZE_PARTITION, 10, frozenset({"p99"}), (40,)))


@pytest.mark.parametrize(("state", "ids"), [(3, (20, 21)), (4, (20, 21)), (5, (40,))])
def test_a_snapshot_amid_a_reorganisation_has_the_partitions_that_count(state: int, ids: tuple[int, ...]) -> None:
    old, new = table(10, "t", partitions=(20, 21))["partition"]["definitions"], table(10, "t", partitions=(40,))["partition"]["definitions"]
    info = table(10, "t", partitions=(20, 21))
    info["partition"] |= {
        "definitions": old if state == 3 else new,
        "adding_definitions": new,
        "dropping_definitions": old,
        "ddl_state": state,
    }
    (version,) = shop(info).history().tables_at(START)
    assert version.physical_ids == ids


def test_a_dropped_table_is_found_for_rows_before_its_drop() -> None:
    db = shop(table(10, "t"))
    history = db.history()
    drop, create = applied(history, db.drop(10), db.create(1, table(11, "t")))
    assert [name_of(history, 10, ts) for ts in (drop.commit_ts - 1, drop.commit_ts)] == ["shop.t", None]
    name = history.by_name(TableName("SHOP", "T"), create.commit_ts)
    assert name is not None
    assert name.table_id == 11


def test_a_dropped_schema_names_all_its_tables_and_comes_back_with_them() -> None:
    db = shop(table(10, "t", partitions=(20,)), view(11, "v"))
    history = db.history()
    drop, back = applied(history, db.drop_schema(1), db.job(Action.RECOVER_SCHEMA, 1, 0, schema_name="shop_again"))
    assert {(str(one.name_before), one.name_after) for one in drop.tables} == {("shop.t", None), ("shop.v", None)}
    assert [name_of(history, 20, ts) for ts in (drop.commit_ts - 1, drop.commit_ts, back.commit_ts)] == ["shop.t", None, "shop_again.t"]
    assert isinstance(history.by_name(TableName("shop_again", "v"), back.commit_ts), Rowless)


def test_a_schema_that_was_dropped_before_the_snapshot_cannot_come_back_without_its_tables() -> None:
    db = Database()
    history = db.history()
    with pytest.raises(UnsupportedDdl, match="dropped before this feed saw them"):
        history.apply(db.job(Action.RECOVER_SCHEMA, 7, 0, schema_name="old"))
    history.apply(db.job(Action.RECOVER_SCHEMA, 7, 0, table(70, "t"), schema_name="old"))
    assert name_of(history, 70, db.ts) == "old.t"


def test_the_systems_schemas_are_left_out() -> None:
    db = Database(schemas={1: "shop", 3: "mysql"}, tables={10: (1, table(10, "t")), 30: (3, table(30, "user"))})
    history = db.history()
    events = applied(
        history,
        db.create(3, table(31, "bind")),
        db.alter(30, {"cols": []}),
        db.create_schema("lightning_task_info"),
        db.rename((10, 3, "t")),
    )
    assert [len(event.tables) for event in events] == [0, 0, 0, 1]
    assert history.tables_at(db.ts) == ()
    assert history.apply(db.drop_schema(next(one for one, name in db.schemas.items() if name == "lightning_task_info"))) is not None


def test_a_create_that_is_reported_twice_is_harmless() -> None:
    db = shop()
    history = db.history()
    applied(history, db.create(1, table(10, "t")), db.create(1, table(10, "t")))
    assert name_of(history, 10, db.ts) == "shop.t"


# ---- order, gaps, bounds -----------------------------------------------------------------------------------------------


def test_a_late_job_is_refused() -> None:
    db = shop(table(10, "t"))
    history = db.history()
    early, late = db.alter(10, {"cols": []}), db.drop(10)
    history.apply(late)
    with pytest.raises(FeedError, match="comes late"):
        history.apply(early)
    assert name_of(history, 10, late.commit_ts - 1) == "shop.t"


def test_a_job_at_or_below_what_was_called_complete_is_refused() -> None:
    db = shop(table(10, "t"))
    history = db.history()
    job = db.drop(10)
    history.advance(job.commit_ts)
    with pytest.raises(FeedError, match="comes late"):
        history.apply(job)


def test_one_job_at_two_moments_is_refused() -> None:
    db = shop(table(10, "t"))
    history = db.history()
    job = db.alter(10, {"cols": []})
    history.apply(job)
    with pytest.raises(FeedError, match="is known with commit_ts"):
        history.apply(replace(job, commit_ts=CommitTs(job.commit_ts + 1)))


@pytest.mark.parametrize("taken", ["name", "table id", "physical id"])
def test_what_is_another_tables_is_refused(taken: str) -> None:
    db = shop(table(10, "t", partitions=(20,)))
    history = db.history()
    info = {"name": table(11, "T"), "table id": table(11, "x", partitions=(20,)), "physical id": table(12, "y", partitions=(20,))}[taken]
    with pytest.raises(FeedError, match="is another table's"):
        history.apply(db.create(1, info))
    assert name_of(history, 20, START) == "shop.t"


@pytest.mark.parametrize(
    ("action", "text"),
    [(Action.FLASHBACK_CLUSTER, "FLASHBACK CLUSTER"), (Action.REFRESH_META, "restore"), (199, "action 199, which is unknown")],
)
def test_what_cannot_be_followed_stops(action: int, text: str) -> None:
    db = shop()
    with pytest.raises(UnsupportedDdl, match=text):
        db.history().apply(replace(db.job(Action.LOCK_TABLE, 1, 0), action=action))


@pytest.mark.parametrize("ts", [START - 1, START + 1])
def test_a_lookup_outside_what_is_known_is_refused(ts: int) -> None:
    with pytest.raises(FeedError, match=f"known from {START} to {START}"):
        shop(table(10, "t")).history().table_at(10, ts)


@pytest.mark.parametrize("gone", ["id", "name", "partition", "state", "update_timestamp"])
def test_a_table_info_without_a_field_is_refused(gone: str) -> None:
    info = table(10, "t")
    del info[gone]
    if gone == "partition":
        assert shop(info).history().tables_at(START) != ()
        return
    with pytest.raises(FeedUnsuitable, match="lacks or breaks a field"):
        SchemaHistory(CommitTs(START), [SchemaSnapshot(1, "shop", [info])], describe=describe)


def test_collecting_keeps_memory_at_what_can_be_looked_up() -> None:
    """A DDL on each of many tables, round after round: six rounds collected take what two of them would, not six."""
    count, columns = 300, tuple(f"column_{number}" for number in range(20))
    db = Database(schemas={1: "shop"}, tables={one: (1, table(one, f"table_{one}", columns=columns)) for one in range(1, count + 1)})
    job = db.job(Action.ADD_COLUMN, 1, 0)
    tracemalloc.start()
    try:
        history: SchemaHistory[int] = SchemaHistory(CommitTs(START), db.snapshot(), describe=lambda info, _: int(info["id"]))
        start = tracemalloc.get_traced_memory()[0]
        sizes = []
        for number in range(6):
            for table_id in range(1, count + 1):
                ts = CommitTs(job.commit_ts + number * count + table_id)
                history.apply(replace(job, job_id=int(ts), commit_ts=ts, table_id=table_id, tables=(JobTable(db.tables[table_id][1], 1),)))
                if number > 0 and table_id % 50 == 0:
                    history.collect(history.complete_ts)
            sizes.append(tracemalloc.get_traced_memory()[0] - start)
    finally:
        tracemalloc.stop()
    assert start / count < 2500, f"{start / count:.0f} bytes a table"
    assert 0 < sizes[0] / count < 1000, f"{sizes[0] / count:.0f} bytes a version"
    assert max(sizes[1:]) < 2 * sizes[0], sizes


def test_what_is_not_forgotten_yet_is_forgotten_later() -> None:
    index: TimelineIndex[str, int] = TimelineIndex()
    for ts, value in ((1, 10), (5, 50), (9, None)):
        index.put(ts, "a", value)
    index.forget(3)
    assert [index.at("a", ts) for ts in (3, 4, 5, 8, 9)] == [10, 10, 50, 50, None]
    index.forget(5)
    assert (index.timelines["a"].starts, index.at("a", 5), index.last("a")) == ([5, 9], 50, None)
    index.forget(9)
    assert "a" not in index.timelines


@pytest.mark.parametrize("state", [2, 1], ids=["write-only", "delete-only"])
def test_partitions_that_are_being_dropped_are_nobodys_from_delete_only_on_also_where_a_snapshot_begins_amid_it(state: int) -> None:
    """Amid it their definitions are kept in another list too, and in write-only in both."""
    db = Database()
    db.schemas[1] = "shop"
    whole = table(10, "t", partitions=(20, 21, 22))
    definitions = whole["partition"]["definitions"]
    sql_sees = definitions if state == 2 else definitions[1:]
    amid = whole["partition"] | {"definitions": sql_sees, "dropping_definitions": definitions[:1], "ddl_state": state, "ddl_action": 20}
    db.tables[10] = (1, whole | {"partition": amid})
    history = db.history()
    step = db.step(Action.DROP_TABLE_PARTITION, 10, frozenset({"p20"}), ())
    history.apply(step)
    history.apply(replace(step, commit_ts=CommitTs(db.ts + 1)))
    assert [one.physical_ids for one in history.tables_at(CommitTs(db.ts))] == [(21, 22)]
    history.apply(db.alter(10, {"partition": whole["partition"] | {"definitions": definitions[1:]}}, Action.DROP_TABLE_PARTITION))
    assert [one.physical_ids for one in history.tables_at(CommitTs(db.ts))] == [(21, 22)]


def test_amid_a_reorganisation_new_partitions_are_in_their_place_where_the_job_reports_them() -> None:
    db = Database()
    db.schemas[1] = "shop"
    db.tables[10] = (1, table(10, "t", partitions=(20, 21, 22, 23)))
    history = db.history()
    new_parts: tuple[dict[str, Any], ...] = tuple(
        {"id": one, "name": {"O": f"N{one}", "L": f"n{one}"}, "less_than": [str(one)], "in_values": None} for one in (40, 41)
    )
    step = db.step(Action.REORGANIZE_PARTITION, 10, frozenset({"p21", "p22"}), (40, 41))
    history.apply(replace(step, definitions=new_parts))
    assert history.info(10)["partition"]["definitions"][1:3] == list(new_parts)
    assert [one.physical_ids for one in history.tables_at(CommitTs(db.ts))] == [(20, 40, 41, 23)]
    db.jobs += 1
    history.apply(db.step(Action.TRUNCATE_TABLE_PARTITION, 10, frozenset({40}), (50,)))
    assert [(one["id"], one["name"]["O"]) for one in history.info(10)["partition"]["definitions"]] == [
        (20, "P20"), (50, "N40"), (41, "N41"), (23, "P23")
    ]  # fmt: skip
    db.jobs += 1
    separate = db.step(Action.REORGANIZE_PARTITION, 10, frozenset({"p20", "p23"}), (60, 61))
    history.apply(replace(separate, definitions=tuple(one | {"id": one["id"] + 20} for one in new_parts)))
    assert [one["name"]["O"] for one in history.info(10)["partition"]["definitions"]] == ["N40", "N41", "", ""]
