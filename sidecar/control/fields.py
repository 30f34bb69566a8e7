"""What each text of a request may be: a rule for each field of control.proto, checked before the service does anything with the request.

    identifies   the id of a dump or a verification; empty: control.proto says which one that is
    names        a name of something: characters that can be printed, NAME_CHARACTERS_MAX at most; not only blanks
    says         a text that another parser reads: not only blanks

- A field of one text that is empty is not given, as proto3 has it, and so is a list without elements. In a list, and where a message makes
  no sense without it (REQUIRED), what is empty is an error.
- A field without a rule is a defect: a test has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sidecar.shared.errors import InvalidField
from sidecar.shared.model.nouns import OperationId, operation_id

NAME_CHARACTERS_MAX = 256
_SHOWN_MAX = 64
"""Characters of a text in an error."""

Rule = Callable[[str], str]
"""What is wrong with a text, with what was expected; empty: nothing."""


def given_id(text: str, field: str) -> OperationId:
    """`field`: what gave it, for the error. Raises InvalidField."""
    if why := identifies(text):
        raise InvalidField(f"{field}: {why}", hint=_HINTS[identifies])
    return OperationId(text)


def identifies(text: str) -> str:
    try:
        operation_id(text)
    except ValueError as error:
        return str(error)
    return ""


def names(text: str) -> str:
    if text.strip() and text.isprintable() and len(text) <= NAME_CHARACTERS_MAX:
        return ""
    return f"{shown(text)} is no name: expected 1 to {NAME_CHARACTERS_MAX} characters that can be printed"


def shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]!r}… ({len(text):,} characters)"


def says(text: str) -> str:
    return "" if text.strip() else f"{text!r} says nothing"


RULES: Mapping[str, Rule] = {
    "Changefeed.namespace": names,
    "Changefeed.id": names,
    "SubscribeRequest.subscriber": names,
    "SubscribeRequest.log": names,
    "AcknowledgeRequest.subscriber": names,
    "AcknowledgeRequest.log": names,
    "StartRequest.dump_id": identifies,
    "StartRequest.table_rules": says,
    "StartRequest.sinks": says,
    "SetRequest.dump_id": identifies,
    "ResumeRequest.dump_id": identifies,
    "DumpRequest.dump_id": identifies,
    "RestartRequest.dump_id": identifies,
    "RestartRequest.new_dump_id": identifies,
    "TablePredicate.schema": says,
    "TablePredicate.table": says,
    "TablePredicate.predicate": says,
    "TableKeys.schema": says,
    "TableKeys.table": says,
    "VerifyRequest.id": identifies,
    "VerifyRequest.table_rules": says,
    "VerifyRequest.sinks": says,
    "VerificationRequest.id": identifies,
    "ListRequest.namespace": names,
    "ListRequest.changefeed_id": names,
}
REQUIRED = frozenset(
    {
        *("TablePredicate.schema", "TablePredicate.table", "TablePredicate.predicate"),
        *("TableKeys.schema", "TableKeys.table", "TableKeys.keys"),
    }
)
UNCHECKED = frozenset({"Key"})
"""Messages whose texts are values of columns, whatever these are: a request may have a hundred thousand of them."""


def check_fields(request: Any, path: str = "") -> None:
    """`request`: a message; `path`: to it, within another one. Raises InvalidField."""
    for field in request.DESCRIPTOR.fields:
        key, place, value = f"{request.DESCRIPTOR.name}.{field.name}", f"{path}{field.name}", getattr(request, field.name)
        if field.is_repeated:
            there = [(f"{place}[{number}]", each) for number, each in enumerate(value)]
            if not there and key in REQUIRED:
                raise InvalidField(f"{place}: it has no element", hint=_CORRECT)
        else:
            is_given = request.HasField(field.name) if field.has_presence else bool(value) or key in REQUIRED
            there = [(place, value)] if is_given else []
        for at, each in there:
            if field.type == field.TYPE_MESSAGE and field.message_type.name not in UNCHECKED:
                check_fields(each, f"{at}.")
            elif field.type == field.TYPE_STRING and (why := RULES[key](each)):
                raise InvalidField(f"{at}: {why}", hint=_HINTS.get(RULES[key], _CORRECT))


_CORRECT = "correct it, or leave it out"
_HINTS: Mapping[Rule, str] = {identifies: "see dumplist for the ids"}
