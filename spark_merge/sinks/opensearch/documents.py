"""Rows as the lines of a bulk request, a column at a time: for a put its action and its document, for a delete its action alone.

`_id` is the handle key's text (keys.key_text), or where that is longer than an id may be `sha256:` and the hex of it. `_version` is
`block.versions`: of each id the greatest stays, and a row that is written again is the row that is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from spark_merge.codecs.encode.block import Block, image_columns, versions
from spark_merge.codecs.encode.go_json import strings
from spark_merge.port.keys import key_text
from spark_merge.sinks.opensearch.fields import Form, Forms

ID_BYTES_MAX = 512

BLOCK_ROWS = 20_000
"""At once: of wide rows the text of a block is what a task holds."""


def lines(block: Block, alias: str, forms: Forms) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Ids and lines (which end in a line feed), by blocks. Raises SinkError for a json that is none."""
    images = dict(zip(block.schema.column_names(), image_columns(block), strict=True))
    ids = doc_ids(_array(key_text([images[name] for name in block.schema.key])))
    puts = pc.not_equal(block.op, "delete")
    actions = _actions(ids, puts, versions(block), alias)
    for start in range(0, block.rows, BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        values = {name: values.slice(start, BLOCK_ROWS) for name, values in images.items()}
        documents = _documents(block, values, forms)
        whole = pc.binary_join_element_wise(actions[part], documents, "")
        yield ids[part], _array(pc.if_else(puts[part], whole, actions[part]))


def doc_ids(keys: pa.Array) -> pa.Array:
    """`keys`: key_text. No key is an other one's hash: it begins with `[`."""
    long = pc.greater(pc.binary_length(keys), ID_BYTES_MAX)
    if not pc.any(long).as_py():
        return keys
    hashes = [f"sha256:{sha256(key.encode()).hexdigest()}" for key in keys.filter(long).to_pylist()]
    return pc.replace_with_mask(keys, long, pa.array(hashes, pa.string()))


def _actions(ids: pa.Array, puts: pa.Array, version: pa.Array, alias: str) -> pa.Array:
    verb = pc.if_else(puts, '{"index":{"_index":', '{"delete":{"_index":')
    head = json.dumps(alias, ensure_ascii=False) + ',"_id":'
    end = ',"version_type":"external_gte"}}\n'
    actions = pc.binary_join_element_wise(verb, head, strings(ids, html=False), ',"version":', version.cast(pa.string()), end, "")
    return _array(actions)


def _documents(block: Block, images: dict[str, pa.Array], forms: Forms) -> pa.Array:
    parts: list[Any] = []
    before = "{"
    for column in block.schema.columns:
        parts += [before + json.dumps(column.name, ensure_ascii=False) + ":", _values(block, column.name, images[column.name], forms)]
        before = ","
    return pc.binary_join_element_wise(*parts, "}\n", "", null_handling="replace", null_replacement="null")


def _values(block: Block, name: str, texts: pa.Array, forms: Forms) -> pa.Array:
    """JSON, null for NULL."""
    column = next(column for column in block.schema.columns if column.name == name)
    match forms.form(column):
        case Form.NUMBER:
            return texts
        case Form.YEAR:
            bare = pc.utf8_ltrim(texts, characters="0")
            return pc.if_else(pc.equal(bare, ""), "0", bare)
        case Form.TEXT:
            return strings(texts, html=False)
        case Form.LABELS:
            separate = pc.replace_substring(strings(texts, html=False), ",", '","')
            return pc.if_else(pc.equal(texts, ""), "[]", pc.binary_join_element_wise("[", separate, "]", ""))
        case Form.RAW:
            return _raw(block, name, texts)


def _raw(block: Block, name: str, texts: pa.Array) -> pa.Array:
    """Numbers keep their digits. On one line: a bulk's lines end at a line feed."""
    try:
        return pa.array([None if text is None else msgspec.json.format(text, indent=-1) for text in texts.to_pylist()], pa.string())
    except ValueError as error:
        raise SinkError(
            f"{block.schema.name}.{name} in segment {block.seq} holds a json that is none: {error}",
            hint="use json=text of the sink's URI, which takes any text; and report this",
        ) from error


def _array(value: Any) -> pa.Array:
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
