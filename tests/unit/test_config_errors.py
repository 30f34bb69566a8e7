"""What msgspec says of a settings file, in words of ours; what the settings are is tests/unit/test_config.py's."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from sidecar.shared.config_errors import in_words


class Part(msgspec.Struct, forbid_unknown_fields=True):
    rows: int = 0
    word: Literal["", "first", "second"] = ""
    many: tuple[str, ...] = ()


class File(msgspec.Struct, forbid_unknown_fields=True):
    part: Part
    either: int | None = None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"part": {"row": 1}}, "there is no setting part.row, did you mean rows?"),
        ({}, "the setting part is missing"),
        ({"part": {"word": "frist"}}, "part.word is 'frist', expected one of first, second, did you mean first?"),
        ({"part": {"many": ["a", 2]}}, "part.many (number 2) is a whole number, expected a text"),
        ({"part": {}, "either": "x"}, "either: Expected `int | null`, got `str`"),
    ],
)
def test_each_form_is_translated_and_another_one_is_shown_as_it_is(given: dict[str, Any], says: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.convert(given, File)
    assert in_words(error.value, File) == says
