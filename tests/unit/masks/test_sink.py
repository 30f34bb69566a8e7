"""The view around a sink: what is seen through it, what travels, what stops, and that rows of two rules are never in one target."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest

from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.log.sink_tables import read_sink_tables
from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.masks.sink import MaskedForm, MaskedSink, Masking, masked
from spark_merge.port.contract import Certifies, Gathers, Head, KeepsTables, MasksColumns, Sink
from spark_merge.port.maintained import CountsFiles
from spark_merge.port.readable import Readable
from spark_merge.sinks.memory.committing import CommittingSink
from spark_merge.sinks.memory.hidden import HiddenSink
from spark_merge.sinks.memory.target import target
from spark_merge.sinks.registry import idle_rules, misfits, name_of, open_sink
from spark_merge.testing import histories
from spark_merge.testing.places import Place
from spark_merge.testing.story import TABLES, Story
from tests.support.deliveries import ORDERS, SCHEMA, Segments, change
from tests.support.masked import SALT, masking, salt_file, slow_hash

PORTS = (Certifies, CountsFiles, Gathers, KeepsTables, Readable)
URIS = [
    "console:?",
    "file://{}/out?format=jsonl",
    "file://{}/out?protocol=csv",
    "grpc://{}/spool?",
    "sqlite://{}/out.db?",
    "delta://{}/lake?mode=merge",
]


@pytest.mark.parametrize("uri", URIS)
def test_each_part_of_a_sinks_port_is_seen_through_the_view(tmp_path: Path, uri: str) -> None:
    base = uri.format(tmp_path)
    plain, view = (open_sink(one, log_id="log-1") for one in (base, f"{base}&leave-out=s.*.v".replace("?&", "?")))
    assert [isinstance(view, port) for port in PORTS] == [isinstance(plain, port) for port in PORTS]
    assert isinstance(view, MasksColumns)
    assert not isinstance(plain, MasksColumns)
    if isinstance(plain, Gathers) and isinstance(view, Gathers):
        assert view.gather_s == plain.gather_s
    if isinstance(plain, Readable) and isinstance(view, Readable):
        assert view.finds_keys == plain.finds_keys


def test_a_sink_without_rules_is_itself(tmp_path: Path) -> None:
    assert type(open_sink(f"file://{tmp_path}/out?format=jsonl", log_id="log-1")).__name__ == "FileSink"


def heads() -> list[Head]:
    return Segments([1], [change(1, 1, after=("1", "a@x"))]).heads({ORDERS: SCHEMA})


def test_what_travels_to_tasks_has_no_salt_and_each_task_reads_it(tmp_path: Path) -> None:
    given = masking(tmp_path, hash="shop.*.name")
    sink = masked(HiddenSink("travels", log_id="log-1"), given)
    sink.open(epoch=None)
    batch = sink.plan(heads(), cores=1)
    sent = pickle.dumps(batch)
    assert SALT not in sent
    assert SALT not in repr(batch).encode()
    again = pickle.loads(sent)
    segments = Segments([1], [change(1, 1, after=("1", "a@x"))])
    outcome = again.writer(again.stages[0][0], segments.portions(again.stages[0][0], {ORDERS: SCHEMA}, None))  # type: ignore[arg-type]  # no chunk
    sink.accept(batch, [outcome])
    assert [row.after for row in target("travels").rows] == [("1", slow_hash("a@x"))]


def test_a_host_with_another_salt_hashes_nothing(tmp_path: Path) -> None:
    given = masking(tmp_path, hash="shop.*.name")
    (tmp_path / "salt").write_bytes(b"another salt of 16 bytes")
    with pytest.raises(SinkError, match="another salt than that with which the sink was opened") as refused:
        given.opened()
    assert "another salt of" not in str(refused.value)


@pytest.mark.parametrize("rule", [{"hash": "*.*.id"}, {"leave_out": "shop.*.*"}, {"constant": "shop.orders.id=>1"}])
def test_a_rule_for_the_key_stops_before_anything_is_written(tmp_path: Path, rule: dict[str, str]) -> None:
    sink = masked(HiddenSink("keyed", log_id="log-1"), masking(tmp_path, **rule))
    sink.open(epoch=None)
    with pytest.raises(SinkError, match=r"matches column id of shop.orders, which is of the handle key"):
        sink.plan(heads(), cores=1)


def test_a_column_that_is_of_the_key_after_a_ddl_stops_before_anything_is_written(tmp_path: Path) -> None:
    sink = masked(HiddenSink("becomes-key", log_id="log-1"), masking(tmp_path, hash="*.*.name"))
    sink.open(epoch=None)
    after = replace(SCHEMA, key=("name",))
    with pytest.raises(SinkError, match=r"column name of shop.orders, which is of the handle key"):
        sink.plan([replace(one, next_schemas={ORDERS: after}) for one in heads()], cores=1)


def test_a_sink_sees_masked_tables_and_a_task_the_logs(tmp_path: Path) -> None:
    seen: list[Head] = []

    class Watched(HiddenSink):
        def plan(self, heads, *, cores):  # type: ignore[no-untyped-def]
            seen.extend(heads)
            return super().plan(heads, cores=cores)

    sink = masked(Watched("watched", log_id="log-1"), masking(tmp_path, leave_out="*.*.name"))
    sink.open(epoch=None)
    given = heads()
    batch = sink.plan(given, cores=1)
    assert batch.heads == tuple(given)
    assert batch.heads[0].schemas[ORDERS] is SCHEMA
    assert seen[0].schemas[ORDERS].column_names() == ("id",)
    assert seen[0].next_schemas is seen[0].schemas, "as it was: nothing changes at the segment's end"


def test_the_sources_rows_are_those_that_the_view_promises(tmp_path: Path) -> None:
    form = MaskedForm(masking(tmp_path, hash="*.*.name"), SCHEMA, None)
    rows = pa.table({"id": ["1", "2"], "name": pa.array(["a@x", None])})
    assert pickle.loads(pickle.dumps(form))(rows).to_pylist() == [{"id": "1", "name": slow_hash("a@x")}, {"id": "2", "name": None}]


# ---- rules that change ----------------------------------------------------------------------------------------------------


def story_of(folder: Path, given: Masking | None, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(histories, "TABLES", TABLES)
    name = str(folder)

    def make(log_id: str) -> Sink:
        sink = HiddenSink(name, log_id=log_id)
        return sink if given is None else masked(sink, given)

    return Story(folder, Place(name, make, dict), seed=7, name="mine")


def test_a_sink_with_rows_of_other_rules_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they had none, and with another salt."""
    story = story_of(tmp_path, None, monkeypatch)
    story.delivery(segments_max=1).deliver()
    first, second = masking(tmp_path, hash="s.*.v"), masking(tmp_path, constant="s.*.v=>NULL")
    story.place = replace(story.place, make=lambda log_id: masked(HiddenSink(str(tmp_path), log_id=log_id), first))
    with pytest.raises(SinkError, match="sink mine has rows of other column rules, or of another salt") as stopped:
        story.delivery()
    assert "another name=, and dump again" in stopped.value.hint
    assert read_sink_tables(story.log, ["mine"])["mine"].rules == ""
    with pytest.raises(SinkError, match="sink yours has rows of other column rules"):
        story.delivery(name="yours")  # under a new name what its rows are of is not known
    story.place = replace(story.place, make=lambda log_id: masked(HiddenSink(str(tmp_path / "new"), log_id=log_id), first))
    story.delivery(name="yours", segments_max=1).deliver()
    assert read_sink_tables(story.log, ["yours"])["yours"].rules == first.identity
    story.delivery(name="yours", segments_max=1).deliver()
    story.place = replace(story.place, make=lambda log_id: masked(HiddenSink(str(tmp_path / "new"), log_id=log_id), second))
    with pytest.raises(SinkError, match="sink yours has rows of other column rules"):
        story.delivery(name="yours")
    (tmp_path / "salt").write_bytes(b"another salt of 16 bytes")
    other_salt = Masking.of(first.rules, str(tmp_path / "salt"))
    assert other_salt.identity != first.identity
    story.place = replace(story.place, make=lambda log_id: masked(HiddenSink(str(tmp_path / "new"), log_id=log_id), other_salt))
    with pytest.raises(SinkError, match="or of another salt"):
        story.delivery(name="yours")


def test_a_sink_that_has_begun_a_batch_has_rows_of_its_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks may have been seen, though nothing is accepted."""
    first, second = masking(tmp_path, hash="s.*.v"), masking(tmp_path, leave_out="s.*.v")
    story = story_of(tmp_path, None, monkeypatch)
    makes = [lambda log_id, by=by: masked(CommittingSink(str(tmp_path), log_id=log_id), by) for by in (first, second)]
    story.place = replace(story.place, make=makes[0])
    delivery = story.delivery(segments_max=1)
    monkeypatch.setattr(MaskedSink, "accept", Mock(side_effect=KeyError))
    with pytest.raises(KeyError):
        delivery.deliver()
    story.place = replace(story.place, make=makes[1])
    with pytest.raises(SinkError, match="sink mine has rows of other column rules"):
        story.delivery()
    story.place = replace(story.place, make=makes[0])
    story.delivery()


# ---- by the URI -----------------------------------------------------------------------------------------------------------


def test_hash_needs_a_salt() -> None:
    with pytest.raises(ConfigError, match="a console: sink has hash= and no salt-file="):
        open_sink("console:?hash=*.*.email", log_id="x")
    with pytest.raises(SinkError, match="salt-file /nowhere/salt cannot be read"):
        open_sink("console:?hash=*.*.email&salt-file=/nowhere/salt", log_id="x")
    open_sink("console:?leave-out=*.*.email", log_id="x")


@pytest.mark.parametrize("rule", ["leave-out=shop.users.email", "hash=shop.users.email&salt-file=/s"])
def test_a_sink_that_carries_out_tidbs_statements_keeps_tidbs_columns(rule: str) -> None:
    with pytest.raises(ConfigError, match="a mysql: sink carries out TiDB's own statements") as refused:
        open_sink(f"mysql://u@h/?{rule}", log_id="x")
    assert refused.value.hint.startswith("write constant=shop.users.email=>NULL")
    assert isinstance(open_sink("tidb://u:p@h/?constant=shop.users.email=>NULL&ddl-done=5", log_id="x"), MasksColumns)


@pytest.mark.parametrize(("rule", "message"), [("hash=shop.email", "hash: column rule shop.email"), ("constant=a.b.c", "has no =>")])
def test_a_rule_that_is_none_is_refused_when_the_sink_is_made(rule: str, message: str) -> None:
    with pytest.raises(SinkError, match=message):
        open_sink(f"console:?{rule}", log_id="x")


def test_rules_are_in_no_name_of_a_sink(tmp_path: Path) -> None:
    assert name_of(f"file:///out?format=jsonl&hash=*.*.e&salt-file={tmp_path}") == "file:///out?format=jsonl"


def test_before_anything_is_delivered_each_table_that_a_rule_does_not_allow_is_named(tmp_path: Path) -> None:
    other = TableSchema(TableName("shop", "_ok"), SCHEMA.columns, ("id",))
    uri = f"sqlite://{tmp_path}/out.db?hash=shop.orders.*&salt-file={salt_file(tmp_path)}"
    ((what, hint),) = misfits(uri, [SCHEMA, other], log_id="x")
    assert what.startswith("hash=shop.orders.* matches column id of shop.orders")
    assert hint.startswith("narrow the rule")


def test_a_rule_that_matches_no_column_is_named() -> None:
    uri = "console:?leave-out=shop.*.nam%3F,shop.*.nmae&constant=hr.*.*=>NULL"
    assert idle_rules(uri, [SCHEMA]) == ["leave-out=shop.*.nmae", "constant=hr.*.*"]
