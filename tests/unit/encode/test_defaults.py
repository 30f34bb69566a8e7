"""A default's text and bits, from its SQL."""

from __future__ import annotations

import pytest

from sidecar.shared.model.nouns import ColumnDefinition
from spark_merge.codecs.encode.defaults import default_bits, default_text


@pytest.mark.parametrize(
    ("sql", "text", "bits"),
    [
        (None, None, None),
        ("7", "7", None),
        ("'it''s'", "it's", None),
        ("CURRENT_TIMESTAMP(6)", "CURRENT_TIMESTAMP", None),
        ("(uuid())", "uuid()", None),
        ("b'1000001'", "A", 65),
        ("b''", "\0", 0),
    ],
)
def test_the_text_of_a_default(sql: str | None, text: str | None, bits: int | None) -> None:
    column = ColumnDefinition("a", "any", default=sql)
    assert (default_text(column), default_bits(column)) == (text, bits)
