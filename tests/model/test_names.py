"""The model names functions of the product: each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.mutations.mutation import symbol_text

ROOT = Path(__file__).parents[2]


def test_each_function_that_the_model_names_is_in_the_product() -> None:
    texts = [path.read_text() for path in Path(__file__).parent.glob("*.py")]
    named = {match for text in texts for match in re.findall(r"((?:sidecar|spark_merge)/[\w/]+\.py)::([\w.]+)", text)}
    assert len(named) > 50
    lost = [f"{file}::{symbol}" for file, symbol in named if symbol_text((text := (ROOT / file).read_text()), symbol) == text]
    assert not lost
