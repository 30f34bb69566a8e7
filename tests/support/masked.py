"""Column rules and what they make of rows, slowly: a row at a time, by the words of the rules alone."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path

from sidecar.shared.model.nouns import TableSchema
from spark_merge.masks.rules import ColumnMask, ColumnRules, MaskKind, rules_of
from spark_merge.masks.sink import Masking

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
