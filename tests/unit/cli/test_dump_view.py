"""What people see: everything that matters, nothing cut off by width, long lists summarised, texts as they are."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sidecar.cli.dump_view import TABLES_SHOWN, _tables_of_sinks, look, percent_done, plain_line, preview_view, status_view
from sidecar.cli.history_view import history_view
from sidecar.cli.terminal import PLAIN_LINE_EVERY_S, View
from sidecar.report.figures import amount, duration
from ticdc_dump.v1 import control_pb2 as pb

TSO = 470000000000000000


def shown(renderable: object, *, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def picture(value: pb.DumpStatus) -> str:
    return shown(status_view(value))


def table(number: int, **given: int) -> pb.TableStatus:
    return pb.TableStatus(schema="shop", table=f"t{number:05d}", **given)


def status(*tables: pb.TableStatus, **given: object) -> pb.DumpStatus:
    known: dict[str, object] = {"dump_id": "a" * 16, "state": pb.DUMP_STATE_RUNNING, "brackets": pb.BRACKETS_WATERMARK}
    return pb.DumpStatus(changefeed=pb.Changefeed(namespace="default", id="cf"), tables=tables, **(known | given))  # type: ignore[arg-type]  # fields by name


def test_the_picture_says_how_far_how_fast_and_why_it_is_slow() -> None:
    text = picture(
        status(
            table(1, chunks=3, rows=300, rows_estimated=1000, bytes=2048),
            table(2, chunks=1, rows=10, bytes=1024, complete_at_tso=TSO),
            table(3),
            rows_per_second=1234.5,
            bytes_per_second=2048,
            eta_s=75,
            resolved_lag_s=0.4,
            delivery_lag_s=1.2,
            resolved_tso=TSO,
            waiting_for="Spark: delivery is 9 s behind",
            last_error="TiDB went away",
            owner="here:1",
            merge_worker="running",
            lanes=[
                pb.LaneStatus(lane="kafka/t/0", resolved_tso=TSO),
                pb.LaneStatus(lane="kafka/t/1"),
                pb.LaneStatus(lane="kafka/t/2", resolved_tso=1, lag_s=9),
            ],
        )
    )  # fmt: skip
    for part in (
        "running", "1 of 3 tables, 310 rows, 3.0 KiB", "1,234 rows/s, 2.0 KiB/s, eta 1 min 15 s", "lag 0.4 s", "lag 1.2 s",
        "Spark: delivery is 9 s behind", "TiDB went away", "here:1", "3, kafka/t/1 has not joined, kafka/t/2 9 s behind",
        "shop.t00001", "1,000", "complete at", "waiting",
    ):  # fmt: skip
        assert part in text, part


def test_the_picture_and_the_line_say_what_a_verification_that_starves_waits_for() -> None:
    value = status(table(1), verification=pb.Verification(waiting_for="a processor: it had 1.0%"))
    assert re.search("verification .*waiting for a processor: it had 1.0%", picture(value).replace("\n", " "))
    assert "verification waits for a processor: it had 1.0%" in plain_line(value)
    assert "verification" not in picture(status(table(1)))


def test_the_picture_names_the_other_dumps_and_what_a_queued_one_waits_for() -> None:
    running = pb.DumpSummary(dump_id="a" * 16, state=pb.DUMP_STATE_RUNNING, tables=3, tables_complete=1, rows=310)
    failed = pb.DumpSummary(dump_id="b" * 16, state=pb.DUMP_STATE_FAILED, tables=2, reason="denied [red]")
    queued = pb.DumpSummary(dump_id="c" * 16, state=pb.DUMP_STATE_QUEUED, tables=1, waits_for=["a" * 16])
    text = picture(status(table(1), dumps=[running, failed, queued]))
    assert f"{'b' * 16} failed, 0 of 2 tables, 0 rows: denied [red]" in text
    assert f"{'c' * 16} queued, 0 of 1 table, 0 rows, behind {'a' * 16}" in text
    assert "other dump" not in picture(status(table(1), dumps=[running]))
    shown_queued = picture(status(table(1), dump_id="c" * 16, state=pb.DUMP_STATE_QUEUED, dumps=[running, queued]))
    assert re.search(rf"queued behind +{'a' * 16}", shown_queued)


def test_the_picture_says_what_was_set_and_what_each_sink_leaves() -> None:
    text = picture(
        status(
            settings=pb.DumpSettings(chunk_rows=10_000, readers=2, rows_per_second=5000, bytes_per_second=2048),
            sinks=[
                pb.SinkStatus(
                    sink="file:///out", median_s=0.21, live_s=0.61, bound_s=0.5, without_dump_s=0.04, rows_allowed=75_000, holds=True
                ),
                pb.SinkStatus(sink="s3://lake", live_s=61, bound_s=72),
                pb.SinkStatus(sink="s3://idle", bound_s=0.5),
            ],
        )
    )
    for part in (
        "chunks of 10,000 rows, 2 readers, 5,000 rows/s at most, 2.0 KiB/s at most",
        "file:///out: holds the dump, p50 0.21 s, p99 0.61 s, bound 0.50 s (0.04 s without a dump), room for 75,000 rows of the dump",
        "s3://lake: live changes wait for 61.0 s, bound 72.00 s, room for 0 rows of the dump",
        "s3://idle: not measured yet, bound 0.50 s, room for 0 rows of the dump",
    ):
        assert part in text, part


def test_the_picture_says_for_which_ddl_each_dump_is() -> None:
    other = pb.DumpSummary(dump_id="other", state=pb.DUMP_STATE_FINISHED, for_ddl_tso=9)
    text = picture(status(for_ddl_tso=7, dump_sinks=["lake"], dumps=[other]))
    assert "for lake only, for the DDL at commit_ts 7" in text
    assert "for the DDL at commit_ts 9" in text
    assert "for the DDL" not in picture(status(dump_sinks=["lake"]))


def test_the_picture_says_for_whom_the_dump_is_and_which_tables_each_sink_has_whole() -> None:
    tables = [pb.SinkTableStatus(schema="shop", table="a", complete_since_tso=TSO), pb.SinkTableStatus(schema="shop", table="b")]
    sinks = [pb.SinkStatus(sink="lake", tables_known=True, tables=tables), pb.SinkStatus(sink="new")]
    text = picture(status(dump_sinks=["lake"], sinks=sinks))
    assert "watermark brackets, for lake only" in text
    on_spark = picture(status(dump_sinks=["lake"], sinks=sinks, read_with="tikv", read_on="spark"))
    assert "watermark brackets, read from TiKV by Spark, for lake only" in on_spark
    assert "watermark brackets, read from TiDB by the sidecar" in picture(status(read_with="sql", read_on="sidecar"))
    assert "lake: 1 of 2 complete; shop.b not complete, shop.a complete since 470000000000000000 (2026-10-25" in text
    assert "new: 0 of" not in text, "it has received nothing yet"


@given(st.lists(st.lists(st.sampled_from([0, TSO, TSO + 1]), max_size=7), min_size=1, max_size=5))
def test_sinks_that_lack_no_rows_are_one_line_whatever_there_is_of_them(sinks: list[list[int]]) -> None:
    value = [
        pb.SinkStatus(
            sink=f"s{number}",
            tables_known=True,
            tables=[pb.SinkTableStatus(schema="shop", table=f"t{at}", complete_since_tso=since) for at, since in enumerate(tables)],
        )
        for number, tables in enumerate(sinks)
    ]
    lines = [str(line) for line in _tables_of_sinks(value)]
    whole = {len(tables) for tables in sinks if tables and all(tables)}
    assert len([line for line in lines if "none of which lacks rows" in line]) == len(whole)
    assert len([line for line in lines if "complete since" in line]) <= sum(0 in tables and any(tables) for tables in sinks)
    for number, tables in enumerate(sinks):
        [named] = [line for line in lines if f"s{number}" in line.partition(":")[0].split(", ")] or [""]
        assert bool(named) is bool(tables)
        assert ("not complete" in named) is (0 in tables)


def test_the_whole_dump_has_a_percentage_by_its_rows_and_a_bar() -> None:
    done, large = table(1, chunks=9, rows=100, complete_at_tso=TSO), table(2, chunks=1, rows=200, rows_estimated=900)
    assert percent_done(status(done, large)) == 30
    assert percent_done(status(done, table(2, rows_estimated=900))) == 10
    assert percent_done(status(done)) == 100
    assert percent_done(status(table(2, rows=2_000, rows_estimated=900))) == 99, "the estimate was too small"
    assert percent_done(status(done, table(3))) is None, "how much is left is not known"
    assert percent_done(status()) is None
    text = picture(status(done, large))
    assert re.search("progress +30 % +━", text)
    assert re.search("progress +30 %\n", picture_of_width(status(done, large), 30))
    assert "running  30 %  1/2 tables" in plain_line(status(done, large))
    assert "%" not in plain_line(status(done, table(3)))


def picture_of_width(value: pb.DumpStatus, width: int) -> str:
    return "\n".join(line.rstrip() for line in shown(status_view(value), width=width).splitlines()) + "\n"


def test_one_is_not_called_many_and_nothing_is_counted_that_is_not_there() -> None:
    text = picture(status(table(1, rows=1), open_windows=1, settings=pb.DumpSettings(chunk_rows=1, readers=1)))
    assert "0 of 1 table, 1 row, 0 B, 1 window open" in text
    assert "chunks of 1 row, 1 reader" in text
    paused = picture(status(table(1), state=pb.DUMP_STATE_PAUSED, settings=pb.DumpSettings(chunk_rows=10)))
    assert "reader" not in paused, "none reads"


def test_a_sink_is_judged_by_the_bound_only_while_a_dump_runs() -> None:
    sink = pb.SinkStatus(sink="lake", median_s=4.0, live_s=9.0, bound_s=0.5, limit_s=2.0, fixed_s=0.9, rows_allowed=500, holds=True)
    samples = [pb.Sample(at_ms=2_000 * n, sinks=[pb.SinkSample(sink="lake", live_s=9.0, bound_s=0.5)]) for n in range(1, 9)]
    samples[-1].open_windows = 1
    given = {"sinks": [sink], "timeline": pb.Timeline(samples=samples)}
    running = picture(status(table(1), **given))
    assert "2.00 s allowed as each batch of the dump takes 0.90 s alone" in running
    assert "room for 500 rows of the dump" in running
    assert "above the bound in 1 of 8 samples" in running
    over = picture(status(table(1), state=pb.DUMP_STATE_FINISHED, **given))
    assert not any(part in over for part in ("allowed", "room for", "holds the dump"))
    other = pb.DumpSummary(dump_id="b" * 16, state=pb.DUMP_STATE_RUNNING)
    assert "room for" in picture(status(table(1), state=pb.DUMP_STATE_FINISHED, dumps=[other], **given)), "of the one that runs"


def test_a_sink_whose_live_changes_alone_exceed_the_bound_is_overloaded_whether_a_dump_runs_or_not() -> None:
    sink = pb.SinkStatus(sink="lake", live_s=90.0, bound_s=30.0, limit_s=30.0, without_dump_s=82.2, overloaded=True)
    for state in (pb.DUMP_STATE_RUNNING, pb.DUMP_STATE_FINISHED):
        text = picture(status(table(1), state=state, sinks=[sink]))
        assert "overloaded: bound 30.00 s, 82.20 s without a dump" in text


def test_sinks_that_have_the_same_tables_are_one_line_and_no_warning() -> None:
    tables = [pb.SinkTableStatus(schema="shop", table="a")]
    result = status(sinks=[pb.SinkStatus(sink=name, tables_known=True, tables=tables) for name in ("lake", "search", "kafka")])
    assert picture(result).count("not complete") == 1
    assert "lake, search, kafka: 0 of 1 complete; shop.a not complete" in picture(result)
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system="standard")
    console.print(status_view(result))
    assert isinstance(console.file, io.StringIO)
    (line,) = [line for line in console.file.getvalue().splitlines() if "not complete" in line]
    assert "\x1b[33m" not in line


def test_a_table_with_a_hole_is_shown_where_errors_are_and_counted_in_a_line() -> None:
    tables = [
        pb.SinkTableStatus(schema="shop", table="a", incomplete_since_tso=TSO, cause="import", text="IMPORT INTO [red]a[/red]"),
        pb.SinkTableStatus(schema="shop", table="b", complete_since_tso=TSO),
    ]
    holed = status(sinks=[pb.SinkStatus(sink=name, tables_known=True, tables=tables) for name in ("lake", "copy")])
    text = picture(holed)
    assert re.search(r"incomplete +shop\.a in sinks lake, copy since 2026-10-25T.*Z \(TSO 470000000000000000\): import: IMPORT INTO", text)
    assert "[red]a[/red]" in text
    assert "dumpstart --holes fills it" in " ".join(text.split())
    assert "1 table incomplete" in plain_line(holed)
    whole = status(sinks=[pb.SinkStatus(sink="lake", tables_known=True, tables=tables[1:])])
    assert "incomplete" not in picture(whole) + plain_line(whole)


def test_the_picture_says_how_far_each_subscriber_is() -> None:
    dump_status = pb.DumpStatus(
        subscribers=[
            pb.SubscriberStatus(name="search", next_seq=1200, segments=34, heard_s=2, connected=True),
            pb.SubscriberStatus(name="gone", next_seq=7, segments=1227, heard_s=7200),
        ]
    )
    picture = shown(status_view(dump_status))
    assert "search, 34 segments not acknowledged, the next is 1,200, reads" in picture
    assert "gone, 1,227 segments not acknowledged, the next is 7, last call 2 h" in picture


def test_ten_thousand_tables_are_summarised_those_that_move_first() -> None:
    tables = [table(n, chunks=1, rows=1, complete_at_tso=TSO) for n in range(5000)] + [table(n) for n in range(5000, 9990)]
    tables += [table(n, chunks=1, rows=5) for n in range(9990, 10_000)]
    text = picture(status(*tables))
    assert len(text.splitlines()) < TABLES_SHOWN + 15
    assert all(f"shop.t{n:05d}" in text for n in range(9990, 10_000))
    assert "… 9,980 more tables: 4,980 waiting, 5,000 complete; --json shows all" in text


def test_texts_of_the_server_are_not_markup() -> None:
    text = picture(status(table(1), state=pb.DUMP_STATE_FAILED, reason="[red]SELECT[/red] of [shop].t", waiting_for="[bold]x"))
    assert "[red]SELECT[/red] of [shop].t" in text
    assert "[bold]x" in text


def test_without_a_dump_the_stream_is_shown() -> None:
    text = picture(status(dump_id="", state=pb.DUMP_STATE_UNSPECIFIED, resolved_tso=TSO, changes=5))
    assert "no dump has been started" in text
    assert "5 logged" in text


def test_a_plain_line_has_state_progress_and_cause() -> None:
    line = plain_line(status(table(1, rows=5), reason="denied", waiting_for="source: x", state=pb.DUMP_STATE_FAILED))
    assert "failed  0/1 tables  5 rows" in line
    assert line.endswith("waiting for source: x  reason: denied")


def test_plain_lines_come_at_every_change_of_state_and_not_more_often_than_every_says() -> None:
    console, now_s = Console(file=io.StringIO(), width=300), 100.0
    with View(console, lambda: now_s) as view:
        for state in (pb.DUMP_STATE_RUNNING, pb.DUMP_STATE_RUNNING, pb.DUMP_STATE_PAUSED, pb.DUMP_STATE_PAUSED):
            view.show(look(status(table(1), state=state)))
        for _ in range(2):
            now_s += PLAIN_LINE_EVERY_S
            view.show(look(status(table(1), state=pb.DUMP_STATE_PAUSED)))
            view.show(look(status(table(1), state=pb.DUMP_STATE_PAUSED)))
        view.show(look(status(table(1), state=pb.DUMP_STATE_FINISHED)))
    assert isinstance(console.file, io.StringIO)
    assert [line.split()[3] for line in console.file.getvalue().splitlines()] == ["running", *["paused"] * 3, "finished"]


def test_a_terminal_is_redrawn() -> None:
    console = Console(file=io.StringIO(), width=120, height=40, force_terminal=True)
    with View(console) as view:
        view.show(look(status(table(1, chunks=1, rows=5, rows_estimated=10))))
        view.show(look(status(table(1, chunks=2, rows=9, rows_estimated=10))))
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[" in console.file.getvalue()
    assert "9 rows" in console.file.getvalue()


def test_a_preview_lists_what_is_read_what_is_left_out_and_what_is_against_it() -> None:
    preview = pb.DumpPreview(
        tables=[
            *(pb.TablePreview(schema="s", table=f"t{n}", rows=n, bytes=n, read_by="_tidb_rowid") for n in range(100)),
            *(pb.TablePreview(schema="s", table=f"x{n}", refused="no key") for n in range(50)),
        ],
        refusals=["no table matches"],
        seconds=3700,
        outside=1203,
        unasked=4,
        waits_for=["d" * 16],
    )
    preview.tables[3].slow = "each chunk reads the table from its first row"
    text = shown(preview_view(preview))
    assert "1,203 more tables do not match the changefeed's table rules" in text
    assert "slow: s.t3: each chunk reads" in text
    assert "how 4 tables would be read is not known" in text
    assert "s.t99 " in text
    assert "… 80 more tables" in text
    assert "100 tables, about 4,950 rows, 4.8 KiB, about 1 h 1 min" in text
    assert "excluded: s.x0: no key" in text
    assert f"it would wait for dump {'d' * 16}" in text
    assert "30 more are excluded" in text
    assert "would be rejected: no table matches" in text


def test_a_table_without_statistics_is_not_reported_as_an_empty_one() -> None:
    """As after a load, before TiDB has analyzed it."""
    loaded, empty = (pb.TablePreview(schema="s", table=name, read_by="_tidb_rowid") for name in ("loaded", "empty"))
    empty.rows = 0
    text = shown(preview_view(pb.DumpPreview(tables=[loaded, empty])))
    assert re.findall(r"s\.(\w+) +(\S+)", text) == [("loaded", "?"), ("empty", "0")]
    assert "2 tables, about 0 rows and those of 1 table of which TiDB has no statistics yet" in text
    assert "about 0 rows, " in shown(preview_view(pb.DumpPreview(tables=[empty])))


def test_the_history_is_a_line_an_operation_with_its_later_commands_below() -> None:
    alice, sidecar = pb.Asker(name="certificate alice", address="10.0.0.7:41000"), pb.Asker(name="sidecar", reason="a DDL rewrote rows")
    dump = pb.Operation(
        id="1" * 16,
        kind=pb.OPERATION_KIND_DUMP,
        scope=pb.OperationScope(tables=["s.a", "s.b", "s.c", "s.d"], table_count=1_234, by_keys=1, filtered=2, sinks=["lake"]),
        asked_by=alice,
        started_ms=1_700_000_000_000,
        state=pb.DUMP_STATE_FAILED,
        result="a SELECT was denied",
        rows=12_345,
        seconds=61.2,
        commands=[pb.OperationCommand(command="set readers=2", asked_by=alice, at_ms=1_700_000_001_000)],
        commands_before=3,
    )
    again = pb.Operation(id="2" * 16, kind=pb.OPERATION_KIND_VERIFICATION, asked_by=sidecar, state=pb.DUMP_STATE_FINISHED)
    lines = [re.sub(" {2,}", "  ", line.strip()) for line in shown(history_view([dump, again]), width=400).splitlines()]
    assert lines[1] == (
        "2023-11-14 22:13:20  dump  1111111111111111  failed: a SELECT was denied  12,345  1 min 1 s"
        "  s.a, s.b, s.c and 1,231 more; by keys in 1; filtered in 2; to lake  certificate alice at 10.0.0.7:41000"
    )
    assert lines[2] == "… 3 earlier commands, set readers=2 2023-11-14 22:13:21 by certificate alice at 10.0.0.7:41000"
    assert lines[3] == "-  verification  2222222222222222  finished  0  ?  sidecar (a DDL rewrote rows)"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB"), (7 << 40, "7.0 TiB")]
)
def test_amounts(size: float, text: str) -> None:
    assert amount(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "?"), (0.2, "1 s"), (59, "59 s"), (61, "1 min 1 s"), (3_700, "1 h 1 min"), (90_000, "1 d 1 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
