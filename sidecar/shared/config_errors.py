"""What is wrong with a settings file, in the words of the settings: msgspec says it in those of Python and JSON.

msgspec gives its errors as texts only. Each form of them is translated here; a text of another form is shown as it is. A text decides
nothing.
"""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec

from sidecar.shared.errors import nearest

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a section of settings",
    "null": "nothing",
}
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_OTHER_KIND = re.compile(r"Expected `(\w+)`, got `(\w+)`")
_OTHER_VALUE = re.compile(r"Expected `(\w+)` (>=|<=|>|<) (\S+)")
_OTHER_FORM = re.compile(r"Expected `str` matching regex '(.*)'")
_NOT_ONE_OF = re.compile(r"Invalid enum value '(.*)'")


def in_words(error: msgspec.ValidationError, kind: type[msgspec.Struct]) -> str:
    """`kind`: of the whole file."""
    text = str(error)
    match = _PLACE.search(text)
    place = match[1] if match else ""
    what = text[: match.start()] if match else text
    name = re.sub(r"\[(\d+)\]", lambda number: f" (number {int(number[1]) + 1})", place)
    if said := _UNKNOWN.fullmatch(what):
        known = [field.name for field in msgspec.structs.fields(_kind_at(kind, place))]
        return f"there is no setting {_within(place, said[1])}{nearest(said[1], known) or '; known here: ' + ', '.join(known)}"
    if said := _MISSING.fullmatch(what):
        return f"the setting {_within(place, said[1])} is missing"
    if said := _NOT_ONE_OF.fullmatch(what):
        known = list(get_args(_kind_at(kind, place)))
        return f"{name} is '{said[1]}', expected one of {', '.join(filter(None, known))}{nearest(said[1], known)}"
    if (said := _OTHER_KIND.fullmatch(what)) and {*said.groups()} <= _KINDS.keys():
        return f"{name} is {_KINDS[said[2]]}, expected {_KINDS[said[1]]}"
    if (said := _OTHER_VALUE.fullmatch(what)) and said[1] in _KINDS:
        return f"{name} is out of range, expected {_KINDS[said[1]]} {_BOUNDS[said[2]]} {float(said[3]):.15g}"
    if said := _OTHER_FORM.fullmatch(what):
        return f"{name} is not of the form {said[1]}"
    return f"{name} is empty" if what.endswith("of length >= 1") else f"{name}: {what}"


def _within(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _kind_at(kind: type[msgspec.Struct], place: str) -> Any:
    """The type of the setting at `place`; of the file where that is empty."""
    result: Any = kind
    for part in filter(None, place.split(".")):
        result = next(field.type for field in msgspec.structs.fields(result) if field.name == part)
    return result
