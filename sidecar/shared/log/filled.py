"""Words that a table's holes are filled in a sink, one file a word, beside the segments:

    filled/{upto_seq:020d}-{random}.json      whose holes, by whom, why, when

- A word is of the holes that were noticed up to a segment (model/hole.py). Of a later one it says nothing, however late it is written. So
  it is right whenever a worker finds it, and however often.
- An operator gives it, and a verification of the whole table that began behind that segment and ended with no difference.
- Nothing removes a word: it says who answers for a table that no dump has read again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated

import msgspec

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq, TableName
from sidecar.shared.model.sink_delivery import SinkTables

FOLDER = "filled"
_Number = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class FilledWord:
    """`sink`: its name. `upto_seq`: of holes that were noticed up to there. `by`: user@host, or the verification. `at_ms`: wall clock."""

    sink: str
    table: TableName
    upto_seq: Seq
    by: str
    reason: str
    at_ms: int


class _File(msgspec.Struct):
    sink: str
    table: tuple[str, str]
    upto_seq: _Number
    by: str
    reason: str
    at_ms: int


def write_word(log: Folder, word: FilledWord) -> None:
    """Durable when it returns. Raises as the log's storage."""
    data = msgspec.json.format(msgspec.json.encode(asdict(word)), indent=1)
    storage.create_exclusively(log, f"{FOLDER}/{word.upto_seq:020d}-{secrets.token_hex(8)}.json", data)


def read_words(log: Folder) -> list[FilledWord]:
    """All of the log, oldest segment first. Raises LogBroken for one that cannot be read, and as the log's storage."""
    names = sorted(f"{FOLDER}/{name}" for name in storage.list_names(log, under=FOLDER, deep=False) if name.endswith(".json"))
    files = storage.read_files(log, names) if names else {}
    return [_word(log, name, files[name]) for name in names if name in files]


def upto_seqs(words: Iterable[FilledWord], tables: SinkTables) -> dict[TableName, Seq]:
    """Up to which segment each table's holes are filled in that sink, by what is said of it."""
    said: dict[TableName, Seq] = {}
    for word in words:
        if word.sink == tables.sink:
            said[word.table] = max(word.upto_seq, said.get(word.table, word.upto_seq))
    return said


def _word(log: Folder, name: str, data: bytes) -> FilledWord:
    try:
        file = msgspec.json.decode(data, type=_File)
    except ValueError as error:
        hint = "restore it from a backup, or remove it: the table's hole is then reported as open again until a dump fills it"
        raise LogBroken(f"segment log {log}: {name} is not readable: {error}", hint=hint) from error
    return FilledWord(file.sink, TableName(*file.table), Seq(file.upto_seq), file.by, file.reason, file.at_ms)
