"""Every text of every request, by reflection over control.proto: what no such text may be is an error that names the field, and nothing on
disk changes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
import pytest

from sidecar.control.fields import NAME_CHARACTERS_MAX, REQUIRED, RULES, UNCHECKED, check_fields, given_id, identifies, names, says
from sidecar.control.local_call import CallRejected, LocalCall
from sidecar.control.service import ControlService
from sidecar.shared.errors import InvalidField
from sidecar.shared.log.verification import report_name
from sidecar.shared.model.nouns import OperationId
from tests.support.hostile_ids import HOSTILE, all_below, damaged_verification
from tests.unit.run.test_term_verifications import REQUEST
from ticdc_dump.v1 import control_pb2 as pb

CALLS = {method.name: method.input_type for method in pb.DESCRIPTOR.services_by_name["Control"].methods}
FEED = pb.Changefeed(id="cf")


def texts_of(message: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """The way to each text of a message, and its name among the rules."""
    for field in message.fields:
        if field.type == field.TYPE_STRING:
            yield (*path, field.name), f"{message.name}.{field.name}"
        elif field.type == field.TYPE_MESSAGE and field.message_type.name not in UNCHECKED:
            yield from texts_of(field.message_type, (*path, field.name))


FIELDS = [(call, path, key) for call, message in CALLS.items() for path, key in texts_of(message)]
BESIDE = {"schema": "shop", "table": "orders", "predicate": "id > 1"}
"""What is required beside the field that is tested."""


def request_with(call: str, path: tuple[str, ...], text: str) -> Any:
    """Of the changefeed that is served, unless that is what `path` leads to."""
    request = getattr(pb, CALLS[call].name)()
    if "changefeed" in CALLS[call].fields_by_name:
        request.changefeed.CopyFrom(FEED)
    message = request
    for name in path[:-1]:
        field = message.DESCRIPTOR.fields_by_name[name]
        message = getattr(message, name).add() if field.is_repeated else getattr(message, name)
        for other, value in BESIDE.items():
            if other in message.DESCRIPTOR.fields_by_name:
                setattr(message, other, value)
        if message.DESCRIPTOR.name == "TableKeys":
            message.keys.add(values=["1"])
    if message.DESCRIPTOR.fields_by_name[path[-1]].is_repeated:
        getattr(message, path[-1]).append(text)
    else:
        setattr(message, path[-1], text)
    return request


def test_every_text_of_every_request_has_its_rule() -> None:
    there = {key for _, _, key in FIELDS}
    assert there == RULES.keys()
    assert REQUIRED - there == {"TableKeys.keys"}, "which are no text"
    assert {field.name for name in UNCHECKED for field in getattr(pb, name).DESCRIPTOR.fields} == {"values"}


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[tuple[ControlService, Path]]:
    with damaged_verification(tmp_path) as (owner, term):
        yield ControlService(owner.served(verifications=lambda: term.made)), tmp_path


def answered(service: ControlService, call: str, request: Any) -> CallRejected | None:
    """How it was rejected; None: it has an answer. What is no answer at all is raised."""
    try:
        answer = getattr(service, call)(request, LocalCall("alice", "10.0.0.7:41000", wait_s=0.05))
        if isinstance(answer, Iterator):
            list(islice(answer, 1))
    except CallRejected as rejected:
        return rejected
    return None


@pytest.mark.parametrize(("call", "path", "key"), FIELDS, ids=lambda value: ".".join(value) if isinstance(value, tuple) else str(value))
def test_a_hostile_text_changes_nothing_and_the_error_names_its_field(
    ground: tuple[ControlService, Path], call: str, path: tuple[str, ...], key: str
) -> None:
    service, folder = ground
    before = all_below(folder)
    for text in HOSTILE:
        rejected = answered(service, call, request_with(call, path, text))
        if why := RULES[key](text):
            assert rejected is not None, repr(text)
            assert rejected.code is grpc.StatusCode.INVALID_ARGUMENT, (text, rejected.details)
            assert rejected.http_status == 400
            assert path[-1] in rejected.details.partition(": ")[0]
            assert why in rejected.details
        assert all_below(folder) == before, repr(text)


@pytest.mark.parametrize(
    "call", [call for call, message in CALLS.items() if message.name == "VerificationRequest" and call != "VerifyStop"]
)
@pytest.mark.parametrize("operation_id", ["", REQUEST.id])
def test_an_operators_read_of_a_damaged_file_reports_it_and_leaves_it(
    ground: tuple[ControlService, Path], call: str, operation_id: str
) -> None:
    service, folder = ground
    before = all_below(folder)
    for _ in range(2):
        rejected = answered(service, call, pb.VerificationRequest(changefeed=FEED, id=operation_id))
        assert rejected is not None
        assert f"{report_name(REQUEST.id)} in " in rejected.details
        assert "cannot be read" in rejected.details
        assert all_below(folder) == before


@pytest.mark.parametrize("key", sorted(key for _, path, key in FIELDS if RULES[key] is says))
def test_a_text_that_says_nothing_is_an_error_where_it_is_one_of_a_list(key: str) -> None:
    call, path = next((call, path) for call, path, known in FIELDS if known == key)
    for text in ("", " ", "\t\n"):
        with pytest.raises(InvalidField, match=path[-1]):
            check_fields(request_with(call, path, text))


def test_a_field_that_is_not_given_is_no_error() -> None:
    for message in CALLS.values():
        check_fields(getattr(pb, message.name)())


def test_what_is_given_is_taken_as_it_is() -> None:
    longest = "n" * NAME_CHARACTERS_MAX
    rules = {identifies: ("0123456789abcdef", "A" * 64), names: ("lake", "ein Name", longest), says: ("a\nb", " x")}
    for rule, texts in rules.items():
        assert not [text for text in texts if rule(text)]
    assert given_id("a1", "id") == OperationId("a1")
    with pytest.raises(InvalidField, match=r"id: '\.\./' is not the id"):
        given_id("../", "id")


def test_the_error_names_the_place_within_a_message() -> None:
    request = pb.StartRequest(where=[pb.TablePredicate(**BESIDE), pb.TablePredicate(schema="shop", table="orders")])
    with pytest.raises(InvalidField, match=r"where\[1\]\.predicate: '' says nothing"):
        check_fields(request)
    with pytest.raises(InvalidField, match=r"keys\[0\]\.keys: it has no element"):
        check_fields(pb.StartRequest(keys=[pb.TableKeys(schema="shop", table="orders")]))
    check_fields(pb.StartRequest(keys=[pb.TableKeys(schema="shop", table="orders", keys=[pb.Key(values=["", "\0"])])]))
