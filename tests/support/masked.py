"""Column rules and what they make of rows, slowly: a row at a time, by the words of the rules alone."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.masks.rules import ColumnMask, ColumnRules, MaskKind, rules_of
from spark_merge.masks.sink import Masking
from spark_merge.testing import histories
from spark_merge.testing.dumps_port import PASSES
from spark_merge.testing.places import Place, Shown
from spark_merge.testing.story import Story
from spark_merge.testing.true_histories import MINE, true_history

SALT = b"0123456789abcdef-salt"
Image = tuple[str | None, ...]


def salt_file(folder: Path) -> str:
    path = folder / "salt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(SALT + b"\n")
    return str(path)


def rules(*, leave_out: str = "", hash: str = "", constant: str = "") -> ColumnRules:
    given = ((MaskKind.LEAVE_OUT, leave_out), (MaskKind.HASH, hash), (MaskKind.CONSTANT, constant))
    return ColumnRules(tuple(mask for kind, text in given if text for mask in rules_of(kind, text)))


def masking(folder: Path, **given: str) -> Masking:
    return Masking.of(rules(**given), salt_file(folder))


def slow_hash(text: str) -> str:
    return hmac.new(SALT, text.encode(), hashlib.sha256).hexdigest()


def slow_image(schema: TableSchema, masks: Mapping[str, ColumnMask], image: Sequence[str | None], *, keys_only: bool = False) -> Image:
    """`keys_only`: no more is known than the key."""
    shown: list[str | None] = []
    for column, text in zip(schema.columns, image, strict=True):
        mask = masks.get(column.name)
        if mask is None or (keys_only and mask.kind is not MaskKind.LEAVE_OUT):
            shown.append(text)
        elif mask.kind is MaskKind.HASH:
            shown.append(None if text is None else slow_hash(text))
        elif mask.kind is MaskKind.CONSTANT:
            shown.append(mask.text)
    return tuple(shown)


# ---- logs of dumps ------------------------------------------------------------------------------------------------------


def masked_story(folder: Path, place: Place, rules: ColumnRules, seed: int, monkeypatch: pytest.MonkeyPatch) -> Story:
    """With dumps of every kind; what the rules make, slowly, of what the slow rule says is to come out."""
    story = Story(folder, place, seed=seed, made=partial(true_history, passes=PASSES), name=MINE)
    monkeypatch.setattr(story, "expected", partial(_masked_rows, story, rules))
    return story


def history_masks(rules: ColumnRules, table: TableName) -> tuple[TableSchema, Mapping[str, ColumnMask]]:
    """A table of spark_merge/testing/histories.py, as the source has it."""
    schema = TableSchema(table, histories.COLUMNS, ("id", "part"), definition=histories.DEFINITION)
    return schema, rules.of(schema)


def _masked_rows(story: Story, rules: ColumnRules, table: TableName) -> list[Shown]:
    schema, masks = history_masks(rules, table)
    rows = Story.expected(story, table)
    return [(*row[:4], None if (after := row[4]) is None else slow_image(schema, masks, after)) for row in rows]
