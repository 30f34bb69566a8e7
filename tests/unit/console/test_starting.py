"""The form of a new dump: what it means as a request is what `dumpstart` would ask."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sidecar.console.starting import CHOSEN_MAX, NUMBERS, StartForm, form_of, number, settings_request, start_request
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.nouns import TableName
from sidecar.shared.ticdc.table_rules import exact_rule
from ticdc_dump.v1 import control_pb2 as pb

FEED = pb.Changefeed(namespace="default", id="cf")
ID = "a" * 16
ORDERS, ODD = TableName("shop", "orders"), TableName("a.b", 'c`d"e')
KNOWN = {exact_rule(name): name for name in (ORDERS, ODD, TableName("shop", "item"))}


def asked(*params: tuple[str, str]) -> pb.StartRequest:
    return start_request(form_of(params), FEED, ID, KNOWN)


def of_command_line(monkeypatch: pytest.MonkeyPatch, *options: str) -> pb.StartRequest:
    """The request that `dumpstart` makes of these options, which nobody answers."""
    import typer

    from sidecar.cli import dump_commands
    from sidecar.control.answers import CallFailed
    from sidecar.control.client import ControlClient

    sent: list[Any] = []

    def call(_: ControlClient, method: str, request: Any) -> Any:
        sent.append(request)
        raise CallFailed("enough", hint="", exit_code=3, reason="test")

    monkeypatch.setattr(ControlClient, "call", call)
    app = typer.Typer()
    dump_commands.register(app)
    app.callback()(lambda: None)
    result = CliRunner().invoke(app, ["dumpstart", "-c", "cf", "--namespace", "default", "--sidecar", "127.0.0.1:1", *options])
    assert sent, result.output
    request: pb.StartRequest = sent[0]
    request.dump_id = ID
    return request


@pytest.mark.parametrize(
    ("params", "options"),
    [
        ([], []),
        ([("rules", "shop.*\n !shop.event_* \n")], ["--tables", "shop.*,!shop.event_*"]),
        ([("table", exact_rule(ORDERS)), ("where", "amount > 5")], ["--where", "shop.orders:amount > 5"]),
        ([("brackets", "snapshot"), ("sink", "a"), ("sink", "b")], ["--brackets", "snapshot", "--sink", "a", "--sink", "b"]),
        ([("exact", "yes"), ("strict_bound", "yes")], ["--exact", "--strict-bound"]),
        (
            [("chunk_rows", "1,000"), ("readers", " 4 "), ("rows_per_second", "50000"), ("bytes_per_second", "1_000")],
            ["--chunk-rows", "1000", "--readers", "4", "--rows-per-second", "50000", "--bytes-per-second", "1000"],
        ),
        ([("delivery_bound_seconds", "0.5")], ["--delivery-bound-seconds", "0.5"]),
    ],
)
def test_a_form_is_the_request_of_dumpstart(params: list[tuple[str, str]], options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(*params) == of_command_line(monkeypatch, *options)


def test_chosen_tables_join_the_rules_as_exact_ones() -> None:
    request = asked(("rules", "shop.i*"), ("table", exact_rule(ORDERS)), ("table", exact_rule(ODD)))
    assert list(request.table_rules) == ["shop.i*", exact_rule(ORDERS), exact_rule(ODD)]


def test_a_predicate_is_of_the_table_whatever_its_name() -> None:
    (where,) = asked(("table", exact_rule(ODD)), ("where", "x = 1")).where
    assert (where.schema, where.table, where.predicate) == (*ODD, "x = 1")


def test_a_button_takes_a_table_out() -> None:
    rule = exact_rule(ORDERS)
    assert form_of([("table", rule), ("table", "`x`.`y`"), ("remove", rule)]).tables == ("`x`.`y`",)


@given(
    st.builds(
        StartForm,
        rules=st.text().map(str.strip),
        tables=st.lists(st.text(min_size=1), unique=True, max_size=5).map(tuple),
        where=st.text().map(str.strip),
        brackets=st.sampled_from(["watermark", "snapshot"]),
        sinks=st.lists(st.text(min_size=1), max_size=3).map(tuple),
        exact=st.booleans(),
        strict_bound=st.booleans(),
        numbers=st.dictionaries(st.sampled_from(list(NUMBERS)), st.text("0123456789", min_size=1)),
    )
)
def test_a_form_comes_back_by_its_fields(form: StartForm) -> None:
    assert form_of(form.fields) == form


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ([("table", "`gone`.`t`")], "has no table `gone`.`t` now"),
        ([("where", "x = 1")], "a predicate is for one table"),
        ([("table", exact_rule(ORDERS)), ("table", exact_rule(ODD)), ("where", "x = 1")], "a predicate is for one table"),
        ([("table", exact_rule(ORDERS)), ("rules", "shop.*"), ("where", "x = 1")], "a predicate is for one table"),
        ([("brackets", "round")], "brackets 'round' are not known"),
        *(([(name, "x")], NUMBERS[name].lower()) for name in NUMBERS),
    ],
)
def test_what_no_request_can_say_is_rejected_with_a_way_out(params: list[tuple[str, str]], what: str) -> None:
    with pytest.raises(RefusedRequest, match=what.replace("`", "\\`")) as refused:
        asked(*params)
    assert refused.value.hint


def test_no_more_tables_are_chosen_than_an_address_carries() -> None:
    known = {f"`s`.`t{number}`": TableName("s", f"t{number}") for number in range(CHOSEN_MAX + 50)}
    form = form_of([("table", rule) for rule in known])
    assert len(form.tables) == CHOSEN_MAX + 1
    with pytest.raises(RefusedRequest, match=f"expected {CHOSEN_MAX} at most"):
        start_request(form, FEED, ID, known)


@pytest.mark.parametrize("text", ["", "-1", "x", "1.5", "1,5", "1,0000", ",100", "1e400", str(1 << 63), "0x10", "1 000"])
def test_what_is_no_whole_number_is_rejected(text: str) -> None:
    with pytest.raises(RefusedRequest):
        number("rows_per_second", text)


@pytest.mark.parametrize("text", ["-0.1", "nan", "inf", "0,5", "1,000", "half"])
def test_what_is_no_number_of_seconds_is_rejected(text: str) -> None:
    with pytest.raises(RefusedRequest, match="is not seconds from 0 on"):
        number("delivery_bound_seconds", text)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("readers", "0", 0), ("chunk_rows", str((1 << 32) - 1), (1 << 32) - 1), ("rows_per_second", "12,345,678", 12_345_678)],
)
def test_numbers_are_as_a_message_takes_them(name: str, text: str, value: int) -> None:
    assert number(name, text) == value


@pytest.mark.parametrize("name", ["chunk_rows", "readers"])
def test_a_number_that_a_message_cannot_carry_is_rejected(name: str) -> None:
    with pytest.raises(RefusedRequest):
        number(name, str(1 << 32))


# ---- of a dump that is there -----------------------------------------------------------------------------------------


def test_settings_are_those_that_were_filled_in() -> None:
    params = [("chunk_rows", " 500 "), ("readers", "0"), ("rows_per_second", ""), ("strict_bound", "no"), ("form_key", "x")]
    request = settings_request(params, FEED, ID)
    assert request == pb.SetRequest(changefeed=FEED, dump_id=ID, settings=pb.DumpSettings(chunk_rows=500, readers=0, strict_bound=False))
    assert not request.settings.HasField("rows_per_second")


@pytest.mark.parametrize("params", [[], [("strict_bound", "")], [("readers", " ")], [("strict_bound", "perhaps")]])
def test_nothing_to_change_is_rejected(params: list[tuple[str, str]]) -> None:
    with pytest.raises(RefusedRequest, match="nothing is to be changed"):
        settings_request(params, FEED, ID)
